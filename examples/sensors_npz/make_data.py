"""Write the recordings of three sites' vibration sensors: site-1.npz, site-2.csv, site-3.csv.gz, and test.npz.

A sensor on a pump records a quarter of a second at 2 kHz. The Pi beside it keeps 16 numbers: how far the energy of each
frequency band is from that of a sound pump, in spreads of sound pumps. Label 1 is a faulty pump. Each site has met one
kind of fault; test.npz has all three kinds.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
from pathlib import Path

import numpy as np

RATE, SAMPLES, BANDS = 2000, 512, 16
FAULTS = ("imbalance", "bearing", "cavitation")


def recording(fault: str, rng: np.random.Generator) -> np.ndarray:
    """Return one recording, (512,): shaft, blades, flow noise, and the fault."""
    seconds = np.arange(SAMPLES) / RATE
    speed = rng.uniform(23.0, 27.0)  # turns a second
    phase = rng.uniform(0.0, 2.0 * np.pi, size=3)
    loudness = rng.lognormal(0.0, 0.25, size=3)
    signal = loudness[0] * np.sin(2 * np.pi * speed * seconds + phase[0])
    signal += 0.5 * loudness[1] * np.sin(2 * np.pi * 6 * speed * seconds + phase[1])
    signal += 0.25 * loudness[2] * rng.standard_normal(SAMPLES)
    strength = rng.lognormal(0.0, 0.35)
    if fault == "imbalance":
        signal += 1.2 * strength * np.sin(2 * np.pi * speed * seconds + phase[0])
    elif fault == "bearing":  # a click for each ball that passes the damage, ringing near 700 Hz
        since = (seconds + phase[2] / speed) % (1.0 / (4.7 * speed))
        signal += 1.0 * strength * np.exp(-200.0 * since) * np.sin(2 * np.pi * 700.0 * since)
    elif fault == "cavitation":  # bubbles: hiss, more of it the higher
        hiss = np.diff(rng.standard_normal(SAMPLES + 1))
        signal += 0.2 * strength * hiss
    return signal


def bands(signal: np.ndarray) -> np.ndarray:
    """Return the logarithm of the energy in 16 bands from 0 to 1 kHz, (16,)."""
    power = np.abs(np.fft.rfft(signal * np.hanning(SAMPLES))[1:]) ** 2
    return np.log10(power.reshape(BANDS, -1).sum(axis=1))


def acceptance() -> tuple[np.ndarray, np.ndarray]:
    """Return mean and spread of a sound pump's bands from the maker's data sheet, the same at every site."""
    rng = np.random.default_rng(12345)
    sound = np.stack([bands(recording("none", rng)) for _ in range(300)])
    return sound.mean(axis=0), sound.std(axis=0)


def readings(faults: tuple[str, ...], rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    labels = (rng.random(rows) < 0.4).astype(int)
    kinds = [str(rng.choice(faults)) if faulty else "none" for faulty in labels]
    usual, spread = acceptance()
    return (np.stack([bands(recording(kind, rng)) for kind in kinds]) - usual) / spread, labels


def table(features: np.ndarray, labels: np.ndarray) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow([*(f"band_{number}" for number in range(BANDS)), "label"])
    rows.writerows([*map(repr, map(float, row)), int(label)] for row, label in zip(features, labels, strict=True))
    return text.getvalue()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=Path, default=Path(), help="folder for the files (this one)")
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    rng = np.random.default_rng(given.seed)
    sites = [readings((fault,), 300, rng) for fault in FAULTS]
    np.savez(given.out / "site-1.npz", X=sites[0][0], y=sites[0][1])
    (given.out / "site-2.csv").write_text(table(*sites[1]))
    (given.out / "site-3.csv.gz").write_bytes(gzip.compress(table(*sites[2]).encode()))
    features, labels = readings(FAULTS, 900, rng)
    np.savez(given.out / "test.npz", X=features, y=labels)


if __name__ == "__main__":
    main()

"""The runs that the README compares: each is one command, which goes on where it was interrupted.

python comparison.py                  # what each run has reached; writes results/README.md
python comparison.py head             # one run, or what is left of it; writes results/head.jsonl
python comparison.py mezo rounds=3 --out runs/try     # other keys, for a try
"""

from __future__ import annotations

import argparse
import json
import os
import resource
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minilm import BIASES
from yardsticks import first_order

from zofedht import load_run
from zofedht.server.__main__ import main as server

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
AIM = 0.79
"""The accuracy of the best linear head by L-BFGS (``python yardsticks.py probe``: 0.789)."""

ENCODED = 6920 + 872
"""Sentences that the frozen encoder reads, once, for the head alone."""

_HEAD = "runs/head"
_FROM_HEAD = ("biases", "all", "mezo-all", "biases-guided", "all-guided", "biases-shrunk")
"""Runs that begin with the trained head; all others begin with a head of zeros."""

_LOCAL = "directions=per-slot local-steps=10 batch-size=8 warm-up=3"
_RECIPE = (
    "directions=shared slope=default slopes-per-step=default local-steps=1 warm-up=default probe=gaussian"
    " step-schedule=constant"
)
_MEZO = f"algorithm=mezo {_RECIPE}"

RUNS: dict[str, tuple[str, str]] = {
    "head": ("ours: the head on kept sentence vectors", ""),
    "biases": (
        "ours: then the biases and the head",
        f"reviews:biases {_LOCAL} slopes-per-step=2 rounds=35 step-size=0.003 evaluate-every=7",
    ),
    "all": (
        "ours: then all weights",
        f"reviews:make {_LOCAL} slopes-per-step=2 rounds=35 step-size=0.00006 evaluate-every=7",
    ),
    "biases-from-zero": (
        "ours without the head first, biases and head",
        f"reviews:biases {_LOCAL} slopes-per-step=4 rounds=25 step-size=0.005 evaluate-every=5",
    ),
    "mezo": (
        "MeZO's recipe, biases and head",
        f"reviews:biases {_MEZO} rounds=1250 batch-size=4 step-size=0.0025 evaluate-every=250",
    ),
    "decomfl": (
        "DeComFL's settings, biases and head",
        f"reviews:biases algorithm=decomfl {_RECIPE} rounds=115 batch-size=8 step-size=0.002 evaluate-every=23",
    ),
    "biases-guided": (
        "ours: then the biases and the head, along the last moves",
        f"reviews:biases algorithm=zofedht subspace-weight=0.01 slope=central slopes-per-step=1 {_LOCAL} rounds=35"
        " step-size=0.003 evaluate-every=7",
    ),
    "all-guided": (
        "ours: then all weights, along the last moves",
        f"reviews:make algorithm=zofedht subspace-weight=0.00002 slope=central slopes-per-step=1 {_LOCAL} rounds=35"
        " step-size=0.00006 evaluate-every=7",
    ),
    "biases-shrunk": (
        "ours: then the biases and the head, shrunk along the head's bias",
        f"reviews:biases algorithm=zofed-shrink {_LOCAL} slopes-per-step=2 rounds=35 step-size=0.003 evaluate-every=7",
    ),
    "mezo-all": (
        "MeZO's recipe after the head, all weights",
        f"reviews:make {_MEZO} rounds=150 batch-size=16 step-size=0.00005 evaluate-every=30",
    ),
}
"""What each run is, and its keys over ``run.toml``, the first of which is the objective."""

GRADIENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "first-order": ("AdamW, all weights", {"trainable": "", "rate": 2e-5}),
    "first-order-biases": ("AdamW, biases and head", {"trainable": BIASES, "rate": 2e-3}),
}


def words_of(name: str) -> list[str]:
    """Return the keys of a run over ``run.toml``."""
    if name == "head":
        return []
    objective, *keys = RUNS[name][1].split()
    return [f"objective={objective}", *keys]


def carry(name: str, keys: Sequence[str], out: Path, curve: Path) -> None:
    """Begin a run, or go on with it, and write its curve to a file."""
    if name in GRADIENTS:
        told = first_order(**GRADIENTS[name][1], keep=out, **{key: int(value) for key, value in _pairs(keys)})
        _write(curve, [one | {"run": name, "about": GRADIENTS[name][0]} for one in told])
        return
    if name in _FROM_HEAD:
        os.environ["HEAD"] = str(_trained_head())
    if not (out / "summary.json").is_file():
        words = ["--set", *words_of(name), *keys]
        begin = ["run", "--config", str(HERE / "run.toml"), *(words if len(words) > 1 else []), "--out", str(out)]
        ended = server(["resume", str(out)] if (out / "config.toml").is_file() else begin)
        if not (out / "summary.json").is_file():
            raise SystemExit(ended)
        (out / "peak").write_text(f"{peak()}")
    _write(curve, curve_of(name, out))


def curve_of(name: str, out: Path) -> list[dict[str, Any]]:
    """Return a line for each full evaluation of a run, and what the run cost."""
    summary = json.loads((out / "summary.json").read_text())
    rows = [json.loads(line) for line in (out / "history.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["train_accuracy"] is not None]
    about = {"run": name, "about": RUNS[name][0], "parameters": load_run(out).tensors.dimension}  # type: ignore[union-attr]
    keys = {"loss": "train_loss", "accuracy": "train_accuracy", "seconds": "seconds"}
    before = ENCODED if name == "head" or name in _FROM_HEAD else 0
    curve = [
        about
        | {"round": row["round"], "sentences": before + (row["evaluations"] if name != "head" else 0)}
        | {mine: row[theirs] for mine, theirs in keys.items()}
        for row in rows
    ]
    cost = {key: summary[key] for key in ("bytes_up", "bytes_down", "rounds")}
    return [*curve[:-1], curve[-1] | cost | {"peak_mb": float((out / "peak").read_text())}]


def peak() -> float:
    """Return the peak memory of this process in MB."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6, 1)


def table() -> str:
    """Return what the runs have reached, and their curves, as two tables."""
    lines = [
        "# What the runs have reached",
        "",
        "Made by `python comparison.py` from the files here. Sentences are those that the transformer reads; one that a"
        f" gradient is taken of counts as three. *to {AIM}*: until the accuracy on dev was that, at a full evaluation;"
        " runs after the head begin there. Bytes are those of all four sites in a round.",
        "",
        f"| run | trained | sentences | to {AIM} | last loss | accuracy: last | best | bytes up | down | peak memory |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    curves = ["", "Loss and accuracy on dev along each run:", "", "| run | sentences: loss, accuracy |", "|---|---|"]
    for name, (about, _) in (RUNS | GRADIENTS).items():
        file = RESULTS / f"{name}.jsonl"
        if not file.is_file():
            lines.append(f"| {about} | | not run | | | | | | | |")
            continue
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        last, best = rows[-1], max(row["accuracy"] for row in rows)
        there = next((f"{row['sentences']:,}" for row in rows if row["accuracy"] >= AIM), "not reached")
        there = f"{ENCODED:,}" if name in _FROM_HEAD else there
        sent = [
            f"{last[key] / last['rounds']:,.0f}" if last.get("rounds") else "-" for key in ("bytes_up", "bytes_down")
        ]
        cells = [about, f"{last['parameters']:,}", f"{last['sentences']:,}", there, f"{last['loss']:.4f}"]
        cells += [f"{last['accuracy']:.4f}", f"{best:.4f}", *sent, f"{last['peak_mb']:,.0f} MB"]
        lines.append(f"| {' | '.join(cells)} |")
        if name != "head":  # the encoder has read each sentence before its curve begins
            points = (f"{row['sentences']:,}: {row['loss']:.3f}, {row['accuracy']:.3f}" for row in rows)
            curves.append(f"| {about} | {'; '.join(points)} |")
    return "\n".join(lines + curves) + "\n"


def _trained_head() -> Path:
    file = HERE / _HEAD / "head.npz"
    if not file.is_file() and server(["export", str(HERE / _HEAD), "--out", str(file)]):
        raise SystemExit("the head comes first: python comparison.py head")
    return file


def _write(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _pairs(keys: Sequence[str]) -> list[tuple[str, str]]:
    return [(key.replace("-", "_"), value) for key, _, value in (one.partition("=") for one in keys)]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", choices=[*RUNS, *GRADIENTS], help="all are shown unless given")
    parser.add_argument("keys", nargs="*", help="other keys, as rounds=3")
    parser.add_argument("--out", type=Path, help="folder of a try, which has its curve, too (runs/NAME)")
    given = parser.parse_args(argv)
    os.chdir(HERE)
    if given.run:
        curve = RESULTS / f"{given.run}.jsonl" if given.out is None else given.out / "curve.jsonl"
        carry(given.run, given.keys, given.out or Path("runs") / given.run, curve)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "README.md").write_text(table(), encoding="utf-8")
    print(table())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""The theory command: the paper's theorem and lemmas, our own bound beside them, slopes, and Monte Carlo checks."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from zofedht.common.machine.files import make_folder, replace_file
from zofedht.experiments.report.markdown import table
from zofedht.experiments.theory.bounds import Work, balanced_step, bound, conditions, spectrum
from zofedht.experiments.theory.lemmas import check_lemmas
from zofedht.experiments.theory.printed_tables import printed_tables
from zofedht.experiments.theory.quadratic_problem import Quadratic, make_quadratic, mean_squared_gradient

__all__ = ["log_slope", "measure", "theory"]

_BASE = Work(rounds=400, local_steps=5, slots=5, radius=1e-3)
_DIMENSION = 20
_SWEEPS: dict[str, tuple[int, ...]] = {
    "R": (100, 200, 400, 800, 1600),
    "K": (2, 4, 8, 16, 32),
    "M": (2, 4, 8, 16),
    "n": (10, 20, 40, 80),
}
_LAWS = ((0.0, "paper"), (0.3, "paper"), (0.3, "trace"))
_MEMORY = 5


def log_slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Return the least-squares slope of log y against log x."""
    return float(np.polyfit(np.log(xs), np.log(ys), 1)[0])


def measure(quadratic: Quadratic, work: Work, weight: float, covariance: str, seeds: Sequence[int]) -> dict[str, Any]:
    """Return step, what decided it, the bound's terms and the measured mean squared gradient with its error."""
    dimension = len(quadratic.centre)
    law = spectrum(dimension, min(_MEMORY, dimension), weight, covariance)
    eta, decided = balanced_step(quadratic.problem, work, law)
    right = bound(quadratic.problem, work, law, eta)
    values = [
        mean_squared_gradient(quadratic, work, eta, weight=weight, covariance=covariance, seed=seed) for seed in seeds
    ]
    return {
        "eta": eta,
        "decided by": decided,
        "lambda": law.largest,
        "measured": float(np.mean(values)),
        "se": float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None,
        "bound": right.total,
        "terms": asdict(right),
        "conditions": conditions(quadratic.problem, work, law),
    }


def theory(out: Path | None, *, quick: bool = False, seed: int = 0) -> None:
    """Print the checks as Markdown, and write theory.md and theory.json into ``out``.

    Raises DataError when ``out`` cannot be written.
    """
    started = time.perf_counter()
    seeds = range(seed, seed + (2 if quick else 5))
    draws = 100_000 if quick else 2_000_000
    quadratic = make_quadratic(_DIMENSION, seed=seed)
    laws = {
        f"{covariance}, alpha {weight:g}" if weight else "isotropic": measure(
            quadratic, _BASE, weight, covariance, seeds
        )
        for weight, covariance in _LAWS
    }
    sweeps = {name: _sweep(name, values, quadratic, seeds, seed) for name, values in _SWEEPS.items()}
    checks = [check_lemmas(weight=weight, covariance=name, draws=draws, seed=seed) for weight, name in _LAWS]
    printed, printed_text = printed_tables(_BASE, _DIMENSION, seeds, draws=draws // 500)
    found = {"printed": printed, "laws": laws, "sweeps": sweeps, "lemmas": [asdict(check) for check in checks]}
    text = "\n".join(
        [
            printed_text,
            _theorem_text(quadratic, laws),
            _sweeps_text(sweeps),
            _lemmas_text(found["lemmas"]),  # type: ignore[arg-type]
            f"Seeds {seeds[0]} to {seeds[-1]}, {draws:,} draws, {time.perf_counter() - started:.0f} s.\n",
        ]
    )
    print(text)
    if out is None:
        return
    make_folder(out)
    replace_file(out / "theory.md", text.encode())
    replace_file(out / "theory.json", (json.dumps(found, indent=1) + "\n").encode())


def _sweep(name: str, values: Sequence[int], quadratic: Quadratic, seeds: Sequence[int], seed: int) -> dict[str, Any]:
    change: dict[str, Callable[[int], Work]] = {
        "R": lambda value: replace(_BASE, rounds=value),
        "K": lambda value: replace(_BASE, local_steps=value),
        "M": lambda value: replace(_BASE, slots=value),
        "n": lambda value: _BASE,
    }
    rows = []
    for value in values:
        chosen = make_quadratic(value, seed=seed) if name == "n" else quadratic
        rows.append({"value": value, **measure(chosen, change[name](value), 0.3, "paper", seeds)})
    return {
        "rows": rows,
        "measured slope": log_slope(values, [row["measured"] for row in rows]),
        "bound slope": log_slope(values, [row["bound"] for row in rows]),
    }


def _theorem_text(quadratic: Quadratic, laws: dict[str, dict[str, Any]]) -> str:
    p = quadratic.problem
    rows = [
        [
            name,
            f"{row['lambda']:.3g}",
            *(f"{row['conditions'][key]:.2e}" for key in ("overshoot", "drift", "descent")),
            f"{row['eta']:.2e}",
            row["decided by"],
            _with_error(row["measured"], row["se"]),
            f"{row['bound']:.4g}",
            f"{row['bound'] / row['measured']:.1f}",
        ]
        for name, row in laws.items()
    ]
    head = ["law of v", "lambda", "eta: overshoot", "eta: drift", "eta: descent", "eta taken", "decided by"]
    return (
        f"### Our bound on a quadratic\n\nn = {len(quadratic.centre)}, L = {p.smoothness:g}, f(x_0) - f* = {p.gap:g},"
        f" sigma_l = {p.local_noise:g}, sigma_g = {p.global_noise:g}; R = {_BASE.rounds}, K = {_BASE.local_steps},"
        f" M = {_BASE.slots}, b = 1, mu = {_BASE.radius:g}, tau = {_MEMORY}.\n\n"
        + table([*head, "measured mean of squared gradient", "bound", "ratio"], rows)
    )


def _sweeps_text(sweeps: dict[str, dict[str, Any]]) -> str:
    rows = [
        [
            name,
            ", ".join(str(row["value"]) for row in sweep["rows"]),
            ", ".join(f"{row['measured']:.3g}" for row in sweep["rows"]),
            ", ".join(f"{row['bound']:.3g}" for row in sweep["rows"]),
            f"{sweep['measured slope']:+.2f}",
            f"{sweep['bound slope']:+.2f}",
            {"R": "-0.5", "K": "-0.5", "M": "-0.5", "n": "+0.5"}[name],
        ]
        for name, sweep in sweeps.items()
    ]
    head = ["varied", "values", "measured", "bound", "measured slope", "slope of the bound", "leading order"]
    return "### Slopes, covariance paper, alpha 0.3\n\n" + table(head, rows)


def _lemmas_text(checks: Sequence[dict[str, Any]]) -> str:
    rows = [
        [
            check["law"],
            f"{check['mean_error']:.4f} ({check['mean_error_se']:.4f})",
            f"{check['largest_z']:.1f}",
            f"{check['plain_z']:.1f}",
            f"{check['bias']:.3f} <= {check['bias_bound']:.3f}",
            f"{check['second_moment']:.2f} ({check['second_moment_se']:.2f}) <= {check['second_moment_bound']:.2f}",
        ]
        for check in checks
    ]
    head = ["law of v", "Lemma 1: error (se)", "largest z", "z without C", "Lemma 2: bias", "Lemma 3: E|g|^2 (se)"]
    return "### Lemmas 1 to 3 by Monte Carlo, f = sum cos(x_j), n = 12, mu = 0.5\n\n" + table(head, rows)


def _with_error(value: float, error: float | None) -> str:
    return f"{value:.4f}" if error is None else f"{value:.4f} ({error:.4f})"

"""Rows on the problem of a source's public code, beside what its loop gives there.

ConMeZO's quadratic: F(x) = x'Ax / 2 in 1,000 parameters, A diagonal with eigenvalues of equal ratios from 1e-9 to 1,
and an x_0 of norm 10 along a normal draw of seed 42. Its settings are mu .01, eta .01, 1 - b = .01 and theta 1.30. The
figures are means and standard deviations over five seeds of its loop, typed anew from its text, with its own draws.

Source: Behric et al. 2025, github LejsDeen/ConMeZO, synthetic-experiment, at fbd895e.
"""

from __future__ import annotations

from statistics import fmean, stdev

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.models.quadratic import QuadraticObjective
from zofedht.experiments.report.markdown import table
from zofedht.server.core.state import initial_state
from zofedht.server.inprocess import run_in_process

__all__ = ["CURVATURE", "OF_SOURCE", "START", "final_value", "published_table"]

_N = 1000
CURVATURE = float(_N) ** (3.0 * (np.arange(_N) / (_N - 1) - 1.0))
"""The eigenvalues, (n,)."""

_DRAW = np.random.RandomState(42).normal(size=_N)  # the source's generator is NumPy's old one
START = 10.0 * _DRAW / np.linalg.norm(_DRAW)
"""x_0, (n,); F is 2.4382 there."""

OF_SOURCE = {
    "mezo": {500: (0.3171, 0.0208), 1000: (0.1654, 0.0090), 3000: (0.0538, 0.0021)},
    "conmezo": {500: (0.4087, 0.0354), 1000: (0.1868, 0.0162), 3000: (0.0462, 0.0031)},
}
"""Mean and standard deviation of F that the source's loop gives, by row and iterations."""


def final_value(row: str, iterations: int, seed: int) -> float:
    """Return F after so many rounds of one step of one client."""
    keys = {"cone-angle": 1.3, "guide-decay": 0.99} if row == "conmezo" else {}
    config = RunConfig.from_mapping(
        {
            "algorithm": row, "radius": 0.01, "step-size": 0.01, "step-schedule": "constant", "rounds": iterations,
            "num-clients": 1, "clients-per-round": 1, "batch-size": 0, "evaluate-every": 0, "return-x": "last",
            "seed": seed,
        } | keys
    )  # fmt: skip
    objective = QuadraticObjective(np.zeros((1, _N)), CURVATURE)
    x = run_in_process(config, [objective], state=initial_state(config, START)).state.x
    return 0.5 * float(x @ (CURVATURE * x))


def published_table(seeds: int) -> str:
    """Return the comparison as Markdown: the source's loop and ours, mean and standard deviation over seeds."""
    rows = []
    for row, figures in OF_SOURCE.items():
        for iterations, (mean, spread) in figures.items():
            ours = [final_value(row, iterations, seed) for seed in range(seeds)]
            mine = f"{fmean(ours):.4f}" + (f" ({stdev(ours):.4f})" if seeds > 1 else "")
            rows.append([row, f"{iterations:,}", f"{mean:.4f} ({spread:.4f})", mine])
    return table(["row", "iterations", "its loop", "ours"], rows)

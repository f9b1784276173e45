"""What is compared: algorithms with their schedules, and the step sizes among which each is tuned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zofedht.common.algorithms import ALGORITHMS
from zofedht.common.config.run_config import Scalar

__all__ = ["COMPARED", "METHODS", "STEPS", "Method"]


@dataclass(frozen=True)
class Method:
    """A name in tables, and the run config keys that it stands for."""

    name: str
    keys: Mapping[str, Scalar]
    scale: float = 1.0  # of the step sizes among which it is tuned
    tunes: str = "step-size"  # or another key that takes their place

    @property
    def folder(self) -> str:
        """The name in the names of folders."""
        return self.name.replace(", ", "-").replace(" ", "-").replace("/", "-")


_PAPER: Mapping[str, Scalar] = {"step-schedule": "inverse-sqrt"}

_SCALES = {"fedavg": 10.0, "hizoo": 10.0, "adaptive-qn": 0.01, "fzoos": 0.01, "fzoo": 0.1, "hiso": 0.1}
"""Rows whose best steps lie elsewhere: the steps of directions must be short for the sake of their number."""

_RATES = {"fedadam": 0.1, "fedyogi": 0.1, "fedadagrad": 1.0, "zo-sign": 0.1, "zo-adam": 0.03, "r-adazo": 0.01}
"""Rows whose server moves each parameter by about ``server-rate`` a round, whatever the step size is, and the scale of
their rates: those with one step a round have more rounds."""

_KEYS: Mapping[str, Mapping[str, Scalar]] = {
    "fedzen": {"clients-per-round": 100},
    **{name: {"step-size": 1.0} for name in _RATES},
}
"""What rows need beside their defaults."""


def _method(name: str) -> Method:
    keys = {"algorithm": name, **_KEYS.get(name, {})}
    if name in _RATES:
        return Method(name, keys, _RATES[name], "server-rate")
    return Method(name, keys, _SCALES.get(name, 1.0))


_ROWS = [_method(name) for name, row in ALGORITHMS.items() if not row.asks_points]

METHODS = {
    method.name: method
    for method in (
        *_ROWS,
        Method("zofedht .3, 1/sqrt", {"algorithm": "zofedht", **_PAPER}),
        Method("zofedht .1, 1/sqrt", {"algorithm": "zofedht", "subspace-weight": 0.1, **_PAPER}),
        Method("zofedht .3, linear", {"algorithm": "zofedht"}),
        Method("zofedht .1, linear", {"algorithm": "zofedht", "subspace-weight": 0.1}),
        Method("zofedavg-sgd, 1/sqrt", {"algorithm": "zofedavg-sgd", **_PAPER}),
        Method("zofedavg-sgd, linear", {"algorithm": "zofedavg-sgd"}),
        Method("forward q 9, warm-up", {"algorithm": "zofed-shrink", "shrink": 1.0}),
    )
}
"""By name: each row of the table that takes steps, with its own defaults, and the rows that are compared."""

COMPARED = (*(name for name in METHODS if name not in ALGORITHMS), "zofed-shrink")
"""The paper's method as published and with less stretch, the same and the plain method at the better schedule, and
zofed-shrink without and with its shrink."""

STEPS = {
    "logistic": (0.3, 1.0, 3.0, 10.0),
    "svm-squared-hinge": (0.03, 0.1, 0.3, 1.0),
    "svm-hinge": (0.1, 0.3, 1.0, 3.0),
    "mlp": (0.1, 0.3, 1.0, 3.0),
}
"""The step sizes of the grid by model."""

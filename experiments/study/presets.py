"""The two readings of the paper's section IV, as a table of named options.

Where the text and the authors' scripts differ, ``paper`` follows the text and ``authors`` the scripts. Rows, clients,
K, b, mu, tau, budget and grid are common. So a difference between two studies is a difference of these options.
Each has a companion with a step that falls linearly: a method at its best schedule is the better of both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from zofedht.common.config.run_config import Scalar

__all__ = [
    "ALPHAS",
    "COMMON",
    "EPOCHS",
    "ETAS",
    "LINEAR",
    "PAPERS_ALGORITHMS",
    "PRESETS",
    "QUICK",
    "SUCCESSOR",
    "TRAIN_ROWS",
    "Preset",
    "Quick",
    "Selection",
]

Selection = Literal["best", "mean"]

ETAS = (0.1, 1.0, 10.0)
ALPHAS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Every other one of the text's .1, .2, ..., .9: neighbours differ by less than seeds do."""

PAPERS_ALGORITHMS = ("zofedht", "zofedavg-sgd", "zofedavg-gd")
SUCCESSOR = "zofed-shrink"
"""A row of ours that is compared with the paper's, each at its best schedule."""

EPOCHS = 500
"""The authors' budget: so many single-sample evaluations for each training row."""

TRAIN_ROWS = {"digits": 1438, "mnist": 48_000, "fashion-mnist": 48_000, "rcv1": 20_242}
"""Training rows by data set: four fifths of the images, as the authors' runs; all of the others."""

COMMON: Mapping[str, Scalar] = {
    "num-clients": 100,
    "clients-per-round": 10,
    "local-steps": 50,
    "radius": 1e-4,
    "memory": 5,
    "slope": "central",
    "rounds": 0,  # the budget ends a run
    "positive-labels": "auto",
    "preprocess": "bias,unit-norm",
}


@dataclass(frozen=True)
class Preset:
    """One reading. ``svm`` and ``non_iid`` are what these words of the paper stand for."""

    name: str
    covariance: Literal["trace", "paper"]
    svm: str
    svm_init: Literal["zeros", "ones"]
    non_iid: str
    sampling: Literal["with-replacement", "without-replacement"]
    batch_size: Mapping[str, int]  # b by data set; 64 where it is not named
    selection: Selection  # a cell counts by its best repeat, or by the mean over repeats
    schedule: str = "inverse-sqrt"  # of the step

    @property
    def algorithms(self) -> tuple[str, ...]:
        """The paper's algorithms, and at a schedule of ours the successor."""
        return PAPERS_ALGORITHMS if self.schedule == "inverse-sqrt" else (*PAPERS_ALGORITHMS, SUCCESSOR)


_READINGS = {
    preset.name: preset
    for preset in (
        Preset("paper", "paper", "svm-hinge", "zeros", "sorted", "with-replacement", {}, "best"),
        Preset(
            "authors", "trace", "svm-squared-hinge", "ones", "thirds", "without-replacement", {"rcv1": 1000}, "best"
        ),
    )
}

LINEAR = "-linear"

PRESETS = _READINGS | {
    f"{name}{LINEAR}": dataclasses.replace(preset, name=f"{name}{LINEAR}", schedule="linear")
    for name, preset in _READINGS.items()
}
"""By name: both readings, and each with a linear schedule."""


@dataclass(frozen=True)
class Quick:
    """What ``--quick`` leaves of the grid."""

    datasets: tuple[str, ...]
    models: tuple[str, ...]
    alphas: tuple[float, ...]
    repeats: int
    epochs: int


QUICK = Quick(("mnist", "fashion-mnist", "rcv1"), ("logistic", "svm"), (0.3,), 2, 15)
"""Without the MLP, whose runs take minutes each; still three step sizes, since nothing else matters as much."""

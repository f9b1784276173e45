"""A points rule for biopsies, judged by its macro-F1: a metric without a gradient.

A biopsy has ten measurements. A measurement above its cutoff gives points, and enough points mean malignant. All
numbers of the rule are trained: x = (10 cutoffs, 10 points, the points that are enough), n = 21.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer

from zofedht.common.objective.base import Objective, Shard

_DATA = load_breast_cancer()
_COLUMNS = [place for place, name in enumerate(_DATA.feature_names) if name.startswith("worst")]

NAMES = [str(_DATA.feature_names[place]).removeprefix("worst ") for place in _COLUMNS]
MEASURED = _DATA.data[:, _COLUMNS]
MALIGNANT = _DATA.target == 0

# As in a textbook: the usual value of each measurement and its spread. No diagnosis enters.
USUAL, SPREAD = MEASURED.mean(axis=0), MEASURED.std(axis=0)

START = np.concatenate([np.zeros(10), np.ones(10), [4.5]])
"""The starting rule: a point for each measurement above its usual value, and five points are enough."""


def cutoffs(x: np.ndarray) -> np.ndarray:
    """Return the cutoffs in their own units; x has them in spreads from the usual value, all of one size."""
    return USUAL + SPREAD * x[:10]


def says_malignant(x: np.ndarray, measured: np.ndarray) -> np.ndarray:
    return (measured > cutoffs(x)) @ x[10:20] >= x[20]


def macro_f1(truth: np.ndarray, said: np.ndarray) -> float:
    """Return the mean of the F1 of malignant and of benign; an absent class without claims has F1 = 1."""
    both = []
    for there, claimed in ((truth, said), (~truth, ~said)):
        claims = there.sum() + claimed.sum()
        both.append(2.0 * float((there & claimed).sum() / claims) if claims else 1.0)
    return sum(both) / 2.0


def hospitals(count: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Deal the patients to hospitals of different sizes and different shares of malignant cases.

    Returns for each hospital its training patients and its held-out third.
    """
    rng = np.random.default_rng(seed)
    patients: list[list[int]] = [[] for _ in range(count)]
    shares = rng.dirichlet(np.full(count, 1.5), size=2)
    for share, label in zip(shares, (False, True), strict=True):
        rows = rng.permutation(np.flatnonzero(label == MALIGNANT))
        cuts = (np.cumsum(share)[:-1] * len(rows)).astype(int)
        for own, dealt in zip(patients, np.split(rows, cuts), strict=True):
            own.extend(dealt)
    dealt = [rng.permutation(own) for own in patients]
    return [(own[len(own) // 3 :], own[: len(own) // 3]) for own in dealt]


class Hospital(Objective):
    """1 - macro-F1 of the rule on one hospital's patients."""

    dim = 21

    def __init__(self, learn: np.ndarray, held_out: np.ndarray) -> None:
        self.learn, self.held_out = learn, held_out

    def __len__(self) -> int:
        return len(self.learn)

    def value(self, x: np.ndarray, batch: np.ndarray | slice) -> float:
        rows = self.learn[batch]
        return 1.0 - macro_f1(MALIGNANT[rows], says_malignant(x, MEASURED[rows]))

    def initial(self, rng: np.random.Generator) -> np.ndarray:
        return START.copy()


def make(shard: Shard) -> Hospital:
    return Hospital(*hospitals(shard.count, shard.seed)[shard.index])

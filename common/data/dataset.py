"""The data set a run trains on: what every loader returns and every model takes."""

from __future__ import annotations

from dataclasses import dataclass

from zofedht.common.typing import Features, Indices, Vector

__all__ = ["Dataset"]


@dataclass(frozen=True)
class Dataset:
    """Rows of samples with a binary target and the labels they came with.

    features: (rows, columns) float64, dense or CSR. target: (rows,) float64, 1.0 for a positive label
    and 0.0 for the others. labels: (rows,) integers, the labels as found (used by label-sorted splits).
    """

    features: Features
    target: Vector
    labels: Indices

    def __len__(self) -> int:
        return int(self.target.shape[0])

    def take(self, rows: Indices | slice) -> Dataset:
        """Return the given rows; a slice of a dense set is a view, not a copy."""
        return Dataset(self.features[rows], self.target[rows], self.labels[rows])

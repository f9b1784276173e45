"""The data set of a run: all loaders return it and all models take it."""

from __future__ import annotations

from dataclasses import dataclass

from zofedht.common.typing import Features, Indices, Vector

__all__ = ["Dataset"]


@dataclass(frozen=True)
class Dataset:
    """Rows of samples with a binary target and their labels.

    Attributes
    ----------
    features : (rows, columns) float64, dense or CSR
    target : (rows,) float64
        1.0 for a positive label and 0.0 for any other.
    labels : (rows,) integers
        The labels of the source, by which partitions may sort.
    """

    features: Features
    target: Vector
    labels: Indices

    def __len__(self) -> int:
        return int(self.target.shape[0])

    def take(self, rows: Indices | slice) -> Dataset:
        """Return the given rows; a slice of a dense set is a view, not a copy."""
        return Dataset(self.features[rows], self.target[rows], self.labels[rows])

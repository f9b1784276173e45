"""The rows that a net is evaluated on: a client's samples, some at a time, and what the loss says of them."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from zofedht.common.errors import DataError, ObjectiveError
from zofedht.common.tensors.objective import InPlaceObjective
from zofedht.common.typing import Indices

__all__ = ["Loss", "RowsObjective"]

Loss = Callable[[Any, Any], Any]
"""loss(net, rows): the loss of each row, or a dict of such figures with "loss" among them."""


class RowsObjective(InPlaceObjective):
    """A net and a client's rows.

    Parameters
    ----------
    loss : (net, rows) -> (b,) numbers, or dict of such
        Means over rows are taken in float64. A dict has other figures than "loss" for ``evaluate``, such as hits.
    data : array, tensor, list, or tuple or dict of such columns
        All rows of the client. ``loss`` gets some of them, in the same form.
    evaluation : the same, optional
        The rows of ``evaluate``; all of ``data`` unless given.
    together : int
        How many rows ``loss`` gets at most.
    """

    def __init__(self, loss: Loss, data: Any, evaluation: Any = None, together: int = 64) -> None:
        self._loss, self._together = loss, together
        self._take(data, evaluation)

    def on(self, data: Any, evaluation: Any = None) -> Self:
        """Return the same net, with the same parameters, on other rows: another client of a simulation."""
        other = copy.copy(self)
        other._take(data, evaluation)
        return other

    def __len__(self) -> int:
        return _count(self._data)

    @property
    def evaluated(self) -> int:
        return _count(self._looked_at)

    def value(self, batch: Indices | slice) -> float:
        return self._means(self._data, np.arange(len(self))[batch])["loss"]

    def evaluate(self) -> dict[str, float]:
        return self._means(self._looked_at, np.arange(self.evaluated))

    @abstractmethod
    def _figures(self, loss: Loss, rows: Any) -> Any:
        """Return what the loss says of the net on these rows."""

    def _take(self, data: Any, evaluation: Any) -> None:
        self._data, self._looked_at = data, data if evaluation is None else evaluation
        for rows in (self._data, self._looked_at):
            if _count(rows) < 1:
                raise DataError("a client must have at least 1 row, got none")

    def _means(self, data: Any, indices: NDArray[np.intp]) -> dict[str, float]:
        sums: dict[str, float] = {}
        for start in range(0, len(indices), self._together):
            part = indices[start : start + self._together]
            figures = self._figures(self._loss, _rows(data, part))
            for name, values in (figures if isinstance(figures, Mapping) else {"loss": figures}).items():
                mean = np.mean(np.asarray(values, dtype=np.float64))
                sums[name] = sums.get(name, 0.0) + float(mean) * len(part)
        if "loss" not in sums:
            raise ObjectiveError(f"the loss must be an array or a dict with 'loss', got {', '.join(sums) or 'nothing'}")
        return {name: value / len(indices) for name, value in sums.items()}


def _rows(data: Any, indices: NDArray[np.intp]) -> Any:
    if isinstance(data, tuple):
        return tuple(_rows(column, indices) for column in data)
    if isinstance(data, Mapping):
        return {name: _rows(column, indices) for name, column in data.items()}
    return [data[index] for index in indices] if isinstance(data, list) else data[indices]


def _count(data: Any) -> int:
    columns = data if isinstance(data, tuple) else tuple(data.values()) if isinstance(data, Mapping) else (data,)
    lengths = {len(column) for column in columns}
    if len(lengths) != 1:
        raise DataError(f"the columns of the rows must be of one length, got lengths {sorted(lengths)}")
    return lengths.pop()

"""A ready-made InPlaceObjective for who holds the parameters as NumPy arrays, or can show them as such."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zofedht.common.tensors.blocks import Block
from zofedht.common.tensors.directions import Direction, add_all
from zofedht.common.tensors.objective import InPlaceObjective
from zofedht.common.typing import Indices

__all__ = ["TensorObjective"]


class TensorObjective(InPlaceObjective):
    """An InPlaceObjective over NumPy arrays, which are changed where they lie. Write ``value``.

    Parameters
    ----------
    arrays : mapping of names to arrays
        The trained tensors in their order: contiguous arrays of float64, float32 or float16. Views of a network's own
        memory, such as ``tensor.detach().numpy()``, change the network. Objectives that are made from one mapping share
        its arrays, as the clients of a simulation may.

    Examples
    --------
    >>> class Distance(TensorObjective):
    ...     def value(self, batch):
    ...         return float(np.sum((self.arrays["w"] - 3.0) ** 2))
    >>> distance = Distance({"w": np.zeros((2, 3))})
    >>> distance.dim, distance.value(slice(None))
    (6, 54.0)
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.arrays, self._given = dict(arrays), arrays
        self.blocks = tuple(Block(name, array.shape, str(array.dtype)) for name, array in self.arrays.items())
        self._places = list(self.arrays.values())

    @property
    def holder(self) -> object:
        return self._given

    @abstractmethod
    def value(self, batch: Indices | slice) -> float:
        """Return the mean loss of ``self.arrays`` on the samples of ``batch``, a float64 number."""

    def add(self, direction: Direction, coefficient: float) -> None:
        self.add_all([direction], [coefficient])

    def add_all(self, directions: Sequence[Direction], coefficients: Sequence[float]) -> None:
        for block, array in enumerate(self._places):
            add_all(array, block, directions, coefficients)

    def tensor(self, block: int) -> NDArray[Any]:
        return self._places[block]

    def put(self, block: int, numbers: NDArray[Any]) -> None:
        np.copyto(self._places[block], numbers)

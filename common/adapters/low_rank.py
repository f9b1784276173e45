"""Thin matrices beside a net's own: W + scale A B is evaluated, A and B are trained. Any engine will do."""

from __future__ import annotations

import copy
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from zofedht.common.adapters.rows import RowsObjective
from zofedht.common.adapters.trainable import LowRank
from zofedht.common.errors import ObjectiveError
from zofedht.common.random.streams import stream
from zofedht.common.tensors.arrays import TensorObjective
from zofedht.common.typing import Indices

__all__ = ["LowRankObjective", "adapted"]


class LowRankObjective(TensorObjective):
    """``net``, whose matrices are replaced by W + scale A B before each evaluation.

    The blocks are ``NAME.A`` and ``NAME.B`` for each matrix, float32, and the tensors that are trained whole. A copy of
    each W is held, in the net's own type. B is drawn from stream (0, "initial"), the same at all clients.
    """

    def __init__(self, net: RowsObjective, choice: LowRank) -> None:
        self._net, self._scale = net, np.float32(choice.scale)
        self._fixed: dict[int, NDArray[Any]] = {}
        arrays: dict[str, NDArray[Any]] = {}
        for place, block in enumerate(net.blocks):
            if block.dtype == "bfloat16":
                raise ObjectiveError(f"low rank needs tensors of NumPy's types, got {block.name} of type bfloat16")
            if not choice.adapts(block.name, block.shape):
                arrays[block.name] = net.tensor(place).copy()
                continue
            rows, columns = block.shape
            self._fixed[place] = net.tensor(place).copy()
            start = stream(0, "initial", 0, place).standard_normal((choice.rank, columns), dtype=np.float32)
            arrays[f"{block.name}.A"] = np.zeros((rows, choice.rank), np.float32)
            arrays[f"{block.name}.B"] = start / np.float32(np.sqrt(columns))
        super().__init__(arrays)

    def on(self, data: Any, evaluation: Any = None) -> Self:
        """Return the same net, with the same parameters, on other rows: another client of a simulation."""
        other = copy.copy(self)
        other._net = self._net.on(data, evaluation)
        return other

    def __len__(self) -> int:
        return len(self._net)

    @property
    def evaluated(self) -> int:
        return self._net.evaluated

    def value(self, batch: Indices | slice) -> float:
        self._refresh()
        return self._net.value(batch)

    def evaluate(self) -> dict[str, float]:
        self._refresh()
        return self._net.evaluate()

    def _refresh(self) -> None:
        for place, block in enumerate(self._net.blocks):
            if (fixed := self._fixed.get(place)) is None:
                self._net.put(place, self.arrays[block.name])
                continue
            change = self.arrays[f"{block.name}.A"] @ self.arrays[f"{block.name}.B"]
            change *= self._scale
            self._net.put(place, (fixed + change).astype(fixed.dtype, copy=False))


_Net = TypeVar("_Net", bound=RowsObjective)


def adapted(net: _Net, trainable: str | LowRank) -> _Net | LowRankObjective:
    """Return the net, or thin matrices beside it where ``trainable`` says so."""
    return LowRankObjective(net, trainable) if isinstance(trainable, LowRank) else net

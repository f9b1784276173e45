"""Objectives that hold their own parameters: nobody else ever has x, and a client changes them in place."""

from __future__ import annotations

import hashlib
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zofedht.common.errors import DataError
from zofedht.common.objective.base import checked_loss
from zofedht.common.tensors.blocks import Block, blocks_as_text, total
from zofedht.common.tensors.directions import Direction
from zofedht.common.typing import Indices

__all__ = ["InPlaceObjective"]


class InPlaceObjective(ABC):
    """F(batch) at parameters that the objective holds, in tensors of any type and on any device.

    A client changes them along directions that are drawn block by block, evaluates, and changes them back. When it is
    made, an objective holds the starting point, which must be the same at all clients.

    Attributes
    ----------
    blocks : tuple of Block
        The tensors that are trained, in a fixed order.
    stiff : sequence of dicts, optional
        Directions along which F bends far more than along others, for ``algorithm = zofed-shrink``: numbers of some
        blocks by their names, 0 in all others. They must be the same at all clients, and stay as they are.
    """

    blocks: tuple[Block, ...]
    stiff: Sequence[Mapping[str, NDArray[Any]]] = ()

    @property
    def dim(self) -> int:
        """n, the number of parameters."""
        return total(self.blocks)

    @property
    def holder(self) -> object:
        """What holds the parameters: objectives with the same holder share them, as the clients of a simulation may."""
        return self

    def __len__(self) -> int:
        """Return the number of samples of this shard: 1 where F has no samples."""
        return 1

    @property
    def evaluated(self) -> int:
        """The samples that ``evaluate`` looks at, where these are not those of the shard."""
        return len(self)

    @abstractmethod
    def value(self, batch: Indices | slice) -> float:
        """Return the mean loss of the present parameters on the samples of ``batch``, a float64 number.

        The same parameters and batch must give the same loss: no dropout, no statistics that are learnt on the way.
        """

    @abstractmethod
    def add(self, direction: Direction, coefficient: float) -> None:
        """Add coefficient * direction to the parameters, block by block.

        ``direction.add_to`` does it for a NumPy array, and ``direction.pieces`` gives the numbers of a block.
        """

    @abstractmethod
    def tensor(self, block: int) -> NDArray[Any]:
        """Return the numbers of the ``block``-th tensor: a view, or a copy where they lie elsewhere.

        bfloat16 goes as the same bits in uint16.
        """

    @abstractmethod
    def put(self, block: int, numbers: NDArray[Any]) -> None:
        """Set the ``block``-th tensor to these numbers, which are as ``tensor`` gives them."""

    def add_all(self, directions: Sequence[Direction], coefficients: Sequence[float]) -> None:
        """Add several directions, one after the other; override it where that is quicker for all of them together."""
        for direction, coefficient in zip(directions, coefficients, strict=True):
            self.add(direction, coefficient)

    def evaluate(self) -> dict[str, float]:
        """Return the metrics of the present parameters on the whole shard; ``loss`` must be among them."""
        return {"loss": checked_loss(self.value(slice(None)))}

    def tensors(self) -> Iterator[NDArray[Any]]:
        """Yield the contiguous numbers of each block, one at a time."""
        for index in range(len(self.blocks)):
            yield np.ascontiguousarray(self.tensor(index))

    def state_digest(self) -> str:
        """Return a digest of the blocks and all their numbers: equal only for parameters that are equal bit for bit."""
        found = hashlib.blake2b(blocks_as_text(self.blocks).encode(), digest_size=16)
        for numbers in self.tensors():
            found.update(numbers.astype(numbers.dtype.newbyteorder("<"), copy=False).reshape(-1).view(np.uint8).data)
        return found.hexdigest()

    def save(self, path: str | Path) -> None:
        """Write the parameters to a file, an uncompressed .npz with an array for each block, one block at a time."""
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for block, numbers in zip(self.blocks, self.tensors(), strict=True):
                with archive.open(f"{block.name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, numbers, allow_pickle=False)

    def load(self, path: str | Path) -> None:
        """Set the parameters from a file of ``save``, one block at a time.

        Raises DataError where the file cannot be read or has other blocks; the parameters may then be changed in part.
        """
        try:
            with np.load(path, allow_pickle=False) as archive:
                for index, block in enumerate(self.blocks):
                    if block.name not in archive.files:
                        raise DataError(f"{path} has no block {block.name}; it has {', '.join(archive.files[:5])}")
                    numbers = archive[block.name]
                    if numbers.shape != block.shape or numbers.dtype != block.numpy_dtype:
                        raise DataError(
                            f"{path}: block {block.name} must be {block.numpy_dtype} of shape {block.shape}, got"
                            f" {numbers.dtype} of shape {numbers.shape}"
                        )
                    self.put(index, numbers)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise DataError(f"{path} cannot be read as parameters ({error})") from error

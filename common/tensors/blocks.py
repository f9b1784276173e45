"""Blocks: the names, shapes and types of the tensors that parameters consist of, in their order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zofedht.common.errors import ObjectiveError

__all__ = ["DTYPES", "Block", "blocks_as_text", "bytes_of_text", "checked_blocks", "total", "total_bytes"]

DTYPES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
"""Types of parameters, and the bytes of a number; bfloat16 has no NumPy type, its bits go as uint16."""


@dataclass(frozen=True)
class Block:
    """A tensor of the parameters.

    Attributes
    ----------
    name : str
    shape : tuple of int
    dtype : str
        float64, float32, float16 or bfloat16.

    Examples
    --------
    >>> Block("weight", (784, 10)).size
    7840
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"

    @property
    def size(self) -> int:
        """The number of its numbers."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """The number of its bytes."""
        return self.size * DTYPES[self.dtype]

    @property
    def numpy_dtype(self) -> np.dtype[np.generic]:
        """The NumPy type in which its bits travel."""
        return np.dtype("uint16" if self.dtype == "bfloat16" else self.dtype)


def total(blocks: Sequence[Block]) -> int:
    """Return n, the number of parameters."""
    return sum(block.size for block in blocks)


def total_bytes(blocks: Sequence[Block]) -> int:
    """Return the bytes of all parameters."""
    return sum(block.bytes for block in blocks)


def blocks_as_text(blocks: Sequence[Block]) -> str:
    """Return a line for each block, as ``encoder.weight float32 384x384``: equal for equal blocks."""
    return "\n".join(f"{one.name} {one.dtype} {'x'.join(map(str, one.shape)) or '1'}" for one in blocks)


def bytes_of_text(text: str) -> int:
    """Return the bytes of all parameters of such blocks.

    Examples
    --------
    >>> bytes_of_text("weight float32 784x10")
    31360
    """
    lines = (line.split(" ") for line in text.split("\n"))
    return sum(DTYPES[dtype] * math.prod(map(int, shape.split("x"))) for _, dtype, shape in lines)


def checked_blocks(blocks: Sequence[Block], where: str) -> tuple[Block, ...]:
    """Return the blocks of an objective.

    Raises ObjectiveError, naming the block, unless there is one and each has its own name, a size and a known type.
    """
    found = tuple(blocks)
    if not found or not all(isinstance(block, Block) for block in found):
        raise ObjectiveError(f"{where}: blocks must be one or more Block(name, shape, dtype), got {blocks!r}")
    seen: set[str] = set()
    for block in found:
        if block.name in seen or not block.name or any(letter.isspace() for letter in block.name):
            raise ObjectiveError(f"{where}: a block must have a name of its own without blanks, got {block.name!r}")
        if block.size < 1:
            raise ObjectiveError(f"{where}: block {block.name} must hold at least 1 number, got shape {block.shape}")
        if block.dtype not in DTYPES:
            known = ", ".join(DTYPES)
            raise ObjectiveError(f"{where}: block {block.name} must be of type {known}, got {block.dtype!r}")
        seen.add(block.name)
    return found

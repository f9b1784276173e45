"""Copies of parameters to go back to: in memory, or in a file where memory is for the parameters alone."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from zofedht.common.errors import ObjectiveError
from zofedht.common.machine.memory import free_bytes
from zofedht.common.tensors.blocks import total_bytes
from zofedht.common.tensors.objective import InPlaceObjective

__all__ = ["Copy", "copy_of"]

_SMALL = 2**24  # bytes that are not worth a file
_SPARE = 4  # a copy lies in memory where so many of it would fit


class Copy(ABC):
    """The parameters of an objective as they were at one time, bit for bit."""

    @abstractmethod
    def take(self) -> None:
        """Copy the present parameters."""

    @abstractmethod
    def put_back(self) -> None:
        """Set the parameters to the copy."""

    @abstractmethod
    def read(self, start: int, size: int) -> bytes:
        """Return so many bytes of the copy, or those that there are."""

    @abstractmethod
    def write(self, start: int, data: bytes) -> None:
        """Set bytes of the copy, which are within it."""


class _InMemory(Copy):
    def __init__(self, objective: InPlaceObjective) -> None:
        self._objective = objective
        self._bytes = np.empty(total_bytes(objective.blocks), np.uint8)
        ends = np.cumsum([block.bytes for block in objective.blocks])
        parts = np.split(self._bytes, ends[:-1])
        self._kept = [
            part.view(block.numpy_dtype).reshape(block.shape)
            for part, block in zip(parts, objective.blocks, strict=True)
        ]

    def take(self) -> None:
        for kept, numbers in zip(self._kept, self._objective.tensors(), strict=True):
            np.copyto(kept, numbers)

    def put_back(self) -> None:
        for index, kept in enumerate(self._kept):
            self._objective.put(index, kept)

    def read(self, start: int, size: int) -> bytes:
        return self._bytes[start : start + size].tobytes()

    def write(self, start: int, data: bytes) -> None:
        self._bytes[start : start + len(data)] = np.frombuffer(data, np.uint8)


class _InFile(Copy):
    """A nameless file: it is gone with the process, however that ends."""

    def __init__(self, objective: InPlaceObjective) -> None:
        self._objective = objective
        self._file = tempfile.TemporaryFile(prefix="zofedht-", buffering=0)  # noqa: SIM115  it lives as long as we do
        weakref.finalize(self, self._file.close)

    def take(self) -> None:
        start = 0
        for numbers in self._objective.tensors():
            data = numbers.reshape(-1).view(np.uint8).data
            self.write(start, data)
            start += len(data)

    def put_back(self) -> None:
        self._file.seek(0)
        for index, block in enumerate(self._objective.blocks):
            numbers: NDArray[np.generic] = np.empty(block.shape, block.numpy_dtype)
            data = numbers.reshape(-1).view(np.uint8).data
            while data:
                if not (read := self._file.readinto(data)):
                    raise ObjectiveError("the copy of the parameters was cut short: the temporary folder is full")
                data = data[read:]
            self._objective.put(index, numbers)

    def read(self, start: int, size: int) -> bytes:
        self._file.seek(start)
        parts = []
        while size and (part := self._file.read(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def write(self, start: int, data: bytes | memoryview) -> None:
        self._file.seek(start)
        data = memoryview(data)
        while data:  # a raw file may take a part
            data = data[self._file.write(data) :]


def copy_of(objective: InPlaceObjective, where: str = "auto", count: int = 1) -> Copy:
    """Return a copy of the present parameters.

    ``where`` is memory, disk, or auto: in memory where that is plenty. No number depends on it. ``count`` is how many
    copies there must be room for.

    Raises ObjectiveError where neither has room.
    """
    size = total_bytes(objective.blocks)
    what = "a copy of the parameters takes" if count == 1 else f"{count} copies of the parameters take {count} x"
    what += f" {size / 1e6:,.1f} MB"
    free = free_bytes()
    plenty = size <= _SMALL or free is None or _SPARE * size <= free
    if where == "memory" or (where == "auto" and plenty):
        if free is not None and count * size > max(free, _SMALL):
            raise ObjectiveError(f"{what}, and {free / 1e6:,.0f} MB of memory are free; take --copies disk")
        copy: Copy = _InMemory(objective)
    else:
        folder = tempfile.gettempdir()
        if count * size > (there := shutil.disk_usage(folder).free):
            raise ObjectiveError(
                f"{what}, and {there / 1e6:,.0f} MB are free in {folder}; set TMPDIR to a folder on a larger disk"
            )
        copy = _InFile(objective)
    try:
        copy.take()
    except OSError as error:
        where = tempfile.gettempdir()
        raise ObjectiveError(f"the parameters cannot be copied to {where} ({error.strerror})") from error
    return copy

"""A file that grows by lines, read as it grows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["Tail"]

_REMEMBERED = 64  # bytes before the place that reading has come to


class Tail:
    """Yields the lines that a file has grown by, and notices when it is another file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._before = b""  # the last bytes that were read

    def was_replaced(self) -> bool:
        """Return whether what was read is no longer in the file; ``lines`` then begins anew."""
        if not self._offset:
            return False
        try:
            with self._path.open("rb") as file:
                kept = self._is_there(file)
        except OSError:
            kept = False
        if not kept:
            self._offset, self._before = 0, b""
        return not kept

    def lines(self) -> Iterator[bytes]:
        """Yield the whole lines after those that were read; nothing from a file that cannot be read."""
        try:
            file = self._path.open("rb")
        except OSError:
            return
        with file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):  # being written, or torn by a kill
                    return
                self._offset += len(line)
                self._before = (self._before + line)[-_REMEMBERED:]
                yield line

    def _is_there(self, file: BinaryIO) -> bool:
        file.seek(self._offset - len(self._before))
        return file.read(len(self._before)) == self._before

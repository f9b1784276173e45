"""Files that grow by whole lines: what a kill or a full disk has torn is cut off before the next line is added."""

from __future__ import annotations

import os
from typing import BinaryIO

__all__ = ["length_of_whole_lines"]

_BLOCK = 2**16


def length_of_whole_lines(file: BinaryIO) -> int:
    """Return how many bytes of a file are whole lines: all up to its last newline.

    The file is read from its end, since a ledger may be long.

    Examples
    --------
    >>> import io
    >>> length_of_whole_lines(io.BytesIO(b"one\\ntwo\\nthr"))
    8
    """
    end = file.seek(0, os.SEEK_END)
    while end:
        begin = max(0, end - _BLOCK)
        file.seek(begin)
        last = file.read(end - begin).rfind(b"\n")
        if last >= 0:
            return begin + last + 1
        end = begin
    return 0

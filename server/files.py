"""Files that are either the old ones or the new ones, never half of one."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["replace_file"]


def replace_file(path: Path, content: bytes) -> None:
    """Write ``content`` beside ``path``, flush it to the disk and put it in place in one step.

    A full disk or a kill leaves the old file as it was. Raises OSError when writing fails.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)

"""Files that are either the old ones or the new ones, never half of one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from zofedht.common.errors import DataError

__all__ = ["cannot_write", "replace_file"]


def replace_file(path: Path, content: bytes) -> None:
    """Write ``content`` beside ``path``, flush it to the disk and put it in place in one step.

    A full disk or a kill leaves the old file as it was. Raises DataError when writing fails.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def cannot_write(path: Path, error: OSError) -> DataError:
    """Return the error that says so."""
    return DataError(f"{path} cannot be written ({error.strerror}); what was written before it is kept")

"""Files that are read and written whole: a replaced file is the old one or the new one, never half of one."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from zofedht.common.errors import DataError

__all__ = [
    "cannot_write",
    "is_path",
    "make_folder",
    "read_json",
    "remove_parts",
    "replace_file",
    "replaced_by",
    "undisturbed",
]

_ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def is_path(value: object) -> bool:
    """Return whether a value names a file or a folder; an empty text names none."""
    return isinstance(value, str | os.PathLike) and bool(text := os.fspath(value)) and "\0" not in str(text)


def replace_file(path: Path, content: bytes) -> None:
    """Write ``content`` beside ``path``, flush it to the disk and put it in place in one step.

    A full disk or a kill leaves the old file. Raises DataError when the file cannot be written.
    """
    with replaced_by(path) as beside, beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def replaced_by(path: Path) -> Iterator[Path]:
    """Give the block a file beside ``path`` to write, and put that in place in one step.

    Raises DataError when the file cannot be written.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield beside
        beside.replace(path)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Keep signals that end a process away from a block in the main thread: it writes what must be whole."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread alone
        return
    kept = {number: signal.signal(number, signal.SIG_IGN) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def remove_parts(folder: Path) -> int:
    """Delete the files that a kill left half written, and return how many there were."""
    parts = [path for path in folder.rglob(".*.part") if path.is_file()]
    for path in parts:
        with suppress(OSError):
            path.unlink()
    return len(parts)


def make_folder(path: Path) -> Path:
    """Make a folder unless it exists, and return it. Raises DataError when it cannot be made."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error
    return path


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file. Raises DataError when the file cannot be read or holds something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error}); is this a result folder?") from error
    if not isinstance(found, dict):
        raise DataError(f"{path} must hold a JSON object, got {type(found).__name__}; is this a result folder?")
    return found


def cannot_write(path: Path, error: OSError) -> DataError:
    """Return the error of a file or folder that cannot be written."""
    return DataError(f"{path} cannot be written ({error.strerror}); earlier files are kept")

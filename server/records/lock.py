"""One writer for a folder: a lock of the operating system, which ends with its process.

A file in the folder carries the lock and names its holder, who removes it at the end. A file that a kill left behind
holds no lock, and the next writer takes it over. Readers need no lock and never wait.

Whether machines that share a folder see each other's locks depends on its file system (NFS: yes, by a service).
"""

from __future__ import annotations

import errno
import os
import platform
import sys
import warnings
import weakref
from contextlib import suppress
from pathlib import Path

from zofedht.common.errors import DataError
from zofedht.common.machine.files import cannot_write

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["FolderLock", "is_held"]

_TAKEN = {
    errno.EAGAIN,
    errno.EWOULDBLOCK,
    errno.EACCES,
    errno.EDEADLK,
}  # the first two are of flock, the others of Windows
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}
_FAR = 2**30  # a byte behind the text: nobody else can read a locked byte on Windows
_MOST_TEXT = 300


class FolderLock:
    """Holds a folder for one writer. Another writer is refused, even one of the same process."""

    def __init__(self, path: Path) -> None:
        """``path`` is the file to lock; ``take`` needs its folder."""
        self.path = path
        self._closing: weakref.finalize[..., FolderLock] | None = None  # releases a forgotten lock
        self._descriptor = -1

    @property
    def held(self) -> bool:
        """Whether this object has the lock."""
        return self._descriptor >= 0

    def take(self) -> None:
        """Take the lock, or keep it.

        A file system without locks gives a warning, and nothing is locked. Raises DataError with the holder's name when
        another writer has the lock, and when the file cannot be written.
        """
        while not self.held:
            try:
                descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            except OSError as error:
                raise cannot_write(self.path, error) from error
            try:
                self._lock(descriptor)
                # The last holder may have removed the open file: then lock a new file.
                if _is_at(descriptor, self.path):
                    self._sign(descriptor)
                    self._keep(descriptor)
            finally:
                if not self.held:
                    os.close(descriptor)

    def give_back(self) -> None:
        """Release the lock and remove its file; do nothing without the lock."""
        if not self.held:
            return
        with suppress(OSError):  # the folder is gone, or Windows, which removes no open file
            if _is_at(self._descriptor, self.path):
                self.path.unlink()
        self.close()

    def close(self) -> None:
        """Close the file; the lock ends unless a forked process has the file."""
        if self._closing is not None:
            self._closing()
        self._closing, self._descriptor = None, -1
        _held.discard(self)

    def _lock(self, descriptor: int) -> None:
        try:
            _lock(descriptor)
        except OSError as error:
            if error.errno in _TAKEN:
                raise DataError(
                    f"the result folder {self.path.parent} is being written by another run{_holder(descriptor)};"
                    " wait for its end, or stop it and resume, or choose another folder"
                ) from error
            if error.errno not in _NO_LOCKS:
                raise cannot_write(self.path, error) from error
            warnings.warn(
                f"the file system of {self.path.parent} has no locks ({error.strerror}), so a second process could"
                " write to this run: resume it only after its end",
                stacklevel=4,
            )

    def _sign(self, descriptor: int) -> None:
        try:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {platform.node() or 'an unnamed host'}\n".encode())
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def _keep(self, descriptor: int) -> None:
        self._descriptor, self._closing = descriptor, weakref.finalize(self, os.close, descriptor)
        _held.add(self)


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_held(path: Path) -> bool:
    """Return whether a lock file names a writer that is alive, as far as can be told without touching the lock.

    A writer on another machine or in another container is taken for alive.
    """
    try:
        words = path.read_text(encoding="utf-8", errors="replace").split(maxsplit=3)
    except OSError:
        return False
    if len(words) < 4 or words[3].strip() != platform.node() or not words[1].isdecimal() or sys.platform == "win32":
        return True
    try:
        os.kill(int(words[1]), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass  # another user's process
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _holder(descriptor: int) -> str:
    """Return the holder in brackets, or an empty text if the file does not name it yet."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    text = os.read(descriptor, _MOST_TEXT).decode(errors="replace").strip()
    return f" ({text})" if text and text.isprintable() else ""


_held: weakref.WeakSet[FolderLock] = weakref.WeakSet()


def _forget() -> None:
    # A child that outlives a killed run must not hold its folder. The parent's lock survives this close.
    for lock in list(_held):
        lock.close()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget)

"""One writer for a folder: a lock of the operating system, which ends with its process, however that ends.

The lock is on a file in the folder that says who holds it. The file is removed when the lock is given back; one that a
kill left behind holds nothing, and the next writer takes it over. Readers need no lock, and are never kept waiting.

Whether machines that share a folder see each other's locks is up to its file system (NFS: yes, with its lock service).
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
from zofedht.server.records.files import cannot_write

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["FolderLock"]

_TAKEN = {errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK}  # flock says the first two, Windows the others
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}
_FAR = 2**30  # Windows keeps others from reading what is locked: a byte behind the text
_MOST_TEXT = 300


class FolderLock:
    """Holds a folder for one writer of one process. Another one, also of the same process, is refused."""

    def __init__(self, path: Path) -> None:
        """``path`` is the file to lock; its folder must be there when the lock is taken."""
        self.path = path
        self._closing: weakref.finalize[..., FolderLock] | None = None  # gives the lock back if we are forgotten
        self._descriptor = -1

    @property
    def held(self) -> bool:
        """Whether the lock is ours."""
        return self._descriptor >= 0

    def take(self) -> None:
        """Take the lock, or keep it.

        A file system without locks is warned of, and then nothing is locked. Raises DataError, which names who holds
        the lock where that is known, when another writer has it, and when the file cannot be written.
        """
        while not self.held:
            try:
                descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            except OSError as error:
                raise cannot_write(self.path, error) from error
            try:
                self._lock(descriptor)
                # The one that had it may have removed the file since it was opened: then there is a new one to lock.
                if _is_at(descriptor, self.path):
                    self._sign(descriptor)
                    self._keep(descriptor)
            finally:
                if not self.held:
                    os.close(descriptor)

    def give_back(self) -> None:
        """Give the lock back and remove its file; nothing happens where it is not held."""
        if not self.held:
            return
        with suppress(OSError):  # gone with its folder, or Windows, which removes no open file: it holds nothing
            if _is_at(self._descriptor, self.path):
                self.path.unlink()
        self.close()

    def close(self) -> None:
        """Close the file; where no other process has it by a fork, the lock ends with that."""
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
                    f"the result folder {self.path.parent} is being written by a run that goes on{_holder(descriptor)};"
                    " wait for its end, or stop it and resume, or choose another folder"
                ) from error
            if error.errno not in _NO_LOCKS:
                raise cannot_write(self.path, error) from error
            warnings.warn(
                f"the file system of {self.path.parent} has no locks ({error.strerror}), so that nothing keeps a second"
                " process from writing to this run: resume it only when it has ended",
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


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _holder(descriptor: int) -> str:
    """Return who wrote the file, in brackets, or nothing while that is not written yet."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    text = os.read(descriptor, _MOST_TEXT).decode(errors="replace").strip()
    return f" ({text})" if text and text.isprintable() else ""


_held: weakref.WeakSet[FolderLock] = weakref.WeakSet()


def _forget() -> None:
    # A child that outlives a killed run must not hold its folder. Closing gives nothing back while the parent has it.
    for lock in list(_held):
        lock.close()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget)

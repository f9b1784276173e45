"""A command with fewer open files and threads than usual: main([files, threads, module, arguments of its main]).

0 leaves a limit as it is; the threads are those beside what BLAS has at its start. Threads are counted by user, and
root has no such limit: root becomes another user, who may still read and write all files.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import resource
from collections.abc import Sequence
from pathlib import Path

import scipy.linalg  # noqa: F401  (it brings a BLAS of its own)
from threadpoolctl import threadpool_limits

_NOBODY_ELSE = 61_000  # a user without other processes
_KEEP_CAPABILITIES, _VERSION = 8, 0x20080522
_ALL_FILES = 0b1111  # chown, dac_override, dac_read_search, fowner


def main(argv: Sequence[str]) -> int:
    """Run the module's ``main`` and return its exit code."""
    files, threads, module, *rest = argv
    if int(files):
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(files) // 2, int(files)))
    if int(threads):
        _become_somebody_else()
        with threadpool_limits(1):  # at its end each BLAS starts its threads, which a fork has lost
            pass
        most = len(list(Path("/proc/self/task").iterdir())) + int(threads)
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    code: int = importlib.import_module(module).main(rest)
    return code


def _become_somebody_else() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    user = _NOBODY_ELSE + os.getpid() % 1000
    libc.prctl(_KEEP_CAPABILITIES, 1, 0, 0, 0)
    os.setresuid(user, user, user)
    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    if libc.capset(header, (ctypes.c_uint32 * 6)(_ALL_FILES, _ALL_FILES, 0, 0, 0, 0)):
        raise OSError(ctypes.get_errno(), "capset")

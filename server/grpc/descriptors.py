"""What the system gives: file descriptors, of which connections get only a part, and threads."""

from __future__ import annotations

import importlib
import os
import threading

from zofedht.common.errors import DataError

__all__ = ["THREADS", "check_threads", "most_connections", "raise_descriptor_limit"]

THREADS = 5 + min(max(os.cpu_count() or 4, 4), 16)
"""What gRPC and its loop take, whatever the number of clients."""

_MOST_CONNECTIONS = 10_000  # a connection takes memory, too
_RESERVE = 256  # for the files of the run, and what gRPC, BLAS and an objective open
_UNKNOWN = 4096  # where the system has no such limit


def raise_descriptor_limit() -> int:
    """Raise the limit of open files to the hard one, and return it."""
    try:
        resource = importlib.import_module("resource")
    except ImportError:  # Windows
        return _UNKNOWN
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = max(soft, _MOST_CONNECTIONS + _RESERVE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    except (ValueError, OSError):  # the kernel's own maximum is lower
        return int(soft)
    return int(hard)


def most_connections(limit: int) -> int:
    """Return how many connections a server with so many descriptors takes: a reserve is left to the run's own files.

    Examples
    --------
    >>> most_connections(1024), most_connections(256), most_connections(1_000_000)
    (768, 128, 10000)
    """
    return min(max(limit - _RESERVE, limit // 2), _MOST_CONNECTIONS)


def check_threads(count: int = THREADS) -> None:
    """Raise DataError unless so many threads can be started: gRPC ends the process without a word where it lacks one.

    Examples
    --------
    >>> check_threads(1)
    """
    begun: list[threading.Thread] = []
    enough = threading.Event()
    try:
        for _ in range(count):
            thread = threading.Thread(target=enough.wait)
            thread.start()
            begun.append(thread)
    except RuntimeError as error:
        raise DataError(
            f"a server needs {count} more threads, and the system gives {len(begun)} (pids of a container, ulimit -u);"
            " raise that limit"
        ) from error
    finally:
        enough.set()
        for thread in begun:
            thread.join()

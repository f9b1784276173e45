"""One BLAS thread: a product split over threads may add in another order and change its last bits."""

from __future__ import annotations

import functools
import sys
from contextlib import AbstractContextManager
from typing import Any

__all__ = ["one_thread"]

_BRING_THEIR_OWN = ("scipy.linalg", "scipy.special")  # SciPy's BLAS is not NumPy's


@functools.cache
def _controller(loaded: tuple[bool, ...]) -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()  # looking for libraries takes milliseconds: once a process, and once SciPy's is there


def one_thread() -> AbstractContextManager[Any]:
    """Return a context in which all BLAS and OpenMP libraries that are loaded now use one thread.

    SciPy is not loaded for it: a device that never uses SciPy saves 17 MB.
    """
    loaded = tuple(name in sys.modules for name in _BRING_THEIR_OWN)
    context: AbstractContextManager[Any] = _controller(loaded).limit(limits=1)
    return context

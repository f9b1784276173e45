"""One BLAS thread: a product split over threads may add in another order and change its last bits."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any

import scipy.linalg  # noqa: F401  (so that SciPy's own BLAS is loaded before the controller looks for libraries)
from threadpoolctl import ThreadpoolController

__all__ = ["one_thread"]


@functools.cache
def _controller() -> Any:
    return ThreadpoolController()  # looking for libraries takes milliseconds: once a process


def one_thread() -> AbstractContextManager[Any]:
    """Return a context in which BLAS and OpenMP use one thread, whatever the environment says."""
    context: AbstractContextManager[Any] = _controller().limit(limits=1)
    return context

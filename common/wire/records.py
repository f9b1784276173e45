"""A vector as the arrays of somebody's model and back, and what our records are called in Flower's messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zofedht.common.typing import Vector

__all__ = ["ARRAYS", "CONFIG", "METRICS", "OURS", "PARTITION", "STARTS", "flattened", "shaped"]

ARRAYS = "arrays"
"""Flower's name of the model's arrays."""

CONFIG = "config"
"""Flower's name of what the app's author sends."""

METRICS = "metrics"
"""Flower's name of the numbers of an answer."""

OURS = "zofedht"
"""What this package says to itself."""

STARTS = "asks-start"
"""In ``OURS``: whether a client is asked who it is, and not for steps."""

PARTITION = "partition-id"
"""Flower's name of the number of a node's rows; in ``OURS``, -1 where the node has none."""


def flattened(arrays: Sequence[NDArray[Any]]) -> Vector:
    """Return the numbers of all arrays, one after another: (n,).

    Examples
    --------
    >>> flattened([np.array([[1, 2], [3, 4]]), np.array([5.5])]).tolist()
    [1.0, 2.0, 3.0, 4.0, 5.5]
    """
    return np.concatenate([np.empty(0), *(np.asarray(array, dtype=np.float64).ravel() for array in arrays)])


def shaped(x: Vector, like: Sequence[NDArray[Any]], *, typed: bool = False) -> list[NDArray[Any]]:
    """Return x, (n,), as arrays of these shapes, and of their types where ``typed``.

    Examples
    --------
    >>> shaped(np.arange(3.0), [np.zeros((2, 1), np.float32), np.zeros(1)])
    [array([[0.],
           [1.]]), array([2.])]
    """
    ends = np.cumsum([array.size for array in like])[:-1]
    parts = [part.reshape(array.shape) for part, array in zip(np.split(x, ends), like, strict=True)]
    return [part.astype(array.dtype) if typed else part for part, array in zip(parts, like, strict=True)]

"""The losses of ``common.objectives.losses`` for one score, for compiled loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from common.jit import bits_of, compiled, float_of
from common.objectives.losses import HINGE, LOGISTIC, SQUARED_HINGE, ScoreLoss

__all__ = ["CODES", "HINGE_CODE", "LOGISTIC_CODE", "SQUARED_HINGE_CODE", "change_of_loss", "exponential", "loss_of", "sigmoid"]

LOGISTIC_CODE, HINGE_CODE, SQUARED_HINGE_CODE = 0, 1, 2

CODES: dict[ScoreLoss, int] = {LOGISTIC: LOGISTIC_CODE, HINGE: HINGE_CODE, SQUARED_HINGE: SQUARED_HINGE_CODE}
"""Compiled code branches on a number; losses without one take NumPy's path."""

_TINY = 1e-3
_LOG2_E = 1.0 / math.log(2.0)
_ROUNDER = 1.5 * 2.0**52
_LOG_2_HIGH = float.fromhex("0x1.62e42feep-1")
_LOG_2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
"""log(2) in two parts, the first short enough that k times it is exact."""
_ONE = np.int64(1023 << 52)
_T3, _T4, _T5, _T6, _T7, _T8, _T9, _T10, _T11, _T12, _T13 = (1.0 / math.factorial(i) for i in range(3, 14))


@compiled
def exponential(a: Any) -> Any:
    """Return e^a to some 2 units in the last place, as code that vectorises; e^-708 and e^708 beyond them.

    e^a = 2^k e^r with |r| <= log(2)/2: k is found by adding _ROUNDER, whose last bits are units, and the
    series of e^r is cut where its rest is below the last place.
    """
    a = min(max(a, -708.0), 708.0)
    shifted = a * _LOG2_E + _ROUNDER
    k = shifted - _ROUNDER
    r = (a - k * _LOG_2_HIGH) - k * _LOG_2_LOW
    p = r * _T13 + _T12
    p = p * r + _T11
    p = p * r + _T10
    p = p * r + _T9
    p = p * r + _T8
    p = p * r + _T7
    p = p * r + _T6
    p = p * r + _T5
    p = p * r + _T4
    p = p * r + _T3
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return p * float_of((bits_of(shifted) << np.int64(52)) + _ONE)


@compiled
def sigmoid(a: Any) -> Any:
    """Return 1/(1 + e^-a)."""
    return 1.0 / (1.0 + exponential(-a))


@compiled
def _softplus(a: Any) -> Any:
    return max(a, 0.0) + math.log1p(exponential(-abs(a)))


@compiled
def _expm1(t: Any) -> Any:
    if abs(t) < _TINY:  # five terms of the series are exact to the last bit there, and cost a tenth
        return t * (1.0 + t * (0.5 + t * (1.0 / 6.0 + t * (1.0 / 24.0 + t * (1.0 / 120.0)))))
    return math.expm1(t)


@compiled
def _log1p(t: Any) -> Any:
    if abs(t) < _TINY:
        return t * (1.0 - t * (0.5 - t * (1.0 / 3.0 - t * (0.25 - t * (0.2 - t * (1.0 / 6.0))))))
    return math.log1p(t)


@compiled
def loss_of(code: Any, a: Any, y: Any) -> Any:
    """Return the loss of score a at label y."""
    if code == LOGISTIC_CODE:
        return _softplus(a) - y * a
    margin = max(0.0, 1.0 - (2.0 * y - 1.0) * a)
    return margin if code == HINGE_CODE else 0.5 * margin * margin


@compiled
def change_of_loss(code: Any, a: Any, delta: Any, y: Any) -> Any:
    """Return loss(a + delta) - loss(a) without cancellation."""
    if code == LOGISTIC_CODE:
        if abs(delta) > 1.0:
            return _softplus(a + delta) - _softplus(a) - delta * y
        return _log1p(_expm1(delta) * sigmoid(a)) - delta * y
    sign = 2.0 * y - 1.0
    above, below = max(0.0, 1.0 - sign * (a + delta)), max(0.0, 1.0 - sign * a)
    # Where both ends are active m+ - m- is -t delta; saying so keeps its last digits.
    change = -sign * delta if above > 0.0 and below > 0.0 else above - below
    return change if code == HINGE_CODE else change * (above + below) * 0.5

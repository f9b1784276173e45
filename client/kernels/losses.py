"""The losses of ``zofedht.common.models.losses`` for one score, for compiled loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from zofedht.common.models.losses import HINGE, LOGISTIC, SQUARED_HINGE, ScoreLoss
from zofedht.common.random.jit import compiled, compiled_sums, horner

__all__ = [
    "CODES",
    "HINGE_CODE",
    "LOGISTIC_CODE",
    "SQUARED_HINGE_CODE",
    "exponential",
    "is_small",
    "sigmoid",
    "sigmoid_rise",
    "totals",
]

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
_EVEN_ARTANH, _ODD_ARTANH = (tuple(1.0 / (2 * term + 1) for term in range(last, -1, -2)) for last in (16, 15))
_SERIES = tuple(1.0 / math.factorial(i) for i in range(13, -1, -1))


@compiled
def exponential(a: Any) -> Any:
    """Return e^a to some 2 units in the last place, as code that vectorises; e^-708 and e^708 beyond them.

    e^a = 2^k e^r with |r| <= log(2)/2: k is found by adding _ROUNDER, whose last bits are units, and the
    series of e^r is cut where its rest is below the last place.
    """
    a = -708.0 if a < -708.0 else 708.0 if a > 708.0 else a  # not min and max: NaN must stay NaN
    shifted = a * _LOG2_E + _ROUNDER
    k = shifted - _ROUNDER
    r = (a - k * _LOG_2_HIGH) - k * _LOG_2_LOW
    p = horner(_SERIES, r)
    power = np.int64((np.float64(shifted).view(np.int64) << np.int64(52)) + _ONE)
    return p * power.view(np.float64)


@compiled
def _clipped(a: Any) -> Any:
    """Return max(a, 0), and NaN for NaN."""
    return 0.0 if a < 0.0 else a


@compiled
def sigmoid(a: Any) -> Any:
    """Return 1/(1 + e^-a)."""
    return 1.0 / (1.0 + exponential(-a))


@compiled
def _expm1_series(t: Any) -> Any:
    """Return e^t - 1 for |t| < _TINY, to the last place."""
    return t * (1.0 + t * (0.5 + t * (1.0 / 6.0 + t * (1.0 / 24.0 + t * (1.0 / 120.0)))))


@compiled
def is_small(t: Any) -> Any:
    """Whether series of t to the last place are short; not for NaN."""
    return abs(t) < _TINY


@compiled
def sigmoid_rise(chance: Any, t: Any) -> Any:
    """Return sigmoid(a + t) - chance for a small t and chance = sigmoid(a), without cancellation."""
    growth = _expm1_series(t)
    return chance * (1.0 - chance) * growth / (1.0 + chance * growth)


@compiled
def _log1p_series(t: Any) -> Any:
    """Return log(1 + t) for |t| < _TINY, to the last place."""
    return t * (1.0 - t * (0.5 - t * (1.0 / 3.0 - t * (0.25 - t * (0.2 - t * (1.0 / 6.0))))))


@compiled_sums
def totals(code: Any, a: Any, delta: Any, y: Any) -> Any:
    """Return the sums over samples of loss(a + delta) - loss(a), without cancellation, and of loss(a).

    a, delta and y are (samples,) scores, changes of them, and labels.
    """
    change, loss = 0.0, 0.0
    large = 0
    for i in range(delta.shape[0]):
        large += 0 if is_small(delta[i]) else 1
    if code == LOGISTIC_CODE and large == 0:
        for i in range(a.shape[0]):  # no branch and no call, so that it becomes vector code
            small = exponential(-abs(a[i]))
            above = 1.0 / (1.0 + small)
            chance = above if a[i] >= 0.0 else 1.0 - above
            change += _log1p_series(_expm1_series(delta[i]) * chance) - delta[i] * y[i]
            loss += _clipped(a[i]) + _log1p_of_unit(small) - y[i] * a[i]
        return change, loss
    for i in range(a.shape[0]):
        more, level = _change_and_loss(code, a[i], delta[i], y[i])
        change += more
        loss += level
    return change, loss


@compiled
def _log1p_of_unit(t: Any) -> Any:
    """Return log(1 + t) for 0 <= t <= 1: 2 artanh(t/(2 + t)), whose series ends below the last place.

    Its even and odd terms are summed side by side: one chain would wait for each multiplication to end.
    """
    z = t / (2.0 + t)
    square = z * z
    fourth = square * square
    return 2.0 * z * (horner(_EVEN_ARTANH, fourth) + square * horner(_ODD_ARTANH, fourth))


@compiled
def _change_and_loss(code: Any, a: Any, delta: Any, y: Any) -> Any:
    """Return loss(a + delta) - loss(a) without cancellation, and loss(a), at label y."""
    if code == LOGISTIC_CODE:
        small = exponential(-abs(a))
        softplus = _clipped(a) + math.log1p(small)
        if abs(delta) > 1.0:
            change = _clipped(a + delta) + math.log1p(exponential(-abs(a + delta))) - softplus
        else:
            change = math.log1p(math.expm1(delta) * ((1.0 if a >= 0.0 else small) / (1.0 + small)))
        return change - delta * y, softplus - y * a
    sign = 2.0 * y - 1.0
    above, below = _clipped(1.0 - sign * (a + delta)), _clipped(1.0 - sign * a)
    # Where both ends are active m+ - m- is -t delta; saying so keeps its last digits.
    change = -sign * delta if above > 0.0 and below > 0.0 else above - below
    if code == HINGE_CODE:
        return change, below
    return change * (above + below) * 0.5, 0.5 * below * below

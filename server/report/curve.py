"""A curve of losses as SVG, which any browser draws without a script or another file."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["curve_svg"]

_WIDTH, _HEIGHT = 640, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 12, 12, 36  # margins
_LINEAR_RANGE = 20.0  # losses that span more than this factor are drawn on a logarithmic axis
_BEGINNING = 0.1  # of the run; what lies above all later losses then is cut off
_TICKS = 4
_MOST_POINTS = 2_000


def curve_svg(along: Sequence[float], losses: Sequence[float | None], best: int | None = None, unit: str = "") -> str:
    """Return the losses over ``along`` as an SVG element; ``best`` is the number of a point that is marked.

    A loss that is not finite is a gap. Returns an empty text where there are fewer than two losses to draw.
    """
    values = enumerate(zip(along, losses, strict=True))
    points = [(x, y, index) for index, (x, y) in values if y is not None and math.isfinite(y)]
    if len(points) < 2 or points[0][0] == points[-1][0]:
        return ""
    stride = -(-len(points) // _MOST_POINTS)
    points = [point for place, point in enumerate(points) if place % stride == 0 or point[2] == best]
    low, high = min(y for _, y, _ in points), _highest(points)
    is_log = low > 0.0 and high > _LINEAR_RANGE * low
    level = math.log10 if is_log else float
    bottom, top = level(low), level(high)
    top = top if top > bottom else bottom + max(1.0, abs(bottom))
    first, last = points[0][0], points[-1][0]

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - first) / (last - first)
        up = (min(level(y), top) - bottom) / (top - bottom)
        return _LEFT + across * (_WIDTH - _LEFT - _RIGHT), _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM)

    drawn = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y, _ in points)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="loss over {unit}">',
        *_scale(first, last, bottom, top, is_log=is_log, unit=unit),
        f'<polyline points="{drawn}" fill="none" stroke="#0072b2" stroke-width="2"/>',
    ]
    for x, y, index in points:
        if index == best:
            across, down = place(x, y)
            dot = f'<circle cx="{across:.1f}" cy="{down:.1f}" r="5" fill="#d55e00"/>'
            parts.append(dot)
    return "".join([*parts, "</svg>"])


def _highest(points: Sequence[tuple[float, float, int]]) -> float:
    """Return the highest loss that is shown: a peak in the beginning of a run would press all others flat."""
    later = [y for _, y, _ in points[int(_BEGINNING * len(points)) :]]
    return max(points[0][1], *later)


def _scale(first: float, last: float, bottom: float, top: float, *, is_log: bool, unit: str) -> list[str]:
    """Return the axes with their numbers."""
    right, floor = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    parts = [f'<path d="M{_LEFT},{_TOP}V{floor}H{right}" fill="none" stroke="#888"/>']
    for tick in range(_TICKS + 1):
        part = tick / _TICKS
        value, down = bottom + part * (top - bottom), floor - part * (floor - _TOP)
        shown = f"{10.0**value if is_log else value:.3g}"
        parts.append(f'<text x="{_LEFT - 6}" y="{down + 4:.1f}" text-anchor="end">{shown}</text>')
        across = _LEFT + part * (right - _LEFT)
        number = _count(first + part * (last - first))
        anchor = "end" if tick == _TICKS else "middle"
        parts.append(f'<text x="{across:.1f}" y="{floor + 16}" text-anchor="{anchor}">{number}</text>')
    parts.append(f'<text x="{right}" y="{floor + 31}" text-anchor="end">{unit}</text>')
    return parts


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= _TICKS else f"{value:.3g}"

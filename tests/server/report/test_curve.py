"""The curve of losses as SVG."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest

from zofedht.server.report.curve import curve_svg


def places(svg: str) -> list[tuple[float, float]]:
    points = ElementTree.fromstring(svg).find("polyline").attrib["points"]  # type: ignore[union-attr]
    return [tuple(map(float, point.split(","))) for point in points.split()]  # type: ignore[misc]


def test_lower_losses_lie_lower():
    drawn = places(curve_svg([0, 10, 30], [3.0, 2.0, 1.0]))
    assert [across for across, _ in drawn] == sorted(across for across, _ in drawn)
    downs = [down for _, down in drawn]
    assert downs == sorted(downs)
    assert drawn[1][0] - drawn[0][0] == pytest.approx((drawn[2][0] - drawn[0][0]) / 3, abs=0.2)


def test_wide_ranges_are_logarithmic():
    downs = [down for _, down in places(curve_svg([0, 1, 2], [100.0, 1.0, 0.01]))]
    assert downs[1] - downs[0] == pytest.approx(downs[2] - downs[1], abs=0.2)


def test_a_peak_in_the_beginning_is_cut_off():
    losses = [2.0, 1e9, *[2.0 - 0.01 * index for index in range(98)]]
    drawn = places(curve_svg(list(range(100)), losses))
    assert drawn[1][1] == drawn[0][1] < drawn[-1][1]


@pytest.mark.parametrize("loss", [5e307, -5e307, 1e-300, 0.0])
def test_losses_that_are_all_equal_are_a_line(loss: float):
    ElementTree.fromstring(curve_svg([0.0, 1.0, 2.0], [loss, loss, loss]))


def test_the_best_point_is_marked():
    svg = curve_svg([0, 1, 2], [3.0, 1.0, 2.0], best=1)
    circle = re.search(r'<circle cx="([\d.]+)" cy="([\d.]+)"', svg)
    assert circle
    assert (float(circle[1]), float(circle[2])) == places(svg)[1]


def test_gaps_are_left_out():
    assert len(places(curve_svg([0, 1, 2, 3], [3.0, None, math.nan, 2.0]))) == 2
    assert curve_svg([0, 1], [3.0, None]) == curve_svg([], []) == curve_svg([5, 5], [1.0, 2.0]) == ""


def test_long_runs_stay_small_and_keep_the_mark():
    svg = curve_svg(list(range(10**5)), [1.0 / (1 + index) for index in range(10**5)], best=77_777)
    assert len(svg) < 60_000
    assert "<circle" in svg

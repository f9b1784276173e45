"""Stiff directions: what objectives may name, and the guide that is made of all clients'."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.common.samples import model
from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.base import Objective
from zofedht.common.objective.scaling import in_search_units
from zofedht.common.objective.stiff import stiff_directions, stiff_guide
from zofedht.common.typing import Indices, Matrix, Vector


class _Named(Objective):
    dim = 3

    def __init__(self, stiff: Any, scale: Any = None) -> None:
        self._stiff = stiff
        self.scale = scale

    def value(self, x: Vector, batch: Indices | slice) -> float:
        return float(x @ x)

    def stiff(self, x: Vector) -> Matrix | None:
        if isinstance(self._stiff, Exception):
            raise self._stiff
        return self._stiff  # type: ignore[no-any-return]


def _of(stiff: Any, scale: Any = None) -> Matrix | None:
    return stiff_directions(in_search_units(_Named(stiff, scale)), np.zeros(3))


def test_directions_become_columns_of_unit_length() -> None:
    np.testing.assert_allclose(_of([[0.0, 3.0, 4.0], [2.0, 0.0, 0.0]]), [[0.0, 1.0], [0.6, 0.0], [0.8, 0.0]])
    np.testing.assert_allclose(_of([0.0, 0.0, 5.0]), [[0.0], [0.0], [1.0]])


@pytest.mark.parametrize("nothing", [None, [[0.0, 0.0, 0.0]], np.empty((0, 3))])
def test_an_objective_may_name_none(nothing: Any) -> None:
    assert _of(nothing) is None


def test_in_search_units_they_bend_with_the_scale() -> None:
    # F(x) = (d.x)^2 with x = scale z bends along scale d.
    np.testing.assert_allclose(_of([[1.0, 1.0, 0.0]], scale=[3.0, 4.0, 1.0]), [[0.6], [0.8], [0.0]])


@pytest.mark.parametrize(
    "wrong", [[[1.0, 2.0]], [[1.0, np.nan, 0.0]], "north", np.ones((101, 3)), np.ones((1, 1, 3)), [[1.0, "a", 2.0]]]
)
def test_anything_else_is_refused(wrong: Any) -> None:
    with pytest.raises(ObjectiveError, match=r"^stiff\(x\) must return") as caught:
        _of(wrong)
    assert caught.value.cause == "unusable"


def test_what_stiff_raises_is_told_with_its_line() -> None:
    with pytest.raises(ObjectiveError, match="no idea"):
        _of(ValueError("no idea"))


def test_the_guide_spans_what_clients_have_in_common() -> None:
    one, other = np.eye(3)[:, :1], np.eye(3)[:, 1:2]
    np.testing.assert_allclose(np.abs(stiff_guide([one, one, -one])), one, atol=1e-12)
    middle = stiff_guide([(one + 0.1 * other) / np.sqrt(1.01), (one - 0.1 * other) / np.sqrt(1.01)])
    np.testing.assert_allclose(np.abs(middle), one, atol=1e-12)


def test_the_guide_is_orthonormal_and_small() -> None:
    rng = np.random.default_rng(0)
    common = rng.standard_normal((20, 2))
    told = []
    for _ in range(5):
        mine = common + 0.05 * rng.standard_normal((20, 2))
        told.append(mine / np.linalg.norm(mine, axis=0))
    guide = stiff_guide(told)
    assert guide.shape == (20, 2)
    np.testing.assert_allclose(guide.T @ guide, np.eye(2), atol=1e-12)
    inside = np.linalg.qr(common)[0]
    assert np.linalg.norm(guide - inside @ (inside.T @ guide)) < 0.2


def test_what_no_two_clients_share_is_left_out() -> None:
    told = [np.eye(9)[:, [index]] for index in range(9)]
    assert stiff_guide(told).shape == (9, 0)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_linear_models_stiff_direction_is_its_mean_row(kind: str) -> None:
    objective = model("logistic", kind)
    rows = model("logistic").features  # type: ignore[attr-defined]
    found = stiff_directions(objective, objective.zeros())
    np.testing.assert_allclose(found, (rows.mean(axis=0) / np.linalg.norm(rows.mean(axis=0)))[:, None])


@pytest.mark.parametrize("bias", [False, True])
def test_the_networks_stiff_direction_is_its_output_weights(bias: bool) -> None:
    """Along it F bends more than along nearly all directions."""
    objective = model("mlp", bias=bias)
    x = objective.initial(np.random.default_rng(1))
    assert x is not None
    found = stiff_directions(objective, x)
    assert found is not None

    def bend(d: Vector) -> float:
        ends = [objective.value(x + step * d, slice(None)) for step in (1e-3, 0.0, -1e-3)]
        return (ends[0] - 2.0 * ends[1] + ends[2]) / 1e-6

    others = np.random.default_rng(2).standard_normal((50, objective.dim))
    assert bend(found[:, 0]) > np.max([bend(d / np.linalg.norm(d)) for d in others])

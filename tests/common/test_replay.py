"""A replay is the move that the slopes were taken along, and what is not is noticed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.common.samples import orthonormal
from tests.helpers import broadcast, changed
from zofedht.common.directions import law
from zofedht.common.directions.law import law_of, slot_directions, subspace_gain
from zofedht.common.random import streams
from zofedht.common.random.streams import stream
from zofedht.common.replay import SKETCH_SUMS, Replay, agrees, draw_digest, replay, sketch
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.messages import Broadcast

_N, _K = 30, 20
_Q = orthonormal(_N, 3)
_SLOPES = np.random.default_rng(3).standard_normal(_K)
_PLAIN = broadcast(slot=2, dimension=_N, local_steps=_K, uplink="slopes", x=np.full(_N, 0.5))


def replayed(asked: Broadcast, basis: Matrix | None, slopes: Vector) -> Replay:
    with np.errstate(over="ignore"):
        return replay(asked, basis, asked.spec.step_size * slopes)


def along(covariance: str) -> Broadcast:
    return changed(
        _PLAIN, basis_version=4, basis_rank=3, subspace_weight=0.3, subspace_gain=subspace_gain(covariance, _N, 3)
    )


CASES = [(_PLAIN, None), (along("paper"), _Q), (along("trace"), _Q), (changed(_PLAIN, direction_slot=0), None)]


def directions(asked: Broadcast, basis: Matrix | None) -> Matrix:
    law = law_of(asked.spec, asked.dimension, basis)
    return np.concatenate(list(slot_directions(law, _K, asked.address)))


def stepped(asked: Broadcast, basis: Matrix | None) -> Vector:
    """Return the move as a client takes it, step by step from x."""
    w = asked.x.copy()
    for c, v in zip(_SLOPES, directions(asked, basis), strict=True):
        w -= asked.spec.step_size * c * v
    return w - asked.x


@pytest.mark.parametrize(("asked", "basis"), CASES)
def test_a_replay_is_the_move_of_the_steps(asked: Broadcast, basis: Matrix | None) -> None:
    again = replayed(asked, basis, _SLOPES)
    np.testing.assert_allclose(again.move, stepped(asked, basis), rtol=1e-12, atol=1e-13)
    assert agrees(sketch(stepped(asked, basis)), _SLOPES, asked, again.sums)


@pytest.mark.parametrize(("asked", "basis"), CASES)
def test_the_sums_are_sums_of_the_directions(asked: Broadcast, basis: Matrix | None) -> None:
    sums = replayed(asked, basis, _SLOPES).sums
    assert sums.shape == (_K, SKETCH_SUMS)
    np.testing.assert_array_equal(sums, [sketch(v) for v in directions(asked, basis)])
    np.testing.assert_allclose(sums.sum(axis=1), directions(asked, basis).sum(axis=1), rtol=1e-12)


def test_an_isotropic_replay_ignores_the_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = replayed(_PLAIN, None, _SLOPES)
    monkeypatch.setattr(law, "BLOCK_BYTES", 8 * _N * 3)
    parts = replayed(_PLAIN, None, _SLOPES)
    assert parts.move.tobytes() == whole.move.tobytes()
    assert parts.sums.tobytes() == whole.sums.tobytes()


def test_a_long_vector_is_replayed_whole() -> None:
    asked = changed(_PLAIN, x=np.zeros(20_011))
    again = replayed(asked, None, _SLOPES)
    v = directions(asked, None)
    np.testing.assert_allclose(again.move, -asked.spec.step_size * _SLOPES @ v, rtol=1e-9, atol=1e-12)
    assert agrees(sketch(again.move), _SLOPES, asked, again.sums)


@pytest.mark.parametrize("dimension", [1, 2, 3, 5])
def test_fewer_coordinates_than_parts_can_be_sketched(dimension: int) -> None:
    asked = changed(_PLAIN, x=np.zeros(dimension))
    again = replayed(asked, None, _SLOPES)
    assert sketch(again.move).shape == (SKETCH_SUMS,)
    assert agrees(sketch(again.move), _SLOPES, asked, again.sums)
    assert not agrees(sketch(-again.move), _SLOPES, asked, again.sums)


@pytest.mark.parametrize(
    "changes",
    [
        *({"seed": 1}, {"round": 5}, {"slot": 3}, {"direction_slot": 0}, {"step_size": 0.1 * (1 + 1e-6)}),
        *({"subspace_weight": 0.3001}, {"subspace_gain": 1.0001}, {"subspace_weight": 0.0}),
    ],
)
def test_a_client_with_other_directions_does_not_agree(changes: dict[str, Any]) -> None:
    asked = along("trace")
    other = replayed(changed(asked, **changes), _Q, _SLOPES)
    assert not agrees(sketch(other.move), _SLOPES, asked, replayed(asked, _Q, _SLOPES).sums)


def test_a_client_with_another_basis_does_not_agree() -> None:
    asked = along("trace")
    other = replayed(asked, orthonormal(_N, 3, seed=9), _SLOPES)
    assert not agrees(sketch(other.move), _SLOPES, asked, replayed(asked, _Q, _SLOPES).sums)


@pytest.mark.parametrize("k", [0, _K - 1])
def test_one_wrong_number_does_not_agree(k: int) -> None:
    again = replayed(_PLAIN, None, _SLOPES)
    other = _SLOPES.copy()
    other[k] *= 1 + 1e-6
    assert not agrees(sketch(again.move), other, _PLAIN, again.sums)
    moved = again.move.copy()
    moved[k] += 1e-6
    assert not agrees(sketch(moved), _SLOPES, _PLAIN, again.sums)


def test_a_large_x_still_agrees() -> None:
    far = changed(_PLAIN, x=np.full(_N, 1e6 / 3.0))
    assert agrees(sketch(stepped(far, None)), _SLOPES, far, replayed(far, None, _SLOPES).sums)


def test_overflowing_slopes_agree_with_nothing() -> None:
    huge = np.full(_K, 1e308)
    again = replayed(changed(_PLAIN, step_size=1e5), None, huge)
    assert not np.all(np.isfinite(again.move))
    assert not agrees(np.zeros(SKETCH_SUMS), huge, changed(_PLAIN, step_size=1e5), again.sums)


def test_the_draw_digest_is_short_and_steady() -> None:
    assert draw_digest() == draw_digest()
    assert len(draw_digest()) == 16


def test_the_draw_digest_depends_on_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = draw_digest()
    draw_digest.cache_clear()
    monkeypatch.setattr(streams, "stream", lambda seed, *rest: stream(seed + 1, *rest))
    assert draw_digest() != expected
    draw_digest.cache_clear()

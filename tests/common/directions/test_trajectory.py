"""The basis spans what was travelled, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from zofedht.common.directions.trajectory import basis_of

DIMENSION = 30
MOVES = list(np.random.default_rng(1).standard_normal((5, DIMENSION)))
ZERO = np.zeros(DIMENSION)


def projector(basis: np.ndarray) -> np.ndarray:
    return basis @ basis.T


def with_entry(move: np.ndarray, value: float) -> np.ndarray:
    changed = move.copy()
    changed[7] = value
    return changed


def assert_same_span(basis: np.ndarray, other: np.ndarray) -> None:
    assert basis.shape == other.shape
    np.testing.assert_allclose(projector(basis), projector(other), atol=1e-12)


def test_basis_spans_what_qr_spans():
    assert_same_span(basis_of(MOVES), np.linalg.qr(np.stack(MOVES, axis=1))[0])


def test_basis_columns_are_orthonormal():
    basis = basis_of(MOVES)
    np.testing.assert_allclose(basis.T @ basis, np.eye(5), atol=1e-14)


def test_basis_leaves_every_move_where_it_is():
    basis = basis_of(MOVES)
    for move in MOVES:
        np.testing.assert_allclose(projector(basis) @ move, move, atol=1e-13)


def test_order_and_lengths_leave_the_basis():
    scaled = [factor * move for factor, move in zip((1e-3, 5.0, 1.0, 70.0, 0.2), reversed(MOVES), strict=True)]
    assert_same_span(basis_of(scaled), basis_of(MOVES))


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param(ZERO, id="zero"),
        pytest.param(MOVES[0], id="repeated"),
        pytest.param(-3.0 * MOVES[1], id="reversed"),
        pytest.param(MOVES[0] + MOVES[1], id="sum"),
        pytest.param(with_entry(MOVES[3], np.nan), id="NaN"),
        pytest.param(with_entry(MOVES[3], np.inf), id="inf"),
        pytest.param(with_entry(MOVES[3], -np.inf), id="minus inf"),
        pytest.param(1e-14 * MOVES[3], id="relatively tiny"),
        pytest.param(1e-200 * MOVES[3], id="absolutely tiny"),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_basis_ignores_directions_never_travelled(extra: np.ndarray, place: int):
    moves = [MOVES[0], MOVES[1]]
    moves.insert(place, extra)
    assert_same_span(basis_of(moves), basis_of(MOVES[:2]))


def test_reordered_moves_reorder_the_columns():
    order = [3, 0, 4, 2, 1]
    np.testing.assert_allclose(basis_of([MOVES[i] for i in order]), basis_of(MOVES)[:, order], atol=1e-14)


def test_lengths_do_not_count_but_signs_do():
    factors = np.array([1e-3, -5.0, 1.0, -70.0, 0.2])
    scaled = [factor * move for factor, move in zip(factors, MOVES, strict=True)]
    np.testing.assert_allclose(basis_of(scaled), basis_of(MOVES) * np.sign(factors), atol=1e-14)


@pytest.mark.parametrize("size", [1e-15, 1e-9, 1e-4])
@pytest.mark.parametrize(
    "moves",
    [
        pytest.param(MOVES, id="any"),
        pytest.param(list(np.eye(DIMENSION)[:5]), id="orthogonal"),  # no gap between singular values
        pytest.param([MOVES[0], MOVES[0] + 0.1 * MOVES[1]], id="nearly parallel"),
    ],
)
def test_the_basis_is_continuous_in_the_moves(moves: list[np.ndarray], size: float):
    """At most (2 / (s + s') + 1 / max(s, s')) |change| (Li, 1993), s and s' the smallest singular values."""
    changed = [move + size * change for move, change in zip(moves, reversed(MOVES), strict=False)]
    before, after = (np.stack([move / np.linalg.norm(move) for move in side], axis=1) for side in (moves, changed))
    smallest = [np.linalg.svd(side, compute_uv=False)[-1] for side in (before, after)]
    bound = (2.0 / sum(smallest) + 1.0 / max(smallest)) * np.linalg.norm(after - before)
    assert np.linalg.norm(basis_of(changed) - basis_of(moves)) <= bound + 1e-14


def test_last_bits_of_repeated_moves_keep_the_basis():
    moves = [np.eye(DIMENSION)[0], np.eye(DIMENSION)[1]] * 2
    changed = [move + 1e-16 * change for move, change in zip(moves, MOVES, strict=False)]
    np.testing.assert_allclose(basis_of(changed), basis_of(moves), atol=1e-14)


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-200, 1e-20, 1e20, 1e200, 1e307])
def test_a_common_scale_leaves_the_basis(scale: float):
    # Powers of two, so that scaling to a subnormal loses nothing.
    moves = [np.eye(4)[0] + np.eye(4)[1], np.eye(4)[1] + np.eye(4)[2]]
    assert_same_span(basis_of([scale * move for move in moves]), basis_of(moves))


def test_a_very_short_move_is_still_a_direction():
    assert_same_span(basis_of([MOVES[0], 1e-6 * MOVES[1]]), basis_of(MOVES[:2]))


def test_beside_a_huge_move_a_usual_one_is_rounding():
    assert_same_span(basis_of([1e200 * MOVES[0], MOVES[1]]), basis_of(MOVES[:1]))


@pytest.mark.parametrize(
    "moves", [[ZERO], [ZERO, ZERO, ZERO], [with_entry(ZERO, np.nan)], [with_entry(ZERO, np.inf), ZERO]]
)
def test_without_a_usable_move_there_is_no_column(moves: list[np.ndarray]):
    assert basis_of(moves).shape == (DIMENSION, 0)


def test_without_any_move_there_is_no_column():
    assert basis_of([]).shape[1] == 0


def test_rank_is_at_most_the_dimension():
    basis = basis_of(list(np.random.default_rng(2).standard_normal((6, 3))))
    np.testing.assert_allclose(projector(basis), np.eye(3), atol=1e-14)


def test_basis_is_the_same_bit_for_bit_each_time():
    assert basis_of(MOVES).tobytes() == basis_of([move.copy() for move in MOVES]).tobytes()

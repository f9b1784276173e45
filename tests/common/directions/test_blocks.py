"""Directions of low rank: the rank of their blocks, what stays, and the second moment over all rounds."""

from __future__ import annotations

import numpy as np
import pytest

from zofedht.common.directions.law import DirectionLaw, slot_directions
from zofedht.common.random.streams import Address, stream
from zofedht.common.typing import Matrix

_BLOCKS, _N = "4x3,5x2", 25  # 12 and 10 numbers, and 3 beside them
LAWS = ["lowrank", "subspace-core"]


def _drawn(law: str, round_: int = 0, count: int = 8, rank: int = 2, block_bytes: int | None = None) -> Matrix:
    made = DirectionLaw(_N, law=law, blocks=_BLOCKS, rank=rank, side_rounds=5)
    return np.concatenate(list(slot_directions(made, count, Address(1, round_, 3), block_bytes=block_bytes)))


@pytest.mark.parametrize("law", LAWS)
def test_blocks_have_the_rank_and_the_rest_is_isotropic(law: str) -> None:
    plain = stream(1, "directions", 0, 3).standard_normal((8, _N))
    for v in (whole := _drawn(law, rank=1)):
        assert np.linalg.matrix_rank(v[:12].reshape(4, 3)) == 1
        assert np.linalg.matrix_rank(v[12:22].reshape(5, 2)) == 1
    np.testing.assert_array_equal(whole[:, 22:], plain[:, 22:])
    assert _drawn(law, block_bytes=8 * _N * 3).tobytes() == _drawn(law).tobytes()
    no_blocks = DirectionLaw(_N, law=law)
    np.testing.assert_array_equal(np.concatenate(list(slot_directions(no_blocks, 8, Address(1, 0, 3)))), plain)


@pytest.mark.parametrize("law", LAWS)
def test_a_side_stays_for_its_rounds(law: str) -> None:
    """The rows of a block lie in one plane for five rounds, and in another one after."""

    def rows(rounds: tuple[int, ...]) -> Matrix:
        return np.concatenate([_drawn(law, round_)[:, :12].reshape(-1, 3) for round_ in rounds])

    assert np.linalg.matrix_rank(rows((0, 1, 4)), tol=1e-9) == 2
    assert np.linalg.matrix_rank(rows((5, 9)), tol=1e-9) == 2
    assert np.linalg.matrix_rank(rows((4, 5)), tol=1e-9) == 3


@pytest.mark.parametrize("law", LAWS)
def test_the_second_moment_over_all_sides_is_the_identity(law: str) -> None:
    v = np.concatenate([_drawn(law, 5 * round_, count=2) for round_ in range(6000)])
    squares = v * v
    assert np.all(np.abs(squares.mean(axis=0) - 1.0) <= 6.0 * squares.std(axis=0) / np.sqrt(6000))
    moment = v.T @ v / len(v)
    assert np.max(np.abs(moment - np.diag(np.diag(moment)))) <= 6.0 * 2.0 / np.sqrt(6000)

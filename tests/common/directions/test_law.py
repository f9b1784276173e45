"""Directions: their second moment is the covariance of the docstring, and they depend on the address alone."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.common.samples import orthonormal
from tests.helpers import spec
from zofedht.common.directions import law as directions
from zofedht.common.directions.law import DirectionLaw, law_of, slot_directions, subspace_gain
from zofedht.common.directions.probes import LAWS
from zofedht.common.random.streams import Address, stream
from zofedht.common.typing import Matrix

_N, _RANK = 7, 3


def _law(weight: float = 0.4, covariance: str = "trace", basis: Matrix | None = None) -> DirectionLaw:
    basis = orthonormal(_N, _RANK) if basis is None else basis
    return DirectionLaw(_N, basis, weight, subspace_gain(covariance, _N, basis.shape[1]))


def _drawn(law: DirectionLaw, steps: int = 20, seed: int = 1, round_: int = 2, slot: int = 3) -> Matrix:
    return np.concatenate(list(slot_directions(law, steps, Address(seed, round_, slot))))


def _assert_second_moment(v: Matrix, covariance: Matrix) -> None:
    """Five standard errors: entry (i, j) of the moment has variance (C_ii C_jj + C_ij^2) / count for normal v.

    For the 28 entries of a symmetric 7 x 7 moment the chance of a false alarm is 2e-5, and the seed is fixed.
    """
    diagonal = np.diag(covariance)
    error = np.sqrt((np.outer(diagonal, diagonal) + covariance**2) / len(v))
    assert np.all(np.abs(v.T @ v / len(v) - covariance) <= 5.0 * error + 1e-12)


@pytest.mark.parametrize("covariance", ["paper", "trace"])
@pytest.mark.parametrize("weight", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("rank", [1, 3, 7])
def test_second_moment_is_the_covariance(covariance: str, weight: float, rank: int) -> None:
    q = orthonormal(_N, rank)
    s = 1.0 if covariance == "paper" else _N / rank
    wanted = (1.0 - weight) * np.eye(_N) + weight * s * (q @ q.T)
    _assert_second_moment(_drawn(_law(weight, covariance, q), 40_000), wanted)


def test_second_moment_depends_on_the_span_alone() -> None:
    q, turn = orthonormal(_N, _RANK), orthonormal(_RANK, _RANK, seed=9)
    wanted = 0.6 * np.eye(_N) + 0.4 * (_N / _RANK) * (q @ q.T)
    _assert_second_moment(_drawn(_law(basis=q @ turn), 40_000), wanted)


def test_directions_have_mean_zero() -> None:
    count = 40_000
    v = _drawn(_law(), count)
    # The mean of each coordinate has standard error sd/sqrt(count); five of them, for 7 coordinates.
    assert np.all(np.abs(v.mean(axis=0)) <= 5.0 * v.std(axis=0) / np.sqrt(count))


def test_trace_keeps_the_energy_and_paper_lowers_it() -> None:
    for rank in (1, 2, 5):
        assert 0.7 * _N + 0.3 * subspace_gain("trace", _N, rank) * rank == pytest.approx(_N, rel=1e-15)
        assert subspace_gain("paper", _N, rank) == 1.0


@pytest.mark.parametrize("covariance", ["paper", "trace"])
def test_gain_of_an_empty_basis_is_1(covariance: str) -> None:
    assert subspace_gain(covariance, _N, 0) == 1.0


def test_weight_1_stays_in_the_span_of_the_basis() -> None:
    q = orthonormal(_N, _RANK)
    v = _drawn(_law(1.0, basis=q))
    np.testing.assert_allclose(v @ q @ q.T, v, atol=1e-13)


@pytest.mark.parametrize(
    "law",
    [_law(0.0), _law(0.0, "paper"), DirectionLaw(_N, np.empty((_N, 0)), 0.4), DirectionLaw(_N, None, 0.4)],
    ids=["weight 0", "weight 0, paper", "empty basis", "no basis"],
)
def test_weight_0_or_no_basis_gives_v1(law: DirectionLaw) -> None:
    assert not law.follows_basis
    np.testing.assert_array_equal(_drawn(law), stream(1, "directions", 2, 3).standard_normal((20, _N)))


def test_a_direction_mixes_the_two_streams() -> None:
    q, weight, s = orthonormal(_N, _RANK), 0.4, _N / _RANK
    v1 = stream(1, "directions", 2, 3).standard_normal((20, _N))
    v2 = stream(1, "subspace", 2, 3).standard_normal((20, _RANK))
    wanted = np.sqrt(1 - weight) * v1 + np.sqrt(weight * s) * v2 @ q.T
    np.testing.assert_allclose(_drawn(_law(weight, basis=q)), wanted, rtol=1e-13, atol=1e-14)


def test_directions_are_a_function_of_the_address_alone() -> None:
    np.testing.assert_array_equal(_drawn(_law()), _drawn(_law()))
    for other in ({"seed": 9}, {"round_": 9}, {"slot": 9}):
        assert not np.any(_drawn(_law(), **other) == _drawn(_law()))


def test_slots_that_share_directions_draw_those_of_one_slot() -> None:
    shared = [Address(1, 2, slot, direction_slot=3) for slot in (0, 7)]
    for address in shared:
        np.testing.assert_array_equal(np.concatenate(list(slot_directions(_law(), 20, address))), _drawn(_law()))
    samples = [address.stream("minibatch").integers(0, 1000, 9).tolist() for address in shared]
    assert samples[0] != samples[1]


def test_a_law_takes_the_fields_of_its_spec() -> None:
    q = orthonormal(_N, _RANK)
    given = spec(subspace_weight=0.4, subspace_gain=2.0, probe="sphere")
    assert law_of(given, _N, q) == DirectionLaw(_N, q, 0.4, 2.0, "sphere")


def test_more_steps_begin_with_the_same_directions() -> None:
    np.testing.assert_allclose(_drawn(_law(), 20)[:6], _drawn(_law(), 6), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("steps_in_a_block", [0, 1, 3, 19, 20, 21])
def test_block_size_does_not_change_what_is_drawn(monkeypatch: pytest.MonkeyPatch, steps_in_a_block: int) -> None:
    isotropic = dataclasses.replace(_law(), subspace_weight=0.0)
    whole, whole_isotropic = _drawn(_law()), _drawn(isotropic)
    monkeypatch.setattr(directions, "BLOCK_BYTES", 8 * _N * steps_in_a_block)
    sizes = [len(block) for block in slot_directions(_law(), 20, Address(1, 2, 3))]
    assert sum(sizes) == 20
    assert max(sizes) == min(20, max(1, steps_in_a_block))
    np.testing.assert_array_equal(_drawn(isotropic), whole_isotropic)
    np.testing.assert_allclose(_drawn(_law()), whole, rtol=1e-13, atol=1e-14)  # a product may add in another order


def test_basis_is_left_unchanged() -> None:
    q = orthonormal(_N, _RANK)
    before = q.copy()
    _drawn(_law(basis=q))
    np.testing.assert_array_equal(q, before)


@pytest.mark.parametrize("probe", sorted(LAWS))
def test_a_shrunk_direction_is_the_isotropic_one_but_for_its_part_along_the_guide(probe: str) -> None:
    guide = orthonormal(7, 2)
    plain, shrunk = (
        np.concatenate(list(slot_directions(law, 30, Address(1, 2, 3))))
        for law in (DirectionLaw(7, probe=probe), DirectionLaw(7, guide, probe=probe, shrink=0.2))
    )
    np.testing.assert_allclose(shrunk @ guide, 0.2 * plain @ guide, atol=1e-12)
    beside = np.eye(7) - guide @ guide.T
    np.testing.assert_allclose(shrunk @ beside, plain @ beside, atol=1e-12)


def test_a_shrink_of_one_changes_nothing() -> None:
    one, other = (
        np.concatenate(list(slot_directions(law, 30, Address(1, 2, 3))))
        for law in (DirectionLaw(7), DirectionLaw(7, orthonormal(7, 2), shrink=1.0))
    )
    assert one.tobytes() == other.tobytes()

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
def test_shrinking_changes_the_part_along_the_guide(probe: str) -> None:
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


def _m() -> Matrix:
    return orthonormal(_N, 1)


def _h() -> Matrix:
    return np.array([[4.0], [1.0], [0.25], [9.0], [1.0], [0.5], [2.0]])


def test_a_cone_has_its_second_moment_and_its_mean() -> None:
    m, angle, count = _m(), 1.1, 40_000
    v = _drawn(DirectionLaw(_N, m, law="cone", cone_angle=angle), count)
    across = np.sin(angle) * stream(1, "directions", 2, 3).standard_normal((count, _N))
    np.testing.assert_allclose(v - across, np.tile(np.sqrt(_N) * np.cos(angle) * m.T, (count, 1)), atol=1e-12)
    _assert_second_moment(v, _N * np.cos(angle) ** 2 * m @ m.T + np.sin(angle) ** 2 * np.eye(_N))


def test_a_cone_and_a_stretch_have_one_second_moment() -> None:
    m, angle = _m(), 1.1
    _assert_second_moment(
        _drawn(DirectionLaw(_N, m, np.cos(angle) ** 2, float(_N)), 40_000),
        _N * np.cos(angle) ** 2 * m @ m.T + np.sin(angle) ** 2 * np.eye(_N),
    )


def test_a_cone_of_a_right_angle_ignores_its_guide() -> None:
    np.testing.assert_allclose(
        _drawn(DirectionLaw(_N, _m(), law="cone", cone_angle=np.pi / 2)), _drawn(DirectionLaw(_N)), atol=1e-14
    )


def test_a_diagonal_has_its_second_moment() -> None:
    _assert_second_moment(_drawn(DirectionLaw(_N, _h(), law="diagonal"), 40_000), np.diag(1.0 / _h()[:, 0]))
    ones = DirectionLaw(_N, np.ones((_N, 1)), law="diagonal")
    np.testing.assert_array_equal(_drawn(ones), _drawn(DirectionLaw(_N)))


@pytest.mark.parametrize("chance", [0.2, 0.5, 1.0])
def test_directions_are_either_inside_or_across(chance: float) -> None:
    q, gain, count = orthonormal(_N, _RANK), _N / _RANK, 40_000
    v = _drawn(DirectionLaw(_N, q, chance, gain, law="either"), count)
    inside = np.linalg.norm(v @ q @ q.T - v, axis=1) < 1e-9
    across = np.linalg.norm(v @ q, axis=1) < 1e-9
    assert np.all(inside ^ across)
    assert abs(inside.mean() - chance) <= 5.0 * np.sqrt(chance * (1 - chance) / count)
    p = q @ q.T
    wanted = chance * gain * p + (1 - chance) * _N / (_N - _RANK) * (np.eye(_N) - p)
    # Squares of a mixture vary more than those of normal numbers of the same variance: by 1 / chance at most.
    np.testing.assert_allclose(v.T @ v / count, wanted, atol=5.0 * np.sqrt(3.0 / chance / count) * wanted.max())
    assert np.mean(np.sum(v * v, axis=1)) == pytest.approx(_N, rel=0.03)


@pytest.mark.parametrize(
    "law",
    [
        DirectionLaw(_N, _m(), law="cone", cone_angle=1.2),
        DirectionLaw(_N, _h(), law="diagonal"),
        DirectionLaw(_N, orthonormal(_N, _RANK), 0.5, _N / _RANK, law="either"),
        DirectionLaw(_N, orthonormal(_N, _RANK), 0.5, _N / _RANK, law="either", probe="sphere"),
    ],
    ids=["cone", "diagonal", "either", "either on a sphere"],
)
def test_blocks_and_slopes_of_every_law_are_right(law: DirectionLaw) -> None:
    """The size of a block changes nothing, and E[c v] = C grad F on a linear F, where c = v . grad F."""
    address = Address(1, 2, 3)
    whole = np.concatenate(list(slot_directions(law, 40, address)))
    parts = np.concatenate(list(slot_directions(law, 40, address, block_bytes=8 * _N * 3)))
    np.testing.assert_allclose(parts, whole, rtol=1e-13, atol=1e-13)
    v, gradient = _drawn(law, 40_000), np.arange(1.0, _N + 1.0)
    products = (v @ gradient)[:, None] * v
    covariance = _covariance(law)
    error = products.std(axis=0) / np.sqrt(len(v))
    assert np.all(np.abs(products.mean(axis=0) - covariance @ gradient) <= 5.0 * error)


def _covariance(law: DirectionLaw) -> Matrix:
    assert law.basis is not None
    outer, identity = law.basis @ law.basis.T, np.eye(_N)
    if law.law == "cone":
        return _N * np.cos(law.cone_angle) ** 2 * outer + np.sin(law.cone_angle) ** 2 * identity
    if law.law == "diagonal":
        return np.diag(1.0 / law.basis[:, 0])
    return 0.5 * _N / _RANK * outer + 0.5 * _N / (_N - _RANK) * (identity - outer)

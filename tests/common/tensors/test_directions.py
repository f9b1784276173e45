"""Directions of tensors: equal numbers wherever they are drawn, whatever is drawn around them."""

import tracemalloc
from statistics import NormalDist

import numpy as np
import pytest

from zofedht.common.choices import PLACE_PROBES
from zofedht.common.errors import ObjectiveError
from zofedht.common.random.streams import Address
from zofedht.common.tensors import directions as tensors_directions
from zofedht.common.tensors.directions import PIECE, Direction, add_all

HERE = Address(7, 3, 1)


def drawn(direction: Direction, block: int, size: int) -> np.ndarray:
    return np.concatenate([numbers for _, numbers in direction.pieces(block, size)])


@pytest.mark.parametrize("probe", PLACE_PROBES)
def test_mean_is_zero_and_variance_one(probe: str):
    v = drawn(Direction(HERE, 0, probe), 0, 2 * PIECE).astype(np.float64)
    tolerance = 5.0 / np.sqrt(v.size)  # five standard errors; that of v^2 is sqrt(2) as long
    assert abs(v.mean()) < tolerance
    assert abs((v**2).mean() - 1.0) < 1.5 * tolerance


@pytest.mark.parametrize("probe", PLACE_PROBES)
def test_every_part_of_the_address_changes_the_numbers(probe: str):
    places = [
        (Direction(HERE, 0, probe), 0),
        (Direction(HERE, 1, probe), 0),
        (Direction(HERE, 0, probe), 1),
        (Direction(Address(8, 3, 1), 0, probe), 0),
        (Direction(Address(7, 4, 1), 0, probe), 0),
        (Direction(Address(7, 3, 2), 0, probe), 0),
    ]
    rows = np.stack([drawn(direction, block, 4096) for direction, block in places]).astype(np.float64)
    overlaps = np.abs(rows @ rows.T / 4096 - np.eye(len(rows)))
    assert overlaps.max() < 5.0 * np.sqrt(2.0 / 4096)


def test_pieces_of_a_block_are_independent():
    v = drawn(Direction(HERE, 0, "rademacher"), 0, 2 * PIECE).astype(np.float64)
    assert abs(v[:PIECE] @ v[PIECE:] / PIECE) < 5.0 / np.sqrt(PIECE)


@pytest.mark.parametrize("probe", PLACE_PROBES)
def test_a_longer_block_begins_with_the_same_whole_pieces(probe: str):
    short, long = (drawn(Direction(HERE, 2, probe), 0, size) for size in (PIECE, PIECE + 1000))
    assert np.array_equal(short, long[:PIECE])


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("probe", PLACE_PROBES)
def test_add_rounds_the_product_and_then_the_sum(kind: str, probe: str):
    array = np.random.default_rng(1).standard_normal(PIECE + 77).astype(kind)
    direction = Direction(HERE, 0, probe)
    expected = array + array.dtype.type(0.37) * drawn(direction, 5, array.size).astype(kind)
    direction.add_to(array, 5, 0.37)
    assert array.dtype == kind
    assert np.array_equal(array, expected)


@pytest.mark.parametrize("probe", PLACE_PROBES)
def test_several_at_once_are_one_after_the_other(probe: str):
    start = np.random.default_rng(1).standard_normal((3, PIECE)).astype(np.float32)
    directions, lengths = [Direction(HERE, number, probe) for number in range(4)], [0.1, -2.0, 3e-5, 0.7]
    together, one_by_one = start.copy(), start.copy()
    add_all(together, 1, directions, lengths)
    for direction, length in zip(directions, lengths, strict=True):
        direction.add_to(one_by_one, 1, length)
    assert np.array_equal(together, one_by_one)


def test_normal_numbers_have_the_law_of_normals():
    quantiles = tensors_directions._quantiles(np.dtype(np.float32)).astype(np.float64)
    assert np.array_equal(quantiles, -quantiles[::-1])
    assert np.mean(quantiles**2) == pytest.approx(1.0, abs=1e-7)
    assert np.mean(quantiles**4) == pytest.approx(3.0, rel=1e-3)
    chances = np.array([NormalDist().cdf(one) for one in quantiles])
    np.testing.assert_allclose(chances, (np.arange(2**16) + 0.5) / 2**16, atol=1e-5)
    v = np.sort(drawn(Direction(HERE, 0, "gaussian"), 0, PIECE))
    steps = np.arange(PIECE) / PIECE - np.array([NormalDist().cdf(one) for one in v])
    assert np.abs(steps).max() < 2.2 / np.sqrt(PIECE)  # Kolmogorov: passed once in 8,000 laws that are normal


@pytest.mark.parametrize("size", [PIECE + 100, 2**16 + 64])
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize(
    "probes", [["gaussian"] * 3, ["rademacher"] * 3, ["gaussian", *["rademacher"] * 2, "gaussian"]]
)
def test_compiled_loops_give_the_same_bits(probes: list[str], kind: str, size: int, monkeypatch: pytest.MonkeyPatch):
    """One direction at a time, or two in one pass."""
    pytest.importorskip("numba", reason="compiled loops need the extra fast")
    start = np.random.default_rng(1).standard_normal(size).astype(kind)
    compiled, plain = start.copy(), start.copy()
    assert tensors_directions._compiled() is not None
    directions = [Direction(HERE, number, probe) for number, probe in enumerate(probes)]
    lengths = [1e-3 * (number - 1.5) for number in range(len(probes))]
    add_all(compiled, 2, directions, lengths)
    monkeypatch.setattr(tensors_directions, "WORTH_COMPILING", 2**30)
    for direction, length in zip(directions, lengths, strict=True):
        direction.add_to(plain, 2, length)
    assert np.array_equal(compiled, plain)
    assert not np.array_equal(plain, start)


@pytest.mark.parametrize("probe", PLACE_PROBES)
def test_an_add_needs_memory_for_pieces_alone(probe: str):
    array, direction = np.zeros(40 * PIECE, np.float32), Direction(HERE, 0, probe)
    direction.add_to(np.zeros(PIECE, np.float32), 0, 1.0)
    tracemalloc.start()
    try:
        direction.add_to(array, 0, 1e-3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * 4 * PIECE < array.nbytes / 8


@pytest.mark.parametrize("array", [np.zeros((4, 4))[:, ::2], np.zeros(4, dtype=int), [0.0, 1.0]])
def test_what_cannot_be_changed_in_place_is_refused(array: np.ndarray):
    with pytest.raises(ObjectiveError, match="block 3 must be"):
        Direction(HERE, 0, "gaussian").add_to(array, 3, 1.0)

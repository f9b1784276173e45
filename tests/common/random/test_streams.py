"""Streams: a name gives its numbers, and no two names share any."""

from __future__ import annotations

import itertools
from typing import get_args

import numpy as np
import pytest

from zofedht.common.random.streams import Purpose, stream

_PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
_LAWFUL_ORDER = (
    "directions", "subspace", "minibatch", "selection", "partition", "train-rows", "initial", "check",
    "redraw", "candidates", "sites", "restart", "chance", "pool", "shift", "blocks", "tensors", "queries", "features",
)  # fmt: skip


def _raw(generator: np.random.Generator, count: int = 4) -> tuple[int, ...]:
    return tuple(int(number) for number in generator.bit_generator.random_raw(count))


def test_a_stream_ignores_what_was_drawn_before() -> None:
    first = stream(7, "directions", 3, 2).standard_normal(50)
    other = stream(7, "minibatch", 3, 2)
    other.standard_normal(1_000)
    np.testing.assert_array_equal(stream(7, "directions", 3, 2).standard_normal(50), first)


def test_round_and_slot_are_0_unless_given() -> None:
    assert _raw(stream(7, "initial")) == _raw(stream(7, "initial", 0, 0))


def test_no_two_names_share_a_number() -> None:
    names = itertools.product((0, 1, 2, 2**32, 2**63 - 1), _PURPOSES, range(4), range(4))
    numbers = [number for name in names for number in _raw(stream(*name))]
    # 2,880 numbers of 64 bits: two of them agree by chance with probability 2e-13.
    assert len(set(numbers)) == len(numbers)


def test_new_purposes_come_last_and_are_listed_here() -> None:
    assert _PURPOSES == _LAWFUL_ORDER


@pytest.mark.parametrize("code", range(1, len(_LAWFUL_ORDER) + 1))
def test_a_purpose_keeps_its_code(code: int) -> None:
    purpose = _PURPOSES[code - 1]
    assert purpose == _LAWFUL_ORDER[code - 1]
    wanted = np.random.SeedSequence(entropy=11, spawn_key=(code, 5, 6))
    assert _raw(stream(11, purpose, 5, 6)) == tuple(int(n) for n in np.random.PCG64DXSM(wanted).random_raw(4))


@pytest.mark.parametrize("seed", [0, 2**32 - 1, 2**32, 2**200 + 1])
@pytest.mark.parametrize("slot", [0, 2**32 - 1, 2**32])
def test_a_stream_is_numpys_seed_and_spawn_key(seed: int, slot: int) -> None:
    wanted = np.random.SeedSequence(entropy=seed, spawn_key=(3, 2**33, slot))
    numbers = tuple(int(n) for n in np.random.PCG64DXSM(wanted).random_raw(4))
    assert _raw(stream(seed, "minibatch", 2**33, slot)) == numbers


def test_streams_of_neighbouring_names_are_uncorrelated() -> None:
    count = 20_000
    drawn = [
        stream(seed, purpose, round_, slot).standard_normal(count)
        for seed, purpose, round_, slot in itertools.product((0, 1), ("directions", "subspace"), (0, 1), (0, 1))
    ]
    correlation = np.corrcoef(drawn)[np.triu_indices(len(drawn), 1)]
    # A correlation of independent normals has standard error 1/sqrt(count); five of them, for 120 pairs.
    assert np.abs(correlation).max() < 5.0 / np.sqrt(count)

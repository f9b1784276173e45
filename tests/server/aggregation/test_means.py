"""The mean of a round's moves: by slots or by rows, in whatever order they arrive."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from tests.helpers import broadcast, reply
from zofedht.common.typing import Vector
from zofedht.common.wire.messages import Update
from zofedht.server.aggregation.means import mean_move, slot_weight
from zofedht.server.aggregation.screening import screen

ASKED = {slot: broadcast(slot, client) for slot, client in enumerate(["2", "0", "2"])}


def mean(replies: Sequence[Update], weighting: str) -> Vector:
    return mean_move([(slot_weight(each, weighting), each.move) for each in replies if each.move is not None])


def test_the_mean_ignores_the_order_of_arrival():
    rng = np.random.default_rng(0)
    asked = {slot: broadcast(slot) for slot in range(4)}
    replies = [reply(asked[slot], move=rng.standard_normal(3) * 10.0**slot) for slot in asked]
    means = {mean(screen(order, asked)[0], "uniform").tobytes() for order in itertools.permutations(replies)}
    assert len(means) == 1


def test_uniform_weighs_slots_not_clients():
    moves = [[3.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 6.0]]
    replies = [reply(ASKED[slot], move=move, examples=10**slot) for slot, move in enumerate(moves)]
    np.testing.assert_array_equal(mean(replies, "uniform"), [1.0, 3.0, 2.0])  # slots 0 and 2 are client 2's


def test_examples_weighs_by_the_rows_of_the_shard():
    replies = [reply(ASKED[0], [4.0, 0.0, 0.0], examples=3), reply(ASKED[1], [0.0, 4.0, 0.0], examples=1)]
    np.testing.assert_array_equal(mean(replies, "examples"), [3.0, 1.0, 0.0])


def test_examples_equals_uniform_on_shards_of_one_size():
    rng = np.random.default_rng(1)
    replies = [reply(ASKED[slot], rng.standard_normal(3), examples=8) for slot in ASKED]
    np.testing.assert_allclose(mean(replies, "examples"), mean(replies, "uniform"), rtol=1e-15)


@pytest.mark.parametrize("weighting", ["uniform", "examples"])
def test_the_mean_of_one_move_is_that_move(weighting: str):
    np.testing.assert_array_equal(mean([reply(ASKED[0], [0.1, 0.2, 0.3])], weighting), [0.1, 0.2, 0.3])

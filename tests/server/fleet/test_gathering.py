"""Calls in threads become batches."""

from __future__ import annotations

import numpy as np
import pytest

from zofedht import Fleet
from zofedht.common.typing import Matrix, Vector
from zofedht.server.fleet.gathering import Gathering, gathered_map


class Batches:
    """Evaluates the sum, and keeps the batches."""

    def __init__(self) -> None:
        self.seen: list[list[list[float]]] = []

    def __call__(self, points: Matrix) -> Vector:
        self.seen.append(points.tolist())
        return points.sum(axis=1)

    def one(self, x: Vector) -> float:
        place = Gathering.current()
        assert place is not None
        return place[0].ask(place[1], np.array(x, dtype=float))


def test_calls_are_one_batch_in_order() -> None:
    batches = Batches()
    assert gathered_map(batches, batches.one, [[3.0], [1.0], [2.0]]) == [3.0, 1.0, 2.0]
    assert batches.seen == [[[3.0], [1.0], [2.0]]]


def test_a_function_may_ask_never_once_or_often() -> None:
    batches = Batches()

    def climb(count: int) -> float:
        return sum(batches.one([float(count), float(turn)]) for turn in range(count))

    assert gathered_map(batches, climb, [0, 2, 1, 3]) == [0.0, 5.0, 1.0, 12.0]
    assert [len(batch) for batch in batches.seen] == [3, 2, 1]


def test_an_error_of_the_batch_reaches_the_caller() -> None:
    def evaluate(points: Matrix) -> Vector:
        raise RuntimeError("spent")

    batches = Batches()
    with pytest.raises(RuntimeError, match="spent"):
        gathered_map(evaluate, batches.one, [[1.0], [2.0]])


def test_the_first_call_that_fails_is_told() -> None:
    batches = Batches()

    def ask(item: int) -> float:
        if item in (1, 3):
            raise ValueError(f"item {item}")
        return batches.one([float(item)])

    with pytest.raises(ValueError, match="item 1"):
        gathered_map(batches, ask, range(4))
    assert batches.seen == [[[0.0], [2.0]]]


def test_nothing_to_do_is_nothing() -> None:
    assert gathered_map(Batches(), str, []) == []


def test_a_fleet_maps_functions_of_itself() -> None:
    with Fleet.local([np.sum], x0=[0.0]) as fleet:
        assert fleet.map(lambda x: fleet([10.0**x]) + fleet([0.0]), [0.0, 1.0, 2.0]) == [1.0, 10.0, 100.0]

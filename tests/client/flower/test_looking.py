"""A client tries its objective out for a server that plans a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from zofedht.client.flower.looking import look
from zofedht.common.errors import MessageError
from zofedht.common.objective.base import Objective
from zofedht.common.objective.scaling import in_search_units
from zofedht.common.typing import Indices, Vector
from zofedht.common.wire.checked import Checked, CheckQuestion
from zofedht.common.wire.codec import decode, encode


class Bowl(Objective):
    dim = 3
    bounds = (-5.0, 5.0)

    def __init__(self) -> None:
        self.calls = 0

    def __len__(self) -> int:
        return 10

    def value(self, x: Vector, batch: Indices | slice) -> float:
        self.calls += 1
        return float(np.sum((x - 1.0) ** 2))


class Mutates(Bowl):
    def value(self, x: Vector, batch: Indices | slice) -> float:
        x -= 1.0
        return float(np.sum(x**2))


class Noisy(Bowl):
    def value(self, x: Vector, batch: Indices | slice) -> float:
        self.calls += 1
        return super().value(x, batch) + 0.5 * (self.calls // 2 % 2)


class Raises(Bowl):
    def value(self, x: Vector, batch: Indices | slice) -> float:
        raise OSError("/home/ada/ward 7.csv, row 3: 41.5")


class Flat(Bowl):
    def value(self, x: Vector, batch: Indices | slice) -> float:
        return float(x[0] ** 2)


class Disagrees(Bowl):
    def pair(self, w: Vector, v: Vector, radius: float, batch: Indices | slice) -> tuple[float, float]:
        return 0.0, 1.0


class Infinite(Bowl):
    def value(self, x: Vector, batch: Indices | slice) -> float:
        return float("inf")


def told_by(objective: Objective, evaluations: int = 200) -> Checked:
    asked = CheckQuestion(evaluations, 1e-3, 4)
    return look(in_search_units(objective), np.full(3, 0.5), asked, seed=1)[0]


def test_a_sound_objective_passes_all_checks() -> None:
    told = told_by(Bowl())
    assert set(told.levels.values()) == {"ok"}
    assert {"value", "arguments", "repeats", "whole", "pair", "values", "parameters"} <= told.levels.keys()


@pytest.mark.parametrize(
    ("objective", "check", "level", "facts"),
    [
        (Mutates(), "arguments", "error", {}),
        (Noisy(), "repeats", "warning", {"spread": [0.5]}),
        (Raises(), "value", "error", {"cause": "raised"}),
        (Infinite(), "value", "error", {"cause": "not-finite"}),
        (Flat(), "parameters", "warning", {"flat": [1.0, 2.0]}),
        (Disagrees(), "pair", "error", {}),
    ],
)
def test_what_is_wrong_is_a_fact(objective: Objective, check: str, level: str, facts: dict[str, Any]) -> None:
    told = told_by(objective)
    assert told.levels[check] == level
    for name, value in facts.items():
        found = getattr(told, name)
        assert (found.tolist() if isinstance(found, np.ndarray) else found) == value


def test_the_spread_of_batches_is_told() -> None:
    class Rows(Bowl):
        def value(self, x: Vector, batch: Indices | slice) -> float:
            return float(np.mean(np.arange(10.0)[batch])) * float(np.sum(x))

    spread = told_by(Rows()).batch_spread
    assert spread is not None
    assert 0.1 < spread[0] < 1.0  # of 4 of 0..9: 2.9 / 2 / 4.5 = .32
    assert told_by(Bowl()).batch_spread.tolist() == [0.0]  # type: ignore[union-attr]


def test_no_text_of_the_device_leaves() -> None:
    for objective in (Raises(), Mutates(), Noisy(), Disagrees()):
        texts = [value for value in encode(told_by(objective)).scalars.values() if isinstance(value, str)]
        assert set(texts) <= {"ok", "warning", "error", "raised"}


@pytest.mark.parametrize("most", [1, 6, 12, 40, 60])
def test_no_more_is_evaluated_than_was_asked_for(most: int) -> None:
    bowl = Bowl()
    told = told_by(bowl, most)
    assert bowl.calls <= told.evaluations <= most


@pytest.mark.parametrize("batch_size", [2**22 + 1, 2**31 - 1])
def test_a_server_cannot_ask_for_vast_batches(batch_size: int) -> None:
    """Eight of them are drawn at once, so 2^31 samples would be 137 GB of row numbers."""
    asked = encode(CheckQuestion(10, 1e-3, 4)).scalars | {"batch-size": batch_size}
    with pytest.raises(MessageError, match=r"batch-size must be at most 4194304"):
        decode(CheckQuestion, asked)

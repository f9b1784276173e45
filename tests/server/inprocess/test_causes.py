"""A run is decided by causes: how an exception is worded changes no bit of x."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.helpers import small
from zofedht.common.errors import ObjectiveError, RoundError
from zofedht.common.objective.base import Objective
from zofedht.common.typing import Indices, Vector
from zofedht.server.auto import AutoState
from zofedht.server.auto.step_size import PACE, StepState
from zofedht.server.core.coordinator import RoundRecord
from zofedht.server.core.state import ServerState, initial_state
from zofedht.server.inprocess import run_in_process


class Ranged(Objective):
    """A simulation that fails where parameters leave the range that it was made for."""

    dim = 12

    def __init__(self, client: int, fails: Callable[[], float], reach: float = 5.0) -> None:
        self._centres = 2.0 + 0.3 * np.random.default_rng(client).standard_normal((20, self.dim))
        self._fails, self._reach = fails, reach

    def __len__(self) -> int:
        return len(self._centres)

    def value(self, x: Vector, batch: Indices | slice) -> float:
        if np.max(np.abs(x)) > self._reach:
            return self._fails()
        return float(np.mean(np.square(x - self._centres[batch])))


def raising(error: Exception) -> Callable[[], float]:
    def fails() -> float:
        raise error

    return fails


WORDINGS = [
    ValueError("sensor 7 is out of range"),
    ValueError("the slope is inf, not a finite number; a smaller step-size or radius usually cures this"),
    RuntimeError("stale: round 3, step 2: non-finite: "),
    ObjectiveError("the sensor is gone"),
]


def trained(
    fails: Callable[[], float], state: ServerState | None = None, **changes: Any
) -> tuple[Vector, list[RoundRecord], list[Objective]]:
    rows: list[RoundRecord] = []
    objectives: list[Objective] = [Ranged(client, fails) for client in range(4)]
    found = run_in_process(small(**changes), objectives, state=state, observers=[lambda _, row: rows.append(row)])
    return found.x, rows, objectives


@pytest.mark.parametrize(
    "changes",
    [
        {"step_size": 1.0, "rounds": 12, "local_steps": 20, "max_retries": 50},
        {"step_size": 1.0, "rounds": 12, "local_steps": 20, "on_error": "skip-step"},
    ],
    ids=["drop-slot", "skip-step"],
)
def test_three_wordings_give_the_same_x(changes: dict[str, Any]):
    runs = [trained(raising(error), **changes) for error in WORDINGS]
    assert len({x.tobytes() for x, _, _ in runs}) == 1
    told = {
        (one["round"], one["slot"], one["client"], one["cause"], one["step"])
        for _, rows, _ in runs
        for row in rows
        for one in (*row.failures, *({"round": row.round} | skipped for skipped in row.skipped))
    }
    assert told
    assert {cause for *_, cause, _ in told} == {"raised"}
    assert len(told) * len(runs) == sum(len(row.failures) + len(row.skipped) for _, rows, _ in runs for row in rows)


@pytest.mark.parametrize("fails", [raising(WORDINGS[0]), lambda: float("inf")], ids=["raises", "returns inf"])
def test_steps_on_trial_may_fail_either_way(fails: Callable[[], float]):
    """Under auto an exception and an infinite loss in every slot both say that steps were too long."""
    begun = AutoState(StepState(base=3.0, ratio=PACE, anchor=np.zeros(12), part=1 / 30))
    state = replace(initial_state(small(), np.zeros(12)), auto=begun)
    x, rows, objectives = trained(fails, state, step_size="auto", rounds=30, local_steps=20)
    assert any(row.failures for row in rows)
    assert all(row.attempts == 1 for row in rows)
    start, end = (np.mean([each.value(at, slice(None)) for each in objectives]) for at in (np.zeros(12), x))
    assert end < 0.2 * start


def test_an_exception_at_x_blames_no_step():
    with pytest.raises(RoundError, match="out of range"):
        run_in_process(
            small(step_size="auto", local_steps=20), [Ranged(i, raising(WORDINGS[0]), 1e-7) for i in range(4)]
        )

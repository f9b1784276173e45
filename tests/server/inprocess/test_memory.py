"""What a run in this process needed is freed as it ends, and not when Python looks for cycles the next time."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.helpers import quadratics, small
from zofedht import run
from zofedht.server import inprocess
from zofedht.server.evaluation.evaluate import CentralEvaluator, central_evaluator
from zofedht.server.inprocess import run_in_process


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def stop(*anything: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("observers", [[], [stop]], ids=["done", "interrupted"])
@pytest.mark.parametrize("show_progress", [False, True])
def test_objectives_are_freed_with_the_run(observers: list[Any], show_progress: bool):
    objectives = quadratics()
    kept = [weakref.ref(objective) for objective in objectives]
    try:
        result = run_in_process(small(), objectives, observers=observers, show_progress=show_progress)
    except KeyboardInterrupt:
        assert observers
    else:
        assert result.state.round == 7
    del objectives
    assert [ref() for ref in kept] == [None] * 4


def test_built_in_data_are_freed_with_the_run(monkeypatch: pytest.MonkeyPatch):
    kept: list[weakref.ref[CentralEvaluator]] = []

    def watched(config: Any) -> Any:
        central = central_evaluator(config)
        assert central is not None
        kept.append(weakref.ref(central))
        return central

    monkeypatch.setattr(inprocess, "central_evaluator", watched)
    run_in_process(small(train_rows=240, step_size=1.0))
    assert [ref() for ref in kept] == [None]


class Rows:
    """The data of a function."""

    target = np.array([3.0, -1.0, 0.5])


@pytest.mark.parametrize("options", [{}, {"bounds": (-5.0, 5.0)}], ids=["plain", "bounded"])
def test_a_functions_data_are_freed_with_the_call(options: dict[str, Any]):
    rows = Rows()
    kept = weakref.ref(rows)
    result = run(lambda x, rows=rows: float(np.sum((x - rows.target) ** 2)), np.zeros(3), rounds=12, **options)
    assert result.nit == 12
    del rows
    assert kept() is None

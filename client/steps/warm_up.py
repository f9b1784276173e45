"""Compiling before there is a clock: a slot as the run will ask for, taken on the side and thrown away.

The first call of a compiled loop takes seconds, for loading or for compiling it. A client that has joined is timed, so
it pays them before.
"""

from __future__ import annotations

import numpy as np

from zofedht.client.plan import Plan
from zofedht.client.steps.local_steps import local_steps
from zofedht.common.config.run_config import RunConfig
from zofedht.common.data.dataset import Dataset
from zofedht.common.directions.law import law_of
from zofedht.common.machine.blas import one_thread
from zofedht.common.models.table import build_model
from zofedht.common.objective.base import ExactObjective, Objective
from zofedht.common.random.kernels import runs_compiled
from zofedht.common.random.streams import Address

__all__ = ["warm_up"]

_ROWS, _COLUMNS = 32, 80


def warm_up(config: RunConfig, objective: Objective | None) -> bool:
    """Compile or load the loops that slots of this run need; return whether there are any.

    ``objective`` is None while its rows are not known: then a few made-up rows stand in for them. A black box is
    not evaluated, only its directions are drawn.

    Raises ConfigError where the run wants compiled loops and there can be none.
    """
    if not runs_compiled(config.kernel):
        return False
    objectives = [objective]
    if objective is None and not config.objective:
        objectives = [build_model(config.model, _made_up_rows(stretch)) for stretch in (1, 4)]
    dimension = _ROWS * _COLUMNS if objectives[0] is None else objectives[0].dim
    spec = config.step_spec(step_size=0.0)
    plan = Plan(spec, law_of(spec, dimension), Address(config.seed, 0, 0))
    with one_thread(), np.errstate(over="ignore", invalid="ignore"):
        for known in objectives:
            if isinstance(known, ExactObjective):
                local_steps(known, known.zeros(), plan)
            else:
                plan.drawn(_ROWS)
                for _ in plan.directions():
                    pass
    return True


def _made_up_rows(stretch: int) -> Dataset:
    """Return rows of few entries, which a network reads in place; others go through BLAS, where nothing is compiled.

    A linear model reads single entries in one way and stretches of four in another.
    """
    places = np.arange(_ROWS)
    features = np.zeros((_ROWS, _COLUMNS))
    for column in range(stretch):
        features[places, places + column] = 1.0
    return Dataset(features, (places % 2).astype(np.float64), places % 2)

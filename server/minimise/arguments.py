"""The arguments of ``run``: what they may be, the objectives that they name, and the config that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from zofedht.common.choices import UNSAID
from zofedht.common.config.checking import plain
from zofedht.common.config.own_objective import of_own_clients
from zofedht.common.config.run_config import RunConfig, dashed
from zofedht.common.data.own_rows import are_rows, keep_rows
from zofedht.common.errors import ConfigError, ObjectiveError
from zofedht.common.machine.files import is_path
from zofedht.common.objective.base import Bounds, Objective
from zofedht.common.objective.function import as_objective
from zofedht.common.objective.loading import checked_objective
from zofedht.common.objective.negated import negated
from zofedht.common.shards import rules_of, with_standard_columns
from zofedht.common.tensors.objective import InPlaceObjective
from zofedht.common.typing import is_whole
from zofedht.server.results import takes_one

__all__ = ["Target", "check_arguments", "config_of", "named", "objectives_of"]

_SHOWN = 60  # characters of a value that is refused

Target = Objective | InPlaceObjective | Callable[..., float]


def check_arguments(callback: Any, out: Any, config: Any, maximize: Any, samples: Any) -> None:
    """Raise ConfigError unless the arguments are of their types."""
    rules = {
        "callback must be a function of one argument": callback is None or takes_one(callback),
        "out must name a folder": out is None or is_path(out),
        "config must be a RunConfig": config is None or isinstance(config, RunConfig),
        "maximize must be True or False": isinstance(maximize, bool | np.bool_),
        "samples must be a whole number of at least 1": samples is None or is_whole(samples, 1),
    }
    values = (callback, out, config, maximize, samples)
    wrong = [f"{rule}, got {value!r}" for (rule, kept), value in zip(rules.items(), values, strict=True) if not kept]
    if wrong:
        raise ConfigError(wrong)


def objectives_of(
    objective: Any,
    x0: Any,
    samples: int | None,
    bounds: Bounds | None,
    scale: Any,
    parameters: Any,
    args: Any,
    maximize: bool,
) -> list[Objective | InPlaceObjective] | None:
    """Return one Objective a client, or None where the config says what is trained."""
    several = isinstance(objective, Sequence) and not isinstance(objective, str | Objective)
    targets = list(objective) if several else [objective]
    if any(isinstance(target, InPlaceObjective) for target in targets):
        given = {"x0": x0, "samples": samples, "bounds": bounds, "scale": scale, "parameters": parameters}
        return _in_place(targets, [*(name for name, value in given.items() if value is not None), *args], maximize)
    for target in targets:
        if not (target is None or callable(target) or isinstance(target, str | Objective)):
            rule = "objective must be a function, an Objective, 'module:factory' or a list of these"
            raise ConfigError([f"{rule}, got {target!r}"])
    if not targets:
        raise ConfigError(["objective must be a function, an Objective or a list with at least one of these, got []"])
    names = [f"objective {index}" if several else "objective" for index in range(len(targets))]
    made = [
        as_objective(target, x0, samples, bounds, scale, name, parameters=parameters, args=args)
        for target, name in zip(targets, names, strict=True)
    ]
    if objective is None or isinstance(objective, str):
        if maximize:
            raise ConfigError(["maximize is for functions and Objectives; let module:factory return the negative"])
        return None
    made = [negated(target) if maximize and isinstance(target, Objective) else target for target in made]
    made = [checked_objective(target, name) for target, name in zip(made, names, strict=True)]
    if len(sizes := {item.dim for item in made}) > 1:
        raise ObjectiveError(f"all objectives must have the same number of parameters, got {sorted(sizes)}")
    return made


def _in_place(targets: list[Any], given: list[Any], maximize: bool) -> list[Objective | InPlaceObjective]:
    """Return objectives in place, which are all that says anything about them."""
    odd = [type(target).__name__ for target in targets if not isinstance(target, InPlaceObjective)]
    if odd:
        raise ConfigError([f"all objectives must be InPlaceObjectives where one of them is, got {', '.join(odd)}"])
    if given or maximize:
        raise ConfigError(
            [
                "x0, samples, bounds, scale, parameters, args and maximize are for functions of x; an InPlaceObjective"
                " holds its own start, and value() returns what is minimised"
            ]
        )
    return targets


def config_of(
    config: RunConfig | None,
    options: dict[str, Any],
    objective: Any,
    objectives: list[Objective | InPlaceObjective] | None,
) -> RunConfig:
    said, config = config, config or RunConfig()
    given = {dashed(name): plain(value) for name, value in options.items()}
    if isinstance(objective, str):
        given["objective"] = objective
    if objectives is not None:
        in_place = isinstance(objectives[0], InPlaceObjective)
        if in_place and not given.setdefault("in-place", True):
            raise ConfigError(["in_place must not be False for InPlaceObjectives; leave it out"])
        count = len(objectives)
        given = of_own_clients(said, given, count, objectives[0].dim, in_place=in_place)
    rows = given.get("dataset", "")
    if not (isinstance(rows, str) or are_rows(rows)):
        raise ConfigError(
            [f"dataset must be the name of a data set, a file, a DataFrame or a pair (X, y), got {_short(rows)}"]
        )
    if are_rows(rows):
        config = RunConfig.from_mapping(config.to_mapping() | given | {"dataset": "DataFrame"})
        return with_standard_columns(config.replace(dataset=keep_rows(rows, rules_of(config))))
    chosen = RunConfig.from_mapping(config.to_mapping() | given)
    if objectives is None:
        return with_standard_columns(chosen)
    if chosen.to_mapping()["evaluate-every"] == UNSAID:
        chosen = chosen.replace(evaluate_every=chosen.affordable_every)
    unsaid = chosen.to_mapping()["return-x"] == UNSAID
    if unsaid and chosen.may_return_best and not chosen.in_place:
        chosen = chosen.replace(return_x="best")
    return chosen


def named(objective: Any) -> str:
    """Return what pictures call an objective that lives in Python: its function or class, the first of several."""
    first = objective[0] if isinstance(objective, Sequence) and objective else objective
    name = getattr(first, "__name__", type(first).__name__)
    return "a function" if name == "<lambda>" else str(name)


def _short(value: Any) -> str:
    """Return a value of a wrong kind in a few characters: a table would fill the screen."""
    shown = repr(value)
    return shown if len(shown) <= _SHOWN and "\n" not in shown else f"an object of type {type(value).__name__}"

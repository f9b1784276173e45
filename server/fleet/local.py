"""Sites in this process: functions and objectives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import Any

import numpy as np

from zofedht.common.errors import FleetError
from zofedht.common.objective.agreement import units_as_bytes, units_mismatch
from zofedht.common.objective.base import Bounds, Objective
from zofedht.common.objective.function import FunctionObjective, refuse_class
from zofedht.common.objective.loading import checked_objective
from zofedht.common.objective.names import names_as_text, names_mismatch
from zofedht.common.objective.parameters import Parameters, parameters_of
from zofedht.common.objective.points import evaluate_points
from zofedht.common.rules import check_whole
from zofedht.common.space.kinds import Parameter
from zofedht.common.space.space import space_mismatch
from zofedht.common.typing import Matrix, Vector
from zofedht.server.core.selection import in_order
from zofedht.server.fleet.sites import Heard

__all__ = ["LocalSites", "Target", "agreed_parameters"]

Target = Objective | Callable[..., float]

_SECONDS_AT_A_TIME = 1.0  # then the answers so far go to the ledger


class LocalSites:
    """Evaluates points where it is called."""

    def __init__(
        self,
        targets: Mapping[str, Target] | Sequence[Target],
        *,
        x0: Any = None,
        bounds: Bounds | None = None,
        scale: Any = None,
        names: Sequence[str] | None = None,
        parameters: Mapping[str, Parameter] | None = None,
        seed: int = 0,
        threads: int = 1,
    ) -> None:
        """``threads``: how many sites are evaluated at once. Raises FleetError or ObjectiveError."""
        if isinstance(targets, str | bytes) or not isinstance(targets, Iterable):  # type: ignore[unreachable]
            raise FleetError(f"sites must be functions or Objectives, in a list or by name, got {targets!r}")
        check_whole("threads", threads, 1)
        check_whole("seed", seed)
        if not isinstance(targets, Mapping):
            targets = {f"site-{index}": target for index, target in enumerate(targets)}
        if not targets:
            raise FleetError("a fleet must have at least one site, got none")
        of_functions = {"bounds": bounds, "scale": scale, "names": names, "parameters": parameters}
        made = {str(name): _objective(str(name), each, x0, **of_functions) for name, each in targets.items()}
        self._objectives = {name: made[name] for name in in_order(list(made))}
        declared = {name: parameters_of(each, seed) for name, each in self._objectives.items()}
        self._parameters = agreed_parameters(declared)
        if x0 is not None:
            self._parameters = replace(self._parameters, start=_start(x0, self._parameters))
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="site") if threads > 1 else None

    @property
    def samples(self) -> Mapping[str, int]:
        return {name: len(objective) for name, objective in self._objectives.items()}

    @property
    def parameters(self) -> Parameters:
        return self._parameters

    def ask(self, points: Mapping[str, Matrix], heard: Heard) -> None:
        if self._pool is None:
            for name, rows in points.items():
                self._ask_one(name, rows, heard)
            return
        # A thread has its own settings for overflow and the like unless it is given ours.
        jobs = [
            self._pool.submit(copy_context().run, self._ask_one, name, rows, heard) for name, rows in points.items()
        ]
        for job in jobs:
            job.result()

    def close(self, *, over: bool) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _ask_one(self, name: str, rows: Matrix, heard: Heard) -> None:
        done = 0
        while done < len(rows):
            answers = evaluate_points(self._objectives[name], rows[done:], most_seconds=_SECONDS_AT_A_TIME)
            heard(name, answers)
            done += len(answers)


def agreed_parameters(declared: Mapping[str, Parameters]) -> Parameters:
    """Return what the first site declares, on which the others, by name, agree but for the start.

    Raises FleetError, naming two sites and what differs.
    """
    (first, expected), *others = declared.items()
    for name, parameters in others:
        who, whom = f"site {name}", f"site {first}"
        if parameters.dim != expected.dim:
            raise FleetError(
                f"{who} has {parameters.dim} parameters, {whom} {expected.dim}; all sites must have the same number"
            )
        shared = expected.names if parameters.names == expected.names else ()
        unlike = units_mismatch(units_as_bytes(parameters.units), units_as_bytes(expected.units), who, whom, shared)
        unlike = unlike or names_mismatch(names_as_text(parameters.names), names_as_text(expected.names), who, whom)
        unlike = unlike or space_mismatch(parameters.space, expected.space, who, whom)
        if unlike:
            raise FleetError(unlike)
    return expected


def _start(x0: Any, parameters: Parameters) -> Vector:
    if isinstance(x0, Mapping) and parameters.names:
        return parameters.named.coordinates(x0, None if parameters.space is None else parameters.space.middle)
    try:
        start, box = np.array(x0, dtype=np.float64), parameters.box
    except (TypeError, ValueError) as error:
        raise FleetError(f"x0 must hold {parameters.dim} numbers within the bounds, got {x0!r}") from error
    if start.shape != (parameters.dim,) or not np.all((start >= box.lower) & (start <= box.upper)):  # NaN fails as well
        raise FleetError(f"x0 must hold {parameters.dim} numbers within the bounds, got {x0!r}")
    return start


def _objective(
    name: str, target: Target, x0: Any, *, bounds: Any, scale: Any, names: Sequence[str] | None, parameters: Any
) -> Objective:
    if isinstance(target, Objective):
        if any(given is not None for given in (bounds, scale, names, parameters)):
            raise FleetError(
                f"bounds, scale, names and parameters are for functions; the Objective of site {name} says them itself"
            )
        return checked_objective(target, f"site {name}")
    refuse_class(target, f"site {name}")
    if not callable(target):
        raise FleetError(f"a site must be a function or an Objective, got {target!r} for site {name}")
    if x0 is None and parameters is None:
        raise FleetError(f"site {name} is a function, so x0, a point to start from, must be given, or parameters")
    made = FunctionObjective(target, x0, bounds=bounds, scale=scale, parameters=parameters)
    made.names = names
    return checked_objective(made, f"site {name}")

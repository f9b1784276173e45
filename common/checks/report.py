"""``from zofedht import check``: check an objective before a run."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from zofedht.common.algorithms import LEAST, first_population
from zofedht.common.checks.check import check_objective, failed
from zofedht.common.checks.finding import Finding, PlannedRun
from zofedht.common.checks.in_place import check_in_place
from zofedht.common.choices import UNSAID
from zofedht.common.config.own_objective import with_algorithm
from zofedht.common.config.run_config import RunConfig, dashed
from zofedht.common.errors import ConfigError, ObjectiveError
from zofedht.common.objective.base import Bounds, Objective, Shard
from zofedht.common.objective.function import as_objective
from zofedht.common.objective.loading import checked_objective, load_objective
from zofedht.common.objective.named import space_of
from zofedht.common.shards import lone_objective, own_objective, own_rows
from zofedht.common.space.kinds import Parameter
from zofedht.common.tensors.loading import load_in_place
from zofedht.common.tensors.objective import InPlaceObjective
from zofedht.common.tensors.trail import TrailLaw

__all__ = ["CheckReport", "check", "check_config"]

_MARKS = {"ok": "ok     ", "warning": "WARNING", "error": "ERROR  "}


@dataclass(frozen=True, repr=False)
class CheckReport:
    """The findings of a check; printed, it is the text of ``zofedht-client check``."""

    name: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether the objective can run: no finding is an error."""
        return not self._errors

    @property
    def _errors(self) -> int:
        return sum(finding.level == "error" for finding in self.findings)

    def __str__(self) -> str:
        lines = []
        for finding in self.findings:
            lines.append(f"{_MARKS[finding.level]} {finding.name}: {finding.text}")
            if finding.traceback:
                lines.append(textwrap.indent(finding.traceback, " " * 8))
        verdict = "can run" if self.ok else f"cannot run: {self._errors} to mend"
        return "\n".join([*lines, f"{self.name} {verdict}"])

    __repr__ = __str__


def check(
    objective: Objective | InPlaceObjective | Callable[..., float] | str,
    x0: Any = None,
    *,
    samples: int | None = None,
    bounds: Bounds | None = None,
    scale: Any = None,
    parameters: Mapping[str, Parameter] | None = None,
    shard: Shard | None = None,
    config: RunConfig | None = None,
    **options: Any,
) -> CheckReport:
    """Evaluate an objective as a run would, a few dozen times, and report the findings.

    Parameters
    ----------
    objective : Objective, InPlaceObjective, function or "module:factory"
        What ``run`` would minimise.
    x0 : array_like, shape (n,), or mapping, optional
        The point of the checks. A function without ``parameters`` needs it; other objectives have a starting point of
        their own.
    samples, bounds, scale, parameters
        As for ``run``; for functions alone.
    shard : Shard, optional
        The argument of the factory in ``"module:factory"``.
    config : RunConfig, optional
        The run that the objective is for.
    **options
        Run config keys with underscores, over those of ``config``: ``radius=0.01, rounds=60``.

    Returns
    -------
    CheckReport
        ``ok``, ``findings`` (each with ``name``, ``level``, ``text`` and ``traceback``), and a text to print.

    Raises
    ------
    ConfigError
        If an option is wrong.
    ObjectiveError
        If ``"module:factory"`` cannot be found, or a function's x0 is malformed. What an objective does is a finding.

    Examples
    --------
    >>> from zofedht import check
    >>> report = check(lambda x: float(x @ x), x0=[1.0, 2.0], radius=0.01)
    >>> report.ok
    True
    >>> print(report.findings[1].name, report.findings[1].text)
    value 5 at the starting point
    """
    given = {dashed(name): value for name, value in options.items()}
    if isinstance(objective, str) and parameters is not None:
        given["parameters"], parameters = parameters, None
    if isinstance(objective, InPlaceObjective):
        keys = (
            (config or RunConfig()).to_mapping() | {"num-clients": 1, "clients-per-round": 1, "in-place": True} | given
        )
        if keys["step-size"] == UNSAID:
            keys["step-size"] = 1.0  # no step is taken
        return _in_place(objective, RunConfig.from_mapping(keys))
    target = as_objective(objective, x0, samples, bounds, scale, parameters=parameters)
    if isinstance(target, str):
        name = given["objective"] = target
    elif not isinstance(target, Objective):
        raise ConfigError([f"objective must be a function, an Objective or 'module:factory', got {target!r}"])
    else:
        name = getattr(objective, "__name__", type(objective).__name__)
        given, steps = with_algorithm(config or RunConfig(), {"num-clients": 1} | given, _parameters_of(target))
        given = ({"clients-per-round": 1} if steps else {}) | given
    chosen = RunConfig.from_mapping((config or RunConfig()).to_mapping() | given)
    if chosen.in_place and isinstance(target, str):
        try:
            return _in_place(load_in_place(target, shard), chosen, name)
        except ObjectiveError as error:
            if error.__cause__ is None or isinstance(error.__cause__, ModuleNotFoundError):
                raise
            return CheckReport(name, (failed("factory", error),))
    return CheckReport(name, tuple(_findings(target, x0, shard, chosen)))


def _in_place(objective: InPlaceObjective, config: RunConfig, name: str = "") -> CheckReport:
    plan = PlannedRun(config.local_steps, config.rounds, config.clients_per_round, config.round_timeout)
    keys: dict[str, Any] = {"radius": config.radius, "probe": config.probe, "batch_size": config.batch}
    findings = check_in_place(objective, **keys, seed=config.seed, plan=plan, law=TrailLaw.of_config(config))
    return CheckReport(name or type(objective).__name__, tuple(findings))


def check_config(config: RunConfig, shard: Shard) -> CheckReport:
    """Check what a run of this config evaluates at one client: its own objective, or the model on its rows.

    Raises ConfigError where the rows are a client's own and ``shard`` names no file, DataError where rows cannot be
    read, and ObjectiveError as ``check`` does.
    """
    if config.objective:
        return check(config.objective, shard=shard, config=config)
    if config.server_has_rows:
        target, rows = lone_objective(config, shard.index), f"shard {shard.index} of {config.dataset}"
    elif shard.data:
        target, rows = own_objective(config, own_rows(config, shard.data), settled=False), shard.data
    else:
        raise ConfigError(["dataset = clients: the rows are the clients' own; give one's file as --data FILE"])
    return CheckReport(f"{config.model} on {rows}", tuple(_findings(target, None, None, config)))


def _findings(target: Objective | str, x0: Any, shard: Shard | None, config: RunConfig) -> list[Finding]:
    if isinstance(target, str):
        try:
            target = load_objective(target, shard, config.parameters)
        except ObjectiveError as error:
            if error.__cause__ is None or isinstance(error.__cause__, ModuleNotFoundError):
                raise
            return [failed("factory", error)]
    try:
        target = checked_objective(target, type(target).__name__)
    except ObjectiveError as error:
        return [failed("size", error)]
    try:
        fitted = config.fitted(target.dim, space_of(target))
    except ConfigError as error:
        return [Finding("radius", "error", str(error))]
    plan = _planned(fitted, target.dim, len(target))
    found = check_objective(target, radius=fitted.radius, batch_size=config.batch, seed=config.seed, plan=plan, x0=x0)
    if fitted.radius != config.radius:
        text = f"the run takes radius = {fitted.radius:.4g}: slopes within a step of an integer or a choice are 0"
        found.append(Finding("radius", "warning", f"{text}; algorithm = cma-es needs none"))
    if fitted.memory != config.memory:
        text = f"with {target.dim} parameters the run takes memory = {fitted.memory} instead of {config.memory}"
        found.append(Finding("memory", "ok", text))
    return found


def _parameters_of(target: Objective) -> int:
    """Return n; 0 where the target is malformed, which is a finding later."""
    try:
        return checked_objective(target, type(target).__name__).dim
    except ObjectiveError:
        return 0


def _planned(config: RunConfig, dimension: int, samples: int) -> PlannedRun:
    """Return the length of a run; a search asks at most all clients about a generation, or about a gradient."""
    spec, points = config.step_spec(step_size=0.0), 0
    if config.asks_points:
        points = dimension + 1 if config.algorithm == "lbfgs" else first_population(dimension)
    slot = points * spec.samples_of_points(samples) if points else spec.evaluations(samples)
    slots, at_most = config.most_slots, False
    if config.algorithm == "cma-es" and not config.rounds and not config.aggregates_robustly:
        slots, at_most = min(LEAST, slots), slots > LEAST  # more sites of a generation take fewer rounds
    rounds = config.rounds or math.ceil(config.budget / (slot * slots))
    return PlannedRun(config.local_steps, rounds, slots, config.round_timeout, points, at_most)

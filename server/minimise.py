"""``from zofedht import run``: minimise something in one call, all clients in this process.

result = run(lambda x: float(np.sum((x - 3.0) ** 2)), x0=np.zeros(5))
result.x, result.fun, result.success, result.message, result.nfev, result.nit, result.history
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from scipy.optimize import OptimizeResult

from zofedht.common.checks.finding import Case
from zofedht.common.checks.radius import flat_advice, noise_advice
from zofedht.common.choices import AUTO, UNSAID
from zofedht.common.config.run_config import RunConfig, dashed
from zofedht.common.errors import ConfigError, ObjectiveError, RoundError
from zofedht.common.objective.base import Bounds, Objective
from zofedht.common.objective.function import as_objective
from zofedht.common.objective.loading import checked_objective
from zofedht.common.objective.scaling import given_start
from zofedht.common.objective.user_traceback import raised
from zofedht.common.typing import Vector
from zofedht.server.conduct import Result, conduct
from zofedht.server.core.figures import comparable, evaluation_notes
from zofedht.server.core.record import RoundRecord
from zofedht.server.core.state import ServerState, initial_state, initial_vector
from zofedht.server.inprocess import InProcessEngine
from zofedht.server.records.run_folder import RunFolder

__all__ = ["RunResult", "run"]

_WORTH_A_LOOK = 2_000  # evaluations: noise is looked for by three, and some hundred more where there is some

Target = Objective | Callable[..., float]


class RunResult(OptimizeResult):  # type: ignore[misc]  # SciPy has no types
    """The result of ``run``: a mapping whose keys are attributes, as in scipy.optimize."""

    x: Vector
    fun: float
    nfev: int
    nit: int
    success: bool
    status: int
    message: str
    history: list[dict[str, Any]]
    figures: dict[str, float]

    def __repr__(self) -> str:
        # SciPy's own text would hold every round, and fails for empty figures.
        shown = self | {"history": f"{len(self.history)} rounds"}
        return "\n".join(f"{name:>7}: {value}".replace("\n", "\n" + " " * 9) for name, value in shown.items())


def run(
    objective: Target | Sequence[Target] | str | None = None,
    x0: Any = None,
    *,
    samples: int | None = None,
    bounds: Bounds | None = None,
    scale: Any = None,
    config: RunConfig | None = None,
    out: str | Path | None = None,
    callback: Callable[[dict[str, Any]], object] | None = None,
    show_progress: bool = False,
    **options: Any,
) -> RunResult:
    """Minimise the mean of the clients' objectives and return a result like scipy.optimize's.

    ``objective`` is a function f(x), a function f(x, batch) of ``samples`` samples, an Objective, a list of these (one
    a client), ``"module:factory"``, or None for the data set and the model that the options name. A function needs
    ``x0``; others have a start of their own unless it is given. ``bounds`` and ``scale``, for functions, are those of
    ``Objective``. ``options`` are run config keys with underscores, over those of ``config``: ``rounds=200,
    step_size=0.1``; unless given, num_clients is the length of the list, whose clients are drawn without replacement,
    and the step size of a black box is auto; memory is at most n. ``out`` is a folder for the files of a run;
    ``callback`` hears each round's line.

    The result has ``x`` (n,), ``fun`` (the mean over clients of F on the whole shard), ``nit`` (rounds), ``nfev``
    (evaluations on one sample that the algorithm asked for; those of the first and the last x, and those that look for
    noise or for a change within the radius, are not counted),
    ``history`` (one mapping a round), ``figures`` (all that was evaluated of the last x), ``success``, ``status`` (0
    or 1) and ``message``. Where the rounds fail - the steps diverge, the function raises - or end above the start,
    or while a step was still searched for, ``success`` is False and ``message`` says why; x is that of the last good
    round. So it is where the first and the last x were evaluated on different clients, or the last on none.

    Raises ConfigError for wrong options, ObjectiveError when the objective cannot be made or evaluated at the start,
    and DataError, also when a run goes on in ``out``.
    """
    objectives = _objectives(objective, x0, samples, bounds, scale)
    chosen = _config(config, options, objective, objectives)
    engine = _Engine(chosen, objectives)
    dimension, own, units = engine.start()
    fitted = chosen.fitted(dimension)
    start = initial_vector(fitted, dimension, own)
    if x0 is not None:
        start = given_start(x0, dimension, units)
    state = initial_state(fitted, start, units)
    history: list[dict[str, Any]] = []

    def watch(following: ServerState, record: RoundRecord) -> None:
        nonlocal state
        state = following
        history.append(dataclasses.asdict(record))
        if callback is not None:
            callback(history[-1])

    with nullcontext() if out is None else RunFolder(Path(out).expanduser()) as folder:
        if folder:
            folder.begin(chosen, "in-process" if objectives is None else "python")
        try:
            done = conduct(chosen, engine, folder=folder, state=state, observers=[watch], show_progress=show_progress)
        except (RoundError, ObjectiveError) as error:
            if not engine.begun:
                raise
            return _result(state, history, {}, str(error), success=False)
    message, success = _verdict(chosen, done)
    if chosen.objective or objectives is not None:
        message = _looked_at(message, engine.case_at(start), done)
    message = "; ".join([message, *evaluation_notes(done.first, done.last)])
    return _result(done.state, history, done.final, message, success=success)


def _looked_at(message: str, case: Case, done: Result) -> str:
    """Return the message, or what is seen at the start of the run where that tells more: F is flat, or too noisy."""
    before, after = done.initial["train_loss"], done.final.get("train_loss")
    worth_a_look = done.state.totals.evaluations >= _WORTH_A_LOOK
    try:
        if after == before and (flat := flat_advice(case, farther=worth_a_look)):
            return f"the loss is still {before:g}: {flat}"
        noise = noise_advice(case) if worth_a_look else ""
    except Exception as error:  # the user's own code may do anything; x is found, and is what was asked for
        return f"{message}; whether evaluations are noisy was not seen: the objective {raised(error)}"
    return f"{message}; {noise}" if noise else message


def _verdict(config: RunConfig, done: Result) -> tuple[str, bool]:
    """Return the message, and whether the run did what it was to do."""
    rounds, rules = done.state.round, done.state.auto
    found = rules.step_found(rounds)
    spent = config.is_spent(done.state.totals.evaluations)
    if rules.measures_steps and found is None:
        return (
            f"the search for a step (step_size = auto) took the whole run, {rounds} round{'s' if rounds > 1 else ''};"
            " as a rule it takes 5 to 10 where a round has one slot, and 2 to 5 where it has more, so give the run"
            f" {'a larger budget' if spent else 'more rounds'}, or step_size as a number"
        ), False
    if not comparable(done.first, done.last):
        fun = "" if done.last.figures else "; fun is the mean loss of the last round's probes"
        return f"{rounds} rounds are done, but whether they lowered the loss is not known{fun}", False
    before, after = done.initial["train_loss"], done.final["train_loss"]
    if after == before:
        return (
            f"the loss is still {before:g}: no step led lower; where the function is flat as far as the radius"
            f" ({config.radius:g}) reaches, a larger radius shows its slopes"
        ), False
    if not after < before:  # NaN too
        step, way_out = "", "a smaller step_size"
        if found is not None:
            step = f" with the step that step_size = auto found, {found:g}"
            way_out = "a number below that, or a larger radius where the function is noisy,"
        return f"the loss went from {before:g} to {after:g}{step}; {way_out} usually cures this", False
    if spent:
        return f"the budget of {config.budget:,} evaluations is spent", True
    return f"all {config.rounds} rounds are done", True


class _Engine(InProcessEngine):
    """Knows whether the first round was begun: what fails before it cannot run at all."""

    begun = False

    def carry_round(self) -> None:
        self.begun = True
        super().carry_round()


def _objectives(
    objective: Any, x0: Any, samples: int | None, bounds: Bounds | None, scale: Any
) -> list[Objective] | None:
    """Return one Objective a client, or None where the config says what is trained."""
    several = isinstance(objective, Sequence) and not isinstance(objective, str | Objective)
    targets = list(objective) if several else [objective]
    if not targets:
        raise ConfigError(["objective must be a function, an Objective or a list with at least one of these, got []"])
    names = [f"objective {index}" if several else "objective" for index in range(len(targets))]
    made = [as_objective(target, x0, samples, bounds, scale, name) for target, name in zip(targets, names, strict=True)]
    if objective is None or isinstance(objective, str):
        return None
    made = [checked_objective(target, name) for target, name in zip(made, names, strict=True)]
    if len(sizes := {item.dim for item in made}) > 1:
        raise ObjectiveError(f"all objectives must have the same number of parameters, got {sorted(sizes)}")
    return made


def _config(
    config: RunConfig | None, options: dict[str, Any], objective: Any, objectives: list[Objective] | None
) -> RunConfig:
    default, config = config is None, config or RunConfig()
    given = {dashed(name): value for name, value in options.items()}
    if isinstance(objective, str):
        given["objective"] = objective
    if objectives is not None:
        if given.get("step-size", config.step_size) == UNSAID:
            given["step-size"] = AUTO  # as for an objective that the config names
        count = len(objectives)
        if given.get("num-clients", count) != count:
            raise ConfigError([f"num_clients must be {count}, the number of objectives, got {given['num-clients']}"])
        given["num-clients"] = count
        given.setdefault("clients-per-round", min(count, config.clients_per_round))
        if default and isinstance(given["clients-per-round"], int) and given["clients-per-round"] <= count:
            given.setdefault("sampling", "without-replacement")  # where all take part, each does so once
        given.setdefault("evaluate-every", 0)  # evaluations are the user's: the probes tell the loss of a round
    return RunConfig.from_mapping(config.to_mapping() | given)


def _result(
    state: ServerState, history: list[dict[str, Any]], figures: dict[str, float], message: str, *, success: bool
) -> RunResult:
    last = history[-1]["train_loss"] if history else math.nan
    return RunResult(
        x=state.user_x,
        fun=figures.get("train_loss", last),
        nfev=state.totals.evaluations,
        nit=state.round,
        success=success,
        status=0 if success else 1,
        message=message,
        history=history,
        figures=figures,
    )

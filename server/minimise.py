"""``from zofedht import run``: minimise an objective in one call, with all clients in this process."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from scipy.optimize import OptimizeResult

from zofedht.common.algorithms import ALGORITHMS
from zofedht.common.checks.finding import Case
from zofedht.common.checks.radius import flat_advice, noise_advice
from zofedht.common.checks.readings import noise_of
from zofedht.common.choices import AUTO, UNSAID
from zofedht.common.config.checking import plain
from zofedht.common.config.run_config import RunConfig, dashed
from zofedht.common.data.loading import are_rows, keep_rows
from zofedht.common.errors import ConfigError, ObjectiveError, RoundError
from zofedht.common.objective.base import Bounds, Objective
from zofedht.common.objective.function import as_objective
from zofedht.common.objective.loading import checked_objective
from zofedht.common.objective.scaling import given_start
from zofedht.common.objective.user_traceback import USER_ERRORS, raised_by_objective
from zofedht.common.shards import rules_of
from zofedht.common.space.kinds import Parameter, Settings
from zofedht.common.typing import Vector
from zofedht.server.conduct import Result, conduct
from zofedht.server.core.round_record import RoundRecord
from zofedht.server.core.state import ServerState, initial_state, initial_vector
from zofedht.server.evaluation.full_evaluation import comparable, evaluation_notes
from zofedht.server.inprocess import InProcessEngine
from zofedht.server.records.lost import count_lost
from zofedht.server.records.run_folder import RunFolder

__all__ = ["RunResult", "run"]

_WORTH_A_CHECK = 2_000  # evaluations: the check for noise takes 3, and some 100 more where there is noise

_BEYOND_NOISE = 4.0  # standard deviations by which a loss must fall where noise hides the slopes

Target = Objective | Callable[..., float]


class RunResult(OptimizeResult):  # type: ignore[misc]  # SciPy has no types
    """The result of ``run``: a mapping whose keys are attributes, as in scipy.optimize."""

    x: Vector
    settings: Settings
    fun: float
    nfev: int
    nit: int
    success: bool
    status: int
    message: str
    history: list[dict[str, Any]]
    metrics: dict[str, float]
    lost: dict[str, Any]

    def __repr__(self) -> str:
        # SciPy's own text would hold every round, and fails for empty metrics.
        shown = self | {"history": f"{len(self.history)} rounds"}
        return "\n".join(f"{name:>7}: {value}".replace("\n", "\n" + " " * 9) for name, value in shown.items())


def run(
    objective: Target | Sequence[Target] | str | None = None,
    x0: Any = None,
    *,
    samples: int | None = None,
    bounds: Bounds | None = None,
    scale: Any = None,
    parameters: Mapping[str, Parameter] | None = None,
    config: RunConfig | None = None,
    out: str | Path | None = None,
    callback: Callable[[dict[str, Any]], object] | None = None,
    show_progress: bool = False,
    **options: Any,
) -> RunResult:
    """Minimise the mean of the clients' objectives.

    Parameters
    ----------
    objective : function, Objective, sequence of these, "module:factory" or None
        A function f(x) or f(x, batch), or an Objective. A sequence has one target for each client. None takes the data
        set and the model of the options.
    x0 : (n,) or mapping, optional
        The starting point, of named parameters their values by name. A function without ``parameters`` needs it; other
        objectives have a starting point of their own.
    samples : int, optional
        The number of samples of a function f(x, batch).
    bounds, scale : optional
        Of functions, as those of Objective.
    parameters : mapping, optional
        Of a function that gets its parameters by keyword: names with Real, Integer or Choice.
    config : RunConfig, optional
        The run config under ``options``.
    out : str or Path, optional
        The result folder.
    callback : callable, optional
        Gets the record of each round, a mapping.
    show_progress : bool
        Whether to show the progress on standard error.
    **options
        Run config keys with underscores, such as ``rounds=200`` and ``step_size=0.1``. By default the step size of a
        black box is "auto", num_clients is the length of the sequence, and clients are drawn without replacement.
        ``dataset`` may be a pandas DataFrame, whose columns are taken by name, or a pair (X, y).

    Returns
    -------
    OptimizeResult
        ``x`` (n,), ``settings`` (the values of named parameters), ``fun`` (the mean over clients of F on the whole
        shard), ``nit`` (rounds), ``nfev`` (evaluations on one sample in all rounds), ``history`` (a mapping for each
        round), ``metrics`` (the metrics of the last x), ``lost`` (slots that were lost and steps that were skipped, as
        in summary.json), ``success``, ``status`` (0 or 1) and ``message``. ``success`` is False, and ``message`` tells
        why, when the rounds fail, the loss ends above its start, the search for a step size is not over, or different
        clients evaluated the first and the last x. Then x is that of the last good round.

    Raises
    ------
    ConfigError
        For wrong options.
    ObjectiveError
        When the objective cannot be made, or cannot be evaluated at the start.
    DataError
        When the data cannot be used, or another run goes on in ``out``.

    Examples
    --------
    >>> import numpy as np
    >>> result = run(lambda x: float(np.sum((x - 3.0) ** 2)), x0=np.zeros(5), rounds=60)
    >>> result.success, result.message, bool(np.all(np.abs(result.x - 3.0) < 0.1))
    (True, 'all 60 rounds are done', True)
    """
    objectives = _objectives(objective, x0, samples, bounds, scale, parameters)
    chosen = _config(config, options, objective, objectives)
    engine = _Engine(chosen, objectives)
    dimension, own, units, space, _ = engine.start()
    fitted = chosen.fitted(dimension)
    start = initial_vector(fitted, dimension, own)
    if x0 is not None:
        start = given_start(x0, dimension, units, space)
    state = initial_state(fitted, start, units, space)
    history: list[dict[str, Any]] = []
    steps = chosen.step_spec(step_size=0.0).local_steps

    def watch(following: ServerState, record: RoundRecord) -> None:
        nonlocal state
        state = following
        history.append(record.line)
        if callback is not None:
            callback(history[-1])

    with nullcontext() if out is None else RunFolder(Path(out).expanduser()) as folder:
        if folder:
            lives_here = objectives is not None or are_rows(options.get("dataset"))
            folder.begin(chosen, "python" if lives_here else "in-process")
        try:
            done = conduct(chosen, engine, folder=folder, state=state, observers=[watch], show_progress=show_progress)
        except (RoundError, ObjectiveError) as error:
            if not engine.begun:
                raise
            return _result(state, history, {}, str(error), success=False, local_steps=steps)
    message, success = _verdict(chosen, done)
    if (chosen.objective or objectives is not None) and not chosen.asks_points:
        message, drowned = _with_advice(message, engine.case_at(start), done)
        success = success and not drowned
    message = "; ".join(
        [
            message,
            *_lost_notes(history, "values were lost" if chosen.asks_points else "steps were skipped"),
            *evaluation_notes(done.first, done.last),
        ]
    )
    return _result(done.state, history, done.final, message, success=success, local_steps=steps)


def _lost_notes(history: Sequence[dict[str, Any]], what: str) -> list[str]:
    """Return a note about slots that were lost and steps or values that were, if any."""
    lost = count_lost(history, 0)
    counts = [f"{lost['slots']} of {lost['of_slots']} slots were lost"] if lost["slots"] else []
    counts += [f"{lost['steps']} {what}"] if lost["steps"] else []
    return [f"{' and '.join(counts)}, most often: {lost['reason']}"] if counts else []


def _with_advice(message: str, case: Case, done: Result) -> tuple[str, bool]:
    """Return the message with advice on an F that is flat or noisy at the start, and whether noise drowned the slopes.

    A loss that has fallen by far more than the noise has followed slopes all the same.
    """
    before, after = done.initial["train_loss"], done.final.get("train_loss")
    worth_a_check = done.state.totals.evaluations >= _WORTH_A_CHECK
    try:
        if after == before and (flat := flat_advice(case, farther=worth_a_check)):
            return f"the loss is still {before:g}: {flat}", False
        noise = noise_advice(case) if worth_a_check else ""
        drowned = bool(noise) and not before - (math.nan if after is None else after) > _BEYOND_NOISE * noise_of(case)
    except USER_ERRORS as error:  # an error of the user's code must not hide x
        return f"{message}; the check for noise failed: {raised_by_objective(error)}", False
    return (f"{message}; {noise}" if noise else message), drowned


def _verdict(config: RunConfig, done: Result) -> tuple[str, bool]:
    """Return the message, and whether the run is a success."""
    rounds, found = done.state.round, done.state.auto.step_found
    spent = config.is_spent(done.state.totals.evaluations)
    if not comparable(done.first, done.last):
        fun = "" if done.last.metrics else "; fun is the mean loss of the last round's probes"
        return f"{rounds} rounds are done, but it is unknown whether they lowered the loss{fun}", False
    before, after = done.initial["train_loss"], done.final["train_loss"]
    if done.state.auto.searching and not after < before:
        return (
            f"the search for a step (step_size = auto) took the whole run, {rounds} round{'s' if rounds > 1 else ''};"
            f" give the run {'a larger budget' if spent else 'more rounds'}, or step_size as a number"
        ), False
    if config.asks_points and not after < before:  # NaN too
        return f"the loss went from {before:g} to {after:g}: no candidate of {rounds} rounds was better", False
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
    if 0 < rounds < config.rounds:
        return f"another round would spend more than epsilon = {config.epsilon:g}; {rounds} rounds are done", True
    return f"all {config.rounds} rounds are done", True


class _Engine(InProcessEngine):
    """Knows whether the first round has begun: an error before it is an error of the call."""

    begun = False

    def carry_round(self) -> None:
        self.begun = True
        super().carry_round()


def _objectives(
    objective: Any, x0: Any, samples: int | None, bounds: Bounds | None, scale: Any, parameters: Any
) -> list[Objective] | None:
    """Return one Objective a client, or None where the config says what is trained."""
    several = isinstance(objective, Sequence) and not isinstance(objective, str | Objective)
    targets = list(objective) if several else [objective]
    if not targets:
        raise ConfigError(["objective must be a function, an Objective or a list with at least one of these, got []"])
    names = [f"objective {index}" if several else "objective" for index in range(len(targets))]
    made = [
        as_objective(target, x0, samples, bounds, scale, name, parameters=parameters)
        for target, name in zip(targets, names, strict=True)
    ]
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
    given = {dashed(name): plain(value) for name, value in options.items()}
    if isinstance(objective, str):
        given["objective"] = objective
    if objectives is not None:
        row = ALGORITHMS.get(str(given.get("algorithm", config.algorithm)))
        steps = row is None or not row.asks_points  # an unknown name is refused below
        if steps and given.get("step-size", config.step_size) == UNSAID:
            given["step-size"] = AUTO  # as for an objective that the config names
        count = len(objectives)
        if given.get("num-clients", count) != count:
            raise ConfigError([f"num_clients must be {count}, the number of objectives, got {given['num-clients']}"])
        given["num-clients"] = count
        if steps:
            given.setdefault("clients-per-round", min(count, config.clients_per_round))
        if default and steps and isinstance(given["clients-per-round"], int) and given["clients-per-round"] <= count:
            given.setdefault("sampling", "without-replacement")  # where all clients take part, each does so once
        given.setdefault("evaluate-every", 0)  # evaluations are expensive: the probes give the loss of a round
    rows = given.get("dataset")
    if not are_rows(rows):
        return RunConfig.from_mapping(config.to_mapping() | given)
    config = RunConfig.from_mapping(config.to_mapping() | given | {"dataset": "DataFrame"})
    return config.replace(dataset=keep_rows(rows, rules_of(config)))


def _result(
    state: ServerState,
    history: list[dict[str, Any]],
    metrics: dict[str, float],
    message: str,
    *,
    success: bool,
    local_steps: int,
) -> RunResult:
    last = history[-1]["train_loss"] if history else math.nan
    return RunResult(
        x=state.user_x,
        settings=state.settings,
        fun=metrics.get("train_loss", last),
        nfev=state.totals.evaluations,
        nit=state.round,
        success=success,
        status=0 if success else 1,
        message=message,
        history=history,
        metrics=metrics,
        lost=count_lost(history, local_steps),
    )

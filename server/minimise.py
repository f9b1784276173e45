"""``from zofedht import run``: minimise an objective in one call, with all clients in this process."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import OptimizeResult

from zofedht.common.checks.finding import Case
from zofedht.common.checks.radius import flat_advice, noise_advice
from zofedht.common.choices import AUTO, UNSAID
from zofedht.common.config.checking import plain
from zofedht.common.config.own_objective import with_algorithm
from zofedht.common.config.run_config import RunConfig, dashed
from zofedht.common.data.loading import are_rows, keep_rows
from zofedht.common.errors import ConfigError, ObjectiveError, RoundError
from zofedht.common.objective.base import Bounds, Objective
from zofedht.common.objective.function import as_objective
from zofedht.common.objective.loading import checked_objective
from zofedht.common.objective.negated import negated
from zofedht.common.objective.scaling import given_start
from zofedht.common.objective.user_traceback import USER_ERRORS, raised_by_objective
from zofedht.common.shards import rules_of, with_standard_columns
from zofedht.common.space.kinds import Parameter, Settings
from zofedht.common.tensors.objective import InPlaceObjective
from zofedht.common.typing import Vector
from zofedht.server.conduct import Result, conduct
from zofedht.server.core.points import search_about
from zofedht.server.core.round_record import RoundRecord, signed
from zofedht.server.core.state import ServerState, first_state, initial_state
from zofedht.server.evaluation.compare import Comparison
from zofedht.server.evaluation.full_evaluation import evaluation_notes
from zofedht.server.evaluation.verdict import Verdict
from zofedht.server.inprocess import InProcessEngine
from zofedht.server.records.files import is_path
from zofedht.server.records.lost import count_lost, worth_skipping
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.results import ShortResult, asks_to_stop, plain_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["RunResult", "run"]

_WORTH_A_CHECK = 2_000  # evaluations: the check for noise takes 3, and some 100 more where there is noise

_SHOWN = 60  # characters of a value that is refused
_NO_SLOPES = "integers and choices have no slopes; algorithm = cma-es searches them"

Target = Objective | InPlaceObjective | Callable[..., float]


class RunResult(ShortResult):
    """The result of ``run``: a mapping whose keys are attributes, as in scipy.optimize; ``plot()`` draws its losses."""

    x: Vector
    settings: Settings
    last: Vector
    fun: float
    nfev: int
    nfev_full: int
    nit: int
    success: bool
    status: int
    message: str
    ended: str
    history: list[dict[str, str | int | float]]
    records: list[dict[str, Any]]
    metrics: dict[str, float]
    lost: dict[str, Any]
    comparison: Comparison | None
    digest: str

    def plot(self, *, against: str = "evaluations", ax: Any = None) -> Axes:
        """Draw the losses, as ``zofedht.plot`` does."""
        from zofedht.server.records.axes import plot

        return plot(self, against=against, ax=ax)


def run(
    objective: Target | Sequence[Target] | str | None = None,
    x0: Any = None,
    *,
    samples: int | None = None,
    bounds: Bounds | None = None,
    scale: Any = None,
    parameters: Mapping[str, Parameter] | None = None,
    args: Sequence[Any] = (),
    maximize: bool = False,
    config: RunConfig | None = None,
    out: str | Path | None = None,
    callback: Callable[[OptimizeResult], object] | None = None,
    show_progress: bool = False,
    **options: Any,
) -> RunResult:
    """Minimise the mean of the clients' objectives.

    Parameters
    ----------
    objective : function, Objective, InPlaceObjective, sequence of these, "module:factory" or None
        A function f(x) or f(x, batch), or an Objective. A sequence has one target for each client. None takes the data
        set and the model of the options.
    x0 : (n,) or mapping, optional
        The starting point, of named parameters their values by name. A function without ``parameters`` needs it; other
        objectives have a starting point of their own.
    samples : int, optional
        The number of samples of a function f(x, batch).
    bounds, scale : optional
        Of functions, as those of Objective; bounds may be scipy.optimize.Bounds.
    parameters : mapping, optional
        Of a function that gets its parameters by keyword: names with Real, Integer or Choice.
    args : sequence
        More arguments of a function: f(x, *args).
    maximize : bool
        Whether the largest value is sought, of functions and Objectives. All values of the result, of its history and
        its message are the user's own, and so are those of the files in ``out``.
    config : RunConfig, optional
        The run config under ``options``.
    out : str or Path, optional
        The result folder.
    callback : callable, optional
        Gets an OptimizeResult after each round: ``x`` and ``settings``, where the round led, ``nit``, ``nfev`` and all
        fields of the round's record. True or StopIteration ends the run.
    show_progress : bool
        Whether to show the progress on standard error.
    **options
        Run config keys with underscores, such as ``rounds=200`` and ``step_size=0.1``. By default num_clients is the
        length of the sequence. At most 50 parameters are searched by evaluations (algorithm "auto"), unless a key of
        local steps is given; else the step size is "auto", and clients are drawn without replacement.
        ``dataset`` may be a pandas DataFrame, whose columns are taken by name, or a pair (X, y).

    Returns
    -------
    OptimizeResult
        ``x`` (n,), the best x that was evaluated in full, ``settings`` (the values of named parameters at x), and
        ``last`` (n,), the x of the last round; ``fun`` (the mean over clients of F on the whole shard at x), ``nit``
        (rounds), ``nfev`` (evaluations on one sample in all rounds), ``nfev_full`` (those of full evaluations),
        ``history`` (a row of texts and numbers for each round: ``pandas.DataFrame(result.history)``), ``records`` (the
        rounds in full, as in history.jsonl), ``ended`` (what ended the run: rounds, budget, converged, epsilon,
        callback or error), ``metrics`` (the metrics of x), ``lost`` (slots that were lost and steps
        that were skipped, as in summary.json), ``comparison`` (x against the start, a ``Comparison``), ``success``,
        ``status`` (0 or 1) and ``message``.

        InPlaceObjectives hold the parameters that the run returns. ``x`` is then the trail, the mean step lengths that
        lead there, and ``digest`` the ``state_digest`` of all clients.

        ``success`` says that x is better than the start by more than the noise of the answers. Else ``message`` tells
        why. When the rounds fail, x is the best until then.

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
    >>> result.success, bool(np.all(np.abs(result.x - 3.0) < 0.1))
    (True, True)
    """
    if isinstance(objective, str) and parameters is not None:
        options["parameters"], parameters = parameters, None
    _check(callback, out, config, maximize, samples)
    objectives = _objectives(objective, x0, samples, bounds, scale, parameters, args, maximize)
    sign = -1.0 if maximize else 1.0
    chosen = _config(config, options, objective, objectives)
    engine = _Engine(chosen, objectives)
    found = engine.start()
    dimension, units, space = found.dimension, found.units, found.space
    fitted = chosen.fitted(dimension, space)
    state = first_state(fitted, found)
    if x0 is not None:
        state = initial_state(fitted, given_start(x0, dimension, units, space), units, space)
    start = state.x
    history: list[dict[str, Any]] = []
    stopped = False
    steps = chosen.step_spec(step_size=0.0).local_steps

    def watch(following: ServerState, record: RoundRecord) -> None:
        nonlocal state, stopped
        state = following
        history.append(signed(record.line, sign))
        if callback is not None:
            where = {"x": state.user_x, "settings": state.settings, "nit": state.round}
            told = OptimizeResult(history[-1], **where, nfev=state.totals.evaluations)
            stopped = asks_to_stop(callback, told)

    with nullcontext() if out is None else RunFolder(Path(out).expanduser()) as folder:
        if folder:
            lives_here = objectives is not None or are_rows(options.get("dataset"))
            folder.begin(chosen, "python" if lives_here else "in-process", maximize=sign < 0.0)
        try:
            watching: dict[str, Any] = {
                "observers": [watch],
                "show_progress": show_progress,
                "enough": lambda: stopped,
                "sign": sign,
            }
            done = conduct(chosen, engine, folder=folder, state=state, **watching)
        except (RoundError, ObjectiveError) as error:
            if not engine.begun:
                raise
            engine.lead_to(state.x)
            failed: dict[str, Any] = {"ended": "error", "sign": sign, "success": False, "local_steps": steps}
            return _result(state, history, None, str(error), **failed)
    engine.lead_to(done.verdict.chosen.x)
    ended = _ended(fitted, done.state, stopped=stopped)
    message, success = _outcome(fitted, done, ended, sign)
    if (chosen.objective or objectives is not None) and not (fitted.asks_points or fitted.in_place):
        message = _with_advice(message, engine.case_at(start, fitted.radius), done, sign)
    search = search_about(done.state, fitted)
    message = "; ".join(
        [
            message,
            *([search["sentence"]] if search else []),
            *([_NO_SLOPES] if space and space.is_discrete and not (fitted.asks_points or success) else []),
            *_lost_notes(history, fitted),
            *evaluation_notes(done.first, done.last),
        ]
    )
    about: dict[str, Any] = {"ended": ended, "sign": sign, "success": success, "local_steps": steps}
    return _result(done.state, history, done.verdict, message, **about)


def _check(callback: Any, out: Any, config: Any, maximize: Any, samples: Any) -> None:
    """Raise ConfigError unless the arguments are of their types."""
    rules = {
        "callback must be a function of one argument": callback is None or callable(callback),
        "out must name a folder": out is None or is_path(out),
        "config must be a RunConfig": config is None or isinstance(config, RunConfig),
        "maximize must be True or False": isinstance(maximize, bool | np.bool_),
        "samples must be a whole number of at least 1": samples is None
        or (isinstance(samples, int | np.integer) and not isinstance(samples, bool) and samples >= 1),
    }
    values = (callback, out, config, maximize, samples)
    wrong = [f"{rule}, got {value!r}" for (rule, kept), value in zip(rules.items(), values, strict=True) if not kept]
    if wrong:
        raise ConfigError(wrong)


def _ended(config: RunConfig, state: ServerState, *, stopped: bool) -> str:
    """Return what ended the run."""
    if stopped:
        return "callback"
    if state.search is not None and state.search.over:
        return "converged"
    if config.is_spent(state.totals.evaluations):
        return "budget"
    return "epsilon" if 0 < state.round < config.rounds else "rounds"


def _lost_notes(history: Sequence[dict[str, Any]], config: RunConfig) -> list[str]:
    """Return notes about slots that were lost and steps or values that were, if any, and the way out."""
    lost = count_lost(history, 0)
    counts = [f"{lost['slots']} of {lost['of_slots']} slots were lost"] if lost["slots"] else []
    what = "values were lost" if config.asks_points else "steps were skipped"
    counts += [f"{lost['steps']} {what}"] if lost["steps"] else []
    notes = [f"{' and '.join(counts)}, most often: {lost['reason']}"] if counts else []
    if worth_skipping(lost, config.on_error):
        notes.append("with on_error='skip-step' a failed evaluation costs its step and not its slot")
    return notes


def _with_advice(message: str, case: Case, done: Result, sign: float) -> str:
    """Return the message with advice on an F that is flat or noisy at the start."""
    before, after = done.initial["train_loss"], done.last.metrics.get("train_loss")
    worth_a_check = done.state.totals.evaluations >= _WORTH_A_CHECK
    try:
        if after == before and (flat := flat_advice(case, farther=worth_a_check)):
            return f"the {_word(sign)} is still {sign * before:.4g}: {flat}"
        noise = noise_advice(case) if worth_a_check else ""
    except USER_ERRORS as error:  # an error of the user's code must not hide x
        return f"{message}; the check for noise failed: {raised_by_objective(error)}"
    return f"{message}; {noise}" if noise else message


def _word(sign: float) -> str:
    return "loss" if sign > 0.0 else "value"


def _outcome(config: RunConfig, done: Result, why: str, sign: float) -> tuple[str, bool]:
    """Return the message, and whether the run is a success."""
    rounds, found, verdict = done.state.round, done.state.auto.step_found, done.verdict
    ended = {
        "callback": f"the callback has stopped the run after {rounds} round{'s' if rounds > 1 else ''}",
        "converged": "no step leads lower",
        "budget": f"the budget of {config.budget:,} evaluations is spent",
        "epsilon": f"another round would spend more than epsilon = {config.epsilon:g}; {rounds} rounds are done",
    }.get(why, f"all {config.rounds} rounds are done")
    if verdict.success:
        earlier = verdict.chosen.round < rounds
        return f"{ended}; x is the best that was evaluated, of round {verdict.chosen.round}" if earlier else ended, True
    compared = verdict.comparison
    kept = "; x is the start" if verdict.chosen.round == 0 else ""
    if not (done.last.metrics and verdict.most_sites_tell and compared is not None):
        done_so = "lowered the loss" if sign > 0.0 else "raised the value"
        return f"{ended}, but it is unknown whether they {done_so}{kept}", False
    before, after = done.initial["train_loss"], done.last.metrics.get("train_loss", math.nan)
    if done.state.auto.searching and not after < before:
        return (
            f"the search for a step (step_size = auto) took the whole run, {rounds} round{'s' if rounds > 1 else ''};"
            f" give the run {'a larger budget' if why == 'budget' else 'more rounds'}, or step_size as a number"
        ), False
    went = f"the {_word(sign)} went from {sign * before:.4g} to {sign * after:.4g}"
    if config.asks_points and not after < before:  # NaN too
        return f"{went}: no candidate of {rounds} rounds was better", False
    if after == before:
        return (
            f"the {_word(sign)} is still {sign * before:.4g}: no step led {'lower' if sign > 0.0 else 'higher'}; where"
            f" the function is flat as far as the radius ({config.radius:g}) reaches, a larger radius shows its slopes"
        ), False
    if verdict.which != "start" and compared.gain > 0.0 and compared.these_sites is not None:
        low, high = compared.these_sites
        return (
            f"{ended}, but the noise of the answers hides whether x is better than the start: the gain is"
            f" {compared.gain:.4g}, {low:.4g} to {high:.4g} (95%)"
        ), False
    step, way_out = "", "a smaller step_size"
    if found is not None:
        step = f" with the step that step_size = auto found, {found:g}"
        way_out = "a number below that, or a larger radius where the function is noisy,"
    return f"{went}{step}{kept}; {way_out} usually cures this", False


def _short(value: Any) -> str:
    """Return a value of a wrong kind in a few characters: a table would fill the screen."""
    shown = repr(value)
    return shown if len(shown) <= _SHOWN and "\n" not in shown else f"an object of type {type(value).__name__}"


class _Engine(InProcessEngine):
    """Knows whether the first round has begun: an error before it is an error of the call."""

    begun = False

    def carry_round(self) -> None:
        self.begun = True
        super().carry_round()


def _objectives(
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


def _config(
    config: RunConfig | None,
    options: dict[str, Any],
    objective: Any,
    objectives: list[Objective | InPlaceObjective] | None,
) -> RunConfig:
    default, config = config is None, config or RunConfig()
    given = {dashed(name): plain(value) for name, value in options.items()}
    if isinstance(objective, str):
        given["objective"] = objective
    if objectives is not None:
        in_place = isinstance(objectives[0], InPlaceObjective)
        if in_place and not given.setdefault("in-place", True):
            raise ConfigError(["in_place must not be False for InPlaceObjectives; leave it out"])
        given, steps = with_algorithm(config, given, objectives[0].dim)
        if steps and not in_place and given.get("step-size", config.step_size) == UNSAID:
            given["step-size"] = AUTO  # as for an objective that the config names
        count = len(objectives)
        if given.get("num-clients", count) != count:
            raise ConfigError([f"num_clients must be {count}, the number of objectives, got {given['num-clients']}"])
        given["num-clients"] = count
        if steps:
            given.setdefault("clients-per-round", min(count, config.clients_per_round))
        if default and steps and isinstance(given["clients-per-round"], int) and given["clients-per-round"] <= count:
            given.setdefault("sampling", "without-replacement")  # where all clients take part, each does so once
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


def _result(
    state: ServerState,
    history: list[dict[str, Any]],
    verdict: Verdict | None,
    message: str,
    *,
    ended: str,
    sign: float,
    success: bool,
    local_steps: int,
) -> RunResult:
    probed = history[-1]["train_loss"] if history else math.nan
    best = state.best if verdict is None else verdict.chosen
    metrics = {} if verdict is None else verdict.evaluation.metrics
    return RunResult(
        x=state.user_x if best is None else state.in_user_units(best.x),
        settings=state.settings if best is None else state.settings_at(best.x),
        last=state.user_x,
        fun=signed(metrics, sign).get("train_loss", probed if best is None else sign * float(best.losses.mean())),
        nfev=state.totals.evaluations,
        nfev_full=state.totals.full_evaluations,
        nit=state.round,
        success=success,
        status=0 if success else 1,
        message=message,
        ended=ended,
        history=plain_rows(history),
        records=history,
        metrics=signed(metrics, sign),
        lost=count_lost(history, local_steps),
        comparison=None if verdict is None else verdict.comparison,
        digest="" if state.tensors is None else state.tensors.present,
    )

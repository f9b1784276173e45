"""``from zofedht import run``: minimise an objective in one call, with all clients in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from scipy.optimize import OptimizeResult

from zofedht.common.config.run_config import RunConfig
from zofedht.common.data.own_rows import are_rows
from zofedht.common.errors import ObjectiveError, RoundError
from zofedht.common.objective.base import Bounds
from zofedht.common.objective.units import given_start
from zofedht.common.space.kinds import Parameter
from zofedht.server.conduct import conduct
from zofedht.server.core.points import search_about
from zofedht.server.core.round_record import RoundRecord, signed
from zofedht.server.core.state import ServerState, first_state, initial_state
from zofedht.server.evaluation.full_evaluation import evaluation_notes
from zofedht.server.inprocess import InProcessEngine
from zofedht.server.minimise.arguments import Target, check_arguments, config_of, named, objectives_of
from zofedht.server.minimise.outcome import ended_by, lost_notes, outcome_of, with_advice
from zofedht.server.minimise.result import RunResult, result_of
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.results import asks_to_stop

__all__ = ["run"]

_NO_SLOPES = "integers and choices have no slopes; algorithm = cma-es searches them"


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
        that were skipped, as in summary.json), ``config`` (all keys of the run; ``objective`` names what was
        minimised), ``comparison`` (x against the start, a ``Comparison``), ``success``,
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
    check_arguments(callback, out, config, maximize, samples)
    objectives = objectives_of(objective, x0, samples, bounds, scale, parameters, args, maximize)
    sign = -1.0 if maximize else 1.0
    chosen = config_of(config, options, objective, objectives)
    engine = _Engine(chosen, objectives)
    found = engine.start()
    dimension, units, space = found.dimension, found.units, found.space
    fitted = chosen.fitted(dimension, space)
    state = first_state(fitted, found)
    if x0 is not None:
        state = initial_state(fitted, given_start(x0, dimension, units, space), units, space)
    name = "" if objectives is None else named(objective)
    keys = chosen.to_mapping() | ({"objective": name} if name else {})
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

    about: dict[str, Any] = {"sign": sign, "local_steps": steps, "config": keys}
    with nullcontext() if out is None else RunFolder(Path(out).expanduser()) as folder:
        if folder:
            lives_here = objectives is not None or are_rows(options.get("dataset"))
            folder.begin(chosen, "python" if lives_here else "in-process", maximize=sign < 0.0, objective=name)
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
            return result_of(state, history, None, str(error), ended="error", success=False, **about)
    engine.lead_to(done.verdict.chosen.x)
    ended = ended_by(fitted, done.state, stopped=stopped)
    message, success = outcome_of(fitted, done, ended, sign)
    if (chosen.objective or objectives is not None) and not (fitted.asks_points or fitted.in_place):
        message = with_advice(message, engine.case_at(start, fitted.radius), done, sign)
    search = search_about(done.state, fitted)
    message = "; ".join(
        [
            message,
            *([search["sentence"]] if search else []),
            *([_NO_SLOPES] if space and space.is_discrete and not (fitted.asks_points or success) else []),
            *lost_notes(history, fitted),
            *evaluation_notes(done.first, done.last),
        ]
    )
    return result_of(done.state, history, done.verdict, message, ended=ended, success=success, **about)


class _Engine(InProcessEngine):
    """Knows whether the first round has begun: an error before it is an error of the call."""

    begun = False

    def carry_round(self) -> None:
        self.begun = True
        super().carry_round()

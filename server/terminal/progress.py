"""The progress of a run for people: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from zofedht.common.config.run_config import RunConfig
from zofedht.common.terminal.logs import shown, shows_text
from zofedht.server.core.round_record import Observer, RoundRecord
from zofedht.server.core.state import ServerState
from zofedht.server.evaluation.full_evaluation import Unevaluated, who_is_missing

__all__ = ["progress"]

_SECONDS_BETWEEN_LINES = 2.0
_log = logging.getLogger(__name__)


@contextmanager
def progress(config: RunConfig, start: ServerState, notes: Sequence[tuple[int, str]] = ()) -> Iterator[Observer]:
    """Yield an observer that shows round, loss, evaluations and time left on standard error.

    ``notes`` are logged first, each at its level.
    """
    with shown():
        for level, text in notes:
            _log.log(level, "%s", text)
        if not (sys.stderr.isatty() and shows_text()):
            yield _both(_warned(), _lines(config))
            return
        with _bar(config, start) as show:
            yield _both(_warned(), show)


@contextmanager
def _bar(config: RunConfig, start: ServerState) -> Iterator[Observer]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("round {task.fields[round]}"),
        BarColumn(),
        TextColumn("{task.fields[loss]}  {task.fields[evaluations]} evaluations"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(file=sys.stderr)) as bar:
        task = bar.add_task("", total=1.0, round=start.round, loss="loss -", evaluations=start.totals.evaluations)
        bar.update(task, completed=_done(config, start))

        def show(state: ServerState, record: RoundRecord) -> None:
            done = _done(config, state)
            bar.update(
                task,
                completed=done,
                round=_of(config, state),
                loss=_loss(record),
                evaluations=f"{record.evaluations:,}",
            )

        yield show


def _both(first: Observer, second: Observer) -> Observer:
    def show(state: ServerState, record: RoundRecord) -> None:
        first(state, record)
        second(state, record)

    return show


def _warned() -> Observer:
    """Return an observer that warns of clients that could not evaluate x, once for each client and reason."""
    told: set[Unevaluated] = set()

    def show(state: ServerState, record: RoundRecord) -> None:
        missing = [Unevaluated(**one) for one in record.unevaluated]  # type: ignore[arg-type]
        if new := [one for one in missing if one not in told]:
            told.update(new)
            whose = "the other clients" if record.train_loss_source == "full" else "the probes"
            _log.warning(
                "x after round %d could not be evaluated by all clients, the loss is that of %s; %s",
                record.round,
                whose,
                who_is_missing(new),
            )

    return show


def _lines(config: RunConfig) -> Observer:
    first: tuple[float, float] | None = None  # time and share done after the first round
    shown = -math.inf

    def show(state: ServerState, record: RoundRecord) -> None:
        nonlocal first, shown
        now, done = time.monotonic(), _done(config, state)
        if done < 1.0 and now - shown < _SECONDS_BETWEEN_LINES:
            return
        shown = now
        left, seconds_left = "", None
        if first is None:
            first = now, done  # the first round starts processes and reads data: its time is no measure
        elif done > first[1]:
            seconds_left = (now - first[0]) * (1.0 - done) / (done - first[1])
            left = f"  {_clock(seconds_left)} left"
        failed = f"  {len(record.failures)} failed" if record.failures else ""
        steps = sum(int(str(skipped["steps"])) for skipped in record.skipped)
        failed += f"  {_skipped(steps, record)}" if steps else ""
        facts = {
            "round": state.round,
            "of_rounds": config.rounds,
            "train_loss": record.train_loss if math.isfinite(record.train_loss) else None,
            "evaluations": record.evaluations,
            "seconds_left": seconds_left,
            "failed": len(record.failures),
            "skipped_steps": steps,
        }
        text = f"round {_of(config, state)}  {_loss(record)}  {record.evaluations:,} evaluations{left}{failed}"
        _log.info("%s", text, extra={"facts": facts})

    return show


def _done(config: RunConfig, state: ServerState) -> float:
    return min(1.0, config.progress(state.round, state.totals.evaluations))


def _of(config: RunConfig, state: ServerState) -> str:
    return f"{state.round}/{config.rounds}" if config.rounds else str(state.round)


def _loss(record: RoundRecord) -> str:
    loss = f"{record.train_loss:.4g}" if math.isfinite(record.train_loss) else "not finite"
    if record.points and record.train_loss_source != "full":  # of no x: a search looks far around, too
        return f"candidates' mean {loss}"
    return f"loss {loss}"


def _skipped(steps: int, record: RoundRecord) -> str:
    if record.points:
        return f"{steps} value{'s' * (steps > 1)} lost"
    return f"{steps} step{'s' * (steps > 1)} skipped"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"

"""The progress of a study and the time left: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from zofedht.common.config.run_config import RunConfig

__all__ = ["StudyProgress", "expected_seconds"]

_COLUMNS = {"digits": 65, "mnist": 785, "fashion-mnist": 785, "rcv1": 47_237}
_ROWS = {"digits": 1438, "mnist": 60_000, "fashion-mnist": 60_000, "rcv1": 20_242}
_NORMAL, _STEP, _FLOP = 15e-9, 60e-6, 0.5e-10  # seconds: one deviate with its use, the rest of a step, one flop
_SECONDS_BETWEEN_LINES = 10.0


def expected_seconds(config: RunConfig) -> float:
    """Return a rough forecast of a run's seconds; its scale is corrected by the runs that have ended."""
    n = _COLUMNS[config.dataset]
    shard = (config.train_rows or _ROWS[config.dataset]) // config.num_clients
    samples = config.batch or shard
    steps = config.budget / (2 * samples)
    read = 75 if config.dataset == "rcv1" else n  # non-zeros of a row
    if config.model == "mlp":
        return steps * (50 * n * _NORMAL + _STEP + 4 * samples * read * 50 * _FLOP)
    return steps * (n * _NORMAL + _STEP + 2 * min(shard, 16 * samples) * read * _FLOP)


class StudyProgress:
    """Shows finished and all cells, and an estimate of the time left; a context manager."""

    def __init__(self, title: str, workers: int, stream: TextIO | None = None) -> None:
        self._title, self._workers, self._stream = title, workers, stream or sys.stderr
        self._left = self._measured = self._forecast = 0.0
        self._done = self._all = 0
        self._shown = 0.0
        self._bar: Progress | None = None
        if self._stream.isatty():
            # No refresh thread: worker processes are forked from this one.
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"))
            self._bar = Progress(*columns, console=Console(file=self._stream), auto_refresh=False)
            self._task = self._bar.add_task(title, total=1.0, state="")

    def __enter__(self) -> StudyProgress:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def begin(self) -> None:
        """Show how much there is to do, once all cells are counted and before the first one runs."""
        if self._done < self._all:
            self._show("" if self._done else "forecast")

    def expect(self, config: RunConfig) -> None:
        """Count a cell that is to be run."""
        self._all += 1
        self._left += expected_seconds(config)

    def skipped(self, config: RunConfig, seconds: float) -> None:
        """Count a cell that was finished before; its seconds tell what others will take."""
        self._all, self._done = self._all + 1, self._done + 1
        self._measure(config, seconds)

    def finished(self, name: str, config: RunConfig, seconds: float) -> None:
        """Count a cell that has just ended."""
        self._done += 1
        self._left -= expected_seconds(config)
        self._measure(config, seconds)
        if self._bar or self._done == self._all or time.monotonic() - self._shown >= _SECONDS_BETWEEN_LINES:
            self._shown = time.monotonic()
            self._show(f"{name} {seconds:.0f} s")

    def _show(self, note: str) -> None:
        state = f"{self._done}/{self._all} cells  {self.left()} left"
        if self._bar:
            # Names are long: beside the bar one would leave no room for it on a terminal of 80 columns.
            if self._done and note:
                self._bar.console.print(note, highlight=False, overflow="ellipsis", no_wrap=True)
            self._bar.update(self._task, completed=self._done / max(1, self._all), state=state, refresh=True)
        else:
            print(f"{self._title} {state}{f'  ({note})' if note else ''}", file=self._stream, flush=True)

    def _measure(self, config: RunConfig, seconds: float) -> None:
        self._measured += seconds
        self._forecast += expected_seconds(config)

    def left(self) -> str:
        """Return the time left as h:mm:ss."""
        scale = self._measured / self._forecast if self._forecast else 1.0
        seconds = round(max(0.0, self._left) * scale / self._workers)
        return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"

"""A run as its folder tells it, kept up to date by reading what its files have grown by."""

from __future__ import annotations

import json
import math
import time
import zlib
from bisect import bisect_left
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from zofedht.common.config.run_config import RunConfig
from zofedht.common.config.texts import load_toml
from zofedht.common.errors import ConfigError, DataError
from zofedht.common.machine.files import read_json
from zofedht.server.page.clients import ClientTable
from zofedht.server.page.tail import Tail
from zofedht.server.page.thin import Point, thinned
from zofedht.server.records.lock import is_held
from zofedht.server.records.run_folder import RunFolder

__all__ = ["FILES", "RunView"]

FILES = (
    "report.html",
    "settings.toml",
    "summary.json",
    "loss.png",
    "x.npy",
    "x-last.npy",
    "config.toml",
    "history.jsonl",
    "clients.jsonl",
)
"""Files of a run that the page gives out. Not among them: run.json, which has digests of data, and the checkpoints."""

_MOST_POINTS = 20_000  # kept in memory; half of them stay when there are more
_MOST_NOTES = 200
_RECENT = 100  # points from which the time left is told


class RunView:
    """What is known of one run. ``look`` reads on; all else is as of the last look."""

    def __init__(self, path: Path) -> None:
        self.folder = RunFolder(path)
        self.looks = 0
        self.begun = 0  # the look in which all files were read anew
        self.behind = False
        self._history, self._visits = Tail(self.folder.history_file), Tail(self.folder.clients.path)
        self._forget()
        self.config: RunConfig | None = None
        self.engine = ""
        self._stamp: tuple[int, ...] = ()
        self._initial: float | None = None
        self._maximizes = False
        self._objective = ""
        self._summary: dict[str, Any] = {}

    def _forget(self) -> None:
        self.begun = self.looks
        self.points: list[Point] = []
        self.marks: list[int] = []  # a checksum of each point's line
        self.clients = ClientTable()
        self.failures: deque[dict[str, Any]] = deque(maxlen=_MOST_NOTES)
        self.interventions: deque[dict[str, Any]] = deque(maxlen=_MOST_NOTES)
        self.failed = self.intervened = 0  # how many there were
        self.causes: dict[str, int] = {}
        self.last: dict[str, Any] = {}
        self._ends: dict[bool, tuple[float, float]] = {}  # least and largest loss, of full evaluations and of probes

    def look(self, seconds: float = math.inf) -> None:
        """Read what is new, for about so many seconds; ``behind`` tells whether there is more.

        A file that cannot be read, or a line that says something else, is passed over.
        """
        self.looks += 1
        replaced = [tail.was_replaced() for tail in (self._history, self._visits)]
        if any(replaced):  # resumed from a checkpoint: some rounds run again
            self._history, self._visits = Tail(self.folder.history_file), Tail(self.folder.clients.path)
            self._forget()
        end = time.monotonic() + seconds
        self.behind = False
        for tail, add in ((self._history, self._add_round), (self._visits, self._add_visit)):
            for line in tail.lines():
                with suppress(KeyError, TypeError, ValueError):
                    add(line)
                if time.monotonic() > end:
                    self.behind = True
                    break
        self._read_the_rest()

    def since(self, round_: int, most: int) -> list[Point]:
        """Return the points after a round, thinned."""
        return thinned(self.points[self._index(round_ + 1) :], most)

    def between(self, first: int, last: int, most: int) -> list[Point]:
        """Return the points of the rounds from ``first`` to ``last``, thinned."""
        return thinned(self.points[self._index(first) : self._index(last + 1)], most)

    def has(self, round_: int, mark: int) -> bool:
        """Return whether this round is here, with the same line."""
        index = self._index(round_)
        found = index < len(self.points) and self.points[index].round == round_
        return found and self.marks[index] == mark

    def status(self) -> dict[str, Any]:
        """Return where the run is, in numbers."""
        config, last = self.config, self.last
        ends = self._ends.get(True, self._ends.get(False))
        done = int(last.get("round", -1)) + 1
        return {
            "name": self.folder.path.resolve().name,
            "state": self._state(done),
            "engine": self.engine,
            "rounds": done,
            "of_rounds": config.rounds if config else 0,
            "of_evaluations": config.budget if config else 0,
            "share": min(1.0, config.progress(done, int(last.get("evaluations", 0)))) if config else 0.0,
            "seconds_left": self._seconds_left(),
            "initial": self._initial,
            "loss": last.get("train_loss"),
            "best": ends[self._maximizes] if ends else None,
            "evaluations": last.get("evaluations", 0),
            "bytes_up": last.get("bytes_up", 0),
            "bytes_down": last.get("bytes_down", 0),
            "seconds": last.get("seconds", 0.0),
            "replies": last.get("replies", 0),
            "failed": self.failed,
            "causes": self.causes,
            "interventions": self.intervened,
            "connected": self.clients.connected,
            "updated": self._written(),
        }

    def config_keys(self) -> list[tuple[str, Any, bool]]:
        """Return each key of the config with its value, and whether that is the default."""
        if self.config is None:
            return []
        plain = RunConfig().to_mapping()
        named = self.config.to_mapping()
        named["objective"] = named["objective"] or self._objective
        return [(key, value, value == plain[key]) for key, value in named.items()]

    def settings(self) -> list[tuple[str, Any]]:
        """Return the parameters of a finished run by name, with their values at the returned x."""
        found = self._summary.get("settings")
        return list(found.items()) if isinstance(found, dict) else []

    def files(self) -> list[str]:
        """Return the names of the files that can be had."""
        return [name for name in FILES if (self.folder.path / name).is_file()]

    def _index(self, round_: int) -> int:
        return bisect_left(self.points, round_, key=lambda point: point.round)

    def _add_visit(self, line: bytes) -> None:
        self.clients.add_line(json.loads(line), self.looks)

    def _add_round(self, line: bytes) -> None:
        row = json.loads(line)
        point = Point.of_row(row)
        changes, failures = row["interventions"], row["failures"]
        self.clients.add_round(row, self.looks)
        self.points.append(point)
        self.marks.append(zlib.crc32(line))
        for failure in failures:
            self.failures.append(failure)
            self.causes[failure["cause"]] = self.causes.get(failure["cause"], 0) + 1
        self.failed += len(failures)
        self.interventions.extend({"round": point.round, **change} for change in changes)
        self.intervened += len(changes)
        if point.loss is not None:
            least, most = self._ends.get(point.full, (point.loss, point.loss))
            self._ends[point.full] = min(least, point.loss), max(most, point.loss)
        self.last = dict(row)
        if len(self.points) > _MOST_POINTS:
            marks = dict(zip(self.points, self.marks, strict=True))
            self.points = thinned(self.points, _MOST_POINTS // 2)
            self.marks = [marks[kept] for kept in self.points]

    def _read_the_rest(self) -> None:
        files = (self.folder.config_file, self.folder.about.file, self.folder.summary_file)
        stamp = tuple(_changed(path) for path in files)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self.config = RunConfig.from_mapping(load_toml(self.folder.config_file)) if stamp[0] else None
        except ConfigError:
            self.config = None
        about, self._summary = (_object(path) for path in files[1:])
        self.engine = str(about.get("engine", ""))
        self._maximizes = about.get("maximize") is True
        self._objective = str(about.get("objective", ""))
        initial = about.get("initial")
        self._initial = initial.get("train_loss") if isinstance(initial, dict) else None

    def _state(self, done: int) -> str:
        if is_held(self.folder.path / "run.lock"):
            return "running" if self.config else "waiting"
        if self._summary and self._summary.get("rounds") == done:
            return "finished"
        return "stopped" if self.last else "waiting"

    def _seconds_left(self) -> float | None:
        if self.config is None or len(self.points) < 2:
            return None
        first, last = self.points[-min(_RECENT, len(self.points))], self.points[-1]
        before, now = (min(1.0, self.config.progress(one.round + 1, one.evaluations)) for one in (first, last))
        return (last.seconds - first.seconds) * (1.0 - now) / (now - before) if now > before else None

    def _written(self) -> float | None:
        stamps = [_changed(path) for path in (self.folder.history_file, self.folder.clients.path)]
        return max(stamps) / 1e9 if any(stamps) else None


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _object(path: Path) -> dict[str, Any]:
    try:
        return read_json(path)
    except DataError:
        return {}

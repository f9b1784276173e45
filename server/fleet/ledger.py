"""Every answer that a site has given, on disk as soon as it is heard: the checkpoint of a fleet.

**Resume is replay**: the r-th question to a site about the same bits of x gets the r-th answer of the ledger. A program
that asks the same questions, as any deterministic optimiser does when it is started again, gets the same answers, noise
and losses included, and goes on where it was stopped.
"""

from __future__ import annotations

import csv
import io
import math
import os
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from zofedht.common.errors import CAUSES, Cause, CheckpointError
from zofedht.common.machine.files import cannot_write
from zofedht.common.objective.points import Answer
from zofedht.common.terminal.whole_lines import length_of_whole_lines

__all__ = ["EVALUATIONS", "Ledger", "Row", "RowFile", "read_rows"]

EVALUATIONS = ("round", "site", "candidate", "repeat", "value", "seconds", "cause", "reason", "x")
"""Columns of ``evaluations.csv``; x is the digest of its bits."""

_SECONDS_BETWEEN_SYNCS = 1.0


@dataclass(frozen=True)
class Row:
    """One answer: the ``repeat``-th to the question (site, x)."""

    round: int
    site: str
    candidate: int
    repeat: int
    answer: Answer
    x: str

    def cells(self) -> tuple[str, ...]:
        """Return the texts of a line; numbers as ``repr``, so that they are read back bit for bit."""
        answer = self.answer
        value = "" if answer.cause else repr(float(answer.value))
        seconds = "" if math.isnan(answer.seconds) else repr(round(float(answer.seconds), 6))
        numbers = str(self.round), self.site, str(self.candidate), str(self.repeat)
        return (*numbers, value, seconds, answer.cause or "", answer.reason, self.x)

    @classmethod
    def of(cls, cells: Sequence[str]) -> Row:
        """Read a line back. Raises ValueError when it is none."""
        round_, site, candidate, repeat, value, seconds, cause, reason, x = cells
        if cause not in ("", *CAUSES):
            raise ValueError(f"the cause {cause!r} is unknown")
        took = float(seconds) if seconds else math.nan
        answer = Answer.lost(cast(Cause, cause), reason, took) if cause else Answer(float(value), took)
        return cls(int(round_), site, int(candidate), int(repeat), answer, x)


class Ledger:
    """The answers of the file, to be given again, and those that are added to it."""

    def __init__(self, rows: Iterable[Row] = (), file: RowFile | None = None, *, forget_losses: bool = False) -> None:
        """``file`` receives new answers. ``forget_losses``: what is lost in the end is asked again."""
        self._lock = threading.Lock()
        self._file = file
        self._kept: dict[tuple[str, str], list[Answer]] = {}
        self._asked: dict[tuple[str, str], int] = {}
        self._candidates: dict[str, int] = {}
        for row in rows:
            self._kept.setdefault((row.site, row.x), [])[row.repeat :] = [row.answer]
            self._candidates.setdefault(row.x, row.candidate)
        if forget_losses:
            for answers in self._kept.values():
                while answers and answers[-1].cause:
                    answers.pop()
        self._numbers = set(self._candidates.values())
        self._next = 0

    def candidate(self, x: str) -> int:
        """Return the number of an x, given by its digest: that of the file, or the smallest that is free."""
        if x not in self._candidates:
            while self._next in self._numbers:
                self._next += 1
            self._candidates[x] = self._next
            self._numbers.add(self._next)
        return self._candidates[x]

    def answers_of(self, site: str) -> dict[str, list[Answer]]:
        """Return all answers of a site by the digest of x, those of earlier processes included."""
        with self._lock:
            return {x: list(answers) for (name, x), answers in self._kept.items() if name == site}

    def again(self, site: str, x: str) -> Answer | None:
        """Return the answer of the file to this question, asked once more now, or None if it must be asked."""
        with self._lock:
            kept, asked = self._kept.get((site, x), []), self._asked.get((site, x), 0)
            if asked >= len(kept):
                return None
            self._asked[site, x] = asked + 1
            return kept[asked]

    def note(self, round_: int, site: str, digests: Sequence[str], answers: Sequence[Answer]) -> None:
        """Write the answers of a site to its questions. Raises DataError when the file cannot be written."""
        with self._lock:
            rows = []
            for x, answer in zip(digests, answers, strict=True):
                repeat = self._asked.get((site, x), 0)
                self._asked[site, x] = repeat + 1
                self._kept.setdefault((site, x), [])[repeat:] = [answer]
                rows.append(Row(round_, site, self.candidate(x), repeat, answer, x))
            if self._file is not None:
                self._file.append([row.cells() for row in rows])


class RowFile:
    """A CSV file that grows by whole lines; one that a kill has torn is cut off when it is opened."""

    def __init__(self, path: Path, header: Sequence[str]) -> None:
        """Raises CheckpointError when the file has another header, DataError when it cannot be written."""
        self.path = path
        try:
            self._file = path.open("r+b" if path.exists() else "w+b")
            length = length_of_whole_lines(self._file)
            self._file.seek(0)
            self.lines = list(csv.reader(io.StringIO(self._file.read(length).decode(errors="replace"))))
            self._check(header)
            self._file.truncate(length)
            self._file.seek(length)
        except OSError as error:
            raise cannot_write(path, error) from error
        self._synced = time.monotonic()
        if not self.lines:
            self.append([header])
        self.lines = self.lines[1:]

    def _check(self, header: Sequence[str]) -> None:
        if self.lines and self.lines[0] != list(header):
            self._file.close()
            raise CheckpointError(
                f"{self.path} has the columns {', '.join(self.lines[0])}, this fleet writes {', '.join(header)}; choose"
                " another folder"
            )

    def append(self, lines: Sequence[Sequence[str]]) -> None:
        """Write lines so that a kill of this process does not lose them. Raises DataError."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(lines)
        try:
            self._file.write(text.getvalue().encode())
            self._file.flush()
            if time.monotonic() - self._synced > _SECONDS_BETWEEN_SYNCS:  # a power cut loses a second at most
                os.fsync(self._file.fileno())
                self._synced = time.monotonic()
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def close(self) -> None:
        """Close the file; what was written is on the disk."""
        if not self._file.closed:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()


def read_rows(path: Path, lines: Sequence[Sequence[str]]) -> list[Row]:
    """Read the lines of ``evaluations.csv``. Raises CheckpointError naming the line that is none."""
    rows = []
    for number, cells in enumerate(lines, start=2):
        try:
            rows.append(Row.of(cells))
        except ValueError as error:
            raise CheckpointError(
                f"{path}, line {number}, is no answer of a site ({error}); mend or remove the line, or choose another"
                " folder"
            ) from error
    return rows

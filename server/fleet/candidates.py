"""The points that were asked about, the best of them by full evaluations at all sites, and a table of the sites."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zofedht.common.errors import CheckpointError
from zofedht.common.objective.points import Answer
from zofedht.common.typing import Vector
from zofedht.common.wire.arrays import vector_digest
from zofedht.server.fleet.ledger import Ledger, RowFile
from zofedht.server.fleet.questions import Table, mean_of

__all__ = ["Best", "Candidates", "site_rows"]

_Key = tuple[int, int, int]
"""Candidate, round, and how often it was asked about before in that round."""


class Best(NamedTuple):
    """The x with the best mean of those that all sites have answered, over its repeats where there are some."""

    x: Vector
    mean: float
    repeats: int


class Candidates:
    """Keeps the mean of each question that all sites have answered, and writes ``candidates.csv``."""

    def __init__(self, sites: int, ledger: Ledger, file: RowFile | None, maximize: bool) -> None:
        """Go on with what the file holds. Raises CheckpointError where a line of it is none."""
        self._sites, self._ledger, self._file = sites, ledger, file
        self._sign = -1.0 if maximize else 1.0
        self._points: dict[int, Vector] = {}
        self._means: dict[int, list[float]] = {}
        self._known: set[_Key] = set()
        seen: Counter[tuple[int, int]] = Counter()
        for number, cells in enumerate(file.lines if file else (), start=2):
            try:
                candidate, round_, *values, mean, answered = cells
                key = int(candidate), int(round_)
                x = np.array([float(value) for value in values])
                self._keep((*key, seen[key]), x, float(mean) if mean else math.nan, int(answered))
                seen[key] += 1
            except ValueError as error:
                where = f"{file.path}, line {number}," if file else ""
                raise CheckpointError(f"{where} is no candidate ({error}); remove the line") from error

    def note(self, table: Table) -> Vector:
        """Take in a batch and return the means, (points,). Raises DataError when the file cannot be written."""
        values = table.values
        means, answered = mean_of(values), np.sum(~np.isnan(values), axis=0)
        lines = []
        seen: Counter[int] = Counter()
        for x, digest, mean, count in zip(table.points, table.digests, means, answered, strict=True):
            candidate = self._ledger.candidate(digest)
            if self._keep((candidate, table.round, seen[candidate]), x, float(mean), int(count)):
                told = "" if math.isnan(mean) else repr(float(mean))
                numbers = (repr(float(value)) for value in x)
                lines.append([str(candidate), str(table.round), *numbers, told, str(count)])
            seen[candidate] += 1
        if lines and self._file is not None:
            self._file.append(lines)
        return means

    def _keep(self, key: _Key, x: Vector, mean: float, answered: int) -> bool:
        """Keep a mean, and return whether it is new."""
        if key in self._known:
            return False
        self._known.add(key)
        if answered == self._sites:
            self._points.setdefault(key[0], x)
            self._means.setdefault(key[0], []).append(mean)
        return True

    @property
    def best(self) -> Best | None:
        """The best so far, or None while all sites have answered about no x."""
        if not self._means:
            return None
        means = {candidate: sum(each) / len(each) for candidate, each in self._means.items()}
        best = min(means, key=lambda candidate: (self._sign * means[candidate], candidate))
        return Best(self._points[best].copy(), means[best], len(self._means[best]))


def site_rows(
    sites: Sequence[str], ledger: Ledger, start: Vector, best: Best | None, *, maximize: bool
) -> list[list[str]]:
    """Return the lines of ``sites.csv``; what is not known is empty, and what is better is a gain above 0."""
    first, last = vector_digest(start), "" if best is None else vector_digest(best.x)
    rows = []
    for site in sites:
        answers = ledger.answers_of(site)
        every = [answer for each in answers.values() for answer in each]
        before, after = _mean(answers.get(first, ())), _mean(answers.get(last, ()))
        gain = after - before if maximize else before - after
        numbers = before, after, gain, _noise(list(answers.values()))
        seconds = sum(answer.seconds for answer in every if not math.isnan(answer.seconds))
        lost = sum(answer.cause is not None for answer in every)
        told = ["" if math.isnan(number) else repr(number) for number in numbers]
        rows.append([site, *told, str(len(every) - lost), str(lost), repr(round(seconds, 6))])
    return rows


def _values(answers: Sequence[Answer]) -> list[float]:
    return [answer.value for answer in answers if answer.cause is None]


def _mean(answers: Sequence[Answer]) -> float:
    values = _values(answers)
    return sum(values) / len(values) if values else math.nan


def _noise(answers: Sequence[Sequence[Answer]]) -> float:
    """Return the standard deviation of answers to one x, over all x that were asked about again; else NaN."""
    again = [values for each in answers if len(values := _values(each)) > 1]
    freedom = sum(len(values) - 1 for values in again)
    if not freedom:
        return math.nan
    # From the first value, so that equal ones differ from their mean by 0 and not by its rounding.
    distances = [np.array(each) - each[0] for each in again]
    return math.sqrt(sum(float(np.sum((each - np.mean(each)) ** 2)) for each in distances) / freedom)

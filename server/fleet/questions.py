"""A batch of questions: what the ledger knows is replayed, the rest is asked, and what is lost is asked again."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zofedht.common.errors import BudgetError, ObjectiveError
from zofedht.common.objective.points import Answer
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.arrays import vector_digest
from zofedht.server.fleet.ledger import Ledger
from zofedht.server.fleet.sites import Sites

__all__ = ["ON_LOSS", "Questions", "Table", "mean_of"]

ON_LOSS = ("lost", "stop")
"""What an answer costs that is lost to the end: its place in the mean, or the program."""

_Cell = tuple[str, int]
"""Site and number of the point in the batch."""


@dataclass(frozen=True)
class Table:
    """The answers of one batch."""

    round: int
    sites: tuple[str, ...]
    points: Matrix
    digests: tuple[str, ...]
    answers: dict[_Cell, Answer]  # the last answer to each question
    live: bool  # whether any site was asked, and not the ledger alone

    @property
    def values(self) -> Matrix:
        """Values, (sites, points); NaN where they are lost."""
        columns = range(len(self.points))
        return np.array([[self.answers[site, column].value for column in columns] for site in self.sites])


def mean_of(values: Matrix) -> Vector:
    """Return the mean over the sites that answered, (points,); NaN where none did."""
    present = ~np.isnan(values)
    total = np.zeros(values.shape[1])
    for row in np.where(present, values, 0.0):  # one by one: NumPy's own order depends on the number of points
        total += row
    count = present.sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


class Questions:
    """Asks batches one after another."""

    def __init__(self, sites: Sites, ledger: Ledger, *, on_error: str, max_retries: int, budget: int) -> None:
        self._sites, self._ledger = sites, ledger
        self._on_error, self._retries, self._budget = on_error, max_retries, budget
        self._lock = threading.Lock()
        self.rounds = 0
        self.evaluations = 0  # that sites were asked for, those of the ledger included

    def table(self, points: Matrix, names: Sequence[str]) -> Table:
        """Ask the sites about all points.

        Raises BudgetError before anything is asked when the budget does not suffice, and ObjectiveError when answers
        are lost to the end and on_error is stop.
        """
        with self._lock:
            wanted = len(names) * len(points)
            if self._budget and self.evaluations + wanted > self._budget:
                raise BudgetError(
                    f"the budget of {self._budget} site evaluations has {self._budget - self.evaluations} left, and"
                    f" {len(points)} x {len(names)} are wanted (points x sites)"
                )
            digests = tuple(vector_digest(point) for point in points)
            for digest in digests:
                self._ledger.candidate(digest)
            self.rounds += 1
            table = Table(
                self.rounds, tuple(names), points, digests, *self._answers(self.rounds, points, digests, names)
            )
        if self._on_error == "stop" and (lost := [cell for cell, answer in table.answers.items() if answer.cause]):
            site, column = lost[0]
            raise ObjectiveError(
                f"{len(lost)} of {wanted} answers are lost, the first at site {site}, point {column}:"
                f" {table.answers[site, column].reason} (on_error = stop; run the program again to ask for them again)"
            )
        return table

    def _answers(
        self, round_: int, points: Matrix, digests: Sequence[str], names: Sequence[str]
    ) -> tuple[dict[_Cell, Answer], bool]:
        answers: dict[_Cell, Answer] = {}
        missing = {name: list(range(len(points))) for name in names}
        live = False
        for _ in range(1 + self._retries):
            unknown: dict[str, list[int]] = {}
            for name, columns in missing.items():
                for column in columns:
                    answer = self._ledger.again(name, digests[column])
                    if answer is None:
                        unknown.setdefault(name, []).append(column)
                    else:
                        answers[name, column] = answer
            if unknown:
                live = True
                self._ask(round_, points, digests, unknown, answers)
            asked = {(name, column) for name, columns in missing.items() for column in columns}
            self.evaluations += sum(answers[cell].cause != "absent" for cell in asked)
            missing = {
                name: again
                for name, columns in missing.items()
                if (again := [c for c in columns if answers[name, c].cause not in (None, "absent")])
            }
            more = sum(map(len, missing.values()))
            if not more or (self._budget and self.evaluations + more > self._budget):
                break
        return answers, live

    def _ask(
        self,
        round_: int,
        points: Matrix,
        digests: Sequence[str],
        unknown: dict[str, list[int]],
        answers: dict[_Cell, Answer],
    ) -> None:
        waiting = {name: list(columns) for name, columns in unknown.items()}

        def heard(name: str, told: Sequence[Answer]) -> None:
            columns = [waiting[name].pop(0) for _ in told]
            self._ledger.note(round_, name, [digests[column] for column in columns], told)
            answers.update({(name, column): answer for column, answer in zip(columns, told, strict=True)})

        self._sites.ask({name: points[columns] for name, columns in unknown.items()}, heard)

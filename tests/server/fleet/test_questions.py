"""Batches over sites that a script plays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zofedht import CheckpointError
from zofedht.common.objective.parameters import Parameters
from zofedht.common.objective.points import Answer
from zofedht.common.typing import Matrix
from zofedht.server.fleet.ledger import EVALUATIONS, Ledger, Row, RowFile, read_rows
from zofedht.server.fleet.questions import Questions, mean_of
from zofedht.server.fleet.sites import Heard

Play = Callable[[str, int], Answer]
"""The answer of a site to the how-manieth question that it is asked."""


class Played:
    """Sites a, b that answer as a play says; they tell at most two answers at a time."""

    parameters = Parameters(np.zeros(1))
    samples: Mapping[str, int] = {"a": 1, "b": 1}

    def __init__(self, play: Play) -> None:
        self.play = play
        self.asked = {"a": 0, "b": 0}

    def ask(self, points: Mapping[str, Matrix], heard: Heard) -> None:
        for name, rows in points.items():
            for begin in range(0, len(rows), 2):
                answers = []
                for _ in rows[begin : begin + 2]:
                    answers.append(self.play(name, self.asked[name]))
                    self.asked[name] += 1
                heard(name, answers)

    def close(self, *, over: bool) -> None: ...


def questions(play: Play, ledger: Ledger | None = None, *, retries: int = 1, budget: int = 0) -> Questions:
    return Questions(Played(play), ledger or Ledger(), on_error="lost", max_retries=retries, budget=budget)


def seventh_lost(name: str, count: int) -> Answer:
    return Answer.lost("raised", "no") if count % 7 == 3 else Answer(float(count))


POINTS = np.array([[0.0], [1.0], [0.0], [2.0]])


def test_what_is_lost_is_asked_again() -> None:
    asked = questions(seventh_lost)
    table = asked.table(POINTS, ["a", "b"])
    assert table.values.tolist() == [[0.0, 1.0, 2.0, 4.0]] * 2
    assert asked.evaluations == 10


def test_an_absent_site_costs_nothing() -> None:
    asked = questions(lambda name, count: Answer.lost("absent", "gone") if name == "b" else Answer(1.0))
    table = asked.table(POINTS, ["a", "b"])
    assert np.isnan(table.values).tolist() == [[False] * 4, [True] * 4]
    assert asked.evaluations == 4


def test_the_budget_leaves_no_evaluation_for_asking_again() -> None:
    asked = questions(lambda name, count: Answer.lost("raised", "no"), retries=9, budget=17)
    asked.table(POINTS, ["a", "b"])
    assert asked.evaluations == 16


@settings(max_examples=60)
@given(cut=st.integers(0, 60), batches=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), max_size=6))
def test_a_ledger_cut_anywhere_gives_the_same_tables(
    tmp_path_factory: pytest.TempPathFactory, cut: int, batches: list[list[int]]
) -> None:
    """Each answer depends on how many were asked before: only a replay in the right order goes on as it was."""
    path = tmp_path_factory.mktemp("cut") / "evaluations.csv"

    def run(play: Play) -> tuple[list[list[list[float]]], int]:
        file = RowFile(path, EVALUATIONS)
        asked = questions(play, Ledger(read_rows(path, file.lines), file))
        tables = [asked.table(np.array(batch, dtype=float)[:, None], ["a", "b"]).values.tolist() for batch in batches]
        file.close()
        return tables, asked.evaluations

    whole = run(seventh_lost)
    lines = path.read_text().splitlines(keepends=True)
    kept = lines[: 1 + cut]
    path.write_text("".join(kept) + (lines[1 + cut][:9] if 1 + cut < len(lines) else ""))
    done = {name: sum(line.split(",")[1] == name for line in kept[1:]) for name in ("a", "b")}
    assert repr(run(lambda name, count: seventh_lost(name, count + done[name]))) == repr(whole)
    assert path.read_text().count("\n") == len(lines)


def test_numbers_are_read_back_bit_for_bit() -> None:
    for value in (0.1 + 0.2, 1e-310, -0.0, 1.7976931348623157e308):
        row = Row(3, "a", 1, 0, Answer(value, 0.25), "ab")
        again = Row.of(row.cells())
        assert again == row
        assert np.signbit(again.answer.value) == np.signbit(value)


def test_means_leave_out_what_is_lost() -> None:
    nan = np.nan
    np.testing.assert_array_equal(mean_of(np.array([[1.0, nan, nan], [3.0, 5.0, nan]])), [2.0, 5.0, nan])


def test_a_file_with_other_columns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n")
    with pytest.raises(CheckpointError, match="has the columns x, y, this fleet writes x, z"):
        RowFile(tmp_path / "a.csv", ["x", "z"])

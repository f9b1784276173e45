"""What a person sees: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import json
import math
import time
from contextlib import redirect_stderr
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import small
from tests.server.records.test_history import RECORD
from zofedht.common.config.run_config import RunConfig
from zofedht.common.terminal.logs import LogOptions, shown
from zofedht.server.core.state import ServerState, Totals
from zofedht.server.terminal.progress import progress


class Terminal(io.StringIO):
    """A text stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def state_of(round_: int) -> ServerState:
    return ServerState(round_, np.zeros(2), totals=Totals(evaluations=72 * round_))


def show_all(config: RunConfig, stream: io.StringIO, rounds: int, first: int = 0, loss: float = 0.5) -> str:
    with redirect_stderr(stream), progress(config, state_of(first)) as show:
        for round_ in range(first + 1, rounds + 1):
            record = replace(RECORD, round=round_ - 1, evaluations=72 * round_, train_loss=loss, failures=[])
            show(state_of(round_), record)
    return stream.getvalue()


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ten seconds pass at every look at the clock."""
    ticks = iter(range(0, 100_000, 10))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(ticks)))


@pytest.mark.usefixtures("slowly")
def test_a_line_tells_round_loss_evaluations_and_time_left():
    lines = show_all(small(rounds=30), io.StringIO(), 30).splitlines()
    assert len(lines) == 30
    assert "round 10/30" in lines[9]
    assert "loss 0.5" in lines[9]
    assert "720 evaluations" in lines[9]
    assert "3:20 left" in lines[9]  # 20 rounds of ten seconds
    assert "0:00 left" in lines[-1]


@pytest.mark.usefixtures("slowly")
def test_a_budget_alone_gives_a_time_left():
    lines = show_all(small(rounds=0, budget=72 * 30), io.StringIO(), 30).splitlines()
    assert "round 10 " in lines[9]
    assert "3:20 left" in lines[9]


@pytest.mark.usefixtures("slowly")
def test_a_resumed_run_measures_only_its_own_rounds():
    assert "1:40 left" in show_all(small(rounds=30), io.StringIO(), 20, first=15).splitlines()[-1]


def test_fast_rounds_share_a_line():
    lines = show_all(small(rounds=500), io.StringIO(), 500).splitlines()
    assert len(lines) < 10
    assert "round 500/500" in lines[-1]


@pytest.mark.usefixtures("slowly")
def test_failures_are_counted_on_their_line():
    stream = io.StringIO()
    with redirect_stderr(stream), progress(small(), state_of(0)) as show:
        show(state_of(1), replace(RECORD, failures=[{}, {}]))
    assert "2 failed" in stream.getvalue()


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_of_nan_or_inf_is_not_finite(loss: float):
    assert "loss not finite" in show_all(small(rounds=1), io.StringIO(), 1, loss=loss)


def test_plain_lines_hold_no_control_characters():
    assert all(character.isprintable() or character == "\n" for character in show_all(small(), io.StringIO(), 7))


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    text = show_all(small(), Terminal(), 7)
    assert "\x1b[" in text
    assert "round 7/7" in text
    assert "loss 0.5 " in text
    assert "504 evaluations" in text


def test_json_has_the_numbers_as_fields():
    stream = io.StringIO()
    with redirect_stderr(stream), shown(LogOptions(format="json")):
        show_all(small(), stream, 7, loss=math.nan)
    last = json.loads(stream.getvalue().splitlines()[-1])
    assert (last["round"], last["of_rounds"], last["evaluations"]) == (7, 7, 504)
    assert last["train_loss"] is None
    assert last["level"] == "info"


@pytest.mark.parametrize("options", [LogOptions(format="json"), LogOptions(-1)])
def test_a_terminal_gets_no_bar_where_lines_were_asked_for(options: LogOptions):
    stream = Terminal()
    with redirect_stderr(stream), shown(options):
        show_all(small(), stream, 7)
    assert "\x1b[" not in stream.getvalue()


@pytest.mark.parametrize(("source", "said"), [("probes", "candidates' mean 0.5  "), ("full", "  loss 0.5  ")])
def test_a_search_says_whose_loss_a_round_has(source: str, said: str):
    record = replace(RECORD, points=27, train_loss=0.5, train_loss_source=source, failures=[])  # type: ignore[arg-type]
    stream = io.StringIO()
    with redirect_stderr(stream), progress(small(rounds=1), state_of(0)) as show:
        show(state_of(1), record)
    assert said in stream.getvalue()

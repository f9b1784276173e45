"""What the user's code may do to a run: it ends the program, hangs, or has metrics that other clients lack."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.waiting import PATIENCE
from zofedht import run
from zofedht.common.checks.report import check
from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.base import Objective
from zofedht.common.objective.loading import load_objective
from zofedht.server.__main__ import main
from zofedht.server.overdue import told_when_overdue

_QUITS = """
import sys
from zofedht import Objective
class Quits(Objective):
    dim = 1
    calls = 0
    def value(self, x, batch):
        self.calls += 1
        if self.calls >= {at}:
            sys.exit(0)
        return float(x[0] ** 2)
"""


def _bowl(x: Any) -> float:
    return float(np.sum((x - 3.0) ** 2))


@pytest.mark.parametrize(("ending", "told"), [(SystemExit(0), "SystemExit: 0"), (GeneratorExit(), "GeneratorExit")])
def test_an_objective_that_ends_the_program_costs_its_slot(ending: BaseException, told: str) -> None:
    calls = 0

    def quits(x: Any) -> float:
        nonlocal calls
        calls += 1
        if calls == 40:
            raise ending
        return _bowl(x)

    result = run(quits, x0=[0.0, 0.0], rounds=5, step_size=0.05, local_steps=10)
    assert result.nit == 5
    assert result.lost["slots"] == 1
    assert result.lost["causes"] == {"raised": 1}
    assert f"the objective raised {told}" in result.message
    assert "1 of 6 slots were lost" in result.message


def test_the_end_of_a_run_names_folder_and_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quits_later.py").write_text(_QUITS.format(at=250))
    keys = ["objective=quits_later:Quits", "num-clients=1", "clients-per-round=1", "rounds=20", "step-size=0.01"]
    assert main(["run", "--out", "out", "--set", *keys, "kernel=numpy"]) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("zofedht-server: error: round 3 had fewer than min-replies = 1")
    assert "raised SystemExit: 0 (quits_later.py, line 10, in value)" in last
    assert last.endswith("go on with `zofedht-server resume out`")


def test_a_module_that_ends_the_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script_that_exits.py").write_text("import sys\nsys.exit(3)\n")
    with pytest.raises(ObjectiveError, match="importing script_that_exits raised SystemExit: 3"):
        load_objective("script_that_exits:make")
    (tmp_path / "quits_at_once.py").write_text(_QUITS.format(at=1))
    assert not check("quits_at_once:Quits").ok


@pytest.mark.filterwarnings("always:.*round-timeout:UserWarning")
@pytest.mark.parametrize(("at", "what"), [(10, "round 1"), (1, "the evaluation of x by all clients")])
def test_what_hangs_in_one_process_is_told(at: int, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a warning, which a program shows that sets up no logging."""
    told, said = threading.Event(), ""

    def show(message: Warning | str, *rest: Any) -> None:
        nonlocal said
        said += str(message)
        told.set()

    monkeypatch.setattr(warnings, "showwarning", show)
    calls = 0

    def hangs(x: Any) -> float:
        nonlocal calls
        calls += 1
        assert calls != at or told.wait(PATIENCE)
        return _bowl(x)

    run(hangs, x0=[0.0], rounds=1, step_size=0.01, round_timeout=0.5)
    assert f"{what} has taken round-timeout = 0.5 seconds and still runs" in said
    assert "in hangs)" in said
    assert "resume" in said


def test_a_round_in_time_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    with told_when_overdue(3600.0, "round 1"):
        pass
    assert capsys.readouterr().err == ""


class _Own(Objective):
    dim = 1

    def __init__(self, index: int) -> None:
        self.index = index

    def value(self, x: Any, batch: Any) -> float:
        return float(x[0] ** 2)

    def evaluate(self, x: Any) -> dict[str, float]:
        return {"loss": self.value(x, None), "error": 0.5} | ({"recall": 0.25} if self.index else {})


def test_a_metric_of_some_clients_is_told() -> None:
    result = run([_Own(0), _Own(1)], rounds=2, step_size=0.1, init="ones", evaluate_every=0)
    assert set(result.metrics) == {"train_loss", "train_error"}
    assert "train_recall" not in result.metrics
    assert "recall is no metric of the run, since not all clients tell it: client 0 lacks" in result.message


def test_lost_slots_are_in_the_result() -> None:
    def failing(x: Any) -> float:
        return float("nan") if x[0] > 1.0 else _bowl(x)

    result = run(failing, x0=[0.0, 0.0], rounds=20, algorithm="zofedht")
    assert result.lost["slots"] == sum(len(row["failures"]) for row in result.records) > 0
    skipped = run(failing, x0=[0.0, 0.0], rounds=20, algorithm="zofedht", on_error="skip-step")
    assert skipped.lost["steps"] == sum(part["steps"] for row in skipped.records for part in row["skipped"]) > 0
    assert "steps were skipped" in skipped.message


def test_noise_that_drowns_the_slopes_is_no_success() -> None:
    rng = np.random.default_rng(0)
    result = run(lambda x: 1e-6 * _bowl(x) + rng.normal(), x0=[0.0, 0.0], rounds=40, step_size=1e-4)
    assert not result.success
    assert run(_bowl, x0=[0.0, 0.0], rounds=40, step_size=0.01).success

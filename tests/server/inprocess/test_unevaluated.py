"""Full evaluations that fail at some clients: asked again, then the mean of the others, and who is missing is told."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest

from tests.helpers import black_box, small
from zofedht import run as run_once
from zofedht.common.errors import ObjectiveError, RoundError
from zofedht.common.objective.base import Objective
from zofedht.common.typing import Indices, Vector
from zofedht.server.conduct import Result
from zofedht.server.evaluation.evaluate import Answer, Answered, evaluate_clients
from zofedht.server.evaluation.full_evaluation import FullEvaluation, Unevaluated, evaluation_notes
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.history import read_history
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.terminal.summary import summary_text

WHY = "the objective raised TimeoutError: the plant is in maintenance"


def recorded(folder: Path, factory: str, **changes: object) -> tuple[Result, RunFolder]:
    config = small(objective=factory, **changes)
    kept = RunFolder(folder / "run")
    with kept:
        kept.begin(config, "in-process")
        return run_in_process(config, folder=kept), kept


def test_only_who_failed_is_asked_again():
    asked: list[set[str]] = []

    def ask(done: Collection[str]) -> dict[str, Answer]:
        asked.append({"a", "b", "c"} - set(done))
        answers: dict[str, Answer] = {
            "a": Answered({"loss": 1.0}, 3),
            "b": RoundError("cut"),
            "c": ObjectiveError("down"),
        }
        if len(asked) == 2:
            answers["b"] = Answered({"loss": 4.0}, 2)
        return {name: answer for name, answer in answers.items() if name not in done}

    found = evaluate_clients(ask, ["a", "gone"], max_retries=2, on_error="drop-slot")
    assert asked == [{"a", "b", "c"}, {"b", "c"}, {"c"}]
    assert (found.metrics, found.clients, found.samples) == ({"train_loss": 2.5}, ("a", "b"), 5)
    missing = (("c", "unusable", "down"), ("gone", "no-answer", "not connected, or still busy with earlier work"))
    assert found.missing == tuple(Unevaluated(*one) for one in missing)


def test_a_cut_line_does_not_stop_the_run():
    """on-error = stop is about evaluations."""
    lost: dict[str, Answer] = {"a": Answered({"loss": 1.0}, 1), "b": RoundError("cut")}
    assert evaluate_clients(lambda done: lost, max_retries=3, on_error="stop").clients == ("a",)
    failed: dict[str, Answer] = lost | {"c": ObjectiveError("down")}
    with pytest.raises(ObjectiveError, match=r"client b: cut; client c: down\); the run stops since on-error = stop"):
        evaluate_clients(lambda done: failed, max_retries=3, on_error="stop")


def test_losses_over_different_clients_do_not_compare():
    both, one = FullEvaluation({"train_loss": 1.0}, ("a", "b")), FullEvaluation({"train_loss": 1.0}, ("a",))
    assert evaluation_notes(both, both) == []
    assert evaluation_notes(one, both) == [
        "the first and the last loss are means over different clients: they do not compare"
    ]


def test_an_unknown_first_loss_is_called_unknown():
    last, nobody = FullEvaluation({"train_loss": 1.0}), (Unevaluated("a", "raised", "down"),)
    assert evaluation_notes(FullEvaluation({}), last) == [
        "the first loss is not known: the folder of the run has lost it (run.json)"
    ]
    assert evaluation_notes(FullEvaluation({}, missing=nobody), last) == ["the first loss is not known: client a: down"]


def test_what_fails_once_is_asked_again_and_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = black_box(tmp_path, monkeypatch)
    found, folder = recorded(tmp_path, f"{module}:FailsOnce")
    wanted = run_in_process(small(objective=f"{module}:Valve"))
    assert (found.initial, found.final) == (wanted.initial, wanted.final)
    assert found.summary["evaluation_notes"] == []
    assert all(row["unevaluated"] == [] for row in read_history(folder.history_file))


@pytest.mark.parametrize("policy", ["drop-slot", "skip-step"])
def test_who_cannot_evaluate_is_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str):
    module = black_box(tmp_path, monkeypatch)
    found, folder = recorded(tmp_path, f"{module}:LastFails", on_error=policy)
    x, days = found.x, [np.random.default_rng([11, i]).standard_normal((4, 6)) for i in range(4)]
    mean = np.mean([np.mean(np.square(x - days[i])) for i in (0, 1, 3)])
    assert found.final["train_loss"] == pytest.approx(mean, rel=1e-12)
    rows = read_history(folder.history_file)
    assert [len(row["unevaluated"]) for row in rows] == [0] * 6 + [1]
    assert (rows[-1]["unevaluated"][0]["client"], rows[-1]["train_loss_source"]) == ("2", "full")
    assert rows[-1]["unevaluated"][0]["reason"].startswith(WHY)
    kept = json.loads(folder.summary_file.read_text())
    assert kept["evaluated_clients"] == {"initial": 4, "last": 3}
    assert kept["unevaluated"] == {"initial": [], "last": rows[-1]["unevaluated"]}
    text = summary_text(kept, folder)
    assert f"the last x was evaluated on 3 of 4 clients: client 2: {WHY}" in text
    assert "means over different clients: they do not compare" in text


def test_the_log_warns_once_of_unevaluated_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    module = black_box(tmp_path, monkeypatch)
    run_in_process(small(objective=f"{module}:FailsAlways"), show_progress=True)
    lines = [line.partition(" ")[2] for line in capsys.readouterr().err.splitlines()]  # after the time
    warnings = [line for line in lines if line.startswith("warning: ")]
    assert warnings[0].startswith(
        f"warning: the start could not be evaluated by all clients, its loss is that of the others; client 2: {WHY}"
    )
    assert warnings[1].startswith(
        "warning: x after round 6 could not be evaluated by all clients, the loss is that of the other clients; "
        f"client 2: {WHY}"
    )
    assert len(warnings) == 2


def test_losses_over_the_same_clients_compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = black_box(tmp_path, monkeypatch)
    found, _ = recorded(tmp_path, f"{module}:FailsAlways")
    first, last = found.summary["evaluation_notes"]
    assert first.startswith(f"the first x was evaluated on 3 of 4 clients: client 2: {WHY}")
    assert last.startswith(f"the last x was evaluated on 3 of 4 clients: client 2: {WHY}")


def test_a_stopped_run_goes_on_under_another_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = black_box(tmp_path, monkeypatch)
    with pytest.raises(ObjectiveError, match=rf"client 2: {WHY}.*on-error = stop.*resumed"):
        recorded(tmp_path, f"{module}:LastFails", on_error="stop")
    folder = RunFolder(tmp_path / "run")
    again, state, _ = folder.reopen({"on-error": "drop-slot"})
    assert state.round == 6
    result = run_in_process(again, folder=folder, state=state)
    assert result.state.x.tobytes() == run_in_process(small(objective=f"{module}:LastFails")).state.x.tobytes()
    assert result.summary["evaluated_clients"] == {"initial": 4, "last": 3}


def test_an_unevaluated_x_is_kept_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Nobody can evaluate the last x."""
    module = black_box(tmp_path, monkeypatch)
    found, folder = recorded(tmp_path, f"{module}:AllFailAtLast")
    np.testing.assert_array_equal(np.load(folder.last_file), found.state.user_x)
    assert found.state.x.tobytes() == run_in_process(small(objective=f"{module}:Valve")).x.tobytes()
    kept = json.loads(folder.summary_file.read_text())
    assert (kept["last_train_loss"], kept["x_is"], kept["success"]) == (None, "start", False)
    rows = read_history(folder.history_file)
    assert rows[-1]["train_loss_source"] == "probes"
    assert np.isfinite(rows[-1]["train_loss"])
    text = summary_text(kept, folder)
    assert f"no client could evaluate the last x: clients 0, 1, 2, 3: {WHY}" in text
    assert "it rose" not in text


class Weak(Objective):
    """A bowl around ``centre`` that cannot be evaluated as a whole once x has moved, where it is told so."""

    dim = 3

    def __init__(self, centre: float, fails: bool) -> None:
        self.centre, self.fails = centre, fails

    def value(self, x: Vector, batch: Indices | slice) -> float:
        return float(np.sum(np.square(x - self.centre)))

    def evaluate(self, x: Vector) -> dict[str, float]:
        if self.fails and np.any(x):
            raise TimeoutError("the plant is in maintenance")
        return super().evaluate(x)


def test_one_call_says_what_its_loss_is():
    some = run_once([Weak(1.0, False), Weak(2.0, True)], rounds=40, step_size=0.05)
    assert not some.success
    assert some.message.startswith(
        "all 40 rounds are done, but it is unknown whether they lowered the loss; the last x was"
    )
    assert some.fun == pytest.approx(float(np.sum(np.square(some.x - 1.0))))
    nobody = run_once([Weak(1.0, True), Weak(2.0, True)], rounds=40, step_size=0.05)
    np.testing.assert_array_equal(nobody.last, some.last)
    np.testing.assert_array_equal(nobody.x, np.zeros(3))
    assert (nobody.success, nobody.fun) == (False, 7.5)
    assert "loss; x is the start; no client could evaluate the last x: clients 0, 1: the" in nobody.message
    stopped = run_once([Weak(1.0, False), Weak(2.0, True)], rounds=40, step_size=0.05, on_error="stop")
    assert not stopped.success
    assert "client 1: the objective raised TimeoutError" in stopped.message
    assert stopped.nit == 9  # the full evaluation of round 10

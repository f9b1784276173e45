"""A run as its folder tells it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.helpers import killed_and_resumed, quadratics, small
from tests.server.page.runs import begin, lost, record, write
from zofedht import Real, load_run, run
from zofedht.server.inprocess import run_in_process
from zofedht.server.page.view import RunView
from zofedht.server.records.run_folder import RunFolder


def looked(path: Path) -> RunView:
    view = RunView(path)
    view.look()
    return view


def test_an_empty_folder_waits(tmp_path: Path):
    status = looked(tmp_path / "nowhere").status()
    assert (status["state"], status["rounds"], status["connected"]) == ("waiting", 0, None)


def test_a_finished_run_is_told_in_full(tmp_path: Path):
    with RunFolder(tmp_path) as folder:
        folder.begin(small(), "in-process")
        result = run_in_process(small(), quadratics(), folder=folder)
        assert looked(tmp_path).status()["state"] == "running"
    view = looked(tmp_path)
    status = view.status()
    assert (status["state"], status["rounds"], status["share"]) == ("finished", 7, 1.0)
    for name in ("evaluations", "bytes_up", "bytes_down"):
        assert status[name] == result.summary[name]
    assert status["initial"] == result.summary["initial_train_loss"]
    assert [point.round for point in view.points] == list(range(7))
    assert sum(row.slots for row in view.clients.rows.values()) == 7 * 3
    assert sum(row.bytes_up for row in view.clients.rows.values()) == result.summary["bytes_up"]
    assert ("rounds", 7, False) in view.config_keys()
    assert ("l2", 0.0, True) in view.config_keys()
    assert set(view.files()) >= {"history.jsonl", "summary.json", "x.npy"}
    assert "run.json" not in view.files()


def test_a_finished_run_has_values_by_name(tmp_path: Path):
    run(lambda valve: (valve - 0.3) ** 2, parameters={"valve": Real(0, 1)}, budget=20, out=tmp_path)
    assert looked(tmp_path).settings() == list(load_run(tmp_path).settings.items())
    assert looked(tmp_path / "nowhere").settings() == []


def test_rounds_are_added_as_they_come(tmp_path: Path):
    folder, view = begin(tmp_path / "run"), RunView(tmp_path / "run")
    view.look()
    write(folder, record(0), record(1))
    view.look()
    assert [point.round for point in view.points] == [0, 1]
    write(folder, record(2, failures=[lost(2, "b")], interventions=[{"what": "step-size"}]))
    view.look()
    assert view.status()["rounds"] == 3
    assert view.status()["seconds_left"] == pytest.approx(0.5 * 97)
    assert view.begun == 0
    assert list(view.failures) == [lost(2, "b")]
    assert list(view.interventions) == [{"round": 2, "what": "step-size"}]
    assert view.causes == {"raised": 1}


def test_the_best_loss_is_a_full_evaluation_where_there_is_one(tmp_path: Path):
    folder, view = begin(tmp_path / "run"), RunView(tmp_path / "run")
    write(folder, record(0, train_loss=0.2, train_loss_source="probes"))
    view.look()
    assert view.status()["best"] == 0.2
    write(folder, record(1, train_loss=0.7), record(2, train_loss=0.9))
    view.look()
    assert view.status()["best"] == 0.7


def test_clients_add_up_over_rounds(tmp_path: Path):
    folder = begin(tmp_path / "run")
    outlier = {"slot": 0, "client": "a", "times": 9.0}
    write(folder, record(0), record(1, outliers=[outlier], failures=[lost(1, "c"), lost(1, "c", cause="stale")]))
    rows = looked(tmp_path / "run").clients.rows
    assert (rows["a"].rounds, rows["a"].slots, rows["a"].seconds) == (2, 2, 1.0)
    assert (rows["a"].bytes_up, rows["a"].bytes_down) == (200, 400)
    assert (rows["a"].times, rows["a"].outliers) == (1.5, 1)
    assert dict(rows["c"].lost) == {"raised": 1}
    assert rows["c"].reason == "it broke"
    assert rows["c"].seen is None


def test_visits_tell_who_is_connected(tmp_path: Path):
    folder = begin(tmp_path / "run")
    folder.clients.listening()
    for name in ("a", "b"):
        folder.clients.joined(name)
    folder.clients.left("a", "")
    view = looked(tmp_path / "run")
    assert view.status()["connected"] == 1
    folder.clients.listening()  # the server was killed and is back
    view.look()
    assert view.status()["connected"] == 0
    assert all(row.seen for row in view.clients.rows.values())


def test_a_resumed_run_is_read_anew(tmp_path: Path):
    folder = RunFolder(tmp_path / "run")
    config = small(rounds=9, checkpoint_every=4)
    view = RunView(folder.path)
    killed_and_resumed(folder, config, 7)
    view.look()
    assert [point.round for point in view.points] == list(range(9))
    folder.clients.truncate(4)
    view.look()
    assert view.begun == view.looks
    assert sum(row.slots for row in view.clients.rows.values()) == 4 * 3


def test_a_killed_writer_leaves_a_stopped_run(tmp_path: Path):
    folder = begin(tmp_path / "run")
    write(folder, record(0))
    lock = folder.path / "run.lock"
    assert looked(folder.path).status()["state"] == "running"
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)  # its number belongs to nobody now
    lock.write_text(lock.read_text().replace(f"process {os.getpid()} ", f"process {child} "))
    assert looked(folder.path).status()["state"] == "stopped"
    lock.write_text("process 1 on another-machine\n")
    assert looked(folder.path).status()["state"] == "running"


@pytest.mark.parametrize("text", ["[]", "{}", "nothing", '{"round": "x"}', '{"time": null, "joined": "a"}'])
def test_lines_that_say_something_else_are_passed_over(tmp_path: Path, text: str):
    folder = begin(tmp_path / "run")
    for path in (folder.history_file, folder.clients.path):
        path.write_text(text + "\n")
    write(folder, record(0))
    view = looked(folder.path)
    assert [point.round for point in view.points] == [0]
    assert view.clients.rows["a"].slots == 1


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("zofedht.server.page.view._MOST_POINTS", 40)
    folder = begin(tmp_path / "run")
    write(folder, *(record(round_, failures=[lost(round_, "a")] * 9) for round_ in range(100)))
    view = looked(folder.path)
    assert len(view.points) <= 40
    assert (view.points[0].round, view.points[-1].round) == (0, 99)
    assert len(view.marks) == len(view.points)
    assert (len(view.failures), view.failed) == (200, 900)

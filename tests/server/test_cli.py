"""zofedht-server as a person types it: files, metrics, and one sentence where something is wrong."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tests.helpers import SMALL, black_box, small
from zofedht.common.config.run_config import RunConfig
from zofedht.common.config.texts import load_toml
from zofedht.server import inprocess
from zofedht.server.__main__ import main
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.history import read_history
from zofedht.server.records.run_folder import RunFolder, sha256_of_x

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = [f"{key}={value}" for key, value in SMALL.items()]
FILES = {"history.jsonl", "summary.json", "config.toml", "run.json", "loss.png", "checkpoints"}
Captured = pytest.CaptureFixture[str]

pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def _quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of a short run: leave it to the tests that ask for ``pictures``."""
    if "pictures" not in request.fixturenames:
        monkeypatch.setattr(RunFolder, "draw", lambda folder: "picture: not drawn")


@pytest.fixture
def pictures() -> None:
    """Let runs draw."""


def command(*words: str | Path) -> int:
    return main([str(word) for word in words])


def run(out: Path, *settings: str) -> int:
    return command("run", "--out", out, "--set", *SETTINGS, *settings)


def complaint(capsys: Captured, code: int) -> str:
    """Return the one sentence of a command that failed."""
    captured = capsys.readouterr()
    assert code == 2
    lines = [line for line in captured.err.splitlines() if not re.match(r"\d\d:\d\d:\d\d (round|continuing) ", line)]
    assert len(lines) == 1, captured.err
    assert lines[0].startswith("zofedht-server: error: ")
    return lines[0].removeprefix("zofedht-server: error: ")


def summary(folder: Path) -> dict[str, object]:
    read: dict[str, object] = json.loads((folder / "summary.json").read_text())
    return read


@pytest.mark.usefixtures("pictures")
def test_run_leaves_all_files_and_says_where_they_are(tmp_path: Path, capsys: Captured):
    out = tmp_path / "run"
    assert run(out) == 0
    assert {path.name for path in out.iterdir()} >= FILES
    text = capsys.readouterr()
    for name in ("summary.json", "history.jsonl", "loss.png"):
        assert str(out / name) in text.out
    assert "sha256" in text.out
    assert "round 7/7" in text.err
    assert (out / "loss.png").read_bytes().startswith(b"\x89PNG")


def test_the_summary_tells_of_the_run(tmp_path: Path):
    run(tmp_path / "run")
    found = summary(tmp_path / "run")
    expected = run_in_process(small())
    promised = {"initial_train_loss", "final_train_loss", "final_train_accuracy", "test_accuracy", "rounds"}
    promised |= {"evaluations", "bytes_up", "bytes_down", "seconds", "x_sha256", "config"}
    assert promised <= set(found)
    assert found["x_sha256"] == sha256_of_x(expected.x)
    assert found["final_train_loss"] == expected.final["train_loss"]
    assert found["test_accuracy"] == expected.final["test_accuracy"]
    assert found["config"] == small().to_mapping()
    assert [row["round"] for row in read_history(tmp_path / "run" / "history.jsonl")] == list(range(7))


def test_assignments_win_over_the_config_file(tmp_path: Path):
    run(tmp_path / "one", "radius=0.001")
    file = tmp_path / "one" / "config.toml"
    file.write_text(file.read_text().replace("radius = 0.001", "radius = 0.5"))
    assert command("run", "--config", file, "--set", "radius=1e-3", "--out", tmp_path / "two") == 0
    assert summary(tmp_path / "one")["x_sha256"] == summary(tmp_path / "two")["x_sha256"]
    assert RunConfig.from_mapping(load_toml(tmp_path / "two" / "config.toml")) == small(radius=1e-3)


def test_resume_equals_an_uninterrupted_run(tmp_path: Path, capsys: Captured):
    run(tmp_path / "whole", "step-schedule=constant")
    run(tmp_path / "parts", "rounds=3", "step-schedule=constant")
    assert command("resume", tmp_path / "parts", "--set", "rounds=7") == 0
    assert "continuing" in capsys.readouterr().err
    assert summary(tmp_path / "parts")["x_sha256"] == summary(tmp_path / "whole")["x_sha256"]


def test_resume_warns_of_a_damaged_checkpoint(tmp_path: Path, capsys: Captured):
    """It goes on from the one before."""
    run(tmp_path / "run")
    expected = summary(tmp_path / "run")["x_sha256"]
    newest = max((tmp_path / "run" / "checkpoints").iterdir())
    newest.write_bytes(newest.read_bytes()[:50])
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert command("resume", tmp_path / "run") == 0
    assert "warning: " in (error := capsys.readouterr().err)
    assert "continuing from round-00000006.ckpt" in error
    assert summary(tmp_path / "run")["x_sha256"] == expected


def test_compare_begins_at_one_start(tmp_path: Path, capsys: Captured):
    """It runs each algorithm and draws all."""
    names = ["zofedht", "zofedavg-sgd", "zofedavg-gd"]
    out = tmp_path / "all"
    assert command("compare", "--algorithms", ",".join(names), "--out", out, "--set", *SETTINGS) == 0
    assert (out / "compare.png").read_bytes().startswith(b"\x89PNG")
    table = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in table[1:4]] == names
    assert len({summary(out / name)["initial_train_loss"] for name in names}) == 1
    assert len({summary(out / name)["x_sha256"] for name in names}) == 3
    for name in names:
        assert summary(out / name)["x_sha256"] == sha256_of_x(run_in_process(small(algorithm=name)).x)


def test_plot_draws_several_runs_into_one_file(tmp_path: Path, capsys: Captured):
    for name in ("a", "b"):
        run(tmp_path / name)
    assert command("plot", tmp_path / "a", tmp_path / "b", "--out", tmp_path / "both.pdf") == 0
    assert (tmp_path / "both.pdf").read_bytes().startswith(b"%PDF")
    assert "both.pdf" in capsys.readouterr().out


def test_every_problem_of_a_config_is_listed(tmp_path: Path, capsys: Captured):
    assert run(tmp_path / "run", "subspace-wieght=0.5", "radius=-1", "rounds=many") == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("zofedht-server: error: ") for line in lines)
    assert "did you mean 'subspace-weight'?" in "".join(lines)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("num-clients=5000", "num-clients must be between 1 and the number of training rows"),
        ("positive-labels=0-9", "must"),
        ("dataset=nowhere.csv", "nowhere.csv"),
        ("objective=nowhere:make", "no module named 'nowhere'"),
        ("dataset=clients", "use it with `zofedht-server serve`"),
    ],
)
def test_a_failed_start_leaves_the_folder_free(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, setting: str, sentence: str
):
    """What fails before round 0 is one sentence."""
    monkeypatch.setattr(sys, "path", list(sys.path))  # loading an objective adds the working folder
    assert sentence in complaint(capsys, run(tmp_path / "run", setting))
    assert run(tmp_path / "run") == 0


def test_run_refuses_a_folder_that_holds_a_run(tmp_path: Path, capsys: Captured):
    run(tmp_path / "run")
    before = (tmp_path / "run" / "history.jsonl").read_bytes()
    capsys.readouterr()
    assert "already holds a run; continue it with `zofedht-server resume" in complaint(capsys, run(tmp_path / "run"))
    assert (tmp_path / "run" / "history.jsonl").read_bytes() == before


def test_compare_takes_keys_of_one_run_and_several_seeds(tmp_path: Path):
    out = tmp_path / "all"
    items = "zofedht:step-schedule=inverse-sqrt:step-size=0.5,zofedht"
    assert command("compare", "--algorithms", items, "--seeds", 2, "--out", out, "--set", *SETTINGS) == 0
    names = {
        f"{name}-seed{seed}"
        for name in ("zofedht,step-schedule=inverse-sqrt,step-size=0.5", "zofedht")
        for seed in (11, 12)
    }
    assert {folder.name for folder in out.iterdir() if folder.is_dir()} == names
    configs = {name: load_toml(out / name / "config.toml") for name in names}
    assert {config["step-schedule"] for name, config in configs.items() if "=" in name} == {"inverse-sqrt"}
    assert all(name.endswith(f"-seed{config['seed']}") for name, config in configs.items())


def test_compare_refuses_one_name_twice_and_unknown_names(tmp_path: Path, capsys: Captured):
    for names, sentence in (("zofedht,zofedht", "different algorithms"), ("zofedhd", "did you mean 'zofedht'?")):
        code = command("compare", "--algorithms", names, "--out", tmp_path / "all", "--set", *SETTINGS)
        assert sentence in complaint(capsys, code)
    assert not (tmp_path / "all").exists()


def test_resume_of_nothing_is_a_sentence(tmp_path: Path, capsys: Captured):
    """So is one of damaged checkpoints."""
    assert "holds no run" in complaint(capsys, command("resume", tmp_path))
    run(tmp_path / "run")
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        path.write_bytes(b"")
    capsys.readouterr()
    assert "no checkpoint can be continued from" in complaint(capsys, command("resume", tmp_path / "run"))


@pytest.mark.parametrize("dataset", ["digits", "clients"])
def test_a_served_run_is_resumed_by_its_clients(
    dataset: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
):
    """Where they hold what is trained."""
    objective = f"{black_box(tmp_path, monkeypatch)}:Bounded"
    config = small(rounds=2, objective=objective, dataset=dataset)
    with RunFolder(tmp_path / "run") as folder:
        folder.begin(config, "grpc")
        run_in_process(config, folder=folder)
    sentence = complaint(capsys, command("resume", tmp_path / "run", "--set", "rounds=3"))
    assert "lived on its clients; go on with them by `zofedht-server serve --resume --out" in sentence
    assert len(read_history(tmp_path / "run" / "history.jsonl")) == 2
    assert command("resume", tmp_path / "run", "--engine", "in-process", "--set", "rounds=3") == 0
    assert len(read_history(tmp_path / "run" / "history.jsonl")) == 3


def test_resume_refuses_to_change_the_numbers(tmp_path: Path, capsys: Captured):
    run(tmp_path / "run")
    capsys.readouterr()
    sentence = complaint(capsys, command("resume", tmp_path / "run", "--set", "seed=4"))
    assert sentence.startswith("seed cannot change when a run is resumed, and ")


def test_all_keys_of_another_run_are_told_at_once(tmp_path: Path, capsys: Captured):
    """The folder, each difference and the way out are in one sentence."""
    run(tmp_path / "run")
    capsys.readouterr()
    sentence = complaint(capsys, command("resume", tmp_path / "run", "--set", "seed=4", "objective=plant:make"))
    assert f"objective, seed cannot change when a run is resumed, and {tmp_path / 'run'} holds a run with" in sentence
    assert "objective = '', now 'plant:make'; seed = " in sentence
    assert "give --out another folder (RUN=NAME with docker compose)" in sentence
    assert "export and report tell of the old one" in sentence


def test_plot_of_what_is_not_there_is_a_sentence(tmp_path: Path, capsys: Captured):
    code = command("plot", tmp_path / "nothing", "--out", tmp_path / "p.png")
    assert "no history can be read from" in complaint(capsys, code)


def test_a_failing_objective_is_named_with_its_step(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch):
    module = black_box(tmp_path, monkeypatch)
    sentence = complaint(capsys, run(tmp_path / "run", f"objective={module}:Breaking", "max-retries=0"))
    assert "client 2: round 1, step 1: the objective raised RuntimeError: the valve is shut" in sentence
    assert "the run can be resumed" in sentence


def test_an_interrupt_keeps_what_was_finished(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch):
    carry = inprocess.InProcessEngine.carry_round

    def interrupted(engine: inprocess.InProcessEngine) -> None:
        if engine._coordinator.state.round == 5:
            raise KeyboardInterrupt
        carry(engine)

    run(tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(inprocess.InProcessEngine, "carry_round", interrupted)
        assert run(tmp_path / "run") == 130
    assert "interrupted; what was finished is kept" in capsys.readouterr().err
    assert command("resume", tmp_path / "run") == 0
    assert "after round 5" in capsys.readouterr().err
    assert summary(tmp_path / "run")["x_sha256"] == summary(tmp_path / "whole")["x_sha256"]


def test_our_own_mistakes_show_their_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("zofedht.server.commands.running.run_in_process", lambda *anything, **more: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(tmp_path / "run")


def test_an_error_ends_without_a_traceback(tmp_path: Path):
    """The exit code is 2."""
    words = ["-m", "zofedht.server", "run", "--out", str(tmp_path / "run"), "--set", "subspace-weight=1.4"]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "zofedht-server: error: subspace-weight must be in [0, 1], got 1.4 (0 ignores the trajectory)\n"
    )


def test_without_ray_the_simulation_names_the_extra(tmp_path: Path):
    """In a fresh process, since importing Flower here would warn."""
    words = ["run", "--engine", "simulation", "--out", str(tmp_path / "run")]
    script = f"import sys; sys.modules['ray'] = None; from zofedht.server.__main__ import main; sys.exit(main({words}))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith("the simulation engine needs Ray; install it with `pip install 'zofedht[sim]'`\n")

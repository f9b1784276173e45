"""What a program reads off a run: the exit code, and where the results are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from zofedht.server.__main__ import main
from zofedht.server.records.run_folder import RunFolder

_MODULE = """
    import numpy as np
    from zofedht import Objective

    class Bowl(Objective):
        dim = 2
        def value(self, x, batch):
            return float(np.sum((x - 1.0) ** 2))

    class Flat(Bowl):
        def value(self, x, batch):
            return 1.0

    class Noise(Bowl):
        rng = np.random.default_rng(1)
        def value(self, x, batch):
            return float(self.rng.standard_normal())
    """
KEYS = ["num-clients=2", "clients-per-round=2", "rounds=12", "local-steps=5", "memory=2"]


@pytest.fixture(autouse=True)
def _module(write_module: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    write_module("exit_module", _MODULE)
    monkeypatch.setattr(RunFolder, "draw", lambda folder: "picture: not drawn")


def ran(objective: str, *keys: str) -> int:
    return main(["run", "--out", "out", "--set", f"objective=exit_module:{objective}", *KEYS, *keys])


def test_a_better_run_exits_with_0(capsys: pytest.CaptureFixture[str]):
    assert ran("Bowl", "step-size=0.05") == 0
    assert "verdict         better than the start: gain " in capsys.readouterr().out
    assert json.loads(Path("out/summary.json").read_text())["success"] is True


@pytest.mark.parametrize(("objective", "step"), [("Flat", "0.05"), ("Bowl", "8"), ("Noise", "1e-9")])
def test_flat_diverged_and_noisy_runs_exit_with_3(objective: str, step: str):
    assert ran(objective, f"step-size={step}") == 3
    assert json.loads(Path("out/summary.json").read_text())["success"] is False
    assert main(["resume", "out"]) == 3


def test_an_error_still_exits_with_2():
    assert ran("Missing") == 2


@pytest.mark.parametrize(
    ("words", "option", "most"),
    [
        (["serve", "--address", "127.0.0.1:0", "--insecure", "--min-clients"], "--min-clients", 10**6),
        (["serve", "--address", "127.0.0.1:0", "--insecure", "--max-message-mb"], "--max-message-mb", 2047),
        (["compare", "--algorithms", "zofedht", "--seeds"], "--seeds", 10**6),
    ],
)
def test_counts_of_options_are_bounded(words: list[str], option: str, most: int, capsys: pytest.CaptureFixture[str]):
    for count in (0, 10**12):
        assert main([*words, str(count)]) == 2
        assert f"{option} must be between 1 and {most}, got {count}" in capsys.readouterr().err


def test_results_have_a_folder_of_their_own(capsys: pytest.CaptureFixture[str]):
    words = ["run", "--set", "objective=exit_module:Bowl", "step-size=0.05", *KEYS]
    assert main(words) == main(words) == 0
    folders = sorted(Path("runs").iterdir())
    assert len(folders) == 2  # the second one begins within the same second, or later
    assert all(folder.name.startswith("exit-module-bowl-20") for folder in folders)
    assert f"results go to {folders[0]}" in capsys.readouterr().err


def test_resumed_serving_needs_its_folder(capsys: pytest.CaptureFixture[str]):
    assert main(["serve", "--address", "127.0.0.1:0", "--insecure", "--resume"]) == 2
    assert "--resume needs --out" in capsys.readouterr().err


def test_an_empty_folder_holds_nothing_to_resume(capsys: pytest.CaptureFixture[str]):
    """Without a config nobody has asked for a run; with one, it begins: a service unit may always say --resume."""
    assert main(["serve", "--address", "127.0.0.1:0", "--insecure", "--resume", "--out", "nothing"]) == 2
    sentence = capsys.readouterr().err
    assert "nothing holds no run to continue, and neither --config nor --set says which run should begin" in sentence
    assert not list(Path("nothing").glob("*"))

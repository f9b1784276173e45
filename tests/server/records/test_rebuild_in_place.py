"""Parameters from the start and the trail: bit for bit those of the clients, in Python and by the command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.helpers import KilledError, kill_after
from tests.place import Rows
from tests.server.test_in_place import KEYS, NAMED, sites
from zofedht import DataError, RunConfig, load_run, run
from zofedht.server.__main__ import main
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import RunFolder


def assigned() -> list[str]:
    return [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in NAMED.items()]


def test_a_run_in_a_folder_is_rebuilt_bit_for_bit(tmp_path: Path):
    clients = sites()
    result = run(clients, **KEYS, out=tmp_path / "run")
    alone = Rows(3)
    load_run(tmp_path / "run").rebuild(alone)
    assert alone.state_digest() == clients[0].state_digest() == result.digest


@pytest.mark.parametrize("killed", [2, 5])
def test_an_interrupted_run_is_rebuilt_up_to_its_checkpoint(tmp_path: Path, killed: int):
    config, seen = RunConfig.from_mapping(NAMED), []
    with RunFolder(tmp_path / "run") as folder:
        folder.begin(config, "in-process")
        watch = [lambda state, record: seen.append(state.x), kill_after(killed)]
        with pytest.raises(KilledError):
            run_in_process(config, folder=folder, observers=watch)
    found = load_run(tmp_path / "run")
    assert np.array_equal(found.last, seen[killed - 2])  # the last round was not done
    found.rebuild(Rows(0), last=True)


def test_the_command_exports_the_parameters_of_a_resumed_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out, config = tmp_path / "run", RunConfig.from_mapping(NAMED)
    with RunFolder(out) as folder:
        folder.begin(config, "in-process")
        with pytest.raises(KilledError):
            run_in_process(config, folder=folder, observers=[kill_after(4)])
    assert main(["resume", str(out)]) == 0
    whole = run_in_process(config).state
    assert whole.tensors is not None
    assert f"24 in place at the clients, digest {whole.tensors.present} after round 8" in capsys.readouterr().out
    assert main(["export", str(out), "--out", str(tmp_path / "weights.npz")]) == 0
    assert "24 parameters" in capsys.readouterr().out
    held = Rows(1)
    held.load(tmp_path / "weights.npz")
    assert held.state_digest() == whole.tensors.present


def test_what_does_not_hold_the_start_is_refused(tmp_path: Path):
    run(sites(), **KEYS, out=tmp_path / "run")
    found = load_run(tmp_path / "run")
    moved = Rows(0)
    found.rebuild(moved)
    with pytest.raises(DataError, match=r"must hold the parameters that .* began with"):
        found.rebuild(moved)
    with pytest.raises(DataError, match="must have the blocks of the clients"):
        found.rebuild(Rows(0, "float64"))
    run(lambda x: float(x @ x), x0=np.ones(60), rounds=2, step_size=0.1, out=tmp_path / "plain")
    with pytest.raises(DataError, match="is no run in place"):
        load_run(tmp_path / "plain").rebuild(Rows(0))


def test_other_bits_than_the_clients_told_are_refused(tmp_path: Path):
    class Rounds(Rows):
        def add_all(self, directions, coefficients):
            super().add_all(directions, coefficients)
            self.arrays["bias"] *= np.float32(1.0000001)

    run(sites(), **KEYS, out=tmp_path / "run")
    with pytest.raises(DataError, match="come to other bits here"):
        load_run(tmp_path / "run").rebuild(Rounds(0))


def test_export_needs_a_factory_and_an_npz(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run(sites(), **KEYS, out=tmp_path / "run")
    words = ["export", str(tmp_path / "run"), "--out"]
    assert main([*words, str(tmp_path / "x.npz")]) == 2
    assert "names no objective; give --objective MODULE:FACTORY" in capsys.readouterr().err
    assert main([*words, str(tmp_path / "x.csv"), "--objective", "tests.place:make"]) == 2
    assert "--out must end in .npz" in capsys.readouterr().err
    assert main([*words, str(tmp_path / "x.npz"), "--objective", "tests.place:make"]) == 0

"""The package as its users meet it: beside folders of their own that have the same names as ours, and installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.own_folders import OPTIMUM, own_folders

_ROOT = Path(__file__).resolve().parents[1]

_IMPORTS = """
import client, common, server
from zofedht import Objective, RunConfig, Shard, ZOFedClassifier, load_run, run
print(*(module.__file__ for module in (client, common, server)), sep="\\n")
result = run("valve:make", rounds=30, batch_size=0, seed=1, memory=2, num_clients=1)
print(*result.x)
"""


def _python(folder: Path, *words: str, python: str = sys.executable, **environment: str) -> str:
    ended = subprocess.run(
        [python, *words],
        cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


# The root on PYTHONPATH is a checkout that nobody installed, and what Flower does with a bundle.
@pytest.mark.parametrize("path", ["", str(_ROOT)])
def test_names_import_beside_the_users_own_folders(tmp_path: Path, path: str) -> None:
    *files, x = _python(own_folders(tmp_path), "-c", _IMPORTS, PYTHONPATH=path).splitlines()
    assert all(Path(file).is_relative_to(tmp_path) for file in files)
    np.testing.assert_allclose([float(part) for part in x.split()], OPTIMUM, atol=0.1)


@pytest.mark.parametrize("path", ["", str(_ROOT)])
def test_commands_find_the_users_own_folders(tmp_path: Path, path: str) -> None:
    folder = own_folders(tmp_path)
    keys = ["num-clients=1", "clients-per-round=1", "rounds=30", "batch-size=0", "memory=2"]
    told = _python(folder, "-m", "zofedht.client", "check", "--objective", "valve:make", PYTHONPATH=path)
    assert told.splitlines()[-1] == "valve:make can run"
    words = ["run", "--set", "objective=valve:make", *keys, "--out", "out"]
    _python(folder, "-m", "zofedht.server", *words, PYTHONPATH=path)
    np.testing.assert_allclose(np.load(folder / "out" / "x.npy"), OPTIMUM, atol=0.1)


def test_the_users_folders_win_from_behind_this_repository(tmp_path: Path) -> None:
    """The working folder is the checkout, as under ``flwr run .``; the user's modules are on PYTHONPATH."""
    folder = own_folders(tmp_path)
    told = _python(_ROOT, "-m", "zofedht.client", "check", "--objective", "valve:make", PYTHONPATH=str(folder))
    assert told.splitlines()[-1] == "valve:make can run"

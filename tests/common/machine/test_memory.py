"""What does not fit into memory is refused before it is allocated."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from zofedht import run
from zofedht.common.data.dataset import Dataset
from zofedht.common.errors import ZofedhtError
from zofedht.common.machine import memory
from zofedht.common.machine.memory import free_bytes, lacking
from zofedht.common.models.table import ModelOptions, build_model
from zofedht.common.objective.base import Objective
from zofedht.common.objective.loading import checked_objective
from zofedht.server.__main__ import main


def test_the_system_says_what_is_free() -> None:
    free = free_bytes()
    assert free is None or 2**20 < free < 2**60


def test_only_what_does_not_fit_is_lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda: 10**9)
    assert lacking(10**9, "it") == ""
    assert lacking(10**9 + 1, "rows") == "rows take at least 1.0 GB of memory, and 1.0 GB are free"
    monkeypatch.setattr(memory, "free_bytes", lambda: None)
    assert lacking(10**18, "it") == ""


class _Big(Objective):
    dim = 10**15

    def value(self, x: object, batch: object) -> float:
        raise AssertionError("nothing is evaluated")


def test_parameters_beyond_memory_are_refused() -> None:
    with pytest.raises(ZofedhtError, match=r"big:Big: n = 1,000,000,000,000,000 parameters take .*make dim smaller"):
        checked_objective(_Big(), "big:Big")
    with pytest.raises(ZofedhtError, match="make dim smaller"):
        run(_Big(), rounds=1)
    data = Dataset(np.ones((2, 10**6)), np.array([0.0, 1.0]), np.array([0, 1]))
    with pytest.raises(ZofedhtError, match=r"of 1,000,000 columns, take .*choose a smaller model"):
        build_model("mlp", data, ModelOptions(hidden_units=10**9))


def test_moves_beyond_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda: 10**9)
    with pytest.raises(ZofedhtError, match="n = 100,000 parameters with clients-per-round = 10,000 and memory = 5"):
        run(lambda x: 0.0, x0=np.zeros(10**5), rounds=1, num_clients=1, clients_per_round=10**4)


@pytest.mark.parametrize(
    "setting",
    ["batch-size=1e10", "batch-size=2e9", "local-steps=1e10", "clients-per-round=1e9", "num-clients=2e9", "memory=1e9"],
)
def test_a_typing_error_of_a_size_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str
) -> None:
    assert main(["run", "--out", str(tmp_path / "out"), "--set", setting]) == 2
    said = capsys.readouterr().err.strip()
    assert said.count("\n") == 0
    assert setting.partition("=")[0] in said
    assert "at most" in said


def test_an_index_of_two_billions_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda: 10**10)
    path = tmp_path / "hashed.svm"
    path.write_text("1 1:0.5 2000000000:1\n0 2:1\n1 1:1\n0 2:1\n1 1:1\n0 2:2\n")
    assert main(["run", "--out", str(tmp_path / "out"), "--set", f"dataset={path}", "num-clients=2"]) == 2
    said = capsys.readouterr().err.strip()
    assert "n = 2,000,000,000 parameters, of as many columns, take at least 64.0 GB of memory" in said
    assert said.count("\n") == 0


_SIZES = {
    "an index": "dataset=hashed.svm",
    "n": "objective=big:Big",
    "a batch": "batch-size=1e10",
}


@pytest.mark.parametrize("what", _SIZES)
def test_a_size_is_refused_before_heavy_libraries_are_loaded(tmp_path: Path, what: str) -> None:
    """scikit-learn and SciPy take longer to load than the answer may take: a second."""
    (tmp_path / "hashed.svm").write_text("1 1:0.5 2000000000:1\n0 2:1\n" * 4)
    (tmp_path / "big.py").write_text(
        "from zofedht import Objective\n"
        "class Big(Objective):\n    dim = 10**15\n    def value(self, x, batch): return 0.0\n"
    )
    limited = "import zofedht.common.machine.memory as memory; memory.free_bytes = lambda: 10**10"
    command = f"main(['run', '--out', 'out', '--set', '{_SIZES[what]}', 'num-clients=2', 'rounds=1'])"
    script = f"import sys; {limited}; from zofedht.server.__main__ import main; print({command})"
    script += "; print({'sklearn', 'scipy', 'numba', 'flwr'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "set()"]
    assert done.stderr.count("\n") == 1

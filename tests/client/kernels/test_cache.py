"""Loops that were just compiled and loops that come from the disk take the same steps, bit for bit."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.waiting import run_to_end

pytest.importorskip("numba", reason="the extra `fast` is not installed")

ROOT = Path(__file__).resolve().parents[3]
_RUN = """
from zofedht import RunConfig
from zofedht.server.inprocess import run_in_process
keys = {"rounds": 2, "num-clients": 4, "clients-per-round": 2, "local-steps": 5, "kernel": "compiled"}
keys |= {"model": MODEL, "slopes-per-step": 3, "slope": "forward"}
print(run_in_process(RunConfig.from_mapping(keys)).state.x.tobytes().hex())
"""


@pytest.mark.slow
@pytest.mark.parametrize("model", ["svm-squared-hinge", pytest.param("mlp", marks=pytest.mark.engine)])
def test_loops_from_the_disk_give_the_bits_of_new_ones(tmp_path: Path, model: str) -> None:
    cache, script = {"XDG_CACHE_HOME": str(tmp_path)}, _RUN.replace("MODEL", repr(model))
    new, again = (run_to_end([sys.executable, "-c", script], ROOT, environment=cache) for _ in range(2))
    assert (new.returncode, again.returncode) == (0, 0), new.stderr + again.stderr
    assert any(tmp_path.rglob("*.nbc")), "nothing was kept"
    assert new.stdout
    assert new.stdout == again.stdout

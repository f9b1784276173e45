"""Loops that were just compiled and loops that come from the disk take the same steps, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba", reason="the extra `fast` is not installed")

_RUN = """
import sys
from zofedht import RunConfig
from zofedht.server.inprocess import run_in_process
keys = {"rounds": 2, "num-clients": 4, "clients-per-round": 2, "local-steps": 5, "kernel": "compiled"}
keys |= {"model": sys.argv[1], "slopes-per-step": int(sys.argv[2]), "slope": sys.argv[3]}
print(run_in_process(RunConfig.from_mapping(keys)).state.x.tobytes().hex())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "slopes", "slope"),
    [("logistic", 1, "central"), ("svm-squared-hinge", 3, "forward"), ("mlp", 1, "central"), ("mlp", 3, "forward")],
)
def test_loops_from_the_disk_give_the_bits_of_new_ones(tmp_path: Path, model: str, slopes: int, slope: str) -> None:
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    done = [
        subprocess.run(
            [sys.executable, "-c", _RUN, model, str(slopes), slope],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        for _ in range(2)
    ]
    assert [one.returncode for one in done] == [0, 0], done[0].stderr
    assert any(tmp_path.rglob("*.nbc")), "nothing was kept"
    assert done[0].stdout == done[1].stdout

"""Loops that were just compiled and loops that come from the disk take the same steps, bit for bit."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.waiting import run_to_end

pytest.importorskip("numba", reason="the extra `fast` is not installed")

ROOT = Path(__file__).resolve().parents[3]
CASES = [
    ("logistic", 1, "central"),
    ("svm-squared-hinge", 3, "forward"),
    ("mlp", 1, "central"),
    ("mlp", 3, "forward"),
]
_RUN = f"""
from zofedht import RunConfig
from zofedht.server.inprocess import run_in_process
keys = {{"rounds": 2, "num-clients": 4, "clients-per-round": 2, "local-steps": 5, "kernel": "compiled"}}
for model, slopes, slope in {CASES}:
    config = RunConfig.from_mapping(keys | {{"model": model, "slopes-per-step": slopes, "slope": slope}})
    print(run_in_process(config).state.x.tobytes().hex())
"""


@pytest.mark.slow
def test_loops_from_the_disk_give_the_bits_of_new_ones(tmp_path: Path) -> None:
    """All models in one process: most of the time is that of its start."""
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    new, again = (run_to_end([sys.executable, "-c", _RUN], ROOT, environment=cache) for _ in range(2))
    assert (new.returncode, again.returncode) == (0, 0), new.stderr + again.stderr
    assert any(tmp_path.rglob("*.nbc")), "nothing was kept"
    assert len(new.stdout.split()) == len(CASES)
    assert new.stdout == again.stdout

"""Compiled code is kept on disk, and forgotten when any of its sources changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba", reason="the extra `fast` is not installed")

_RUN = """
import numpy as np
from zofedht.common.random.normals import fill_normals
from zofedht.common.random.streams import stream
drawn = np.empty(3)
fill_normals(stream(1, "check"), drawn)
print(drawn)
"""


def _run(home: Path, **more: str) -> str:
    root = Path(__file__).resolve().parents[3]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(root), "HOME": str(home)} | more
    run = subprocess.run([sys.executable, "-c", _RUN], capture_output=True, text=True, check=True, env=environment)
    return run.stdout


@pytest.mark.slow
def test_code_is_cached_by_its_sources_digest(tmp_path: Path) -> None:
    first = _run(tmp_path)
    folders = list((tmp_path / ".cache" / "zofedht" / "compiled").iterdir())
    assert len(folders) == 1
    kept = sorted(path for path in folders[0].rglob("*.nbc"))
    assert kept
    times = [path.stat().st_mtime_ns for path in kept]
    assert _run(tmp_path) == first
    assert [path.stat().st_mtime_ns for path in kept] == times


@pytest.mark.slow
def test_without_a_cache_folder_each_start_compiles(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert _run(blocked) == _run(tmp_path)

"""The profile of `flwr run .` counts our part of real rounds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_our_part_of_a_round_is_told(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra `sim` is not installed")
    out = tmp_path / "profile.json"
    # A process of its own, as a user starts it: Ray leaves threads and handlers behind.
    command = [sys.executable, "-m", "benchmarks.flower_profile", "--rounds", "3", "--json", str(out)]
    root = Path(__file__).resolve().parents[2]
    command += ["--set", "clients-per-round=2"]
    done = subprocess.run(command, check=True, cwd=root, capture_output=True, text=True)
    parts = json.loads(out.read_text())
    assert 0.0 < parts["server_ms"] < parts["round_ms"]
    assert parts["client_ms"] > 0.0
    assert parts["ours"] == pytest.approx((parts["server_ms"] + parts["client_ms"]) / parts["round_ms"])
    assert "the rest is Flower and Ray" in done.stdout

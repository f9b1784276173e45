"""The profile of `flwr run .` counts our part of real rounds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.flower_profile import main
from server.coordinator import Coordinator


@pytest.mark.slow
def test_our_part_of_a_round_is_told_and_the_clocks_are_taken_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray", reason="the extra `sim` is not installed")
    ask, out = Coordinator.ask, tmp_path / "profile.json"
    assert main(["--rounds", "3", "--set", "clients-per-round=2", "--json", str(out)]) == 0
    parts = json.loads(out.read_text())
    assert 0.0 < parts["server_ms"] < parts["round_ms"]
    assert 0.0 < parts["client_ms"]
    assert parts["ours"] == pytest.approx((parts["server_ms"] + parts["client_ms"]) / parts["round_ms"])
    assert "the rest is Flower and Ray" in capsys.readouterr().out
    assert Coordinator.ask is ask

"""The profile of `flwr run .` counts our part of a round."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.servers import flower_profile
from tests.server.flower.loopback import fit, nodes
from zofedht.common.config.run_config import RunConfig
from zofedht.server.conduct import Result
from zofedht.server.records.run_folder import RunFolder


def test_our_part_of_a_round_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here the rounds go over the messages of Flower without Ray, whose part is what is left of a round."""

    def rounds(config: RunConfig, folder: RunFolder) -> Result:
        return fit(config, nodes(2), folder=folder)

    monkeypatch.setattr(flower_profile, "run_simulation", rounds)
    out = tmp_path / "profile.json"
    words = ["--rounds", "3", "--json", str(out), "--set", "clients-per-round=2", "num-clients=4"]
    assert flower_profile.main(words) == 0
    parts = json.loads(out.read_text())
    assert 0.0 < parts["server_ms"] < parts["round_ms"]
    assert parts["client_ms"] > 0.0
    assert parts["ours"] == pytest.approx((parts["server_ms"] + parts["client_ms"]) / parts["round_ms"])
    assert "the rest is Flower and Ray" in capsys.readouterr().out

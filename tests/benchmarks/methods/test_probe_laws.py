"""The comparison of the probe's laws follows real runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.methods.probe_laws import follow, main
from zofedht.common.config.run_config import RunConfig
from zofedht.common.directions.probes import LAWS
from zofedht.server.inprocess import run_in_process


def test_a_curve_ends_where_the_run_ends() -> None:
    config = RunConfig.from_mapping({"rounds": 12, "num-clients": 5, "clients-per-round": 2, "evaluate-every": 0})
    curve = follow(config)
    assert curve.losses[-1] == pytest.approx(run_in_process(config).final["train_loss"], rel=1e-12)
    assert curve.evaluations[-1] == 12 * 2 * 50 * 2 * 64
    assert curve.seconds == sorted(curve.seconds)


def test_every_law_has_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "laws.json"
    assert main(["--models", "logistic", "--rounds", "7", "--seeds", "0", "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    rows = {f"logistic/{a}/{p}" for a in ("zofedht", "zofedavg-sgd") for p in LAWS}
    assert set(found) == rows
    apart = [row["loss"] for name, row in found.items() if not name.endswith("/frame")]  # of one direction: Gaussian
    assert len(set(apart)) == len(apart) == 6  # Q is there from round 5 on
    assert "rademacher" in capsys.readouterr().out

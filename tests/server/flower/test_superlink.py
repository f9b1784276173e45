"""``flwr run . <connection>`` against a SuperLink and two SuperNodes of this machine: the same x as in process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.superlink_sites import superlink_sites
from zofedht.common.config.run_config import RunConfig
from zofedht.server.inprocess import run
from zofedht.server.records.run_folder import x_digest


@pytest.mark.slow
def test_a_run_over_superlink_and_supernodes_equals_in_process(tmp_path: Path) -> None:
    keys = {"rounds": 3, "memory": 2, "clients-per-round": 2, "num-clients": 4, "local-steps": 5}
    out = tmp_path / "out"
    with superlink_sites(tmp_path) as sites:
        log = sites.submit(keys | {"out": str(out)}, "--stream")
    assert "deprecat" not in log.lower()
    summary = json.loads((out / "summary.json").read_text())
    assert summary["x_sha256"] == x_digest(run(RunConfig.from_mapping(keys)).state.x), log

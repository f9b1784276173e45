"""evaluations, bytes and seconds mean the same in every output, and evaluations and bytes on every engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.server.flower.loopback import fit, nodes
from tests.server.grpc.processes import SMALL, Site
from tests.server.grpc.test_equality import all_end_well
from zofedht import load_run, run
from zofedht.common.config.run_config import RunConfig
from zofedht.server.__main__ import main
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.terminal.summary import summary_text

_CONFIG = RunConfig.from_mapping(SMALL)
_TOTALS = ("evaluations", "bytes_up", "bytes_down")


def _folder(path: Path, engine: str) -> RunFolder:
    folder = RunFolder(path / "run")
    folder.begin(_CONFIG, engine)
    return folder


def _agree(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Compare all outputs of a finished run; return its totals."""
    summary = json.loads(folder.summary_file.read_text())
    finished = load_run(folder.path)
    last = finished.history[-1]
    totals = {name: summary[name] for name in _TOTALS}
    assert {name: last[name] for name in _TOTALS} == totals
    assert summary["seconds"] == pytest.approx(last["seconds"], abs=0.01)
    assert finished.summary == summary
    assert [row["round"] for row in finished.history] == list(range(summary["rounds"]))
    for name in (*_TOTALS, "seconds"):
        rising = [row[name] for row in finished.history]
        assert rising == sorted(rising), f"{name} is a total up to each round"
    lines = [json.loads(line) for line in (folder.path / "clients.jsonl").read_text().splitlines()]
    of_clients = [told for line in lines for told in line.get("clients", {}).values()]
    assert [sum(told[place] for told in of_clients) for place in (2, 3)] == [totals["bytes_up"], totals["bytes_down"]]
    text = summary_text(summary, folder)
    assert f"{summary['rounds']} rounds, {totals['evaluations']:,} evaluations" in text
    assert f"{totals['bytes_up'] / 1e6:.2f} MB up, {totals['bytes_down'] / 1e6:.2f} MB down" in text
    assert main(["report", str(folder.path)]) == 0
    assert f"{totals['evaluations']:,}" in (folder.path / "report.html").read_text()
    capsys.readouterr()
    return totals


def _alike(totals: dict[str, Any], here: dict[str, Any]) -> None:
    """Names of clients and frames of messages differ by some bytes."""
    assert totals["evaluations"] == here["evaluations"]
    assert totals == pytest.approx(here, rel=0.05)


def _here(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    run_folder = _folder(folder, "in-process")
    run_in_process(_CONFIG, folder=run_folder)
    return _agree(run_folder, capsys)


def test_in_process_all_outputs_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    totals = _here(tmp_path, capsys)
    result = run(config=_CONFIG, out=tmp_path / "python")
    assert (result.nfev, result.nit) == (totals["evaluations"], _CONFIG.rounds)
    assert {name: result.history[-1][name] for name in _TOTALS} == totals


def test_over_flower_all_outputs_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = _folder(tmp_path, "simulation")
    fit(_CONFIG, nodes(3), folder=folder)
    totals = _agree(folder, capsys)
    here = _here(tmp_path / "here", capsys)
    _alike(totals, here)


def test_served_all_outputs_agree(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    server = site.server()
    all_end_well(server, site.clients())
    totals = _agree(RunFolder(site.out), capsys)
    here = _here(tmp_path, capsys)
    _alike(totals, here)

"""Writes report.html and settings.toml into a run's folder."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zofedht.common.errors import DataError
from zofedht.common.machine.files import replace_file
from zofedht.common.typing import Vector
from zofedht.server.core.state import ServerState
from zofedht.server.evaluation.verdict import Verdict
from zofedht.server.records.history import read_history
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.report.html import SiteCost, report_html
from zofedht.server.report.settings import MOST_NUMBERS, settings_text

__all__ = ["write_report", "write_settings"]


def write_settings(folder: RunFolder, state: ServerState, verdict: Verdict, summary: Mapping[str, Any]) -> None:
    """Write settings.toml at the end of a run. Raises DataError where it cannot be written."""
    after = _values(state, verdict.chosen.x)
    before = {} if state.start is None else _values(state, state.start.x)
    replace_file(folder.settings_file, settings_text(summary, before, after).encode())


def write_report(folder: RunFolder) -> Path:
    """Make report.html from the files of a finished run, and return its path.

    Raises DataError where the folder holds no finished run, or the report cannot be written.
    """
    if not folder.exists():
        raise DataError(f"{folder.path} holds no run: a result folder has config.toml and history.jsonl in it")
    if not folder.summary_file.exists():
        raise DataError(f"{folder.path} holds no finished run: it has no summary.json; finish it with {folder.way_on}")
    summary = folder.summary()
    history = read_history(folder.history_file) if folder.history_file.exists() else []
    try:
        settings = tomllib.loads(folder.settings_file.read_text(encoding="utf-8"))
        text = report_html(folder.path.resolve().name, summary, history, _costs(folder, history), settings)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"no report can be made of {folder.path}: its files cannot be read ({error!r})") from error
    replace_file(folder.report_file, text.encode())
    return folder.report_file


def _values(state: ServerState, x: Vector) -> dict[str, Any]:
    if state.tensors is not None:
        return {}
    if named := state.settings_at(x):
        return named
    return {"x": state.in_user_units(x).tolist()} if x.size <= MOST_NUMBERS else {}


def _costs(folder: RunFolder, history: list[dict[str, Any]]) -> dict[str, SiteCost]:
    """Return what each client gave and cost, from clients.jsonl and the failures of the history."""
    costs: dict[str, SiteCost] = {}
    if folder.clients.path.exists():
        for line in folder.clients.path.read_text(encoding="utf-8").splitlines():
            for name, cells in json.loads(line).get("clients", {}).items():
                cost = costs.setdefault(name, SiteCost())
                cost.slots += cells[0]
                cost.seconds += cells[1]
                cost.bytes += cells[2] + cells[3]
    for row in history:
        for failure in row["failures"]:
            costs.setdefault(failure["client"], SiteCost()).lost += failure["cause"] != "stale"
    return costs

"""One cell of a study in a process of its own: it leaves history.jsonl and result.json in its folder."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import DataError, RoundError
from zofedht.common.machine.blas import one_thread
from zofedht.common.machine.files import read_json, replace_file
from zofedht.common.random.kernels import runs_compiled
from zofedht.server.core.round_record import RoundRecord
from zofedht.server.core.state import ServerState
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.history import HistoryWriter

__all__ = ["HISTORY", "RESULT", "Job", "read_result", "run_cell", "same_settings"]

HISTORY, RESULT = "history.jsonl", "result.json"


@dataclass(frozen=True)
class Job:
    """One run and the folder that receives it."""

    name: str
    config: RunConfig
    folder: Path


def run_cell(config: RunConfig, folder: Path, parent: int | None = None) -> None:
    """Run one cell and write its files; result.json is written last and marks the cell as finished.

    A run that diverges is a result, too: its loss is null, and ``failed`` has the reason. With ``parent`` the process
    ends as soon as the parent is gone.

    Raises ZofedhtError for anything else.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(f".{HISTORY}.*.part"):
        left.unlink(missing_ok=True)  # of a run that was killed
    partial = folder / f".{HISTORY}.{os.getpid()}.part"
    writer = HistoryWriter(partial)
    partial.write_bytes(b"")

    evaluations = rounds = 0

    def record(state: ServerState, row: RoundRecord) -> None:
        if parent is not None and os.getppid() != parent:
            os._exit(1)  # the study was killed: nobody waits for this cell
        nonlocal evaluations, rounds
        evaluations, rounds = row.evaluations, row.round + 1
        interventions.extend({"round": row.round, **each} for each in row.interventions)
        if row.train_loss_source == "full":
            writer(state, row)

    started, cpu_started, failed = time.perf_counter(), time.process_time(), ""
    initial: float | None = None
    final: dict[str, Any] = {}
    interventions: list[dict[str, object]] = []
    try:
        with one_thread():
            result = run_in_process(config, observers=[record])
    except RoundError as error:
        failed = str(error)
    else:
        initial, final = result.initial.get("train_loss"), dict(result.last.metrics)
    summary = {
        "final_train_loss": _finite(final.get("train_loss")),
        "final_train_accuracy": _finite(final.get("train_accuracy")),
        "test_accuracy": _finite(final.get("test_accuracy")),
        "initial_train_loss": _finite(initial),
        "failed": failed,
        "rounds": rounds,
        "evaluations": evaluations,
        "seconds": round(time.perf_counter() - started, 3),
        "cpu_seconds": round(time.process_time() - cpu_started, 3),
        "interventions": interventions,
        "kernel": "compiled" if runs_compiled(config.kernel) else "numpy",
        "config": config.to_mapping(),
    }
    partial.replace(folder / HISTORY)
    replace_file(folder / RESULT, (json.dumps(summary, indent=1, allow_nan=False) + "\n").encode())


def cell_process(config: RunConfig, folder: Path, parent: int) -> None:
    """The target of a worker process: an interrupt or the end of the terminal is the parent's business."""
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    run_cell(config, folder, parent)


def read_result(folder: Path) -> dict[str, Any] | None:
    """Return the result of a finished cell, None when it is not finished.

    Raises DataError when the file is there and is no result.
    """
    path = folder / RESULT
    if not path.exists():
        return None
    found = read_json(path)
    if not isinstance(found.get("config"), dict) or "final_train_loss" not in found:
        raise DataError(f"{path} is not the result of a cell; remove its folder and run the study again")
    return found


def same_settings(found: dict[str, Any], config: RunConfig) -> list[str]:
    """Return the keys in which a finished cell differs from ``config``; the folder of the data does not count."""
    wanted, old = config.to_mapping(), found["config"]
    return [key for key in wanted | old if key != "data-dir" and old.get(key) != wanted.get(key)]


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None

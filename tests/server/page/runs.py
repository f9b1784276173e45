"""Result folders of invented runs, written as a run writes them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from tests.helpers import small
from zofedht.common.config.run_config import RunConfig
from zofedht.server.core.round_record import ClientWork, RoundRecord
from zofedht.server.core.state import ServerState
from zofedht.server.records.history import HistoryWriter
from zofedht.server.records.run_folder import RunFolder

__all__ = ["begin", "lost", "record", "write"]


def begin(path: Path, config: RunConfig | None = None) -> RunFolder:
    """Return the locked folder of a run that has just begun."""
    folder = RunFolder(path)
    folder.begin(config or small(rounds=100), "in-process")
    return folder


def record(round_: int, **changes: Any) -> RoundRecord:
    """Return the record of a round in which clients a and b have answered."""
    work = {name: ClientWork(1, 0.5, 100, 200, 1.5) for name in ("a", "b")}
    usual = RoundRecord(
        round=round_,
        evaluations=10 * (round_ + 1),
        train_loss=1.0 / (round_ + 1),
        train_loss_source="full",
        train_accuracy=None,
        step_size=0.1,
        basis_version=None,
        basis_rank=0,
        replies=2,
        attempts=1,
        bytes_up=200 * (round_ + 1),
        bytes_down=400 * (round_ + 1),
        seconds=0.5 * (round_ + 1),
        failures=[],
        clients=work,
    )
    return dataclasses.replace(usual, **changes)


def lost(round_: int, client: str, reason: str = "it broke", cause: str = "raised") -> dict[str, object]:
    """Return a failure as the history has it."""
    return {"round": round_, "slot": 2, "client": client, "cause": cause, "reason": reason, "step": 3}


def write(folder: RunFolder, *records: RoundRecord) -> None:
    """Append rounds as a run does."""
    for one in records:
        state = ServerState(one.round + 1, np.zeros(2))
        folder.clients(state, one)
        HistoryWriter(folder.history_file)(state, one)

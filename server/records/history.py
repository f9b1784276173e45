"""history.jsonl: one JSON object per line and round."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zofedht.common.errors import DataError
from zofedht.common.machine.files import cannot_write, replace_file
from zofedht.common.plain_text import printable
from zofedht.server.core.round_record import RoundRecord
from zofedht.server.core.state import ServerState

__all__ = ["HistoryWriter", "read_history", "truncate_history"]

_SHOWN = 5  # rounds, or lines
_SHOWN_TEXT = 60  # characters of a line


class HistoryWriter:
    """An observer that appends each round's record as a line, its losses times ``sign``."""

    def __init__(self, path: Path, sign: float = 1.0) -> None:
        self._path, self._sign = path, sign

    def __call__(self, state: ServerState, record: RoundRecord) -> None:
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(_line(record.signed(self._sign).line))
        except OSError as error:
            raise cannot_write(self._path, error) from error


def _line(row: Mapping[str, Any]) -> str:
    # JSON has no NaN and inf: they are written as null.
    finite = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
    return json.dumps(finite, allow_nan=False) + "\n"


def read_history(path: Path) -> list[dict[str, Any]]:
    """Return the records of a history file without a last line that a kill cut short.

    Raises DataError when the file is missing, or another line is no JSON object of a round.
    """
    rows, damaged = _read(path)
    if damaged:
        raise DataError(f"{damaged[0]}; resuming the run drops that line")
    return rows


def truncate_history(path: Path, rounds: int) -> None:
    """Keep the records of the rounds before ``rounds``, each once; later rounds will run again.

    Of a round with several lines the last one is kept. A line that is no record is dropped. Warns of these, and of
    rounds without a line.
    """
    read, damaged = _read(path) if path.exists() else ([], [])
    rows = [row for row in read if row["round"] < rounds]
    kept = {row["round"]: row for row in rows}
    if damaged:
        warnings.warn(f"{'; '.join(damaged[:_SHOWN])}; {len(damaged)} such lines are dropped", stacklevel=2)
    if doubled := len(rows) - len(kept):
        warnings.warn(f"{path} had {doubled} more lines than rounds; the last of each round is kept", stacklevel=2)
    if missing := [str(round_) for round_ in range(rounds) if round_ not in kept]:
        told = ", ".join(missing[:_SHOWN]) + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else "")
        warnings.warn(f"{path} has no line of r = {told}, counted from 0; sums over the run lack them", stacklevel=2)
    replace_file(path, "".join(_line(kept[round_]) for round_ in sorted(kept)).encode())


def _read(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the records, and what is wrong with each line that is none; the last line may be cut short."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise DataError(f"no history can be read from {path} ({error.strerror}); is this a result folder?") from error
    rows: list[dict[str, Any]] = []
    damaged: list[str] = []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            if number < len(lines):
                damaged.append(f"line {number} of {path} is not JSON: {error}")
            continue
        if isinstance(row, dict) and isinstance(row.get("round"), int):
            rows.append(row)
        else:
            damaged.append(f"line {number} of {path} is not the JSON object of a round: {printable(line, _SHOWN_TEXT)}")
    return rows, damaged

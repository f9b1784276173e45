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
from zofedht.server.core.round_record import RoundRecord
from zofedht.server.core.state import ServerState

__all__ = ["HistoryWriter", "read_history", "truncate_history"]

_SHOWN = 5  # rounds


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
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise DataError(f"no history can be read from {path} ({error.strerror}); is this a result folder?") from error
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            if number == len(lines):
                break
            raise DataError(f"line {number} of {path} is not JSON: {error}") from error
        if not isinstance(row, dict) or not isinstance(row.get("round"), int):
            raise DataError(f"line {number} of {path} is not the JSON object of a round: {line[:60]}")
        rows.append(row)
    return rows


def truncate_history(path: Path, rounds: int) -> None:
    """Keep the records of the rounds before ``rounds``, each once; later rounds will run again.

    Of a round with several lines the last one is kept. Warns of these, and of rounds without a line.
    """
    rows = [row for row in (read_history(path) if path.exists() else []) if row["round"] < rounds]
    kept = {row["round"]: row for row in rows}
    if doubled := len(rows) - len(kept):
        warnings.warn(f"{path} had {doubled} more lines than rounds; the last of each round is kept", stacklevel=2)
    if missing := kept and [str(round_) for round_ in range(rounds) if round_ not in kept]:
        told = ", ".join(missing[:_SHOWN]) + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else "")
        warnings.warn(f"{path} has no line of r = {told}, counted from 0; sums over the run lack them", stacklevel=2)
    replace_file(path, "".join(_line(kept[round_]) for round_ in sorted(kept)).encode())

"""Finished cells as lines of JSON, some kilobytes each: a page is rebuilt from them, and anybody can add more."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from zofedht.common.errors import DataError
from zofedht.common.machine.files import make_folder, replace_file
from zofedht.experiments.study.cells import SETTINGS
from zofedht.experiments.study.presets import EPOCHS, PRESETS
from zofedht.experiments.study.results import Outcome, Point, Study, cell_of

__all__ = ["add_lines", "known_cells", "lines_name", "read_lines"]

_STUDY = {"preset": "", "rounds": 0, "budget": 0, "train_rows": 0, "epochs": EPOCHS}
"""What two cells must share to be of one study, and what it is in a whole run."""

_RESULT = ("final_train_loss", "initial_train_loss", "test_accuracy", "failed", "rounds", "evaluations", "seconds",
           "cpu_seconds", "kernel")  # fmt: skip


def lines_name(about: Mapping[str, Any]) -> str:
    """Return the name of a study among lines: its preset, and its length unless that is the whole."""
    shorter = [f"{key}-{about[key]}" for key, whole in _STUDY.items() if key != "preset" and about[key] != whole]
    return "-".join([about["preset"], *shorter]).replace("_", "-")


def add_lines(study: Study, folder: Path) -> int:
    """Append the cells that are not among the folder's lines yet, to a file for each data set; return how many.

    Raises DataError when the folder cannot be read or written.
    """
    make_folder(folder)
    about = {key: study.about.get(key, whole) for key, whole in _STUDY.items()}
    known = {outcome.cell.name for outcome in known_cells(folder, about)}
    new = [outcome for outcome in study.outcomes if outcome.cell.name not in known]
    for dataset in sorted({outcome.cell.panel.dataset for outcome in new}):
        path = folder / f"{lines_name(about)}-{dataset}.jsonl"  # a file of all data sets would exceed a megabyte
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        lines = [
            json.dumps(_line(outcome, about, study.about["machine"]), allow_nan=False)
            for outcome in new
            if outcome.cell.panel.dataset == dataset
        ]
        replace_file(path, (old + "".join(f"{line}\n" for line in lines)).encode())
    return len(new)


def read_lines(folder: Path) -> list[Study]:
    """Return the studies in the *.jsonl files of a folder, in the order of their names.

    Raises DataError when a line is no finished cell, or two lines of one cell differ.
    """
    studies: dict[str, dict[str, Outcome]] = {}
    abouts: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(_text(path).splitlines(), start=1):
            about, outcome = _read(line, f"line {number} of {path}")
            name = lines_name(about)
            first = studies.setdefault(name, {}).setdefault(outcome.cell.name, outcome)
            if first.loss != outcome.loss:
                raise DataError(
                    f"{folder} has {outcome.cell.name} twice, with the losses {first.loss:g} and {outcome.loss:g};"
                    f" keep one of both (line {number} of {path} is the second)"
                )
            abouts.setdefault(name, {**about, "commands": [], "machine": set()})
            abouts[name]["machine"].add(outcome.result["machine"])
    return [
        Study(
            name,
            PRESETS[abouts[name]["preset"]],
            {**abouts[name], "machine": "; ".join(sorted(abouts[name]["machine"]))},
            tuple(studies[name].values()),
        )
        for name in sorted(studies)
    ]


def _line(outcome: Outcome, about: Mapping[str, Any], machine: str) -> dict[str, Any]:
    result = outcome.result
    return {
        "study": about,
        "cell": outcome.cell.name,
        "machine": result.get("machine", machine),
        **{key: result[key] for key in _RESULT},
        "bytes_a_round": None if outcome.traffic is None else [round(number, 1) for number in outcome.traffic],
        "settings": {key: result["config"][key] for key in SETTINGS if key in result["config"]},
        "curve": [[point.evaluations, _short(point.loss)] for point in outcome.points],
    }


def _read(line: str, place: str) -> tuple[dict[str, Any], Outcome]:
    try:
        found = json.loads(line)
        about = {key: found["study"][key] for key in _STUDY}
        cell = cell_of(found["cell"])
        if cell is None or about["preset"] not in PRESETS:
            raise ValueError(f"no cell of a study has the name {found['cell']} and the preset {about['preset']}")
        loss = found["final_train_loss"]
        result = {key: found[key] for key in _RESULT} | {"machine": found["machine"], "config": found["settings"]}
        points = tuple(Point(int(at), math.nan if value is None else float(value)) for at, value in found["curve"])
        traffic = None if found["bytes_a_round"] is None else (found["bytes_a_round"][0], found["bytes_a_round"][1])
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise DataError(
            f"{place} is not a finished cell ({type(error).__name__}: {error}); `study --cells` writes such lines"
        ) from error
    return about, Outcome(cell, math.inf if loss is None else float(loss), result, points, traffic)


def _short(loss: float) -> float | None:
    return float(f"{loss:.6g}") if math.isfinite(loss) else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({error})") from error


def known_cells(folder: Path, about: Mapping[str, Any]) -> Iterable[Outcome]:
    """Return the cells among a folder's lines that are of this study."""
    name = lines_name({key: about.get(key, whole) for key, whole in _STUDY.items()})
    return [outcome for study in read_lines(folder) if study.name == name for outcome in study.outcomes]

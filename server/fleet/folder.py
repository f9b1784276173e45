"""The files of a fleet: who it is (``fleet.json``), its answers, its candidates, and a table of its sites."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zofedht.common.errors import CheckpointError, FleetError, ObjectiveError
from zofedht.common.machine.files import cannot_write, make_folder, replace_file
from zofedht.common.objective.agreement import units_as_bytes, units_mismatch
from zofedht.common.objective.names import names_as_text, names_mismatch
from zofedht.common.objective.parameters import Parameters
from zofedht.common.objective.units import Units
from zofedht.common.space.space import Space, space_mismatch
from zofedht.server.fleet.ledger import EVALUATIONS, Ledger, RowFile, read_rows
from zofedht.server.records.lock import FolderLock

__all__ = ["About", "FleetFolder"]

SITES = ("site", "start", "final", "gain", "noise", "answers", "lost", "seconds")
"""Columns of ``sites.csv``."""


@dataclass(frozen=True)
class About:
    """What may not change in a folder: the sites with their samples, what they declare, and which way is better."""

    samples: Mapping[str, int]
    parameters: Parameters
    maximize: bool = False

    def text(self) -> str:
        """Return it as JSON; numbers are read back bit for bit."""
        mine = self.parameters
        units = None if mine.units is None else mine.units
        told = {
            "sites": dict(self.samples),
            "maximize": self.maximize,
            "start": mine.start.tolist(),
            "names": list(mine.names),
            "parameters": None if mine.space is None else mine.space.rows,
            "scale": units and units.scale.tolist(),
            "lower": units and [None if math.isinf(value) else value for value in units.lower.tolist()],
            "upper": units and [None if math.isinf(value) else value for value in units.upper.tolist()],
        }
        return json.dumps(told, indent=1) + "\n"

    @classmethod
    def of(cls, text: str) -> About:
        """Read it back. Raises ValueError, KeyError or TypeError when it is none."""
        told = json.loads(text)
        units = None
        if told["scale"] is not None:
            lower = [-math.inf if value is None else value for value in told["lower"]]
            upper = [math.inf if value is None else value for value in told["upper"]]
            units = Units(*(np.array(part, dtype=np.float64) for part in (told["scale"], lower, upper)))
        start = np.array(told["start"], dtype=np.float64)
        samples = {str(name): int(count) for name, count in told["sites"].items()}
        space = None if told["parameters"] is None else Space.of_rows(told["parameters"])
        return cls(samples, Parameters(start, tuple(told["names"]), units, space), told["maximize"] is True)

    def check_goes_on(self, folder: Path, now: About) -> None:
        """Raise FleetError unless the fleet that is there now may go on with what the folder holds of this one."""
        here, held = f"this fleet in {folder}", "the fleet that was begun there"
        other = "choose another folder"
        if list(self.samples) != list(now.samples):
            raise FleetError(
                f"{here} has the sites {', '.join(now.samples)}, {held} {', '.join(self.samples)}; {other} for other"
                " sites"
            )
        if self.parameters.dim != now.parameters.dim:
            raise FleetError(f"{here} has n = {now.parameters.dim} parameters, {held} {self.parameters.dim}; {other}")
        if self.maximize != now.maximize:
            seeks = {True: "the highest value", False: "the lowest value"}
            raise FleetError(f"{here} seeks {seeks[now.maximize]}, {held} {seeks[self.maximize]}; {other}")
        for name, count in self.samples.items():
            if now.samples[name] != count:
                raise FleetError(
                    f"site {name} has {now.samples[name]} samples now, and had {count} when {folder} was begun; {other}"
                    " for other data"
                )
        unlike = units_mismatch(units_as_bytes(now.parameters.units), units_as_bytes(self.parameters.units), here, held)
        names = names_as_text(now.parameters.names), names_as_text(self.parameters.names)
        unlike = unlike or names_mismatch(*names, here, held)
        if unlike := unlike or space_mismatch(now.parameters.space, self.parameters.space, here, held):
            raise FleetError(f"{unlike}; {other}")


class FleetFolder:
    """A folder that one fleet writes to at a time."""

    def __init__(self, path: Path) -> None:
        """Take the folder. Raises DataError when another process writes to it, CheckpointError where it is damaged."""
        self.path = path
        make_folder(path)
        self._lock = FolderLock(path / "run.lock")
        self._lock.take()
        self._files: list[RowFile] = []
        try:
            self.about = self._read()
        except BaseException:
            self.close()
            raise

    def _read(self) -> About | None:
        file = self.path / "fleet.json"
        if not file.exists():
            return None
        try:
            return About.of(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, ObjectiveError) as error:
            raise CheckpointError(f"{file} cannot be read ({error}); choose another folder") from error

    def begin(self, now: About) -> None:
        """Note who the fleet is. Raises FleetError when the folder is another fleet's."""
        if self.about is not None:
            self.about.check_goes_on(self.path, now)
            return
        if (self.path / "checkpoints").exists() or (self.path / "history.jsonl").exists():
            raise FleetError(f"{self.path} holds a run and no fleet; choose another folder")
        replace_file(self.path / "fleet.json", now.text().encode())
        self.about = now

    def ledger(self, *, forget_losses: bool) -> Ledger:
        """Return the ledger of ``evaluations.csv``."""
        file = self._opened("evaluations.csv", EVALUATIONS)
        return Ledger(read_rows(file.path, file.lines), file, forget_losses=forget_losses)

    def candidates(self, labels: Sequence[str]) -> RowFile:
        """Return the file of the candidates, ``candidates.csv``."""
        return self._opened("candidates.csv", ("candidate", "round", *labels, "mean", "sites"))

    def _opened(self, name: str, header: Sequence[str]) -> RowFile:
        self._files.append(RowFile(self.path / name, header))
        return self._files[-1]

    def write_sites(self, rows: Sequence[Sequence[str]]) -> None:
        """Write ``sites.csv``."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([SITES, *rows])
        replace_file(self.path / "sites.csv", text.getvalue().encode())

    def close(self) -> None:
        """Close the files and give the folder back."""
        try:
            for file in self._files:
                file.close()
        except OSError as error:
            raise cannot_write(self.path, error) from error
        finally:
            self._lock.give_back()

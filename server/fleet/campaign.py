"""One use of a fleet, from the first question to the last: its sites, its folder and what has been asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zofedht.common.errors import FleetError
from zofedht.common.machine.files import is_path
from zofedht.common.objective.parameters import Parameters
from zofedht.common.rules import check_whole
from zofedht.common.typing import Matrix, Vector
from zofedht.server.fleet.candidates import Best, Candidates, site_rows
from zofedht.server.fleet.folder import About, FleetFolder
from zofedht.server.fleet.ledger import Ledger
from zofedht.server.fleet.questions import ON_LOSS, Questions
from zofedht.server.fleet.sites import Sites

__all__ = ["Campaign", "Rules", "checked_points"]


class Rules(NamedTuple):
    """What becomes of failures, and how much may be asked."""

    budget: int = 0
    on_error: str = "lost"
    max_retries: int = 3

    def check(self) -> None:
        """Raise FleetError unless they are rules."""
        if self.on_error not in ON_LOSS:
            raise FleetError(f"on_error must be {' or '.join(ON_LOSS)}, got {self.on_error!r}")
        check_whole("budget", self.budget)
        check_whole("max_retries", self.max_retries)


class _Begun(NamedTuple):
    """All that is known once the sites are there."""

    parameters: Parameters
    ledger: Ledger
    questions: Questions
    candidates: Candidates


class Campaign:
    """Takes the folder and makes the sites at once; waits for the sites when something is wanted of them."""

    def __init__(
        self, make: Callable[[About | None], Sites], folder: str | Path | None, rules: Rules, maximize: Any
    ) -> None:
        """``make`` gets what the folder holds of an earlier use, or None. Raises ZofedhtError."""
        rules.check()
        if not isinstance(maximize, bool | np.bool_):
            raise FleetError(f"maximize must be True or False, got {maximize!r}")
        self._rules, self.maximize = rules, bool(maximize)
        if folder is not None and not is_path(folder):
            raise FleetError(f"folder must name a folder, got {folder!r}")
        self._folder = None if folder is None else FleetFolder(Path(folder).expanduser())
        try:
            self.sites = make(None if self._folder is None else self._folder.about)
        except BaseException:
            if self._folder is not None:
                self._folder.close()
            raise
        self._known: _Begun | None = None
        self._closed = False

    def begin(self) -> _Begun:
        """Wait for the sites, and begin or go on in the folder. Raises ZofedhtError."""
        if self._known is None:
            parameters, samples = self.sites.parameters, self.sites.samples
            ledger, file = Ledger(), None
            if self._folder is not None:
                self._folder.begin(About(samples, parameters, self.maximize))
                ledger = self._folder.ledger(forget_losses=self._rules.on_error == "stop")
                file = self._folder.candidates(parameters.labels)
            questions = Questions(self.sites, ledger, **self._rules._asdict())
            self._known = _Begun(parameters, ledger, questions, Candidates(len(samples), ledger, file, self.maximize))
        return self._known

    @property
    def names(self) -> tuple[str, ...]:
        """The sites."""
        return tuple(self.sites.samples)

    @property
    def best(self) -> Best | None:
        """The best x so far."""
        return self.begin().candidates.best

    @property
    def parameters(self) -> Parameters:
        """What the sites declare."""
        return self.begin().parameters

    @property
    def evaluations(self) -> int:
        """Site evaluations so far."""
        return self.begin().questions.evaluations

    @property
    def left(self) -> int | None:
        """Site evaluations that are left of the budget; None where there is none."""
        return self._rules.budget - self.evaluations if self._rules.budget else None

    def ask(self, points: Any, sites: Sequence[str] | None = None) -> tuple[Matrix, Vector]:
        """Return the table of one batch, (sites, points), and its means, (points,). Raises as ``Fleet.many`` does."""
        known = self.begin()
        if self._closed:
            raise FleetError("the fleet is closed; ask it within its with block")
        if isinstance(sites, str | bytes) or not isinstance(sites, Iterable | None):
            raise FleetError(f"sites must be a list of some of {', '.join(self.names)}, got {sites!r}")
        names = self.names if sites is None else tuple(sites)
        if unknown := [name for name in names if name not in self.names]:
            raise FleetError(f"sites must be some of {', '.join(self.names)}, got {unknown[0]!r}")
        if len(set(names)) != len(names) or not names:
            raise FleetError(f"sites must name at least one site, and each once, got {list(names)}")
        table = known.questions.table(checked_points(points, known.parameters), names)
        return table.values, known.candidates.note(table)

    @property
    def keeps_files(self) -> bool:
        """Whether there is a folder in which the fleet can go on."""
        return self._folder is not None

    def close(self, *, over: bool) -> None:
        """Let the sites go, write the table of the sites and give the folder back."""
        if self._closed:
            return
        self._closed = True
        try:
            self.sites.close(over=over)
            if self._folder is not None and self._known is not None:
                start, ledger = self._known.parameters.start, self._known.ledger
                rows = site_rows(self.names, ledger, start, self.best, maximize=self.maximize)
                self._folder.write_sites(rows)
        finally:
            if self._folder is not None:
                self._folder.close()


def checked_points(points: Any, parameters: Parameters) -> Matrix:
    """Return points as an array, (points, n): settings as their coordinates, with integers and choices whole.

    Raises FleetError or ObjectiveError unless all are finite and within the bounds.
    """
    dimension, box = parameters.dim, parameters.box
    if isinstance(points, Sequence):
        points = [parameters.named.coordinates(point) if isinstance(point, Mapping) else point for point in points]
    try:
        rows = np.array(points, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise FleetError(f"points must hold {dimension} numbers each, got {points!r}") from error
    if rows.ndim != 2 or rows.shape[1] != dimension or not len(rows):
        columns = " (SciPy's vectorized functions get a column for each: give fleet.many(X.T))"
        raise FleetError(
            f"points must be an array of the shape (points, {dimension}), a row for each, got {rows.shape}"
            + (columns if rows.ndim == 2 and rows.shape[0] == dimension else "")
        )
    for row, column in np.argwhere(~((rows >= box.lower) & (rows <= box.upper) & np.isfinite(rows))):
        value, name = float(rows[row, column]), parameters.labels[column]
        rule = "must be a finite number"
        if math.isfinite(value):
            ends = float(box.lower[column]), float(box.upper[column])
            rule = f"lies outside of its bounds {ends} (fleet.bounds are for the optimiser)"
        raise FleetError(f"{name} = {value!r} of point {row} {rule}")
    return rows if parameters.space is None else parameters.space.snapped(rows)

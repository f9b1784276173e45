"""Which x a run returns, and whether it is better than the start: asked once more at the end.

The lowest of many noisy losses is low by luck, too. So the start, the best and the last x are evaluated once more, at
every site on all its samples, and the x that these answers place lowest is returned. Where sites repeat their earlier
answers bit for bit, the answers are exact and one pass is enough. Else further passes make the noise known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from zofedht.common.typing import Matrix, Vector
from zofedht.server.evaluation.compare import Comparison, comparison
from zofedht.server.evaluation.evaluate import mean_over_clients
from zofedht.server.evaluation.full_evaluation import FullEvaluation
from zofedht.server.evaluation.incumbent import EvaluatedX

__all__ = ["Verdict", "judge"]

_LEAST_FREEDOM = 6
"""Degrees of freedom of the noise. With 1, a gain would have to exceed 12.7 standard errors, with 6 it is 2.4."""

_ORDER = ("best", "last", "start")
"""Of equal ones the first is returned."""

Evaluate = Callable[[Vector], FullEvaluation]
Pass = Mapping[str, FullEvaluation]


@dataclass(frozen=True)
class Verdict:
    """The x that a run returns, and how it compares with the start.

    ``which`` is start, best or last. ``evaluation`` has the metrics of that x, the mean over the passes.
    ``comparisons`` compare the best and the last x with the start, and ``means`` are the mean new losses of the
    ``sites``, (sites,) each, NaN where an answer is lost. ``samples`` are the evaluations on one sample that this took.
    """

    which: str
    chosen: EvaluatedX
    evaluation: FullEvaluation
    comparisons: Mapping[str, Comparison]
    sites: tuple[str, ...] = ()
    means: Mapping[str, Vector] | None = None
    repeats: int = 0
    samples: int = 0

    @property
    def comparison(self) -> Comparison | None:
        """The returned x against the start; None where nobody tells losses."""
        return self.comparisons.get(self.which)

    @property
    def success(self) -> bool | None:
        """Whether x is better than the start by more than the noise of the answers, as far as most sites tell.

        None where nobody tells losses.
        """
        if self.comparison is None:
            return None
        return self.which != "start" and self.comparison.better_here and self.most_sites_tell

    @property
    def most_sites_tell(self) -> bool:
        """Whether more than half of the sites have evaluated both x and the start."""
        found = self.comparison
        return found is not None and len(found.sites) > len(found.lost)

    def about(self, sign: float = 1.0) -> dict[str, Any]:
        """Return what summary.json tells of it, with values times ``sign``; a gain is positive where x is better."""
        told: dict[str, Any] = {"success": self.success, "x_is": self.which, "x_round": self.chosen.round}
        if self.comparison is None or self.means is None:
            return told | {"comparison": None}
        gains = dict(zip(self.comparison.sites, self.comparison.gains.tolist(), strict=True))
        columns = {"start": self.means["start"], "x": self.means[self.which], "last": self.means["last"]}
        rows = [
            {"site": site or "all rows"}
            | {name: sign * float(column[index]) for name, column in columns.items()}
            | {"gain": gains[site], "reach": self.comparison.reach}
            for index, site in enumerate(self.sites)
            if site in gains
        ]
        compared = self.comparison.about() | {"last_gain": self.comparisons["last"].gain, "repeats": self.repeats}
        return told | {"comparison": compared | {"sites": rows}}


def judge(
    evaluate: Evaluate,
    start: EvaluatedX | None,
    best: EvaluatedX | None,
    last: EvaluatedX,
    evaluation: FullEvaluation,
) -> Verdict:
    """Evaluate the start, the best and the last x once more, and return which of them the run returns.

    ``evaluation`` is the one of the last x. Without a ``best`` (nothing may depend on the clients' losses) the last x
    is returned. Where the clients tell no losses, nothing is evaluated.
    """
    if start is None or not np.any(np.isfinite(start.losses)):
        return Verdict("last", last, evaluation, {})
    points = {"best": best or last, "last": last, "start": start}
    passes = [_asked(evaluate, points, _ORDER)]
    sites = tuple(dict.fromkeys(site for point in points.values() for site in point.sites))
    if _repeat_themselves(points, passes[0], sites):
        tables = {which: _table(points[which], [passes[0][which]] * 2, sites) for which in points}
    else:
        answered = max(1, int(np.sum(np.isfinite(_table(start, [passes[0]["start"]], sites)))))
        while answered * (len(passes) - 1) < _LEAST_FREEDOM:
            # Every other pass goes backwards, so that a drift in time favours no x.
            passes.append(_asked(evaluate, points, _ORDER[:: -1 if len(passes) % 2 else 1]))
        tables = {which: _table(points[which], [each[which] for each in passes], sites) for which in points}
    comparisons = {which: comparison(tables["start"], tables[which], sites) for which in points}
    # Where nobody answers any more, nothing speaks against the last x but an evaluated x that is better than the start.
    unknown = "best" if best is not None and best.round else "last"
    which = "last" if best is None else _lowest(comparisons) or unknown
    which = which if points[which].round else "start"
    found = passes[0][which]
    return Verdict(
        which=which,
        chosen=points[which],
        evaluation=replace(found, metrics=mean_over_clients(each[which].metrics for each in passes)),
        comparisons=comparisons,
        sites=sites,
        means={name: table.mean(axis=1) for name, table in tables.items()},
        repeats=len(passes),
        samples=sum(one.samples for each in passes for one in {id(one): one for one in each.values()}.values()),
    )


def _repeat_themselves(points: Mapping[str, EvaluatedX], fresh: Pass, sites: tuple[str, ...]) -> bool:
    """Return whether all new answers are the earlier ones, bit for bit, where a site has given both."""
    old = np.concatenate([point.losses_at(sites) for point in points.values()])
    new = np.concatenate([_table(point, [fresh[which]], sites)[:, 0] for which, point in points.items()])
    both = np.isfinite(old) & np.isfinite(new)
    return bool(np.any(both)) and np.array_equal(old[both], new[both])


def _asked(evaluate: Evaluate, points: Mapping[str, EvaluatedX], order: Sequence[str]) -> Pass:
    """Return a full evaluation of each point; points with the same x share one."""
    found: dict[str, FullEvaluation] = {}
    for which in order:
        twin = next((other for other in found if np.array_equal(points[other].x, points[which].x)), None)
        found[which] = found[twin] if twin else evaluate(points[which].x)
    return found


def _table(point: EvaluatedX, evaluations: Sequence[FullEvaluation], sites: tuple[str, ...]) -> Matrix:
    """Return the losses of a point, (sites, evaluations), NaN where one is lost or not finite."""
    columns = [EvaluatedX.of(point.x, point.round, one).losses_at(sites) for one in evaluations]
    table: Matrix = np.stack(columns, axis=1)
    return np.where(np.isfinite(table), table, np.nan)


def _lowest(comparisons: Mapping[str, Comparison]) -> str:
    """Return the point that gains most over the start, of those that at least half of the sites compare, or ''."""
    most = len(comparisons["start"].sites)
    eligible = [which for which in _ORDER if 2 * len(comparisons[which].sites) >= max(most, 1)]
    return max(eligible, key=lambda which: comparisons[which].gain, default="")

"""What a fleet can be asked: all of ``Fleet`` but where its sites are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import OptimizeResult

from zofedht.common.errors import FleetError
from zofedht.common.rules import check_whole
from zofedht.common.space.kinds import Setting, Settings
from zofedht.common.typing import Matrix, Vector
from zofedht.server.evaluation.compare import Comparison, comparison
from zofedht.server.fleet.campaign import Campaign, checked_points
from zofedht.server.fleet.candidates import Best
from zofedht.server.fleet.gathering import Gathering, gathered_map
from zofedht.server.minimizers.minimize import minimize

__all__ = ["SiteFunction"]

Point = ArrayLike | Mapping[str, Setting]
Points = ArrayLike | Sequence[Point]


class SiteFunction:
    """The mean of F over sites as a function of x."""

    _campaign: Campaign

    @property
    def sites(self) -> tuple[str, ...]:
        """The names of the sites, in the order that people sort names."""
        return self._campaign.names

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters; x0, x1 and so on where none are declared."""
        return self._campaign.parameters.labels

    @property
    def dim(self) -> int:
        """n, the number of parameters."""
        return self._campaign.parameters.dim

    @property
    def x0(self) -> Vector:
        """Where the first site starts, (n,)."""
        return self._campaign.parameters.start.copy()

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """Lowest and highest value of each parameter, infinite where it has no bound."""
        box = self._campaign.parameters.box
        return list(zip(box.lower.tolist(), box.upper.tolist(), strict=True))

    @property
    def scale(self) -> Vector:
        """How large a change of each parameter matters, (n,)."""
        return self._campaign.parameters.box.scale.copy()

    def settings(self, x: ArrayLike) -> Settings:
        """Return the values of the parameters at x, (n,), by name."""
        [point] = checked_points([x], self._campaign.parameters)
        return self._campaign.parameters.named.settings(point)

    @property
    def evaluations(self) -> int:
        """Site evaluations that this program has asked for, replayed ones included."""
        return self._campaign.evaluations

    @property
    def best(self) -> Best | None:
        """The ``x`` with the best ``mean`` over all sites, and its ``repeats``; None while there is none.

        The best mean is the lowest, or the highest where the fleet maximises. Where answers are noisy the best of many
        means is good by luck, too: ``compare`` tells what x is worth.
        """
        return self._campaign.best

    @property
    def port(self) -> int:
        """The port that a fleet on a network listens on; 0 for a local one."""
        return int(getattr(self._campaign.sites, "port", 0))

    def __call__(self, x: Point) -> float:
        """Return the mean over the sites of F at x, (n,) or settings by name. Raises what ``many`` raises."""
        [point] = checked_points([x], self._campaign.parameters)
        if place := Gathering.current():
            return place[0].ask(place[1], point)
        return float(self.many([point])[0])

    def many(self, points: Points) -> Vector:
        """Return the mean over the sites at each of ``points``, (points, n) or a list of settings, as one batch.

        Each mean is over the sites that answered, NaN where none did.

        Raises
        ------
        BudgetError
            When the budget does not suffice. Nothing was asked then.
        ObjectiveError
            When an answer is lost to the end and ``on_error`` is "stop".
        FleetError
            When a point lies outside of the bounds, or is none.
        """
        return self._campaign.ask(points)[1]

    def table(self, points: Points, sites: Sequence[str] | None = None) -> Matrix:
        """Return F of each site at each row of ``points``, (sites, points); NaN where it is lost.

        ``sites`` are some of ``fleet.sites``; all unless given. Raises what ``many`` raises.
        """
        return self._campaign.ask(points, sites)[0]

    def map(self, function: Callable[[Any], Any], arguments: Iterable[Any]) -> list[Any]:
        """Return the function at each argument, as ``workers=fleet.map`` of SciPy's optimisers wants it.

        The calls run in threads, and what they ask of the fleet at one time is one batch.
        """
        if not callable(function) or not isinstance(arguments, Iterable):
            raise FleetError(f"map must get a function and a list of arguments, got {function!r} and {arguments!r}")
        return gathered_map(self.many, function, arguments)

    def compare(self, x: Point, x0: Point | None = None, *, repeats: int = 2) -> Comparison:
        """Ask all sites anew about x and x0, ``repeats`` times each in turn, and return how much better x is.

        The gain is how far F falls, or how far it rises where the fleet maximises.

        ``x0`` is ``fleet.x0`` unless it is given. With two repeats or more the noise of the answers is known.

        Examples
        --------
        >>> sites = [lambda x, c=c: (x[0] - c) ** 2 for c in (1.0, 2.0, 3.0)]
        >>> from zofedht import Fleet
        >>> with Fleet.local(sites, x0=[0.0]) as fleet:
        ...     print(fleet.compare([2.0]))
        gain 4, sites like these -5.937 to 13.94 (95%), these sites exactly, 2 of 3 sites better, worst site-0 (+0)
        """
        check_whole("repeats", repeats, 1)
        pair = checked_points([self.x0 if x0 is None else x0, x], self._campaign.parameters)
        values = self.table(np.tile(pair, (repeats, 1)))
        sign = -1.0 if self._campaign.maximize else 1.0
        return comparison(sign * values[:, 0::2], sign * values[:, 1::2], self.sites)

    def minimize(
        self,
        x0: Point | None = None,
        *,
        method: str = "auto",
        maxfev: int = 0,
        seed: int = 0,
        callback: Callable[[OptimizeResult], Any] | None = None,
    ) -> OptimizeResult:
        """Minimise the mean over the sites, or maximise it where the fleet does.

        ``cma-es`` asks no more sites than their spread calls for, and bears noise and lost answers. ``lbfgs``, on
        forward differences of all sites, is for functions without noise that are smooth. ``auto`` looks at the answers
        at the start, takes the one or both, and says what it saw.

        Parameters
        ----------
        x0 : (n,) or settings by name, optional
            Where to begin; ``fleet.x0`` unless given. The optimum should be about one ``scale`` away.
        method : {"auto", "cma-es", "lbfgs"}
            All are for n of at most 200.
        maxfev : int
            Site evaluations that it may ask for; 0: what is left of the fleet's budget.
        seed : int
            Names its random numbers.
        callback : callable, optional
            Hears ``x``, ``settings``, ``nit`` and ``nfev`` after each generation or gradient; True or StopIteration
            ends the search.

        Returns
        -------
        scipy.optimize.OptimizeResult
            ``x``, ``settings`` (its values by name) and ``fun``, the mean of a full evaluation there: the best x that
            all sites have answered where answers are equal when asked twice, else the mean of the search's
            distribution. ``success`` says that it is better than ``start_fun``; ``nfev`` counts site evaluations,
            ``nit`` generations or gradients. ``ended`` says what ended it (budget, converged or callback), ``lost`` how
            many answers were lost.

        Examples
        --------
        >>> from zofedht import Fleet
        >>> sites = [lambda x, c=c: float(np.sum((x - c) ** 2)) for c in (0.9, 1.0, 1.1)]
        >>> with Fleet.local(sites, x0=[0.0, 0.0]) as fleet:
        ...     result = fleet.minimize(maxfev=900)
        >>> np.round(result.x, 3), result.success
        (array([1., 1.]), True)
        """
        [start] = checked_points([self.x0 if x0 is None else x0], self._campaign.parameters)
        check_whole("seed", seed)
        result = minimize(
            self._campaign,
            start,
            method=method,
            maxfev=maxfev,
            seed=int(seed),
            callback=callback,
            maximize=self._campaign.maximize,
        )
        [result.x] = checked_points([result.x], self._campaign.parameters)
        declared = self._campaign.parameters
        result.settings = declared.named.settings(result.x) if declared.names else {}
        return result

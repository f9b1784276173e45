"""``Fleet``: sites as a function that any optimiser can drive."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from numpy.typing import ArrayLike

from zofedht.common.errors import BudgetError, FleetError
from zofedht.common.objective.base import Bounds
from zofedht.common.space.kinds import Parameter, Setting
from zofedht.server.fleet.campaign import Campaign, Rules
from zofedht.server.fleet.folder import About
from zofedht.server.fleet.function import SiteFunction
from zofedht.server.fleet.local import LocalSites, Target
from zofedht.server.fleet.sites import Sites

__all__ = ["Fleet"]


class Fleet(SiteFunction):
    """The mean of F over sites as a function of x, each evaluation on a site's whole shard.

    Clients join by ``zofedht-client join --objective module:factory``; ``Fleet.local`` is the same over functions and
    Objectives of this process. Everything is in the user's own units. A site that fails is asked again; an answer that
    is lost to the end is NaN in a table, and the mean is that of the other sites.

    With a ``folder`` every answer is kept. A program that was killed goes on when it is run again: the r-th question to
    a site about the same x gets the r-th answer of the folder. So a deterministic optimiser ends where it would have
    ended, bit for bit.

    Parameters
    ----------
    address : str
        HOST:PORT to listen on. Port 0 takes a free one, ``fleet.port``.
    tls_dir : path, optional
        Folder of the server's certificates, made by ``zofedht-server make-certs``.
    insecure : bool
        Speak plain text, where there is no ``tls_dir``.
    min_clients : int
        Sites that the fleet waits for; those that are there then are the fleet, and nobody else may join.
    folder : path, optional
        Where ``evaluations.csv``, ``candidates.csv`` and ``sites.csv`` go.
    budget : int
        Site evaluations that may be asked for; 0: any number.
    on_error : {"lost", "stop"}
        What an answer costs that is lost to the end: its place in the mean, or the program.
    max_retries : int
        How often a site is asked again.
    timeout : float
        Seconds in which a site must answer about a point.
    rejoin : float
        Seconds that a site which has left is waited for.
    seed : int
        Told to the sites' factories in their ``Shard``.
    maximize : bool
        Whether a higher mean is better: for ``best``, ``compare``, ``minimize`` and the files. Values keep their sign:
        give an optimiser that minimises -fleet(x).
    health_address : str
        Loopback HOST:PORT of a health service for containers.
    refuse : sequence of str, or path
        Names of sites, or serial numbers of certificates, that may not join; or a file of them, one a line.
    report : callable, optional
        Hears who joins and leaves; standard error unless given.

    Raises
    ------
    FleetError
        When an argument is malformed, or the folder is another fleet's.
    DataError
        When the address cannot be bound, or the folder is written by another process.

    Examples
    --------
    >>> from zofedht import Fleet
    >>> sites = [lambda x: (x[0] - 1.0) ** 2 + x[1] ** 2, lambda x: (x[0] - 3.0) ** 2 + x[1] ** 2]
    >>> with Fleet.local(sites, x0=[0.0, 0.0], names=["valve", "pause"]) as fleet:
    ...     fleet([2.0, 0.0])
    ...     fleet.many([[2.0, 0.0], [0.0, 0.0]])
    ...     fleet.table([[2.0, 0.0], [0.0, 0.0]])
    1.0
    array([1., 5.])
    array([[1., 1.],
           [1., 9.]])
    """

    def __init__(
        self,
        address: str,
        *,
        tls_dir: str | Path | None = None,
        insecure: bool = False,
        min_clients: int = 1,
        folder: str | Path | None = None,
        budget: int = 0,
        on_error: str = "lost",
        max_retries: int = 3,
        timeout: float = 300.0,
        rejoin: float = 30.0,
        seed: int = 0,
        maximize: bool = False,
        health_address: str = "",
        refuse: Sequence[str] | str | Path = (),
        report: Callable[[str], None] | None = None,
    ) -> None:
        # Flower and gRPC are loaded by fleets on a network alone.
        from zofedht.server.fleet.listening import Listening
        from zofedht.server.fleet.network import NetworkSites

        certificates = None if tls_dir is None else Path(tls_dir).expanduser()
        listening = Listening(
            address, certificates, insecure, min_clients, timeout, rejoin, seed, health_address, refuse
        )
        self._campaign = Campaign(
            lambda about: NetworkSites(listening, about, report), folder, Rules(budget, on_error, max_retries), maximize
        )

    @classmethod
    def local(
        cls,
        sites: Sequence[Target] | Mapping[str, Target],
        *,
        x0: ArrayLike | Mapping[str, Setting] | None = None,
        bounds: Bounds | None = None,
        names: Sequence[str] | None = None,
        scale: ArrayLike | None = None,
        parameters: Mapping[str, Parameter] | None = None,
        folder: str | Path | None = None,
        budget: int = 0,
        on_error: str = "lost",
        max_retries: int = 3,
        seed: int = 0,
        threads: int = 1,
        maximize: bool = False,
    ) -> Self:
        """Return a fleet of functions f(x) and Objectives in this process.

        Parameters
        ----------
        sites : sequence or mapping
            The sites, by name in a mapping; those of a sequence are called site-0, site-1 and so on.
        x0 : (n,) or mapping, optional
            The point to start from, of named parameters their values by name. A function without ``parameters`` needs
            it; it replaces the start of an Objective.
        bounds, names, scale, parameters : optional
            Of functions, as in ``Objective``; an Objective declares its own. With ``parameters``, names with Real,
            Integer or Choice, a function gets its parameters by keyword.
        threads : int
            How many sites are evaluated at once.
        folder, budget, on_error, max_retries, seed, maximize
            As for ``Fleet``.
        """

        def make(about: About | None) -> Sites:
            declared: dict[str, Any] = {"bounds": bounds, "scale": scale, "names": names, "parameters": parameters}
            return LocalSites(sites, x0=x0, seed=seed, threads=threads, **declared)

        fleet = cls.__new__(cls)
        fleet._campaign = Campaign(make, folder, Rules(budget, on_error, max_retries), maximize)
        return fleet

    def refuse(self, *entries: str) -> None:
        """Refuse sites from now on, by name or by their certificate's serial number, and end their connections.

        A file that ``Fleet`` was given is read again, so a call without entries takes up its changes. Raises FleetError
        for a fleet in this process, and DataError where the file cannot be read.
        """
        from zofedht.server.fleet.network import NetworkSites

        if not isinstance(self._campaign.sites, NetworkSites):
            raise FleetError("a fleet in this process has no connections that could be refused; leave the site out")
        self._campaign.sites.refuse(entries)

    def close(self, *, over: bool = True) -> None:
        """Give the folder back and send the sites home; unless it is ``over`` they try to come back."""
        self._campaign.close(over=over)

    def __enter__(self) -> Self:
        """Wait for the sites."""
        try:
            self._campaign.begin()
        except BaseException as error:
            self.close(over=self._is_over(type(error)))
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Close. An error or an interrupt leaves a fleet with a folder to go on, and its sites try to come back."""
        self.close(over=self._is_over(kind))

    def _is_over(self, kind: type[BaseException] | None) -> bool:
        ended = kind is None or issubclass(kind, BudgetError | SystemExit)
        return ended or not self._campaign.keeps_files

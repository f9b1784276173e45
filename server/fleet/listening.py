"""Where a fleet on a network listens, and for whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zofedht.common.errors import FleetError
from zofedht.common.rules import check_whole
from zofedht.common.terminal.command_line import check_address
from zofedht.common.tls import is_loopback
from zofedht.server.admission.revoked import Revoked

__all__ = ["Listening"]


@dataclass(frozen=True)
class Listening:
    """Where and for whom; ``Fleet`` says what each is."""

    address: str
    tls_dir: Path | None = None
    insecure: bool = False
    min_clients: int = 1
    timeout: float = 300.0
    rejoin: float = 30.0
    seed: int = 0
    health_address: str = ""
    refuse: Sequence[str] | Path = ()

    def revoked(self) -> Revoked:
        """Return the sites that may not join. Raises DataError where their file cannot be read."""
        if isinstance(self.refuse, str):
            return Revoked([self.refuse])
        return Revoked((), self.refuse) if isinstance(self.refuse, Path) else Revoked(self.refuse)

    def check(self) -> None:
        """Raise ConfigError or FleetError unless a fleet can listen so."""
        check_address("address", self.address)
        if self.tls_dir is not None and self.insecure:
            raise FleetError("tls_dir and insecure exclude each other; leave one out")
        if self.tls_dir is None and not self.insecure:
            where = "" if is_loopback(self.address) else ", which leaves this machine"
            raise FleetError(
                f"tls_dir is needed for {self.address}{where}; `zofedht-server make-certs` makes the certificates"
                " (insecure=True sends x and every answer as plain text that anybody may read and change)"
            )
        check_whole("min_clients", self.min_clients, 1)
        check_whole("seed", self.seed)
        for name, value in (("timeout", self.timeout), ("rejoin", self.rejoin)):
            if not isinstance(value, int | float | np.number) or not value >= 0.0:
                raise FleetError(f"{name} must be seconds of at least 0, got {value!r}")
        if not isinstance(self.health_address, str):
            raise FleetError(f"health_address must be HOST:PORT on this machine, got {self.health_address!r}")
        names = [self.refuse] if isinstance(self.refuse, str | Path) else self.refuse
        if not isinstance(names, Iterable) or not all(isinstance(name, str | Path) for name in names):
            raise FleetError(f"refuse must be names, serial numbers, or a file of these, got {self.refuse!r}")

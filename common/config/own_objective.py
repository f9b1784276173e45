"""Which algorithm an objective of somebody's own gets, where none is said."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from zofedht.common.algorithms import ALGORITHMS
from zofedht.common.choices import AUTO, UNSAID
from zofedht.common.config.run_config import RunConfig, dashed
from zofedht.common.errors import ConfigError

__all__ = ["of_own_clients", "with_algorithm"]


def with_algorithm(config: RunConfig, given: Mapping[str, Any], dimension: int) -> tuple[dict[str, Any], bool]:
    """Return the keys with the algorithm that n parameters get, and whether it takes steps.

    Parameters
    ----------
    config : RunConfig
        What holds where ``given`` says nothing.
    given : mapping
        Keys as their user wrote them. A wrong key or value is left to whoever makes the config of them.
    dimension : int
        n, the number of parameters.

    Examples
    --------
    >>> with_algorithm(RunConfig(), {"seed": 1}, 10)
    ({'seed': 1, 'algorithm': 'auto'}, False)
    >>> with_algorithm(RunConfig(), {"local-steps": 5}, 10)
    ({'local-steps': 5}, True)
    """
    settled = dict(given)
    with suppress(ConfigError):
        if RunConfig.of_part(config.to_mapping() | settled).may_search(dimension):
            settled["algorithm"] = AUTO
    row = ALGORITHMS.get(str(settled.get("algorithm", config.algorithm)))
    return settled, row is None or not row.asks_points


def of_own_clients(
    config: RunConfig | None, given: Mapping[str, Any], count: int, dimension: int, *, in_place: bool = False
) -> dict[str, Any]:
    """Return the keys of a run over ``count`` objectives of somebody's own, with what follows from their number.

    Where steps are taken and nothing else is said, the step size is measured, and all clients take part once a round.
    The algorithm's defaults are those for objectives of somebody's own, as for an objective that the config names.
    Raises ConfigError for another ``num-clients``.
    """
    if (clients := given.get("num-clients", count)) != count:
        raise ConfigError([f"num_clients must be {count}, the number of objectives or clients, got {clients}"])
    plain = config or RunConfig()
    settled, steps = with_algorithm(plain, given, dimension)
    settled["num-clients"] = count
    if not steps:
        return settled
    said, row = plain.to_mapping(), ALGORITHMS.get(str(settled.get("algorithm", plain.algorithm)))
    for name, value in row.own.items() if row else ():
        if said[dashed(name)] == UNSAID:
            settled.setdefault(dashed(name), value)
    if not in_place and settled.get("step-size", plain.step_size) == UNSAID:
        settled["step-size"] = AUTO  # as for an objective that the config names
    slots = settled.setdefault("clients-per-round", min(count, plain.clients_per_round))
    if config is None and isinstance(slots, int) and slots <= count:
        settled.setdefault("sampling", "without-replacement")  # where all clients take part, each does so once
    return settled

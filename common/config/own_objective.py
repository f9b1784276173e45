"""Which algorithm an objective of somebody's own gets, where none is said."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from zofedht.common.algorithms import ALGORITHMS
from zofedht.common.choices import AUTO
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError

__all__ = ["with_algorithm"]


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

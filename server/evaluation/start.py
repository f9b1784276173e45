"""What a run begins with: n, the starting point and the units, on which all clients must agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.agreement import units_as_bytes, units_mismatch
from zofedht.common.objective.units import Units
from zofedht.common.space.space import Space, space_mismatch
from zofedht.common.tensors.agreement import Tensors, tensors_mismatch
from zofedht.common.typing import Vector

__all__ = ["Start", "agreed"]


class Start(NamedTuple):
    """n, and where it has them the objective's own start, its units, its parameters' names, and what was read."""

    dimension: int
    own: Vector | None = None
    units: Units | None = None
    space: Space | None = None
    about: tuple[str, ...] = ()  # lines about the rows that the server has
    tensors: Tensors | None = None  # of parameters in place


def agreed(starts: Mapping[str, Start]) -> Start:
    """Return the first client's start, on which the others, by name, agree but for the point.

    Raises ObjectiveError, naming the two clients and what differs, where n or the units are not the same.
    """
    (first, start), *others = starts.items()
    for name, other in others:
        both = None if other.tensors is None or start.tensors is None else (other.tensors, start.tensors)
        if both and (unlike := tensors_mismatch(*both, f"client {name}", f"client {first}")):
            raise ObjectiveError(unlike)
        if other.dimension != start.dimension:
            raise ObjectiveError(
                f"the objective of client {name} has {other.dimension} parameters, that of client {first}"
                f" {start.dimension}; all clients' objectives must have the same number of parameters"
            )
        shared = () if start.space is None or other.space != start.space else start.space.labels
        mine, theirs = units_as_bytes(other.units), units_as_bytes(start.units)
        if unlike := units_mismatch(mine, theirs, f"the objective of client {name}", f"that of client {first}", shared):
            raise ObjectiveError(f"{unlike}: mend the one that is wrong and start again")
        if unlike := space_mismatch(other.space, start.space, f"client {name}", f"client {first}"):
            raise ObjectiveError(unlike)
    return start

"""All clients of a run are searched in the same units: how a client tells its units, and where two clients differ.

Units travel as bytes: scale, lower and upper bounds, one after another, as little-endian float64. Without scale and
bounds there are no bytes. Where the bytes are too many, their digest travels in their place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.base import Objective
from zofedht.common.objective.named import space_of
from zofedht.common.objective.scaling import units_of
from zofedht.common.objective.units import Units, place_of
from zofedht.common.space.space import Space

__all__ = [
    "DIGEST_BYTES",
    "MOST_UNITS_BYTES",
    "check_fits",
    "digest_of",
    "units_as_bytes",
    "units_digest",
    "units_mismatch",
]

DIGEST_BYTES = 32
MOST_UNITS_BYTES = 48 * 1024
"""The most bytes of units in a client's introduction, those of 2,000 parameters."""

_PARTS = ("scale", "lower bound", "upper bound")
_RULE = "all clients of a run must have the same scale and bounds"


def units_as_bytes(units: Units | None, most_bytes: int | None = None) -> bytes:
    """Return the units as bytes, 24 a parameter; of more than ``most_bytes`` return the sha256, 32 bytes."""
    if units is None:
        return b""
    data = units.as_bytes
    return data if most_bytes is None or len(data) <= most_bytes else bytes.fromhex(units.digest)


def units_mismatch(mine: bytes, theirs: bytes, who: str, whom: str, names: Sequence[str] = ()) -> str:
    """Return a sentence that names the first parameter in which two clients' units differ, or an empty text.

    ``who`` and ``whom`` are the names of the owners of ``mine`` and ``theirs``, ``names`` those of the parameters where
    both have the same.
    """
    if mine == theirs:
        return ""
    if not mine or not theirs:
        has, lacks = (who, whom) if mine else (whom, who)
        return f"{has} declares a scale or bounds and {lacks} does not; {_RULE}"
    if len(mine) != len(theirs) or len(mine) == DIGEST_BYTES:
        return f"{who} has another scale or other bounds than {whom}; {_RULE}"
    # As integers: numbers that differ in any bit differ, and so do 0.0 and -0.0.
    unequal = np.frombuffer(mine, dtype="<i8").reshape(3, -1) != np.frombuffer(theirs, dtype="<i8").reshape(3, -1)
    parameters = np.flatnonzero(unequal.any(axis=0))
    index = int(parameters[0])
    part = int(np.flatnonzero(unequal[:, index])[0])
    here, there = (float(np.frombuffer(side, dtype="<f8").reshape(3, -1)[part, index]) for side in (mine, theirs))
    more = f" ({len(parameters)} parameters differ)" if len(parameters) > 1 else ""
    return f"{who} has the {_PARTS[part]} {here!r} for {place_of(index, names)}, {whom} has {there!r}{more}; {_RULE}"


def units_digest(units: Units | None, space: Space | None) -> str:
    """Return a digest of all that says which values x stands for; empty where x is the values themselves.

    It is the same for all clients.
    """
    if space is None or space.is_plain:
        return "" if units is None else units.digest
    return hashlib.sha256(units_as_bytes(units) + space.text.encode()).hexdigest()


def digest_of(objective: Objective) -> str:
    """Return the ``units_digest`` of an objective."""
    return units_digest(units_of(objective), space_of(objective))


def check_fits(objective: Objective, dimension: int, units: str) -> None:
    """Raise ObjectiveError unless the objective has ``dimension`` parameters, and this ``units_digest``.

    In other units the same numbers are another point.
    """
    if objective.dim != dimension:
        raise ObjectiveError.public(
            f"the server's x has {dimension} parameters, this client's objective has {objective.dim}"
        )
    if digest_of(objective) != units:
        raise ObjectiveError.public(
            "scale and bounds of this client's objective are not the run's, or its parameters are not; all clients of a"
            " run must have the same"
        )

"""The stiff directions that an objective names: checked where they come from, and made one guide of all clients'."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.base import Objective
from zofedht.common.objective.user_traceback import USER_ERRORS, raised_by_objective
from zofedht.common.typing import Matrix, Vector

__all__ = ["MOST_STIFF", "stiff_directions", "stiff_guide"]

MOST_STIFF = 100
"""Stiff directions that an objective may name."""


def stiff_directions(objective: Objective, x: Vector) -> Matrix | None:
    """Return unit vectors along the objective's stiff directions at x, (n, k), or None where it names none.

    Raises ObjectiveError unless these are at most 100 vectors of n finite numbers.
    """
    try:
        found = objective.stiff(x)
    except USER_ERRORS as error:
        raise raised_by_objective(error) from error
    if found is None:
        return None
    try:
        rows = np.atleast_2d(np.asarray(found, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise ObjectiveError.public(
            "stiff(x) must return numbers, (directions, n), or None", cause="unusable"
        ) from error
    if rows.ndim != 2 or rows.shape[1] != x.shape[0] or len(rows) > MOST_STIFF or not np.all(np.isfinite(rows)):
        raise ObjectiveError.public(
            f"stiff(x) must return at most {MOST_STIFF} directions of {x.shape[0]} finite numbers, or None, got an"
            f" array of shape {rows.shape}",
            cause="unusable",
        )
    lengths = np.linalg.norm(rows, axis=1)
    rows = rows[lengths > 0.0] / lengths[lengths > 0.0, None]
    return np.ascontiguousarray(rows.T) if len(rows) else None


def stiff_guide(told: Sequence[Matrix]) -> Matrix:
    """Return orthonormal directions, (n, k), nearest to the unit vectors that clients told, (n, any number) each.

    They are the first singular vectors of all of these together, at most as many as one client told, and those alone
    of which half lies within what the average client told.
    """
    directions, lengths, _ = np.linalg.svd(np.hstack(told), full_matrices=False)
    most = max(one.shape[1] for one in told)
    shared = int(np.sum(lengths[:most] ** 2 >= 0.5 * len(told)))
    return np.ascontiguousarray(directions[:, :shared])

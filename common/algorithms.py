"""The algorithm table: every algorithm takes x <- x - eta sum_j c_j v_j and differs in a row.

To add one, add a row here, and at most one function (a law of v in ``directions.py``, or a slope in
``slopes.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from zofedht.common.choices import UPLINKS

__all__ = ["ALGORITHMS", "Algorithm"]


@dataclass(frozen=True)
class Algorithm:
    """One row: where directions come from, what data a step sees, and what can cross the wire."""

    name: str
    law: Literal["isotropic", "trajectory"]
    data: Literal["minibatch", "shard"]
    summary: str
    uplinks: tuple[str, ...] = UPLINKS

    @property
    def follows_trajectory(self) -> bool:
        """Whether the server keeps moves and ships a basis Q."""
        return self.law == "trajectory"


ALGORITHMS = {
    row.name: row
    for row in (
        Algorithm("zofedht", "trajectory", "minibatch", "directions stretched along the last moves (Algorithm 1)"),
        Algorithm("zofedavg-sgd", "isotropic", "minibatch", "isotropic directions, minibatch slopes"),
        Algorithm("zofedavg-gd", "isotropic", "shard", "isotropic directions, slopes on the whole shard"),
    )
}
"""Rows by name, the value of the run config key ``algorithm``."""

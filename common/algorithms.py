"""The algorithm table: every algorithm takes x <- x - eta sum_j c_j v_j and differs in a row.

To add one, add a row here, and at most one function (a law of v in ``directions.py``, or a slope in
``slopes.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from zofedht.common.choices import UPLINKS

__all__ = ["ALGORITHMS", "Algorithm"]


@dataclass(frozen=True)
class Algorithm:
    """One row: where directions come from, what data a step sees, and what can cross the wire."""

    name: str
    law: Literal["isotropic", "trajectory", "shrunk"]
    data: Literal["minibatch", "shard"]
    summary: str
    uplinks: tuple[str, ...] = UPLINKS
    slope: str = "central"  # this and what follows: unless the key of this name says otherwise
    slopes_per_step: int = 1
    local_steps: int = 50
    warm_up: float = 0.0  # part of the rounds
    defaults: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))  # of other keys, by field name

    @property
    def shrinks(self) -> bool:
        """Whether directions shrink along what objectives name as stiff."""
        return self.law == "shrunk"

    @property
    def follows_trajectory(self) -> bool:
        """Whether the server keeps moves and ships a basis Q."""
        return self.law == "trajectory"


ALGORITHMS = {
    row.name: row
    for row in (
        Algorithm("zofedht", "trajectory", "minibatch", "directions stretched along the last moves (Algorithm 1)"),
        Algorithm("zofedavg-sgd", "isotropic", "minibatch", "isotropic directions, minibatch slopes"),
        Algorithm(
            "zofed-shrink",
            "shrunk",
            "minibatch",
            "forward slopes on one value, shrunk along the stiff directions that objectives name",
            slope="forward",
            slopes_per_step=9,
            local_steps=10,
            warm_up=0.09,
        ),
        Algorithm("zofedavg-gd", "isotropic", "shard", "isotropic directions, slopes on the whole shard"),
    )
}
"""Rows by name, the value of the run config key ``algorithm``."""

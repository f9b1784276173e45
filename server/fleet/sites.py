"""What a fleet knows of its sites, wherever they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from zofedht.common.objective.parameters import Parameters
from zofedht.common.objective.points import Answer
from zofedht.common.typing import Matrix

__all__ = ["Heard", "Sites"]

Heard = Callable[[str, Sequence[Answer]], None]
"""Hears the next answers of a site, by name, as they come; several sites may speak at once."""


class Sites(Protocol):
    """Sites that can be asked for F at points."""

    @property
    def samples(self) -> Mapping[str, int]:
        """How many samples each site has, by name, in the order that people sort names."""

    @property
    def parameters(self) -> Parameters:
        """What all sites declare alike, and where the first one starts."""

    def ask(self, points: Mapping[str, Matrix], heard: Heard) -> None:
        """Ask each site about the rows of its points, all sites at once, and return when all are answered.

        ``heard`` gets exactly one answer for each row, those of a site in order.
        """

    def close(self, *, over: bool) -> None:
        """Let the sites go. ``over``: they are not needed again, else they may come back to a fleet that goes on."""

"""A site is asked to try its objective out: levels and numbers come back, and no sentence, which might hold a cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from zofedht.common.errors import EVALUATION_FAILED, Cause, MessageError
from zofedht.common.rules import MOST_DRAWN, at_least, one_of, positive
from zofedht.common.typing import Vector
from zofedht.common.wire.codec import decode
from zofedht.common.wire.fields import wired

__all__ = ["MOST_LOOKS", "CheckQuestion", "Checked", "asks_for_check", "decode_checked"]

MOST_LOOKS = 10_000
"""Evaluations of one check."""

Level = Literal["", "ok", "warning", "error"]

_LEVEL = one_of(get_args(Level))


@dataclass(frozen=True)
class CheckQuestion:
    """Goes beside a Question and the one point to try."""

    evaluations: int = wired(at_least(1, MOST_LOOKS), key="check")  # at most so many
    radius: float = wired(positive())  # in search units
    batch_size: int = wired(at_least(0, MOST_DRAWN // 8))  # samples of one evaluation, some draw eight; 0: whole shard


@dataclass(frozen=True)
class Checked:
    """The level of each check; empty where it was not made."""

    evaluations: int = wired(at_least(0, MOST_LOOKS), key="check-evaluations")  # that the checks took, at most
    value: Level = wired(_LEVEL, key="check-value", default="")
    arguments: Level = wired(_LEVEL, key="check-arguments", default="")
    repeats: Level = wired(_LEVEL, key="check-repeats", default="")
    whole: Level = wired(_LEVEL, key="check-whole", default="")
    pair: Level = wired(_LEVEL, key="check-pair", default="")
    values: Level = wired(_LEVEL, key="check-values", default="")
    concurrency: Level = wired(_LEVEL, key="check-concurrency", default="")
    parameters: Level = wired(_LEVEL, key="check-parameters", default="")
    cause: Cause | None = wired(one_of((*EVALUATION_FAILED, "not-finite")), key="check-cause", default=None)
    spread: Vector | None = wired(key="check-spread", shape=lambda _: (1,), default=None)  # of equal questions
    batch_spread: Vector | None = wired(key="check-batch-spread", shape=lambda _: (1,), default=None)  # of slopes
    flat: Vector | None = wired(key="check-flat", shape=lambda _: (-1,), default=None)  # numbers of parameters
    steep: Vector | None = wired(key="check-steep", shape=lambda _: (-1,), default=None)  # flat in the radius alone

    @property
    def levels(self) -> dict[str, Level]:
        """By the name of the check, those that were made."""
        told: dict[str, Level] = {name: getattr(self, name) for name in _CHECKS}
        return {name: level for name, level in told.items() if level}


_CHECKS = ("value", "arguments", "repeats", "whole", "pair", "values", "concurrency", "parameters")


def asks_for_check(config: Mapping[str, Any]) -> bool:
    """Whether a question asks to try the objective out."""
    return "check" in config


def decode_checked(metrics: Mapping[str, Any], dimension: int) -> Checked:
    """Read the answer of a site with n = ``dimension``.

    Raises MessageError unless it has levels for checks alone, and numbers of parameters that there are.
    """
    told: Checked = decode(Checked, metrics)
    for name, places in (("flat", told.flat), ("steep", told.steep)):
        odd = (
            [] if places is None else [place for place in places if not (place.is_integer() and 0 <= place < dimension)]
        )
        if odd or (places is not None and len(places) > dimension):
            raise MessageError(f"check-{name} must hold numbers of the {dimension} parameters, got {len(odd)} others")
    return told

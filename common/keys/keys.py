"""Every key of the run config with its default, meaning, unit, symbol and rule."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from zofedht.common.keys.message_keys import MessageKeys
from zofedht.common.keys.problem_keys import ProblemKeys
from zofedht.common.keys.round_keys import RoundKeys
from zofedht.common.keys.run_keys import RunKeys
from zofedht.common.keys.step_keys import StepKeys
from zofedht.common.rules import words_of

__all__ = ["Keys", "Scalar", "dashed", "kind_of"]

Scalar = str | int | float | bool


@dataclass(frozen=True)
class Keys(RunKeys, MessageKeys, RoundKeys, StepKeys, ProblemKeys):  # fields begin with those of the last class
    """The keys; ``RunConfig`` gives those that are left to the algorithm their value."""


def kind_of(key: str) -> type | None:
    """Return the type of a key's values: bool, int, float, or str; None for an unknown key."""
    fields = {dashed(field.name): field for field in dataclasses.fields(Keys)}
    if key not in fields:
        return None
    field = fields[key]
    kind: type = field.metadata["kind"] or (float if words_of(field.metadata["rule"]) else type(field.default))
    return kind


def dashed(name: str) -> str:
    """Return the key of a field's name."""
    return name.replace("_", "-")

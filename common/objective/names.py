"""Names of parameters: what they may be, how a client tells them, and what differs where two sites disagree."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from zofedht.common.errors import ObjectiveError

__all__ = ["MOST_TOLD_NAMES", "checked_names", "names_unlike", "told_names"]

_MOST_CHARACTERS = 64  # of a name
MOST_TOLD_NAMES = 8 * 1024
"""Characters of all names with which a client introduces itself: a server reads no long introduction."""

_RULE = "all sites must call their parameters the same, in the same order"


def checked_names(declared: Any, dimension: int) -> tuple[str, ...]:
    """Return declared names as a tuple, an empty one where none are declared.

    Raises ObjectiveError unless they are n different printable texts.
    """
    if declared is None:
        return ()
    if isinstance(declared, str) or not isinstance(declared, Sequence) or len(declared) != dimension:
        got = len(declared) if isinstance(declared, Sequence) and not isinstance(declared, str) else repr(declared)
        raise ObjectiveError(f"names must hold one text for each of {dimension} parameters, got {got}")
    for name in declared:
        if not isinstance(name, str) or not 0 < len(name) <= _MOST_CHARACTERS or not name.isprintable():
            raise ObjectiveError(
                f"a parameter's name must have 1 to {_MOST_CHARACTERS} printable characters, got {name!r}"
            )
    if len(set(declared)) != dimension:
        twice = next(name for name in declared if list(declared).count(name) > 1)
        raise ObjectiveError(f"parameters must have different names, got {twice!r} more than once")
    return tuple(declared)


def told_names(names: Sequence[str]) -> str:
    """Return names as a client tells them when it joins: a line each, or their sha256 where they are long."""
    told = "\n".join(names)
    return told if len(told) <= MOST_TOLD_NAMES else f"sha256 {hashlib.sha256(told.encode()).hexdigest()}"


def names_unlike(mine: str, theirs: str, who: str, whom: str) -> str:
    """Return in which name two objectives differ, and the rule; an empty text where they are the same.

    ``mine`` and ``theirs`` are told names, ``who`` and ``whom`` what the sentence calls the owners.
    """
    if mine == theirs:
        return ""
    if not mine or not theirs:
        has, lacks = (who, whom) if mine else (whom, who)
        return f"{has} names its parameters and {lacks} does not; {_RULE}"
    ours, others = mine.split("\n"), theirs.split("\n")
    if len(ours) != len(others):
        return f"{who} names {len(ours)} parameters, {whom} {len(others)}; {_RULE}"
    index = next(place for place, pair in enumerate(zip(ours, others, strict=True)) if pair[0] != pair[1])
    return f"{who} calls parameter {index} {ours[index]!r}, {whom} {others[index]!r}; {_RULE}"

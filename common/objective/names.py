"""Names of parameters: their rules, how a client tells them, and where two sites disagree."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from zofedht.common.errors import ObjectiveError

__all__ = ["MOST_NAMES_TEXT", "checked_names", "names_as_text", "names_mismatch"]

_MOST_CHARACTERS = 64  # of a name
MOST_NAMES_TEXT = 8 * 1024
"""The most characters of names in a client's introduction."""

_RULE = "all sites must have the same names of parameters, in the same order"


def checked_names(declared: Any, dimension: int) -> tuple[str, ...]:
    """Return the declared names as a tuple, empty for None.

    Raises ObjectiveError unless the names are n different printable texts.
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


def names_as_text(names: Sequence[str]) -> str:
    """Return the names in a client's introduction: a line for each name, or their sha256 if they are long."""
    text = "\n".join(names)
    return text if len(text) <= MOST_NAMES_TEXT else f"sha256 {hashlib.sha256(text.encode()).hexdigest()}"


def names_mismatch(mine: str, theirs: str, who: str, whom: str) -> str:
    """Return a sentence with the first name in which two objectives differ, or an empty text.

    ``who`` and ``whom`` are the owners of ``mine`` and ``theirs``, names as ``names_as_text`` returns them.
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

"""Names of parameters."""

from __future__ import annotations

import pytest

from zofedht import Objective, ObjectiveError
from zofedht.common.objective.loading import checked_objective
from zofedht.common.objective.names import MOST_NAMES_TEXT, checked_names, names_as_text, names_mismatch


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ("ab", "names must hold one text for each of 2 parameters, got 'ab'"),
        (["a"], "got 1"),
        (3, "got 3"),
        (["a", 1], "must have 1 to 64 printable characters, got 1"),
        (["a", ""], "got ''"),
        (["a", "b\nc"], "got 'b"),
        (["a", "x" * 65], "1 to 64"),
        (["a", "a"], "different names, got 'a' more than once"),
    ],
)
def test_malformed_names_are_refused(names: object, reason: str) -> None:
    with pytest.raises(ObjectiveError, match=reason):
        checked_names(names, 2)


def test_an_objective_is_refused_with_malformed_names() -> None:
    class Wrong(Objective):
        dim = 2
        names = ("a",)

        def value(self, x: object, batch: object) -> float:
            return 0.0

    with pytest.raises(ObjectiveError, match="names must hold"):
        checked_objective(Wrong(), "wrong:make")


def test_the_first_name_that_differs_is_told() -> None:
    mine, theirs = names_as_text(["a", "b"]), names_as_text(["a", "c"])
    assert names_mismatch(mine, mine, "I", "you") == ""
    assert names_mismatch(mine, theirs, "I", "you").startswith("I calls parameter 1 'b', you 'c'; all sites must")
    assert names_mismatch("", theirs, "I", "you").startswith("you names its parameters and I does not")


def test_long_names_are_told_by_their_digest() -> None:
    names = [f"parameter number {index}" for index in range(1000)]
    assert len(names_as_text(names)) < 80 < MOST_NAMES_TEXT
    assert names_as_text(names) != names_as_text(names[::-1])

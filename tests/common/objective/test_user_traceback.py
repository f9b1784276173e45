"""A failure is shown where the user's code failed; the frames of this program are left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zofedht.common.directions.slopes import probes
from zofedht.common.objective.base import Objective, Shard
from zofedht.common.objective.loading import load_objective
from zofedht.common.objective.user_traceback import raised, user_place, user_traceback

_MODULE = """
    import json
    import numpy as np
    from zofedht.common.objective.base import Objective

    def inner(day):
        raise KeyError(day)

    class Plain(Objective):
        dim = 2
        def __len__(self):
            return 4
        def value(self, x, batch):
            return inner("monday")

    class Chained(Plain):
        def value(self, x, batch):
            try:
                return inner("monday")
            except KeyError as error:
                raise ValueError("no\\n such day") from error

    class InLibrary(Plain):
        def value(self, x, batch):
            return json.loads("{")
    """


def _error(write_module: Callable[[str, str], None], name: str) -> Exception:
    write_module("days", _MODULE)
    objective = load_objective(f"days:{name}", Shard())
    with pytest.raises(Exception) as caught:  # noqa: PT011
        probes(objective, objective.zeros(), objective.zeros()[None], 1e-3, slice(None), "central")
    return caught.value


def test_the_place_is_the_users_innermost_frame(write_module: Any) -> None:
    assert raised(_error(write_module, "Plain")) == "raised KeyError: 'monday' (days.py, line 7, in inner)"
    text = raised(_error(write_module, "InLibrary"))
    assert text.startswith("raised JSONDecodeError: Expecting ")
    assert text.endswith("(days.py, line 25, in value)")


def test_a_text_of_several_lines_becomes_one(write_module: Any) -> None:
    assert raised(_error(write_module, "Chained")).startswith("raised ValueError: no such day (days.py")


def test_the_traceback_has_the_users_frames_only(write_module: Any) -> None:
    for name in ("Plain", "Chained", "InLibrary"):
        text = user_traceback(_error(write_module, name))
        assert "days.py" in text
        assert "slopes.py" not in text
    assert text.splitlines()[-1].startswith("json.decoder.JSONDecodeError: ")
    assert "in raw_decode" in text  # what the user's code called is part of the story


def test_what_the_user_chained_stays_chained(write_module: Any) -> None:
    text = user_traceback(_error(write_module, "Chained"))
    assert "The above exception was the direct cause" in text
    assert text.index("KeyError: 'monday'") < text.index("ValueError: no")


def test_an_error_of_our_own_has_no_place() -> None:
    class Nothing(Objective):
        dim = 1

        def __len__(self) -> int:
            return 1

        def value(self, x: Any, batch: Any) -> Any:
            return None

    with pytest.raises(Exception) as caught:  # noqa: PT011
        load_objective("nowhere")
    assert user_place(caught.value.with_traceback(None)) == ""
    assert user_traceback(caught.value.with_traceback(None)) == ""


class _MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_an_exception_without_a_text_is_named() -> None:
    assert raised(_MuteError()) == "raised _MuteError"


def test_a_text_of_an_exception_is_short_and_printable() -> None:
    text = raised(ValueError("\x1b[31m" + "y" * 10**6))
    assert text.startswith("raised ValueError: \\x1b[31my")
    assert len(text) < 1100

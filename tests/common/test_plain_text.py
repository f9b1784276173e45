"""What a peer writes can be shown: no control character is left, and it is not long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zofedht.common.plain_text import MOST_TEXT, printable


@given(st.text(max_size=600))
def test_any_text_becomes_a_short_printable_line(text: str):
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown) <= MOST_TEXT
    assert printable(shown) == shown


def test_plain_text_stays_as_it_is():
    text = "the objective raised ValueError: a valve of 5 µm — closed"
    assert printable(text) == text


def test_newlines_of_ones_own_may_be_kept():
    assert printable("two\nlines\x1b[2J\x9b", None, keep="\n") == "two\nlines\\x1b[2J\\x9b"

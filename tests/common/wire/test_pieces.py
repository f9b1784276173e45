"""A message in pieces is the message again, within bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zofedht.common.errors import MessageError
from zofedht.common.wire.pieces import MOST_OF_A_PIECE, Assembly, pieces_of


@given(st.lists(st.sampled_from([0, 1, 65_527, 65_528, 65_529, 131_064, 131_065, 300_000]), max_size=4))
def test_messages_arrive_as_they_were_sent(lengths: list[int]):
    assembly = Assembly(lambda: 300_000)
    for number, length in enumerate(lengths):
        message = bytes([number]) * length
        pieces = list(pieces_of(message))
        assert all(len(piece) <= MOST_OF_A_PIECE for piece in pieces)
        *before, last = [assembly.take(piece) for piece in pieces]
        assert before == [None] * (len(pieces) - 1)
        assert last == message


@given(st.lists(st.binary(max_size=40) | st.integers(0, 40).map(lambda n: n.to_bytes(8, "little")), max_size=6))
def test_any_pieces_are_messages_within_the_bound_or_an_error(pieces: list[bytes]):
    assembly = Assembly(lambda: 30)
    try:
        for piece in pieces:
            message = assembly.take(piece)
            assert message is None or len(message) <= 30
    except MessageError:
        return


def test_a_long_message_is_refused_at_its_first_piece():
    first = next(pieces_of(bytes(100_000)))
    with pytest.raises(MessageError, match="at most 1000 bytes, got 100000"):
        Assembly(lambda: 1000).take(first)

"""One client's stream seen from the server, without a network."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

import pytest
from flwr.proto.transport_pb2 import ClientMessage, Parameters
from hypothesis import given
from hypothesis import strategies as st

from tests.waiting import PATIENCE, until
from zofedht.common.wire.pieces import pieces_of
from zofedht.server.grpc.conversation import Conversation, LostClient

ANSWER = ClientMessage(fit_res=ClientMessage.FitRes(num_examples=7)).SerializeToString()


class Line:
    """The client's end: what it says is put in by the test."""

    def __init__(self, most_bytes: int = 1000) -> None:
        self.said: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.conversation = Conversation(most_bytes)
        said = iter(self.said.get, None)
        self._listener = threading.Thread(target=self.conversation.listen, args=(said,), daemon=True)
        self._listener.start()

    def hears(self) -> Iterator[bytes]:
        return self.conversation.outgoing()

    def says(self, message: bytes) -> None:
        for piece in pieces_of(message):
            self.said.put(piece)

    def answers(self, answer: bytes) -> None:
        """Answer the next question, when it is heard."""

        def answer_it() -> None:
            next(self.hears())
            self.says(answer)

        threading.Thread(target=answer_it, daemon=True).start()

    def ends(self) -> None:
        self.said.put(None)
        self._listener.join(PATIENCE)
        assert not self._listener.is_alive()


@pytest.fixture
def line() -> Iterator[Line]:
    line = Line()
    yield line
    line.ends()


def test_a_question_gets_its_answer(line: Line):
    line.conversation.expect()
    line.says(ANSWER)
    assert line.conversation.next_answer(PATIENCE).fit_res.num_examples == 7
    line.answers(ANSWER)
    assert line.conversation.ask(b"question", PATIENCE).fit_res.num_examples == 7


def test_a_late_answer_is_not_taken_for_the_next_one(line: Line):
    with pytest.raises(LostClient, match=r"no answer within"):
        line.conversation.ask(b"first", 0.02)
    assert not line.conversation.ready
    assert not line.conversation.closed
    with pytest.raises(LostClient, match="still at work on an earlier question"):
        line.conversation.ask(b"second", PATIENCE)
    assert next(line.hears()) == b"first"
    line.says(ClientMessage(fit_res=ClientMessage.FitRes(num_examples=1)).SerializeToString())
    until(lambda: line.conversation.ready, "the late answer to be dropped")
    line.answers(ANSWER)  # ``second`` was never sent
    assert line.conversation.ask(b"third", PATIENCE).fit_res.num_examples == 7


def test_slots_of_one_client_share_the_time_of_the_round(line: Line):
    """The second slot is asked when the first is answered, and its time began with the round."""
    answers = []

    def ask() -> None:
        answers.append(line.conversation.ask(b"slot", PATIENCE))

    first = threading.Thread(target=ask, daemon=True)
    first.start()
    assert next(line.hears()) == b"slot"  # and it is not answered
    with pytest.raises(LostClient, match=r"no answer within .*: it was still at work on another slot"):
        line.conversation.ask(b"slot", 0.05)
    line.says(ANSWER)
    first.join(PATIENCE)
    assert len(answers) == 1


def test_the_end_of_the_stream_ends_the_wait(line: Line):
    """What waits for an answer need not wait for the end of the round."""
    questions = line.hears()
    threading.Thread(target=lambda: (next(questions), line.said.put(None)), daemon=True).start()
    for _ in range(2):
        with pytest.raises(LostClient, match="the connection was lost"):
            line.conversation.ask(b"question", PATIENCE)


@pytest.mark.parametrize(
    ("pieces", "asked", "complaint"),
    [
        ([*pieces_of(ANSWER)], False, "sent a message without a question"),
        ([*pieces_of(b"\xff" * 50)], True, "message of 50 bytes cannot be read"),
        ([*pieces_of(b"x" * 1001)], True, "must have at most 1000 bytes, got 1001"),
        ([(10**12).to_bytes(8, "little")], True, "must have at most 1000 bytes, got 1000000000000"),
        ([b"1234"], True, "must begin with its length in 8 bytes, got 4"),
        ([(5).to_bytes(8, "little"), b"123456"], True, "must have the 5 bytes that it announced, got more"),
        ([(5).to_bytes(8, "little"), b"123", b""], True, "holds an empty piece"),
    ],
)
def test_misbehaviour_ends_the_stream(line: Line, pieces: list[bytes], asked: bool, complaint: str):
    if asked:
        line.conversation.expect()
    for piece in pieces:
        line.said.put(piece)
    until(lambda: line.conversation.closed, "the end of the stream")
    assert complaint in line.conversation.complaint


def test_the_last_message_reaches_a_busy_client(line: Line):
    with pytest.raises(LostClient):
        line.conversation.ask(b"work", 0.02)
    line.conversation.dismiss(b"over")
    assert list(line.hears()) == [b"work", b"over"]


@given(st.binary(max_size=300) | st.binary(max_size=100).map(lambda tail: ANSWER + tail))
def test_any_bytes_are_an_answer_or_the_end(data: bytes):
    line = Line()
    line.conversation.expect()
    line.says(data)
    try:
        line.conversation.next_answer(PATIENCE)
    except LostClient:
        assert line.conversation.complaint
    finally:
        line.ends()


def test_the_limit_of_an_admitted_client_follows_what_is_known(line: Line):
    limits = iter([200_000, 100])
    line.conversation.accept(lambda: next(limits))
    long = ClientMessage(fit_res=ClientMessage.FitRes(parameters=Parameters(tensors=[bytes(150_000)])))
    line.conversation.expect()
    line.says(long.SerializeToString())
    assert line.conversation.next_answer(PATIENCE) == long
    line.conversation.expect()
    line.says(long.SerializeToString())
    with pytest.raises(LostClient, match="must have at most 100 bytes, got 150"):
        line.conversation.next_answer(PATIENCE)

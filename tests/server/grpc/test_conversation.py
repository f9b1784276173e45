"""One client's stream seen from the server, without a network."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Iterator

import pytest
from flwr.proto.transport_pb2 import ClientMessage, Parameters
from hypothesis import given
from hypothesis import strategies as st

from tests.waiting import PATIENCE
from zofedht.common.wire.pieces import pieces_of
from zofedht.server.grpc.conversation import Conversation, LostClient
from zofedht.server.grpc.event_loop import event_loop, wait_for

ANSWER = ClientMessage(fit_res=ClientMessage.FitRes(num_examples=7)).SerializeToString()


class Line:
    """The client's end: what it says is put in by the test."""

    def __init__(self, most_bytes: int = 1000) -> None:
        self.conversation = Conversation(event_loop(), most_bytes)
        self._heard: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._listening = asyncio.run_coroutine_threadsafe(self._listen(), event_loop())

    async def _listen(self) -> None:
        async for message in self.conversation.outgoing():
            self._heard.put(message)
        self._heard.put(None)

    def hears(self) -> bytes | None:
        """Return the next question, or None at the end of the stream."""
        return self._heard.get(timeout=PATIENCE)

    def says(self, *pieces: bytes) -> str | None:
        """Return the first complaint."""

        async def take() -> str | None:
            return next(filter(None, map(self.conversation.take, pieces)), None)

        return wait_for(take())

    def answers(self, answer: bytes) -> None:
        """Answer the next question, when it is heard."""
        threading.Thread(target=lambda: (self.hears(), self.says(*pieces_of(answer))), daemon=True).start()

    def ends(self) -> None:
        self.conversation.close()
        self._listening.result(PATIENCE)


@pytest.fixture
def line() -> Iterator[Line]:
    line = Line()
    yield line
    line.ends()


def test_a_question_gets_its_answer(line: Line):
    for _ in range(2):
        line.answers(ANSWER)
        assert line.conversation.ask(b"question", PATIENCE).fit_res.num_examples == 7


def test_a_late_answer_is_not_the_next(line: Line):
    with pytest.raises(LostClient, match=r"no answer within"):
        line.conversation.ask(b"first", 0.02)
    assert not line.conversation.ready
    assert not line.conversation.closed
    with pytest.raises(LostClient, match="still at work on an earlier question"):
        line.conversation.ask(b"second", PATIENCE)
    assert line.hears() == b"first"
    assert (
        line.says(*pieces_of(ClientMessage(fit_res=ClientMessage.FitRes(num_examples=1)).SerializeToString())) is None
    )
    assert line.conversation.ready  # the late answer was dropped
    line.answers(ANSWER)  # ``second`` was never sent
    assert line.conversation.ask(b"third", PATIENCE).fit_res.num_examples == 7


def test_slots_of_a_client_share_the_timeout(line: Line):
    """The second slot is asked when the first is answered, and its time began with the round."""
    first = line.conversation.begin(b"slot", PATIENCE)
    assert line.hears() == b"slot"  # and it is not answered
    with pytest.raises(LostClient, match=r"no answer within .*: it was still at work on another slot"):
        line.conversation.ask(b"slot", 0.05)
    second = line.conversation.begin(b"next", PATIENCE)
    line.says(*pieces_of(ANSWER))
    assert first.result(PATIENCE).fit_res.num_examples == 7
    assert line.hears() == b"next"
    line.says(*pieces_of(ANSWER))
    assert second.result(PATIENCE).fit_res.num_examples == 7


def test_an_answer_that_drips_is_late(line: Line):
    """A byte at a time puts nothing off: the slot is lost in time, and the stream stays for the rest."""
    long = bytes(1000)
    answer = line.conversation.begin(b"slot", 0.05)
    assert line.hears() == b"slot"
    assert line.says(len(long).to_bytes(8, "little")) is None
    sent = 0
    while not answer.done():
        assert sent < len(long), "the answer was waited for"
        assert line.says(long[sent : sent + 1]) is None
        sent += 1
        time.sleep(0.005)
    with pytest.raises(LostClient, match="no answer within"):
        answer.result()
    assert not line.conversation.ready
    assert not line.conversation.closed


def test_a_late_client_gets_no_other_slot(line: Line):
    late, waiting = line.conversation.begin(b"slot", 0.05), line.conversation.begin(b"another", PATIENCE)
    with pytest.raises(LostClient, match="no answer within"):
        late.result(PATIENCE)
    with pytest.raises(LostClient, match="still at work on an earlier question"):
        waiting.result(PATIENCE)


def test_the_end_of_the_stream_ends_the_wait(line: Line):
    """What waits for an answer need not wait for the end of the round."""
    asked = [line.conversation.begin(b"question", PATIENCE) for _ in range(2)]
    assert line.hears() == b"question"
    line.conversation.close()
    asked.append(line.conversation.begin(b"question", PATIENCE))
    for answer in asked:
        with pytest.raises(LostClient, match="the connection was lost"):
            answer.result(PATIENCE)


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
def test_misbehaviour_is_told(line: Line, pieces: list[bytes], asked: bool, complaint: str):
    if asked:
        line.conversation.begin(b"question", PATIENCE)
        line.hears()
    assert complaint in str(line.says(*pieces))


def test_the_last_message_reaches_a_busy_client(line: Line):
    with pytest.raises(LostClient):
        line.conversation.ask(b"work", 0.02)
    line.conversation.dismiss(b"over")
    assert [line.hears() for _ in range(3)] == [b"work", b"over", None]


@given(st.binary(max_size=300) | st.binary(max_size=100).map(lambda tail: ANSWER + tail))
def test_any_bytes_are_an_answer_or_a_complaint(data: bytes):
    line = Line()
    answer = line.conversation.begin(b"question", PATIENCE)
    line.hears()
    complaint = line.says(*pieces_of(data))
    assert (complaint is None) == answer.done()
    line.ends()


def test_the_limit_of_an_admitted_client_follows_what_is_known(line: Line):
    limits = iter([200_000, 100])
    line.conversation.accept(lambda: next(limits))
    long = ClientMessage(fit_res=ClientMessage.FitRes(parameters=Parameters(tensors=[bytes(150_000)])))
    line.answers(long.SerializeToString())
    assert line.conversation.ask(b"question", PATIENCE) == long
    line.conversation.begin(b"question", PATIENCE)
    line.hears()
    assert "must have at most 100 bytes, got 150" in str(line.says(*pieces_of(long.SerializeToString())))

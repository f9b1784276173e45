"""One client's stream seen from the server, without a network."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator

import pytest
from flwr.proto.transport_pb2 import ClientMessage
from hypothesis import given
from hypothesis import strategies as st

from zofedht.server.grpc.conversation import Conversation, LostClient

ANSWER = ClientMessage(fit_res=ClientMessage.FitRes(num_examples=7)).SerializeToString()


class Line:
    """The client's end: what it says is put in by the test."""

    def __init__(self, most_bytes: int = 1000) -> None:
        self.said: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.conversation = Conversation(most_bytes)
        self._listener = threading.Thread(target=self.conversation.listen, args=(iter(self.said.get, None),))
        self._listener.start()

    def hears(self) -> Iterator[bytes]:
        return self.conversation.outgoing()

    def ends(self) -> None:
        self.said.put(None)
        self._listener.join(10.0)
        assert not self._listener.is_alive()


@pytest.fixture
def line() -> Iterator[Line]:
    line = Line()
    yield line
    line.ends()


def wait_closed(line: Line) -> None:
    deadline = time.monotonic() + 10.0
    while not line.conversation.closed and time.monotonic() < deadline:
        time.sleep(0.005)
    assert line.conversation.closed


def test_a_question_gets_its_answer(line: Line):
    line.conversation.expect()
    line.said.put(ANSWER)
    assert line.conversation.next_answer(10.0).fit_res.num_examples == 7
    threading.Timer(0.05, line.said.put, [ANSWER]).start()
    assert line.conversation.ask(b"question", 10.0).fit_res.num_examples == 7
    assert next(line.hears()) == b"question"


def test_a_late_answer_is_not_taken_for_the_next_one(line: Line):
    with pytest.raises(LostClient, match=r"no answer within"):
        line.conversation.ask(b"first", 0.02)
    assert not line.conversation.ready
    assert not line.conversation.closed
    with pytest.raises(LostClient, match="still at work on an earlier question"):
        line.conversation.ask(b"second", 5.0)
    line.said.put(ClientMessage(fit_res=ClientMessage.FitRes(num_examples=1)).SerializeToString())
    deadline = time.monotonic() + 10.0
    while not line.conversation.ready and time.monotonic() < deadline:
        time.sleep(0.005)
    threading.Timer(0.05, line.said.put, [ANSWER]).start()
    assert line.conversation.ask(b"third", 10.0).fit_res.num_examples == 7
    hears = line.hears()
    assert [next(hears), next(hears)] == [b"first", b"third"]


def test_two_slots_of_one_client_share_the_time_of_the_round(line: Line):
    began = time.monotonic()
    reasons = []

    def ask() -> None:
        with pytest.raises(LostClient) as caught:
            line.conversation.ask(b"slot", 0.3)
        reasons.append(str(caught.value))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10.0)
    assert len(reasons) == 3
    assert time.monotonic() - began < 5.0


def test_the_end_of_the_stream_ends_the_wait():
    line = Line()
    threading.Timer(0.05, line.ends).start()
    began = time.monotonic()
    with pytest.raises(LostClient, match="the connection was lost"):
        line.conversation.ask(b"question", 60.0)
    assert time.monotonic() - began < 10.0
    with pytest.raises(LostClient, match="the connection was lost"):
        line.conversation.ask(b"question", 60.0)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (ANSWER, "sent a message without a question"),
        (b"\xff" * 50, "message of 50 bytes cannot be read"),
        (b"x" * 1001, "must have at most 1000 bytes, got 1001"),
    ],
)
def test_misbehaviour_ends_the_stream(line: Line, data: bytes, complaint: str):
    line.said.put(data)
    wait_closed(line)
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
    line.said.put(data)
    try:
        line.conversation.next_answer(10.0)
    except LostClient:
        assert line.conversation.complaint
    finally:
        line.ends()

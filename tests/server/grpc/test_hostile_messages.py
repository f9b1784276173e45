"""Whatever a peer sends, the server's readers give an error of ours, and a living server goes on."""

from __future__ import annotations

import re
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from flwr.common import Code, FitRes, Parameters, Status, ndarrays_to_parameters, serde
from flwr.proto.transport_pb2 import ClientMessage, Scalar
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers import Fleet, quadratics, searches, small
from tests.server.grpc.processes import Process, Site
from tests.waiting import PATIENCE, until
from zofedht.client.join.connection import Connection
from zofedht.common.errors import MessageError, ObjectiveError, RoundError
from zofedht.common.wire.clients import Hello
from zofedht.common.wire.codec import decode, decode_metrics, encode
from zofedht.common.wire.messages import Update
from zofedht.common.wire.pieces import pieces_of
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.state import initial_state
from zofedht.server.flower.strategy import client_replies

JOIN = "/flwr.proto.FlowerService/Join"
GOOD = ndarrays_to_parameters([np.arange(8.0)]).tensors[0]
SCALARS = st.booleans() | st.binary(max_size=20) | st.floats() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=20)
KEYS = st.sampled_from(["round", "slot", "client", "status", "reason", "evaluations", "loss", "name", "shard-index"])


@given(
    st.lists(st.binary(max_size=300) | st.just(GOOD), max_size=3),
    st.integers(-(2**63), 2**63 - 1),
    st.dictionaries(KEYS | st.text(max_size=8), SCALARS, max_size=9),
)
def test_any_reply_is_an_update_or_a_message_error(tensors: list[bytes], examples: int, changes: dict[str, Any]):
    honest = encode(Update(0, 0, "c0", examples=8, evaluations=4, loss=0.5, move=np.zeros(8))).scalars
    reply = FitRes(Status(Code.OK, ""), Parameters(tensors, "numpy.ndarray"), examples, honest | changes)
    try:
        update = client_replies(reply)[0]
    except MessageError:
        return
    assert update.move is None or (update.move.dtype == np.float64 and update.move.ndim == 1)


@given(st.dictionaries(KEYS | st.text(max_size=8), SCALARS, max_size=9))
def test_any_introduction_is_read_or_a_message_error(properties: dict[str, Any]):
    for read in (lambda scalars: decode(Hello, scalars), decode_metrics):
        try:
            read(properties)
        except (MessageError, ObjectiveError):  # a client may give a reason in the place of metrics
            continue


class Stranger:
    """Speaks to the server in raw bytes over one Join stream."""

    def __init__(self, channel: grpc.Channel, *says: bytes, stays: bool = False) -> None:
        self._leave = threading.Event()
        self._says = says  # pieces
        self._stays = stays
        self.stream = channel.stream_stream(JOIN)(self._talk(), timeout=PATIENCE)

    def _talk(self) -> Iterator[bytes]:
        yield from self._says
        if self._stays:
            self._leave.wait(PATIENCE)

    def refused(self) -> grpc.RpcError:
        """Read to the end and return the error."""
        with pytest.raises(grpc.RpcError) as caught:
            for _ in self.stream:
                pass
        return caught.value

    def leave(self) -> None:
        self._leave.set()
        self.stream.cancel()


@contextmanager
def raw_channel(site: Site) -> Iterator[grpc.Channel]:
    with Connection(f"127.0.0.1:{site.port}", None).channel() as channel:
        yield channel


def resident_kilobytes(process: Process) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1])  # type: ignore[index]


def threads(process: Process) -> int:
    return len(list(Path(f"/proc/{process.pid}/task").iterdir()))


def goes_on(site: Site, server: Process) -> None:
    before = len(site.history())
    until(lambda: len(site.history()) > before + 2, "the run to go on")
    assert server.code is None


@pytest.fixture
def running(site: Site) -> tuple[Site, Process]:
    """Return a site whose run goes on for long, and its server."""
    server = site.server(rounds=100_000)
    site.paced(0.02)
    until(lambda: len(site.history()) > 2, "some rounds")
    return site, server


def test_a_running_server_survives_hostile_peers(running: tuple[Site, Process]):
    site, server = running
    memory = resident_kilobytes(server)
    scalar_without_value = ClientMessage.GetPropertiesRes(properties={"name": Scalar()})
    for says in (
        b"\xff" * 1000,
        b"\x00" * 60_000,
        b"y" * 900_000,  # longer than an introduction may be
        ClientMessage(fit_res=ClientMessage.FitRes(num_examples=1)).SerializeToString(),
        ClientMessage(get_properties_res=scalar_without_value).SerializeToString(),
        b"",
    ):
        with raw_channel(site) as channel:
            assert Stranger(channel, *pieces_of(says)).refused().code() in {
                grpc.StatusCode.INVALID_ARGUMENT,
                grpc.StatusCode.DEADLINE_EXCEEDED,
            }
    for method, message in (("/flwr.proto.FlowerService/Nothing", b""), ("/x/y", b"z")):
        with raw_channel(site) as channel, pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(method)(message, timeout=PATIENCE)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    with raw_channel(site) as channel:  # longer than any answer may be
        error = Stranger(channel, b"z" * 30_000_000).refused()
        assert error.code() is not grpc.StatusCode.OK
    for junk in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100_000,
        b"\x16\x03\x01" * 99,
    ):
        with socket.create_connection(("127.0.0.1", site.port), timeout=10.0) as raw:
            try:
                raw.sendall(junk)
                while raw.recv(4096):
                    pass
            except OSError:
                pass
    goes_on(site, server)
    assert site.failures() == []
    assert resident_kilobytes(server) - memory < 100_000
    assert "left:" not in server.text


def test_long_messages_of_strangers_cost_no_memory(running: tuple[Site, Process]):
    """Whether they come in one piece, in many, or claim to be longer still."""
    site, server = running
    before = resident_kilobytes(server)
    whole = bytes(40_000_000)
    for says in ([whole], [*pieces_of(whole)], [(2**40).to_bytes(8, "little"), *[bytes(65_536)] * 500]):
        with ExitStack() as stack:
            strangers = [Stranger(stack.enter_context(raw_channel(site)), *says) for _ in range(4)]
            codes = {stranger.refused().code() for stranger in strangers}
        assert codes <= {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.DEADLINE_EXCEEDED}
    assert resident_kilobytes(server) - before < 30_000
    goes_on(site, server)


def test_silent_and_flooding_peers_are_bounded(running: tuple[Site, Process]):
    site, server = running
    before = threads(server)
    flood = [*pieces_of(b"q" * 50_000)] * 200
    with ExitStack() as stack:
        strangers = []
        for index in range(40):
            channel = stack.enter_context(raw_channel(site))
            strangers += [Stranger(channel, stays=True) for _ in range(5)]  # 200 that say nothing
            if index % 10 == 0:
                strangers.append(Stranger(channel, *flood))
        assert threads(server) - before < 2 * 128 + 60
        goes_on(site, server)
        for stranger in strangers:
            stranger.leave()
    until(lambda: threads(server) < before + 150, "their threads to be free again")  # a pool keeps some for the next
    site.client("c9").says("joined")
    goes_on(site, server)
    assert site.failures() == []


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def _fuzz(site: Site, data: st.DataObject) -> None:
    reply = ClientMessage(
        get_properties_res=serde.get_properties_res_to_proto(
            _properties(data.draw(st.dictionaries(KEYS | st.text(max_size=8), SCALARS, max_size=9)))
        )
    ).SerializeToString()
    says = data.draw(st.binary(max_size=200) | st.just(reply) | st.integers(0, len(reply)).map(lambda n: reply[:n]))
    with raw_channel(site) as channel:
        Stranger(channel, *pieces_of(says)).refused()


def _properties(properties: dict[str, Any]) -> Any:
    from flwr.common import GetPropertiesRes

    return GetPropertiesRes(Status(Code.OK, ""), properties)


def test_a_running_server_survives_fuzzed_introductions(running: tuple[Site, Process]):
    site, server = running
    _fuzz(site)
    goes_on(site, server)
    assert "left:" not in server.text


def test_a_silent_peer_is_dismissed():
    from flwr.common import GetPropertiesIns

    from zofedht.server.admission.refusal import Expected
    from zofedht.server.grpc.listener import start_grpc_server
    from zofedht.server.grpc.roster import Roster
    from zofedht.server.grpc.transport import JoinService

    roster = Roster(lambda text: None)
    service = JoinService(
        roster, lambda: GetPropertiesIns({}), lambda: Expected(0, 0, False, False), lambda: 1000, 3, hello_seconds=0.3
    )
    server, port = start_grpc_server("127.0.0.1:0", service, tls=None)
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            error = Stranger(channel, stays=True).refused()
            assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            assert "did not introduce itself" in str(error.details())
    finally:
        server.stop(0.0)


ALERT = "red \x1b[31m alert\nround 9 is over" + "x" * 999


def test_text_of_a_client_is_short_and_printable():
    honest = encode(Update(0, 0, "c0", "failed", "raised", None, "fell")).scalars
    reply = FitRes(Status(Code.OK, ""), Parameters([], "numpy.ndarray"), 8, honest | {"reason": ALERT})
    assert client_replies(reply)[0].reason.startswith(r"red \x1b[31m alert\nround 9 is over")
    with pytest.raises(ObjectiveError) as caught:
        decode_metrics({"cause": "raised", "reason": ALERT})
    for text in (client_replies(reply)[0].reason, str(caught.value)):
        assert text.isprintable()
        assert len(text) <= 200


def test_metrics_are_few_and_have_plain_names():
    many = {f"m{index}": 0.5 for index in range(31)}
    assert len(decode_metrics(many | {"loss": 1.0})) == 32
    with pytest.raises(MessageError, match="at most 32 metrics, got 33"):
        decode_metrics(many | {"loss": 1.0, "one": 2.0})
    for name in ("\x1b[2J", "long" * 60):
        with pytest.raises(MessageError, match="a metric's name must have at most 200 printable characters"):
            decode_metrics({"loss": 1.0, name: 2.0})


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["move", "slopes"]), st.data())
def test_an_answer_with_changed_bytes_costs_a_slot_and_little_memory(uplink: str, data: st.DataObject):
    """The way of an answer: protobuf, Flower's reader, ours, and the round that it is for."""
    config = small(uplink=uplink, num_clients=2, clients_per_round=2, sampling="without-replacement", max_retries=0)
    run, fleet = Coordinator(config, initial_state(config, np.zeros(12))), Fleet(quadratics(2))
    honest, false = fleet.carry(run.ask(fleet.members))
    arrays, scalars = encode(false)
    told = FitRes(Status(Code.OK, ""), ndarrays_to_parameters(arrays), false.examples, scalars)
    raw = bytearray(ClientMessage(fit_res=serde.fit_res_to_proto(told)).SerializeToString())
    for _ in range(data.draw(st.integers(1, 5))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    tracemalloc.start()
    try:
        update = client_replies(serde.fit_res_from_proto(ClientMessage.FromString(bytes(raw)).fit_res))[0]
    except Exception:  # of protobuf, Flower or ours: a lost slot
        update = None
    finally:
        assert tracemalloc.get_traced_memory()[1] < 10e6
        tracemalloc.stop()
    with suppress(RoundError):
        run.tell([honest] if update is None else [honest, update])
    assert np.all(np.isfinite(run.state.x))


ROWS: dict[str, Any] = {
    "points": searches(num_clients=2, max_retries=0),
    "robust points": searches(num_clients=2, max_retries=0, aggregation="median"),
    "curvatures": small(algorithm="hizoo", num_clients=2, clients_per_round=2, max_retries=0),
    "controls": small(algorithm="zo-scaffold", num_clients=2, clients_per_round=2, max_retries=0),
    "surrogates": small(algorithm="fzoos", num_clients=2, clients_per_round=2, max_retries=0, memory=20),
    "pool": small(algorithm="fedkseed", num_clients=2, clients_per_round=2, max_retries=0, downlink="slopes"),
    "stiff": small(algorithm="zofed-shrink", num_clients=2, clients_per_round=2, max_retries=0, warm_up=1),
}
"""A config for each kind of answer that was added later."""

NUMBERS = st.sampled_from([0.0, -1.0, 1e-300, 1e99, 1e300, float("nan"), float("inf"), -float("inf")])
PACKED = st.lists(NUMBERS, max_size=20).map(lambda numbers: np.array(numbers).tobytes()) | st.binary(max_size=20)
LATER = [
    "values", "slopes", "sketch", "curvatures", "changes", "queries", "stiff", "stiff-rank", "stage", "payload",
    "skipped", "accused",
]  # fmt: skip


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(sorted(ROWS)),
    st.dictionaries(st.sampled_from(LATER), PACKED | SCALARS, min_size=1, max_size=3),
    st.sampled_from([None, *(1e300, float("nan"), -1e308)]),
)
def test_any_later_answer_costs_its_slot_at_most(row: str, changes: dict[str, Any], scale: float | None):
    """Two rounds in which one of two clients answers what it likes: x stays finite, and no error is not ours."""
    config = ROWS[row]
    run, fleet = Coordinator(config, initial_state(config, np.zeros(12))), Fleet(quadratics(2))
    for _ in range(2):
        told = fleet.carry(run.ask(fleet.members))
        arrays, scalars = encode(told[-1])
        if scale is not None and "values" in scalars:
            scalars["values"] = np.full(len(np.frombuffer(scalars["values"])), scale).tobytes()
        false = FitRes(Status(Code.OK, ""), ndarrays_to_parameters(arrays), told[-1].examples, scalars | changes)
        try:
            last = client_replies(false)
        except MessageError:
            last = []
        try:
            run.tell([*told[:-1], *last])
        except RoundError:
            break
        assert np.all(np.isfinite(run.state.x))

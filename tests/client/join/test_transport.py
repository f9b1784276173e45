"""What a client says when no server answers: the cause and the way out, within --max-wait."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from flwr.client import Client
from flwr.common import Code, GetPropertiesIns, GetPropertiesRes, Status, serde
from flwr.proto.transport_pb2 import ServerMessage

from zofedht.client.join.connection import Connection
from zofedht.client.join.transport import METHOD, stay_joined
from zofedht.common.errors import JoinError


def refused(address: str, max_wait: float) -> tuple[str, list[str]]:
    told: list[str] = []
    connection = Connection(address, None, max_wait=max_wait)
    with pytest.raises(JoinError) as caught:
        stay_joined(connection, Client(), report=told.append, connected=lambda up: None)
    return str(caught.value), told


def test_a_silent_port_is_named_within_max_wait():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        sentence, told = refused(address, 1.0)
        assert time.monotonic() - began < 15.0  # gRPC's own wait is 20
    assert told[0] == f"connecting to {address}"
    assert "nothing has answered there for 5 seconds; is it the port of zofedht-server serve" in sentence


def test_a_dead_proxy_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    sentence, _ = refused("server.example:8080", 0.5)
    assert "the connection goes through the proxy of http_proxy: put the server's host into no_proxy" in sentence


def test_an_unknown_host_is_named(monkeypatch: pytest.MonkeyPatch):
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    sentence, _ = refused("nowhere.invalid:8080", 0.5)
    assert sentence.endswith(
        "the host name 'nowhere.invalid' is not known here; check --server and the network's name service"
    )


class _LongWinded:
    """A server that admits a client and then sends it more than it takes."""

    def service(self, details: Any) -> Any:
        assert details.method == METHOD
        return grpc.stream_stream_rpc_method_handler(self.talk)

    def talk(self, answers: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        asks = ServerMessage(get_properties_ins=serde.get_properties_ins_to_proto(GetPropertiesIns({})))
        yield asks.SerializeToString()
        next(answers)
        yield asks.SerializeToString()
        yield b"x" * 10_000


class _Polite(Client):
    def get_properties(self, ins: GetPropertiesIns) -> GetPropertiesRes:
        return GetPropertiesRes(Status(Code.OK, ""), {})


def test_a_message_too_long_for_a_client_names_the_cure():
    """It would be as long the next time: the client gives up, without a limit of its patience."""
    server = grpc.server(ThreadPoolExecutor(1), handlers=[_LongWinded()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        connection = Connection(f"127.0.0.1:{port}", None, max_message_bytes=5000)
        with pytest.raises(JoinError) as caught:
            stay_joined(connection, _Polite(), report=lambda text: None, connected=lambda up: None)
    finally:
        server.stop(None)
    assert "sends a longer message than the 5000 bytes that this client takes" in str(caught.value)
    assert 'smaller `memory` or wire-dtype = "float32" shortens it' in str(caught.value)

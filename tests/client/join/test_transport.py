"""What a client says when no server answers: the cause and the way out, within --max-wait."""

from __future__ import annotations

import socket
import time

import pytest
from flwr.client import Client

from zofedht.client.join.transport import Connection, stay_joined
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

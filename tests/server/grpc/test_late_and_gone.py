"""Clients that come when the run is over, or do not come back: neither they nor the server wait for ever."""

from __future__ import annotations

import signal
import time

from tests.server.grpc.processes import Site


def test_a_late_client_learns_that_the_run_is_over(site: Site):
    server = site.server("--linger", 60)
    clients = site.clients()
    server.says("summary: ")  # the result is told first
    assert [client.ends() for client in clients] == [0, 0, 0]
    late = site.client("late", "--partition", "0/3")
    assert late.ends() == 0
    assert "the run is over" in late.text
    server.send(signal.SIGTERM)
    server.ends()
    assert site.summary()["rounds"] == 12


def test_a_finished_run_needs_no_clients(site: Site):
    server = site.server()
    clients = site.clients()
    assert server.ends() == 0
    assert [client.ends() for client in clients] == [0, 0, 0]
    told = server.text[server.text.index("training loss") :]
    again = site.server(resume=True)
    assert again.ends() == 0
    assert told.strip() in again.text
    assert [row["round"] for row in site.history()] == list(range(12))


def test_a_resumed_run_goes_on_without_gone_clients(site: Site):
    server = site.server("--settle", 0.5)
    clients = site.paced(0.1)
    server.says("round 1/12")
    clients[2].kill()
    server.send(signal.SIGKILL)
    server.ends()
    again = site.server("--settle", 0.5, resume=True, port=site.port)
    assert again.ends() == 0
    assert [client.ends() for client in clients[:2]] == [0, 0]
    assert [row["round"] for row in site.history()] == list(range(12))


def test_a_server_says_at_once_that_it_waits(site: Site):
    server = site.server()
    began = time.monotonic()
    server.says("waiting for clients: 0 of 3 connected")
    assert time.monotonic() - began < 25.0  # the next word comes after half a minute

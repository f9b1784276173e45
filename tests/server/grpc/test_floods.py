"""More connections than a server can hold, from peers that say nothing: the run goes on, and others join."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import grpc
import pytest
from flwr.common import GetPropertiesIns

from tests.server.grpc.processes import Site
from tests.server.grpc.test_hostile_messages import JOIN, goes_on
from tests.waiting import PATIENCE, until
from zofedht.client.join.connection import Connection
from zofedht.common.tls import read_tls
from zofedht.server.admission.refusal import Expected
from zofedht.server.grpc.descriptors import THREADS
from zofedht.server.grpc.event_loop import wait_for
from zofedht.server.grpc.listener import start_grpc_server
from zofedht.server.grpc.roster import Roster
from zofedht.server.grpc.transport import JoinService


class Silent:
    """A peer that listens and says nothing."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._leave = threading.Event()
        self.code: grpc.StatusCode | None = None
        self._stream = channel.stream_stream(JOIN)(self._talk(), timeout=PATIENCE)
        threading.Thread(target=self._listen, daemon=True).start()

    def _talk(self) -> Iterator[bytes]:
        self._leave.wait(PATIENCE)
        yield from ()

    def _listen(self) -> None:
        try:
            for _ in self._stream:
                pass
        except grpc.RpcError as error:
            self.code = error.code()

    def leave(self) -> None:
        self._leave.set()
        self._stream.cancel()


@contextmanager
def silent(connection: Connection, count: int) -> Iterator[list[Silent]]:
    """Open so many streams that say nothing, five over each connection."""
    with ExitStack() as stack:
        peers = []
        for _ in range(count // 5):
            channel = stack.enter_context(connection.channel())
            peers += [Silent(channel) for _ in range(5)]
        yield peers
        for peer in peers:
            peer.leave()


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def limited(files: int, threads: int) -> list[str]:
    return ["tests.server.grpc.limited", str(files), str(threads), "zofedht.server.__main__"]


def connected(port: int, count: int, stack: ExitStack) -> list[socket.socket]:
    sockets = []
    for _ in range(count):
        raw = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30.0))
        raw.setblocking(False)
        sockets.append(raw)
    return sockets


def closed(raw: socket.socket) -> bool:
    with suppress(BlockingIOError):
        try:
            return raw.recv(1) == b""
        except OSError:
            return True
    return False


def test_connections_without_a_certificate_end_no_run(secure_site: Site):
    """They are more than the server has descriptors, and it writes a checkpoint each round."""
    server = secure_site.server(within=limited(240, 0), rounds=100_000, checkpoint_every=1)
    *_, last = secure_site.clients()
    until(lambda: len(secure_site.history()) > 2, "some rounds")
    with ExitStack() as stack:
        sockets = connected(secure_site.port, 400, stack)
        for raw in sockets[::2]:  # the others do not even begin a handshake
            with suppress(OSError):  # the surplus is closed already
                raw.send(bytes.fromhex("16030102000100") + b"01fc")
        until(lambda: sum(map(closed, sockets)) >= 400 - 120, "the surplus to be turned away")
        assert descriptors(server.pid) < 200
        goes_on(secure_site, server)
        last.kill()
        server.says("left: c2")
        until(lambda: all(map(closed, sockets)), "the silent to be turned away, too")
    secure_site.client("c2", "--partition", "2/3").says("joined")
    goes_on(secure_site, server)
    assert {failure["client"] for failure in secure_site.failures()} <= {"c2"}


def test_one_certificate_keeps_nobody_out(secure_site: Site):
    server = secure_site.server()
    assert secure_site.certificates is not None
    tls = read_tls(secure_site.certificates / "clients" / "c0", "client")
    with silent(Connection(f"127.0.0.1:{secure_site.port}", tls), 150) as peers:
        until(lambda: sum(peer.code is not None for peer in peers) >= 140, "most of them to be turned away")
        assert {peer.code for peer in peers} == {None, grpc.StatusCode.RESOURCE_EXHAUSTED}
        for name in ("c1", "c2"):
            secure_site.client(name, "--partition", f"{name[1]}/3").says("joined")
    secure_site.client("c0", "--partition", "0/3")
    assert server.ends() == 0, server.text


def test_silent_peers_at_its_address_keep_nobody_out(site: Site):
    server = site.server("--min-clients", 9)
    with silent(Connection(f"127.0.0.1:{site.port}", None), 600) as peers:
        until(lambda: any(peer.code for peer in peers), "some to be turned away")
        site.client("c0", "--partition", "0/3").says("joined")
    assert server.code is None


def test_a_server_whose_listener_has_ended_ends():
    """As by a Ctrl-C, which saves the run and gives exit code 130."""
    service = JoinService(
        Roster(lambda text: None),
        lambda: GetPropertiesIns({}),
        lambda: Expected(0, 0, False, False),
        lambda: 1000,
    )
    server, _ = start_grpc_server("127.0.0.1:0", service, tls=None)

    def lose_the_listener() -> None:
        wait_for(server._server.stop(0.0))  # and not by the server's own stop
        until(lambda: False, "the interrupt")

    with pytest.raises(KeyboardInterrupt):
        lose_the_listener()


@pytest.mark.parametrize("how", ["raised", "stopped"])
def test_a_run_whose_listener_dies_is_saved(site: Site, how: str):
    """A restart policy sees the exit code, and the run goes on."""
    file = site.folder / "kill"
    server = site.server(within=["tests.server.grpc.dying", how, str(file), "zofedht.server.__main__"], rounds=4000)
    site.paced(0.03)
    until(lambda: len(site.history()) >= 4, "four rounds")
    file.touch()
    assert server.ends() == 130
    assert "the gRPC listener has ended, so the server ends, too" in server.text
    assert "interrupted; what was finished is kept" in server.text
    done = len(site.history())
    resumed = site.run("zofedht.server.__main__", ["resume", str(site.out), "--set", f"rounds={done + 1}"])
    assert resumed.ends() == 0, resumed.text


_BOX = """
import numpy as np
from zofedht import Objective

class Box(Objective):
    dim = 4
    def __len__(self): return 8
    def value(self, x, batch): return float(np.sum((x - 1) ** 2))
"""
_AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="a limit of threads counts all that a user runs")


@_AS_ROOT
def test_a_server_that_gets_too_few_threads_says_so(site: Site):
    """gRPC by itself would abort without a word."""
    server = site.start_server(within=limited(0, THREADS - 1))
    server.says(r"a server needs \d+ more threads, and the system gives [1-9].*raise that limit")
    assert server.ends() == 2


@_AS_ROOT
def test_a_run_needs_no_thread_that_it_lacks_at_its_start(site: Site) -> None:
    """As where the processes of a container take what is left: black boxes are asked for their start all the same."""
    (site.folder / "boxes.py").write_text(_BOX)
    server = site.server(within=limited(0, THREADS), objective="boxes:Box", step_size=0.05)
    clients = [site.client(f"c{index}", "--objective", "boxes:Box") for index in range(3)]
    with ExitStack() as stack:
        sockets = connected(site.port, 300, stack)
        assert [client.ends() for client in clients] == [0, 0, 0], server.text  # they have been dismissed
    assert len(sockets) == 300
    assert len(site.history()) == 12
    assert site.failures() == []

"""What HTTP/2 and TLS add: bytes on the sockets of a run over gRPC against the bytes that the history counts.

    python -m benchmarks.messages.framing [--dimensions 785,39300] [--clients 2] [--rounds 20] [--json FILE]

Clients join through a proxy that counts what it forwards. Each number is the difference between a longer and a shorter
run, so it has neither the joining nor the end. It has keep-alives and flow control, but not the headers of TCP and IP.
"""

from __future__ import annotations

import argparse
import io
import json
import socket
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.messages.wire import WAYS
from benchmarks.rounds import write_rows
from zofedht.client.join.connection import Connection
from zofedht.client.join.resident import JoinOptions, ResidentClient
from zofedht.client.join.transport import stay_joined
from zofedht.common.errors import ZofedhtError
from zofedht.common.tls import TlsFiles, read_tls
from zofedht.server.certificates import make_certificates
from zofedht.server.delivery.traffic import Traffic
from zofedht.server.grpc.serve import ServeOptions, serve

__all__ = ["Counted", "counted"]

_SHORT = 4  # rounds of the shorter run


@dataclass(frozen=True)
class Counted:
    """Bytes up and down, as the history has them and as they were on the sockets."""

    history: tuple[int, int]
    sockets: tuple[int, int]

    def __sub__(self, other: Counted) -> Counted:
        up, down = (a - b for a, b in zip(self.history, other.history, strict=True))
        socket_up, socket_down = (a - b for a, b in zip(self.sockets, other.sockets, strict=True))
        return Counted((up, down), (socket_up, socket_down))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print a table and write the JSON."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__.splitlines()[0])
    parser.add_argument("--dimensions", default="785,39300", help="numbers of parameters")
    parser.add_argument("--clients", type=int, default=2, help="clients, all of which take part in every round")
    parser.add_argument("--rounds", type=int, default=20, help="rounds that are counted")
    parser.add_argument("--json", type=Path, help="file for the result")
    args = parser.parse_args(argv)
    print("bytes per client and round: messages as in the history, and what the sockets carried more")
    print(f"{'way':<24}{'n':>8}{'TLS':>5}{'up':>10}{'more':>7}{'':>8}{'down':>10}{'more':>7}")
    result: dict[str, Any] = {}
    for way in ("move up, x down", "slopes up, x down", "slopes up, slopes down"):
        for dimension in (int(text) for text in args.dimensions.split(",")):
            for tls in (False, True):
                long, short = (
                    counted(WAYS[way], dimension, args.clients, rounds, tls=tls)
                    for rounds in (_SHORT + args.rounds, _SHORT)
                )
                found, messages = long - short, args.clients * args.rounds
                shown = [
                    (told / messages, (seen - told) / messages, seen / told - 1.0)
                    for told, seen in zip(found.history, found.sockets, strict=True)
                ]
                cells = "".join(f"{told:>10,.0f}{more:>7,.0f}{share:>8.2%}" for told, more, share in shown)
                print(f"{way:<24}{dimension:>8}{'yes' if tls else 'no':>5}{cells}", flush=True)
                result[f"{way}, n = {dimension}, {'TLS' if tls else 'plain'}"] = dict(
                    zip(("up", "up_more", "up_share", "down", "down_more", "down_share"), sum(shown, ()), strict=True)
                )
    if args.json:
        args.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0


def counted(keys: dict[str, Any], dimension: int, clients: int, rounds: int, *, tls: bool) -> Counted:
    """Return the bytes of a run whose clients join through a counting proxy, in threads of this process."""
    names = [f"c{index}" for index in range(clients)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_rows(folder / "rows.svm", 3 * clients, dimension - 1)
        if tls:
            make_certificates(folder, ["127.0.0.1"], names, 1.0)
        everything = keys | {
            "dataset": str(folder / "rows.svm"), "num-clients": clients, "clients-per-round": clients, "rounds": rounds,
            "sampling": "without-replacement", "local-steps": 50, "batch-size": 1, "evaluate-every": 0, "memory": 5,
            "step-size": 1e-3, "kernel": "numpy", "checkpoint-every": 1_000_000,
        }  # fmt: skip
        options = ServeOptions(
            address="127.0.0.1:0",
            out=folder / "out",
            min_clients=clients,
            tls=read_tls(folder / "server", "server") if tls else None,
        )
        with _counting_proxy() as proxy:

            def start_clients(port: int) -> None:
                proxy.target = port
                for index, name in enumerate(names):
                    shown = read_tls(folder / "clients" / name, "client") if tls else None
                    options = JoinOptions(name, uuid.uuid4().hex, index, clients, dataset=everything["dataset"])
                    threading.Thread(target=client, args=(options, shown), daemon=True).start()

            def client(options: JoinOptions, tls: TlsFiles | None) -> None:
                try:
                    _stay_joined(options, proxy.port, tls)
                except ZofedhtError as error:
                    ended.append(error)

            def report(text: str) -> None:
                if ended:  # the server would wait for this client for ever
                    raise ended[0]

            ended: list[ZofedhtError] = []
            with redirect_stderr(io.StringIO()):  # the rounds are not to stand between the lines of the table
                summary = serve(options, everything, report=report, listening=start_clients)
        return Counted((summary["bytes_up"], summary["bytes_down"]), proxy.traffic.take()[""])


def _stay_joined(options: JoinOptions, port: int, tls: TlsFiles | None) -> None:
    client = ResidentClient(options, lambda text: None).to_client()
    connection = Connection(f"127.0.0.1:{port}", tls)
    stay_joined(connection, client, report=lambda text: None, connected=lambda up: None)


class _Proxy:
    """Forwards connections to ``target`` and counts; up is what clients send."""

    def __init__(self) -> None:
        self.target = 0
        self.traffic = Traffic()
        self.meter = self.traffic.of("")
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        self.pumps: list[threading.Thread] = []
        self.sockets: list[socket.socket] = [self.listener]

    def accept(self) -> None:
        with suppress(OSError):  # the listener is closed at the end
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
                self.sockets += [near, far]
                for source, sink, count in ((near, far, self.meter.received), (far, near, self.meter.sent)):
                    self.pumps.append(threading.Thread(target=_pump, args=(source, sink, count), daemon=True))
                    self.pumps[-1].start()


def _pump(source: socket.socket, sink: socket.socket, count: Callable[[int], None]) -> None:
    with suppress(OSError):  # either end may hang up at any time
        while data := source.recv(1 << 16):
            count(len(data))
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def _counting_proxy() -> Iterator[_Proxy]:
    """Yield a proxy; when the context ends, all that was sent has been counted."""
    proxy = _Proxy()
    threading.Thread(target=proxy.accept, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.listener.shutdown(socket.SHUT_RDWR)
        for pump in proxy.pumps:
            pump.join(timeout=5.0)
        for each in proxy.sockets:
            each.close()


if __name__ == "__main__":
    sys.exit(main())

"""``zofedht-client join``: a resident client of a gRPC server."""

from __future__ import annotations

import argparse
import signal
import socket
import sys
import uuid
from pathlib import Path

from client.grpc_transport import Connection, stay_joined
from client.resident import Holdings, ResidentClient
from common.errors import ConfigError
from common.tls import check_plain_text, read_tls

__all__ = ["add_join", "join"]


def add_join(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command's arguments."""
    command = commands.add_parser(
        "join", help="join a server and work until the run is over", description="Join a server and stay until the run is over."
    )
    command.add_argument("--server", required=True, metavar="HOST:PORT", help="address of zofedht-server serve")
    command.add_argument("--name", default=socket.gethostname(), help="this client's name; with TLS its certificate's (host name)")
    share = command.add_mutually_exclusive_group()
    share.add_argument("--partition", default="auto", metavar="I/N", help="share I (from 0) of N of the server's data set, or auto")
    share.add_argument("--data", default="", metavar="FILE", help="this client's own rows: npz, csv, svmlight, IDX")
    command.add_argument("--objective", default="", metavar="MODULE:FACTORY", help="this client's own objective")
    command.add_argument("--data-dir", default="", metavar="DIR", help="folder of the large sets on this machine")
    command.add_argument("--tls-dir", type=Path, metavar="DIR", help="folder with ca.crt, client.crt and client.key")
    command.add_argument("--server-name", default="", metavar="NAME", help="name in the server's certificate, if not the address")
    command.add_argument("--insecure", action="store_true", help="plain text: anybody on the way may read and change it")
    command.add_argument(
        "--max-wait", type=float, default=float("inf"), metavar="SECONDS", help="give up after so long without a connection"
    )


def join(args: argparse.Namespace) -> int:
    """Run the command: 0 when the run is over. Raises ZofedhtError."""
    check_plain_text(args.server, args.insecure, args.tls_dir)
    index, count = _partition(args.partition)
    holdings = Holdings(
        name=args.name,
        instance=uuid.uuid4().hex,
        partition=index,
        partitions=count,
        data=str(Path(args.data).expanduser().resolve()) if args.data else "",
        objective=args.objective,
        data_dir=args.data_dir,
    )
    connection = Connection(
        address=args.server,
        tls=read_tls(args.tls_dir, "client") if args.tls_dir else None,
        server_name=args.server_name,
        max_wait=args.max_wait,
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # systemd and docker stop a client this way
    client = ResidentClient(holdings, _say)
    up = False

    def connected(now: bool) -> None:
        nonlocal up
        if now and not up:
            _say(f"joined {args.server} as {args.name}")
        up = now

    stay_joined(connection, client.to_client(), report=_say, connected=connected)
    _say("the run is over")
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _partition(text: str) -> tuple[int, int]:
    if text == "auto":
        return -1, 0
    index, slash, count = text.partition("/")
    if slash and index.isdecimal() and count.isdecimal() and int(index) < int(count):
        return int(index), int(count)
    raise ConfigError([f"--partition must be I/N with 0 <= I < N, such as 0/5, or auto, got {text!r}"])

"""What gRPC alone takes over mutual TLS: a grpc.aio server that does nothing but hold streams, and asks all of them.

    python -m benchmarks.servers.bare_streams [--clients 500] [--rounds 0] [--option grpc.NAME=NUMBER ...]

The server and the clients are two processes; each client has a channel of its own. The resident memory of the server
is taken before the first client and at the end, so that the difference is gRPC's, and none of it ours. With
``--rounds`` all streams carry a message of 6,500 bytes each way, so many times: a round is the median, its CPU is the
server's mean. ``--option`` goes to the server and to all channels.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from zofedht.common.tls import read_tls
from zofedht.server.certificates import make_certificates

_METHOD = "bare.Service"
_BYTES = 6_500  # of a question and of an answer: x of n = 785 as float64, and some text
_WARM = 3  # rounds
_CROWD = "benchmarks.servers.bare_streams"


class _Found(NamedTuple):
    before: int  # kB
    after: int
    wall: float  # seconds of a round
    cpu: float


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a line, or two."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=500, help="streams, each over a connection of its own")
    parser.add_argument("--rounds", type=int, default=0, help="rounds in which all streams are asked")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=NUMBER", help="of server and channels")
    parser.add_argument("--hold", nargs=2, metavar=("PORT", "DIR"), help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.hold:
        asyncio.run(_hold(*args.hold, args))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        make_certificates(Path(folder), ["127.0.0.1"], ["client"], 1.0)
        found = asyncio.run(_serve(Path(folder), args))
    each = (found.after - found.before) / args.clients
    print(f"{args.clients} streams: {found.before / 1e3:.0f} -> {found.after / 1e3:.0f} MB, {each:.0f} kB each")
    if args.rounds:
        print(f"a round of all: {1e3 * found.wall:.0f} ms, server's CPU {1e3 * found.cpu:.0f} ms")
    return 0


def _options(args: argparse.Namespace) -> list[tuple[str, int]]:
    return [(name, int(number)) for name, _, number in (option.partition("=") for option in args.option)]


async def _serve(folder: Path, args: argparse.Namespace) -> _Found:
    there: list[Any] = []
    full, answered, answers = asyncio.Event(), asyncio.Event(), 0

    async def join(_: object, context: Any) -> None:
        nonlocal answers
        await context.write(b"a question")
        await context.read()
        there.append(context)
        if len(there) == args.clients:
            full.set()
        while await context.read() is not grpc.aio.EOF:  # stays until the client goes
            answers += 1
            if answers == args.clients:
                answered.set()

    server = grpc.aio.server(options=_options(args))
    handler = grpc.stream_stream_rpc_method_handler(join)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_METHOD, {"Join": handler}),))
    tls = read_tls(folder / "server", "server")
    shown = grpc.ssl_server_credentials([(tls.key, tls.certificate)], tls.authority, require_client_auth=True)
    port = server.add_secure_port("127.0.0.1:0", shown)
    await server.start()
    before = _resident()
    command = [sys.executable, "-m", _CROWD, "--clients", str(args.clients)]
    command += [part for option in args.option for part in ("--option", option)]
    with subprocess.Popen([*command, "--hold", str(port), str(folder / "clients" / "client")]) as crowd:
        await full.wait()
        question, seconds, cpu = os.urandom(_BYTES), list[float](), list[float]()
        for _ in range(args.rounds + _WARM if args.rounds else 0):
            answers, began, used = 0, time.perf_counter(), time.process_time()
            answered.clear()
            await asyncio.gather(*(context.write(question) for context in there))
            await answered.wait()
            seconds.append(time.perf_counter() - began)
            cpu.append(time.process_time() - used)
        after = _resident()
        crowd.kill()
    await server.stop(5.0)  # the calls of a crowd that is gone end first
    wall = statistics.median(seconds[_WARM:]) if args.rounds else 0.0
    return _Found(before, after, wall, statistics.mean(cpu[_WARM:]) if args.rounds else 0.0)


async def _hold(port: str, folder: str, args: argparse.Namespace) -> None:
    tls = read_tls(Path(folder), "client")
    shown = grpc.ssl_channel_credentials(tls.authority, tls.key, tls.certificate)
    options = [("grpc.use_local_subchannel_pool", 1), *_options(args)]
    answer, held = os.urandom(_BYTES), []
    for _ in range(args.clients):
        call: Any = grpc.aio.secure_channel(f"127.0.0.1:{port}", shown, options).stream_stream(f"/{_METHOD}/Join")()
        await call.read()
        await call.write(b"an answer")
        held.append(asyncio.ensure_future(_answer(call, answer)))
    await asyncio.gather(*held)


async def _answer(call: Any, answer: bytes) -> None:
    while await call.read() is not grpc.aio.EOF:
        await call.write(answer)


def _resident() -> int:
    """Return this process's resident memory in kB."""
    return int(re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())[1])  # type: ignore[index]


if __name__ == "__main__":
    sys.exit(main())

"""What a connection over mutual TLS takes in gRPC alone: a grpc.aio server that does nothing but hold streams.

    python -m benchmarks.servers.bare_streams [--clients 500]

The server and the clients are two processes; each client has a channel of its own. The resident memory of the server
is taken before the first client and when all are there, so that the difference is gRPC's, and none of it ours.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc

from zofedht.common.tls import read_tls
from zofedht.server.certificates import make_certificates

_METHOD = "bare.Service"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a line."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=500, help="streams, each over a connection of its own")
    parser.add_argument("--hold", nargs=2, metavar=("PORT", "DIR"), help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.hold:
        asyncio.run(_hold(*args.hold, args.clients))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        make_certificates(Path(folder), ["127.0.0.1"], ["client"], 1.0)
        before, after = asyncio.run(_serve(Path(folder), args.clients))
    each = (after - before) / args.clients
    print(f"{args.clients} streams: {before / 1e3:.0f} -> {after / 1e3:.0f} MB, {each:.0f} kB each")
    return 0


async def _serve(folder: Path, clients: int) -> tuple[int, int]:
    there, full = 0, asyncio.Event()

    async def join(_: object, context: Any) -> None:
        nonlocal there
        await context.write(b"a question")
        await context.read()
        there += 1
        if there == clients:
            full.set()
        await context.read()  # stays until the client goes

    server = grpc.aio.server()
    handler = grpc.stream_stream_rpc_method_handler(join)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_METHOD, {"Join": handler}),))
    tls = read_tls(folder / "server", "server")
    shown = grpc.ssl_server_credentials([(tls.key, tls.certificate)], tls.authority, require_client_auth=True)
    port = server.add_secure_port("127.0.0.1:0", shown)
    await server.start()
    before = _resident()
    command = [sys.executable, "-m", "benchmarks.servers.bare_streams", "--clients", str(clients), "--hold"]
    with subprocess.Popen([*command, str(port), str(folder / "clients" / "client")]) as crowd:
        await full.wait()
        after = _resident()
        crowd.kill()
    await server.stop(0.0)
    return before, after


async def _hold(port: str, folder: str, clients: int) -> None:
    tls = read_tls(Path(folder), "client")
    shown = grpc.ssl_channel_credentials(tls.authority, tls.key, tls.certificate)
    options = [("grpc.use_local_subchannel_pool", 1)]
    for _ in range(clients):
        call: Any = grpc.aio.secure_channel(f"127.0.0.1:{port}", shown, options).stream_stream(f"/{_METHOD}/Join")()
        await call.read()
        await call.write(b"an answer")
        _held.append(call)
    await asyncio.Event().wait()


_held: list[Any] = []


def _resident() -> int:
    """Return this process's resident memory in kB."""
    return int(re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())[1])  # type: ignore[index]


if __name__ == "__main__":
    sys.exit(main())

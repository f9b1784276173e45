"""Seconds of a round and memory of one server with many joined clients, over mutual TLS.

    python -m benchmarks.joined [--clients 200,1000,5000] [--slots 10,200] [--rounds 30]

The clients are real ones: the NumPyClient of ``zofedht-client join`` and a stream, a connection and a certificate for
each, but thousands of them live in one process without a thread of their own. A slot is one step on two sparse rows, so
the numbers are those of the round and not of the arithmetic; ``in process`` is the arithmetic of as many slots. A
round's seconds are the median of the differences between lines of history.jsonl. Memory is the server's resident set
after the last round.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from flwr.proto.transport_pb2 import ServerMessage

from benchmarks.rounds import history_rows, measure, port_of, spawn, write_rows
from zofedht.client.join.resident import JoinOptions, ResidentClient
from zofedht.client.join.transport import METHOD, Connection, answer_to
from zofedht.common.tls import TlsFiles, read_tls
from zofedht.common.wire.pieces import pieces_of
from zofedht.server.certificates import make_certificates

_SERVER = str(Path(sys.executable).parent / "zofedht-server")
_HOSTS = 4  # processes that hold the clients
_JOINING = 16  # of a process, at once


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.joined", description=__doc__.splitlines()[0])
    parser.add_argument("--clients", default="200,1000,5000", help="numbers of joined clients")
    parser.add_argument("--slots", default="10,200", help="clients per round")
    parser.add_argument("--rounds", type=int, default=30, help="rounds of a measurement")
    parser.add_argument("--host", nargs=5, metavar=("PORT", "FOLDER", "N", "FIRST", "STEP"), help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.host:
        port, folder, *numbers = args.host
        asyncio.run(_hold(port, Path(folder), *map(int, numbers)))
        return 0
    print(f"{'clients':>8}{'slots':>7}{'ms/round':>10}{'in process':>12}{'joined in s':>13}{'MB':>6}{'threads':>9}")
    arithmetic = {slots: measure("in-process", slots, 784, args.rounds)[0] for slots in _numbers(args.slots)}
    for clients in _numbers(args.clients):
        for slots, alone in arithmetic.items():
            seconds, joined, megabytes, threads = _served(clients, min(slots, clients), args.rounds)
            line = f"{clients:>8}{slots:>7}{1e3 * seconds:>10.1f}{1e3 * alone:>12.1f}{joined:>13.1f}{megabytes:>6.0f}"
            print(f"{line}{threads:>9}", flush=True)
    return 0


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _served(clients: int, slots: int, rounds: int) -> tuple[float, float, float, int]:
    """Return the median seconds of a round, the seconds until all had joined, and the server's memory and threads."""
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        folder = Path(scratch)
        data, certificates = folder / "rows.svm", folder / "certificates"
        write_rows(data, 3 * clients, 784)
        make_certificates(certificates, ["127.0.0.1"], [f"client-{index}" for index in range(clients)], 10.0)
        keys = {
            "dataset": data, "num-clients": clients, "clients-per-round": slots, "rounds": rounds,
            "sampling": "without-replacement", "local-steps": 1, "batch-size": 1, "evaluate-every": 0, "memory": 5,
            "checkpoint-every": 1_000_000, "step-size": 1e-3, "kernel": "numpy",
        }  # fmt: skip
        command = [_SERVER, "serve", "--address", "127.0.0.1:0", "--tls-dir", str(certificates / "server")]
        command += ["--min-clients", str(clients), "--out", str(folder / "out"), "--linger", "2"]
        server = spawn(stack, [*command, "--set", *(f"{key}={value}" for key, value in keys.items())])
        port, began = port_of(server), time.monotonic()
        for first in range(_HOSTS):
            numbers = map(str, (clients, first, _HOSTS))
            spawn(stack, [sys.executable, "-m", "benchmarks.joined", "--host", port, scratch, *numbers])
        history, joined = folder / "out" / "history.jsonl", 0.0
        assert server.stderr is not None
        for line in server.stderr:
            if not joined and f" {clients} connected" in line:
                joined = time.monotonic() - began
            if line.startswith("round ") or (history.exists() and len(history_rows(history)) >= rounds):
                break
        while len(history_rows(history)) < rounds:
            if server.poll() is not None:
                raise RuntimeError("the server ended early")
            time.sleep(0.05)
        status = Path(f"/proc/{server.pid}/status").read_text()
        megabytes, threads = (int(re.search(rf"{key}:\s+(\d+)", status)[1]) for key in ("VmRSS", "Threads"))  # type: ignore[index]
        marks = [row["seconds"] for row in history_rows(history)]
        return statistics.median(np.diff(marks)), joined, megabytes / 1024, threads


async def _hold(port: str, folder: Path, clients: int, first: int, step: int) -> None:
    """Hold every ``step``-th client, from ``first`` on, until the server has ended."""
    joining = asyncio.Semaphore(_JOINING)
    file = str(folder / "rows.svm")
    await asyncio.gather(*(_stay(joining, port, folder, file, index, clients) for index in range(first, clients, step)))


async def _stay(joining: asyncio.Semaphore, port: str, folder: Path, file: str, index: int, clients: int) -> None:
    name = f"client-{index}"
    tls: TlsFiles = read_tls(folder / "certificates" / "clients" / name, "client")
    options = JoinOptions(name, uuid.uuid4().hex, index, clients, dataset=file)
    client = ResidentClient(options, lambda text: None).to_client()
    connection = Connection(f"127.0.0.1:{port}", tls)
    await joining.acquire()
    introduced = False
    try:
        shown = grpc.ssl_channel_credentials(tls.authority, tls.key, tls.certificate)
        async with grpc.aio.secure_channel(connection.address, shown, connection.options()) as channel:
            call: Any = channel.stream_stream(METHOD)()
            while (data := await call.read()) is not grpc.aio.EOF:
                message = ServerMessage.FromString(data)
                kind = message.WhichOneof("msg")
                if kind == "reconnect_ins":
                    return
                if kind == "get_properties_ins" and introduced:
                    joining.release()
                    continue
                introduced = True
                for piece in pieces_of(answer_to(client, kind, message).SerializeToString()):
                    await call.write(piece)
    except grpc.RpcError:
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main())

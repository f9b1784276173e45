"""What a round costs the server and its clients, with many joined clients on this machine.

    python -m benchmarks.servers.joined [--clients 200,1000,5000] [--slots 10,200] [--rounds 30] [--insecure]
                                        [--prepared]

Every client has a stream, a connection and, over mutual TLS, a certificate, but thousands of them live in one process
(``many_clients``). A slot is one step on one sparse row, so the numbers are those of the round and not of the
arithmetic; ``in process`` is the arithmetic of as many slots. With ``--prepared`` clients do not compute: then a
round is as long as the server and gRPC make it. A round's seconds are the median of the differences between lines of
history.jsonl. CPU is the mean of all rounds but the first few. Memory is the server's resident set after the last.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.rounds import cpu_of, drain, history_rows, host_clients, measure, port_of, spawn, write_rows
from zofedht.server.certificates import make_certificates

_SERVER = str(Path(sys.executable).parent / "zofedht-server")
_WARM = 5  # rounds in which loops are compiled and clients made


class _Measured(NamedTuple):
    wall: float  # seconds of a round
    server: float  # CPU seconds of a round
    clients: float
    joined: float  # seconds until all had joined
    megabytes: float
    threads: int


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__.splitlines()[0])
    parser.add_argument("--clients", default="200,1000,5000", help="numbers of joined clients")
    parser.add_argument("--slots", default="10,200", help="clients per round")
    parser.add_argument("--rounds", type=int, default=30, help="rounds of a measurement")
    parser.add_argument("--insecure", action="store_true", help="plain text in the place of mutual TLS")
    parser.add_argument("--prepared", action="store_true", help="clients answer without computing")
    args = parser.parse_args(argv)
    print("ms of a round: its length, the CPU of server and of clients; in process: the same slots without a network")
    print(
        f"{'clients':>8}{'slots':>7}{'length':>9}{'server':>9}{'clients':>9}{'in process':>12}{'joined in s':>13}",
        end="",
    )
    print(f"{'MB':>6}{'threads':>9}")
    arithmetic = {slots: measure("in-process", slots, 784, args.rounds)[0] for slots in _numbers(args.slots)}
    for clients in _numbers(args.clients):
        for slots, alone in arithmetic.items():
            found = _served(clients, min(slots, clients), args)
            times = "".join(f"{1e3 * seconds:>9.1f}" for seconds in found[:3])
            line = f"{clients:>8}{slots:>7}{times}{1e3 * alone:>12.1f}{found.joined:>13.1f}{found.megabytes:>6.0f}"
            print(f"{line}{found.threads:>9}", flush=True)
    return 0


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _served(clients: int, slots: int, args: argparse.Namespace) -> _Measured:
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        folder = Path(scratch)
        data, certificates = folder / "rows.svm", folder / "certificates"
        write_rows(data, 5 * clients, 784)  # a fifth is held out: all shards have four
        keys = {
            "dataset": data, "num-clients": clients, "clients-per-round": slots, "rounds": args.rounds,
            "sampling": "without-replacement", "local-steps": 1, "batch-size": 1, "evaluate-every": 0, "memory": 5,
            "checkpoint-every": 1_000_000, "step-size": 1e-3,
        }  # fmt: skip
        security, shown = ["--insecure"], []
        if not args.insecure:
            make_certificates(certificates, ["127.0.0.1"], [f"client-{index}" for index in range(clients)], 10.0)
            security = ["--tls-dir", str(certificates / "server")]
            shown = ["--certificates", str(certificates / "clients")]
        command = [_SERVER, "serve", "--address", "127.0.0.1:0", *security, "--min-clients", str(clients)]
        command += ["--out", str(folder / "out"), "--linger", "2"]
        server = spawn(stack, [*command, "--set", *(f"{key}={value}" for key, value in keys.items())])
        port, began = port_of(server, drained=False), time.monotonic()
        hosts = host_clients(stack, port, str(data), clients, [*shown, *(["--prepared"] if args.prepared else [])])
        history, joined = folder / "out" / "history.jsonl", 0.0
        first: tuple[int, float, float] | None = None  # rounds, and the CPU that server and hosts had used
        assert server.stderr is not None
        for line in server.stderr:
            if f", {clients} connected" in line:
                joined = joined or time.monotonic() - began
                break
        drain(server.stderr)
        done = 0
        while done < args.rounds:
            if server.poll() is not None or any(host.poll() for host in hosts):
                raise RuntimeError("a process ended early")
            done = len(history_rows(history)) if history.exists() else 0
            now = done, cpu_of([server]), cpu_of(hosts)
            first = now if first is None and done >= _WARM else first
            time.sleep(0.05)
        assert first is not None
        status = Path(f"/proc/{server.pid}/status").read_text()
        megabytes, threads = (int(re.search(rf"{key}:\s+(\d+)", status)[1]) for key in ("VmRSS", "Threads"))  # type: ignore[index]
        marks = [row["seconds"] for row in history_rows(history)]
        rounds = now[0] - first[0]
        cpu = (now[1] - first[1]) / rounds, (now[2] - first[2]) / rounds
        return _Measured(statistics.median(np.diff(marks)), *cpu, joined, megabytes / 1024, threads)


if __name__ == "__main__":
    sys.exit(main())

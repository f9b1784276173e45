"""Seconds and CPU seconds per round of every engine, on this machine, in one run.

    python -m benchmarks.rounds [--clients 2,10,50,200] [--engines in-process,grpc,simulation,superlink]
                                [--columns 784] [--rounds 40] [--slots M] [--json FILE]

Each client takes one step on two sparse rows, so the numbers are those of the round and not of the arithmetic;
``in-process`` is the arithmetic. All clients take part in every round unless ``--slots`` says how many do, and Q is
made anew every 5 rounds. A round's seconds are the median of the differences between lines of history.jsonl. CPU
seconds are those of the server and all clients; MB are the server's peak. ``--json`` writes {engine: {clients: seconds
per round}}.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

import numpy as np

from benchmarks.servers.superlink_sites import superlink_sites

_BIN = Path(sys.executable).parent
_SERVER = str(_BIN / "zofedht-server")
_MOST = {"simulation": 50, "superlink": 10}  # clients; beyond that a round takes minutes
_FEW_ROUNDS = {"superlink": 4}
_CLIENT_PROCESSES = 4  # host the clients: 200 processes would measure the machine's memory


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print a table and write the JSON."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__.splitlines()[0])
    parser.add_argument("--clients", default="2,10,50,200", help="numbers of clients")
    parser.add_argument("--engines", default="in-process,grpc,simulation,superlink", help="engines to measure")
    parser.add_argument("--columns", type=int, default=784, help="features; n is one more (784, or 39300)")
    parser.add_argument("--rounds", type=int, default=40, help="rounds of a measurement")
    parser.add_argument("--slots", type=int, default=0, help="clients that take part in a round (all)")
    parser.add_argument("--json", type=Path, help="file for the result")
    args = parser.parse_args(argv)
    result: dict[str, dict[str, float]] = {}
    print(f"n = {args.columns + 1}\n{'engine':<12}{'clients':>8}{'ms/round':>12}{'CPU ms/round':>14}{'server MB':>11}")
    for engine in args.engines.split(","):
        for clients in (int(text) for text in args.clients.split(",")):
            if clients > _MOST.get(engine, clients):
                continue
            rounds = _FEW_ROUNDS.get(engine, args.rounds)
            seconds, cpu, megabytes = measure(engine, clients, args.columns, rounds, args.slots)
            print(f"{engine:<12}{clients:>8}{1e3 * seconds:>12.1f}{1e3 * cpu:>14.1f}{megabytes:>11.0f}", flush=True)
            result.setdefault(engine, {})[str(clients)] = seconds
            if args.json:
                args.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0


def measure(engine: str, clients: int, columns: int, rounds: int, slots: int = 0) -> tuple[float, float, float]:
    """Return the median seconds of a round, the mean CPU seconds of all its processes, and the server's peak in MB."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        data = folder / "rows.svm"
        write_rows(data, 3 * clients, columns)
        keys = {
            "dataset": str(data), "num-clients": clients, "clients-per-round": slots or clients, "rounds": rounds,
            "sampling": "without-replacement", "local-steps": 1, "batch-size": 1, "evaluate-every": 0, "memory": 5,
            "checkpoint-every": 1_000_000, "step-size": 1e-3,
        }  # fmt: skip
        with _started(engine, folder, clients, keys) as watched:
            cpu_before, cpu_after = _watch(folder / "out" / "history.jsonl", watched, rounds)
            megabytes = _peak_megabytes(watched[0].pid)
        marks = [row["seconds"] for row in history_rows(folder / "out" / "history.jsonl")]
        return statistics.median(np.diff(marks)), (cpu_after - cpu_before) / (rounds - 1), megabytes


def write_rows(path: Path, rows: int, columns: int) -> None:
    """Write two classes of rows with a handful of entries each; the last column is always there."""
    rng = np.random.default_rng(0)
    lines = []
    for row in range(rows):
        chosen = np.unique(np.append(rng.integers(1, columns, size=8), columns))
        lines.append(" ".join([str(row % 2), *(f"{column}:{rng.random():.4f}" for column in chosen)]))
    path.write_text("\n".join(lines) + "\n")


@contextmanager
def _started(engine: str, folder: Path, clients: int, keys: dict[str, object]) -> Iterator[list[subprocess.Popen[str]]]:
    """Start what the engine needs; yield the processes whose CPU counts (their children count with them)."""
    assignments = [f"{key}={value}" for key, value in keys.items()]
    out = str(folder / "out")
    with ExitStack() as stack:
        if engine == "superlink":
            sites = stack.enter_context(superlink_sites(folder))
            sites.submit(keys | {"out": out})
            yield list(sites.processes)
        elif engine == "grpc":
            command = [_SERVER, "serve", "--address", "127.0.0.1:0", "--insecure", "--min-clients", str(clients)]
            server = spawn(stack, [*command, "--out", out, "--set", *assignments])
            yield [server, *host_clients(stack, port_of(server), str(keys["dataset"]), clients)]
        else:
            yield [spawn(stack, [_SERVER, "run", "--engine", engine, "--out", out, "--set", *assignments])]


def host_clients(
    stack: ExitStack, port: str, dataset: str, clients: int, options: Sequence[str] = ()
) -> list[subprocess.Popen[str]]:
    """Start the processes that hold all clients (``benchmarks.servers.many_clients``)."""
    hosts = min(_CLIENT_PROCESSES, clients)
    command = [sys.executable, "-m", "benchmarks.servers.many_clients", *options, port, dataset, str(clients)]
    return [spawn(stack, [*command, *map(str, range(first, clients, hosts))]) for first in range(hosts)]


def spawn(stack: ExitStack, command: Sequence[str]) -> subprocess.Popen[str]:
    """Start a command, and kill it at the end."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    stack.enter_context(process)  # waits, and closes the pipe
    stack.callback(process.kill)
    return process


def port_of(server: subprocess.Popen[str], *, drained: bool = True) -> str:
    """Wait until a server listens, and return its port. What it says later is dropped: a full pipe would stop it.

    Unless ``drained``, the caller reads on.
    """
    said = server.stderr
    assert said is not None
    for line in said:
        if " listening on port " in line:
            if drained:
                drain(said)
            return line.split()[-1]
    raise RuntimeError("the server did not start")


def drain(said: IO[str]) -> None:
    """Read what a process says, and drop it, until the pipe is closed at either end."""

    def read() -> None:
        with suppress(ValueError, OSError):  # whoever ends the process may close this end first
            deque(said, maxlen=0)

    threading.Thread(target=read, daemon=True).start()


def _watch(history: Path, processes: Sequence[subprocess.Popen[str]], rounds: int) -> tuple[float, float]:
    """Return the CPU seconds that the processes had used after the first and after the last round."""
    first = None
    latest: dict[int, float] = {}  # a process that has just ended keeps what it was last seen with
    while True:
        lines = len(history_rows(history)) if history.exists() else 0
        for process in processes:
            latest[process.pid] = max(latest.get(process.pid, 0.0), _cpu(process.pid))
        used = sum(latest.values())
        first = used if first is None and lines else first
        if lines >= rounds and first is not None:
            return first, used
        if any(process.poll() not in (None, 0) for process in processes):
            raise RuntimeError(f"a process ended early: {[process.args for process in processes if process.poll()]}")
        time.sleep(0.02)


def history_rows(history: Path) -> list[dict[str, float]]:
    """Return the rounds that a history has now."""
    return [json.loads(line) for line in history.read_text().splitlines() if line.endswith("}")]


def _peak_megabytes(pid: int) -> float:
    """Return the most memory that a process has held; nan once it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return float("nan")
    return next((float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), float("nan"))


def cpu_of(processes: Sequence[subprocess.Popen[str]]) -> float:
    """Return the CPU seconds of processes and of their descendants that live."""
    return sum(_cpu(process.pid) for process in processes)


def _cpu(pid: int) -> float:
    """Return the CPU seconds of a process and of all its descendants that live."""
    total, ticks = 0.0, os.sysconf("SC_CLK_TCK")
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = [c for t in Path(f"/proc/{pid}/task").iterdir() for c in (t / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):  # it has ended in between
        return total
    return sum(map(float, fields[11:13])) / ticks + sum(_cpu(int(child)) for child in children)


if __name__ == "__main__":
    sys.exit(main())

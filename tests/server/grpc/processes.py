"""Servers and clients as real processes, quick to start: forked from one that has imported everything.

Each runs a command's ``main`` with its own standard error in a file, in its own folder, and is killed at the
end of the test. Waits are bounded and look for what is waited for; nothing sleeps and hopes.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import re
import signal
import sys
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE, until
from zofedht.common.terminal.command_line import NOT_BETTER

__all__ = ["SMALL", "Process", "Site"]

SMALL: dict[str, Any] = {
    "num-clients": 3,
    "clients-per-round": 3,
    "sampling": "without-replacement",
    "memory": 2,
    "rounds": 12,
    "kernel": "numpy",  # a run takes a second, and compiled loops take as long to load
    "local-steps": 5,
    "batch-size": 8,
    "step-size": 3.0,
    "checkpoint-every": 4,
    "round-timeout": 600,  # a busy machine is no lost client
    "seed": 3,
}
"""Every client has a slot in every round; the basis is made anew five times."""

_IMPORTS = [
    "zofedht.client.__main__",
    "zofedht.client.join.command",
    "zofedht.server.__main__",
    "zofedht.server.commands.table",
    "zofedht.server.grpc.serve",
    "sklearn.datasets",
    "tests.server.grpc.evil",
    "tests.server.grpc.lying",
    "tests.server.grpc.streams",
]
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(_IMPORTS)


def _child(module: str, argv: list[str], folder: str, log: str) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    # A forkserver's child has its own idea of these.
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests that run under nohup have it ignored
    os.chdir(folder)
    sys.exit(importlib.import_module(module).main(argv))


class Process:
    """One command that runs."""

    def __init__(self, module: str, argv: list[str], folder: Path, log: Path) -> None:
        self.log = log
        self._process: BaseProcess = _forks.Process(
            target=_child, args=(module, [str(arg) for arg in argv], str(folder), str(log))
        )
        self._process.start()

    @property
    def text(self) -> str:
        """All that it has printed."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    @property
    def code(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._process.exitcode

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process.pid is not None
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        """Send a signal to this process and no other."""
        os.kill(self.pid, number)

    def says(self, pattern: str) -> re.Match[str]:
        """Wait until it has printed what the pattern matches."""

        def look() -> re.Match[str] | None:
            found = re.search(pattern, self.text)
            if found is None and self.code is not None and re.search(pattern, self.text) is None:
                raise AssertionError(f"ended with {self.code} before it said {pattern!r}:\n{self.text}")
            return found

        try:
            found: re.Match[str] = until(look, pattern)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text}") from None
        return found

    def ends(self) -> int:
        """Wait for the end and return the exit code, 0 also where a run is not better than its start.

        Most of these runs are there for their transport, and short; ``code`` is what the process returned.
        """
        self._process.join(PATIENCE)
        if self._process.exitcode is None:
            raise AssertionError(f"still running after {PATIENCE:g} s:\n{self.text}")
        return 0 if self._process.exitcode == NOT_BETTER else self._process.exitcode

    def kill(self) -> None:
        """End it now, whatever it is doing."""
        if self._process.exitcode is None:
            self._process.kill()
        self._process.join(10.0)


class Site:
    """One server and its clients, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.certificates: Path | None = None
        self.port = 0
        self._processes: list[Process] = []

    def server(self, *options: Any, **others: Any) -> Process:
        """Start ``serve`` as ``start_server`` does, and wait until it listens."""
        process = self.start_server(*options, **others)
        self.port = int(process.says(r"listening on port (\d+)")[1])
        return process

    def start_server(
        self, *options: Any, resume: bool = False, port: int = 0, within: Sequence[str] = (), **keys: Any
    ) -> Process:
        """Start ``serve``; keys are run config keys over SMALL, None leaves one out.

        ``within`` is a module whose ``main`` calls the server's, and its first arguments.
        """
        settings = SMALL | {key.replace("_", "-"): value for key, value in keys.items()}
        argv = ["serve", "--address", f"127.0.0.1:{port}", "--out", str(self.out)]
        if "--min-clients" not in options:
            argv += ["--min-clients", "3"]
        argv += self._security("server")
        argv += ["--resume"] if resume else []
        argv += ["--set", *(f"{key}={json.dumps(value)}" for key, value in settings.items() if value is not None)]
        argv += map(str, options)
        module, *first = within or ["zofedht.server.__main__"]
        return self._start(module, [*first, *argv], "server")

    def client(self, name: str, *options: Any, server: str = "", folder: Path | None = None) -> Process:
        """Start ``join``."""
        argv = ["join", "--server", server or f"127.0.0.1:{self.port}", "--name", name]
        argv += [] if {"--tls-dir", "--insecure"} & set(options) else self._security(name)
        return self._start("zofedht.client.__main__", [*argv, *map(str, options)], name, folder)

    def clients(self, count: int = 3) -> list[Process]:
        """Start honest clients c0, c1, ... with their shares of three."""
        return [self.client(f"c{index}", "--partition", f"{index}/3") for index in range(count)]

    def evil(self, deed: str, name: str = "c2", shard: str = "2/3", port: int = 0, amount: float = 0.0) -> Process:
        """Start a client that does the deed of ``tests.server.grpc.evil``."""
        argv = [deed, f"127.0.0.1:{port or self.port}", name, shard, str(self.folder / f"{name}.mark"), str(amount)]
        return self._start("tests.server.grpc.evil", argv, name)

    def paced(self, seconds: float, count: int = 3) -> list[Process]:
        """Start honest clients that take their time, so that a test can meddle in mid-run."""
        return [self.evil("paced", f"c{i}", f"{i}/3", amount=seconds) for i in range(count)]

    def mark(self, name: str) -> Path:
        """Return the file in which an evil client says the round that it is at work on."""
        return self.folder / f"{name}.mark"

    def at_work(self, name: str) -> int:
        """Wait until an evil client is at work; return the round."""
        return int(until(lambda: self.mark(name).exists() and self.mark(name).read_text(), f"{name} at work on a slot"))

    def history(self) -> list[dict[str, Any]]:
        """Return the rounds that are in the history now."""
        file = self.out / "history.jsonl"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        return [json.loads(line) for line in lines]

    def failures(self) -> list[dict[str, Any]]:
        """Return all failures that the history names, each with its round."""
        return [failure | {"round": row["round"]} for row in self.history() for failure in row["failures"]]

    def summary(self) -> dict[str, Any]:
        """Return the run's summary."""
        summary: dict[str, Any] = json.loads((self.out / "summary.json").read_text())
        return summary

    def _security(self, side: str) -> list[str]:
        if self.certificates is None:
            return ["--insecure"]
        folder = self.certificates / ("server" if side == "server" else f"clients/{side}")
        return ["--tls-dir", str(folder)]

    def run(self, module: str, argv: list[str]) -> Process:
        """Start a command as it is written."""
        return self._start(module, argv, module)

    def _start(self, module: str, argv: list[str], name: str, folder: Path | None = None) -> Process:
        log = self.folder / f"{name}-{len(self._processes)}.log"
        process = Process(module, argv, folder or self.folder, log)
        self._processes.append(process)
        return process

    def close(self) -> None:
        """Kill what still runs; then nothing may have printed a traceback, a deprecation or a line of gRPC's."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            assert "deprecat" not in process.text.lower(), process.text
            assert "Traceback" not in process.text, process.text
            assert ".cc:" not in process.text, process.text  # a line of gRPC's C core

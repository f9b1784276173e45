"""Waits that are bounded and say what they waited for, and commands that leave nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = ["PATIENCE", "free_port", "nothing_left", "run_to_end", "until"]

PATIENCE = 600.0
"""Seconds until a wait has failed. It bounds a hang and measures nothing: a busy machine may take a hundred times as
long as an idle one."""

_MARK = "ZOFEDHT_TEST_MARK"


def until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """Return the first truthy value of ``condition``; fail when there is none in time."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s for {what}")
        time.sleep(0.02)
    return value


def run_to_end(
    command: Sequence[str | Path],
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    seconds: float = PATIENCE,
) -> subprocess.CompletedProcess[str]:
    """Run a command in ``folder`` and return its exit code and what it printed.

    Its output goes to files. With pipes, a test would wait for whatever the command has left running, such as
    Ray's processes, and ``subprocess.run`` waits for ever even where it has a timeout. What is left running is killed.

    Parameters
    ----------
    environment
        Variables beside those of this process.
    seconds
        How long it may take. The error afterwards has the command and what it printed.
    """
    with nothing_left() as mark, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        variables = os.environ | mark | (environment or {})
        process = subprocess.Popen(
            command, cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=out, stderr=err, text=True,
            start_new_session=True,
        )  # fmt: skip
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            words = " ".join(map(str, command))
            raise AssertionError(f"waited {seconds:g} s for the end of: {words}\n{_text(out)}{_text(err)}") from None
        finally:
            with suppress(ProcessLookupError):  # the rule: everything has ended
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return subprocess.CompletedProcess(command, process.returncode, _text(out), _text(err))


def _text(file: Any) -> str:
    file.seek(0)
    return str(file.read())


@contextmanager
def nothing_left() -> Iterator[dict[str, str]]:
    """Yield an environment; at the end, kill every process that was started with it, and what that has started."""
    mark = uuid.uuid4().hex
    try:
        yield {_MARK: mark}
    finally:
        until(lambda: not _kill(mark), "the end of the processes that were left running")


def _kill(mark: str) -> bool:
    """Kill the processes with the mark; none where the system does not tell environments as Linux does."""
    found = False
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            if f"{_MARK}={mark}".encode() in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)
                found = True
    return found


def free_port() -> int:
    """Return a port of the loopback address that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

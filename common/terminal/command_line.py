"""How all commands end: an error is one sentence on standard error and exit code 2, without a traceback."""

from __future__ import annotations

import argparse
import logging
import math
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, TextIO

from zofedht.common.errors import ConfigError, ZofedhtError
from zofedht.common.machine.versions import version_text
from zofedht.common.terminal.logs import LogOptions, shown

__all__ = ["INTERRUPTED", "NOT_BETTER", "Interrupt", "add_version", "check_address", "check_count", "guarded", "parsed"]

NOT_BETTER = 3
"""Exit code of a run that is done, and not better than its start by more than the noise, or diverged."""

INTERRUPTED = 130
"""Exit code of a command that a signal has ended."""

_log = logging.getLogger(__name__)
_BURST_SECONDS = 5.0  # an impatient user presses Ctrl-C twice; a terminal that closes hangs up and terminates
_LAST_PORT = 65_535
_STANDARD_ERROR = 2


class _Lasting:
    """A text stream that drops what cannot be written, and keeps the error."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.failed: OSError | ValueError | None = None

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except (OSError, ValueError) as error:
            self.failed = self.failed or error
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except (OSError, ValueError) as error:
            self.failed = self.failed or error

    def discard(self) -> None:
        """Let what is still buffered go nowhere: Python would try to write it at its end."""
        with suppress(OSError, ValueError, AttributeError), Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), self._stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Version(argparse.Action):
    """Look the versions up when they are asked for, as ``action="version"`` does not."""

    def __call__(self, parser: argparse.ArgumentParser, *rest: object) -> None:
        print(version_text(parser.prog))
        parser.exit()


class Interrupt:
    """A signal handler that raises KeyboardInterrupt with the signal's number.

    It takes a burst of signals for one: what ends is ended once.
    """

    def __init__(self) -> None:
        self._raised = -math.inf

    def __call__(self, number: int, frame: object) -> None:
        """Handle a signal."""
        now = time.monotonic()
        if now - self._raised > _BURST_SECONDS:
            self._raised = now
            raise KeyboardInterrupt(number)

    def install(self, *names: str) -> None:
        """Handle the signals of these names, where the system has them; under ``nohup`` a hangup stays ignored."""
        for name in names:
            number = getattr(signal, name, None)
            if number is not None and not (name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN):
                signal.signal(number, self)


def add_version(parser: argparse.ArgumentParser) -> None:
    """Let the command tell its version, and those of flwr and Python."""
    parser.add_argument("--version", action=_Version, nargs=0, help="versions of zofedht, flwr and Python")


def check_address(option: str, address: str) -> None:
    """Raise ConfigError unless the text is HOST:PORT; gRPC would map port 99999 to another port."""
    host, colon, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    if not (host and colon and port.isdecimal() and int(port) <= _LAST_PORT):
        raise ConfigError([f"{option} must be HOST:PORT with a port up to {_LAST_PORT}, got {address!r}"])


def check_count(option: str, count: int, most: int = 10**6) -> None:
    """Raise ConfigError unless the number of an option is between 1 and the most that makes sense."""
    if not 1 <= count <= most:
        raise ConfigError([f"{option} must be between 1 and {most}, got {count}"])


def guarded(program: str, action: Callable[[], int], log: LogOptions | None = None) -> int:
    """Run the action and return its exit code, 2 for a ZofedhtError, or 130 for an interrupt.

    What it logs is shown on standard error. A standard error that is closed, or whose terminal has gone, ends nothing:
    what is written to it is lost. So is what a reader of standard output, such as ``head``, does not want; a standard
    output that cannot be written otherwise is an error at the end.
    """
    with _lasting_streams(program, log) as results:
        return _written(results, _guarded(action))


def parsed(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line. ``--help`` and ``--version`` end the program, with 2 where they cannot be written."""
    with _lasting_streams(parser.prog) as results:
        try:
            return parser.parse_args(argv)
        except SystemExit as end:
            sys.exit(_written(results, int(end.code or 0)))


@contextmanager
def _lasting_streams(program: str, log: LogOptions | None = None) -> Iterator[_Lasting]:
    """Let nothing end by what it writes, show what is logged, and return standard output."""
    _fill_standard_streams()
    with (
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        redirect_stderr(_Lasting(sys.stderr or nowhere)),
        redirect_stdout(_Lasting(sys.stdout or nowhere)) as results,
        shown(log, program),
    ):
        yield results


def _written(results: _Lasting, code: int) -> int:
    """Write what is buffered, and return the exit code, or 2 where standard output cannot be written."""
    results.flush()
    if results.failed is None:
        return code
    results.discard()
    if isinstance(results.failed, BrokenPipeError):
        return code
    _log.error("standard output cannot be written (%s); name another place for it", results.failed)
    return 2


def _fill_standard_streams() -> None:
    """Open the null device in place of closed standard streams.

    Else the next file or socket is one of them, and receives what a library in C says to the terminal.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_ERROR:
        pass
    os.close(number)


def _guarded(action: Callable[[], int]) -> int:
    warnings.showwarning = lambda message, *rest: _log.warning("%s", message)
    try:
        return action()
    except ConfigError as error:
        for problem in error.problems:
            _log.error("%s", problem)
    except ZofedhtError as error:
        _log.error("%s", error)
    except KeyboardInterrupt:
        _log.warning("interrupted; what was finished is kept")
        return INTERRUPTED
    return 2

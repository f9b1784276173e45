"""How all commands end: an error is one sentence on standard error and exit code 2, without a traceback."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable

from zofedht.common.errors import ConfigError, ZofedhtError
from zofedht.common.plain_text import printable
from zofedht.common.versions import version_text

__all__ = ["add_version", "check_address", "guarded"]

INTERRUPTED = 130
_LAST_PORT = 65_535


class _Version(argparse.Action):
    """Look the versions up when they are asked for, as ``action="version"`` does not."""

    def __call__(self, parser: argparse.ArgumentParser, *rest: object) -> None:
        print(version_text(parser.prog))
        parser.exit()


def add_version(parser: argparse.ArgumentParser) -> None:
    """Let the command tell its version, and those of flwr and Python."""
    parser.add_argument("--version", action=_Version, nargs=0, help="versions of zofedht, flwr and Python")


def check_address(option: str, address: str) -> None:
    """Raise ConfigError unless the text is HOST:PORT; gRPC would map port 99999 to another port."""
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdecimal() and int(port) <= _LAST_PORT):
        raise ConfigError([f"{option} must be HOST:PORT with a port up to {_LAST_PORT}, got {address!r}"])


def guarded(program: str, action: Callable[[], int]) -> int:
    """Run the action and return its exit code, 2 for a ZofedhtError, or 130 for an interrupt."""

    def say(text: str) -> None:
        print(printable(f"{program}: {text}", None, keep="\n\t"), file=sys.stderr)

    warnings.showwarning = lambda message, *rest: say(f"warning: {message}")
    try:
        return action()
    except ConfigError as error:
        for problem in error.problems:
            say(f"error: {problem}")
    except ZofedhtError as error:
        say(f"error: {error}")
    except KeyboardInterrupt:
        say("interrupted; what was finished is kept")
        return INTERRUPTED
    return 2

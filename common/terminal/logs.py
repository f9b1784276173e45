"""Log lines on standard error: with time and level, as text or JSON, each line in one write.

Every module logs under its own name, ``zofedht.server.grpc.roster`` and the like. A program that imports the package
sees nothing of that unless it sets up ``logging`` itself; the commands, and ``show_progress``, show it by ``shown``.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from zofedht.common.plain_text import printable

__all__ = ["LogOptions", "add_log_options", "log_options", "shown", "shows_text"]

_ROOT = "zofedht"
_LEVELS = {-2: logging.ERROR, -1: logging.WARNING, 0: logging.INFO, 1: logging.DEBUG}
FORMATS = ("text", "json")
logging.getLogger(_ROOT).addHandler(logging.NullHandler())  # else Python shows warnings by itself


@dataclass(frozen=True)
class LogOptions:
    """What is shown, and how. ``verbosity`` is -2 (errors alone), -1 (and warnings), 0 (what happens) or 1 (all)."""

    verbosity: int = 0
    format: str = "text"

    @property
    def level(self) -> int:
        """The level of ``logging``."""
        return _LEVELS[max(-2, min(1, self.verbosity))]


class _Lines(logging.Handler):
    """Writes each record at once to what ``sys.stderr`` is then: processes that share a terminal tear no line."""

    def emit(self, record: logging.LogRecord) -> None:
        if sys.stderr is None:
            return
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


class _Text(logging.Formatter):
    """``12:03:44 warning: text``; an error, the last word of a command, has the command's name instead of a time."""

    def __init__(self, program: str) -> None:
        super().__init__()
        self._program = program

    def format(self, record: logging.LogRecord) -> str:
        level = "" if record.levelno in (logging.INFO, logging.DEBUG) else f"{record.levelname.lower()}: "
        head = f"{datetime.fromtimestamp(record.created):%H:%M:%S}"
        if record.levelno >= logging.ERROR and self._program:
            head = f"{self._program}:"
        elif record.levelno == logging.DEBUG:
            head = f"{head} {record.name.removeprefix(_ROOT + '.')}:"
        # A client's name or its error may be in it: what is shown is printable.
        return printable(f"{head} {level}{record.getMessage()}", None, keep="\n\t")


class _Json(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the facts that the message puts into words."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        return json.dumps(line | getattr(record, "facts", {}))


def add_log_options(command: argparse.ArgumentParser) -> None:
    """Add -v, -q and --log-format."""
    command.add_argument("-v", "--verbose", action="store_true", help="log each slot, too")
    command.add_argument(
        "-q", "--quiet", action="count", default=0, help="log warnings and errors alone; -qq errors alone"
    )
    command.add_argument("--log-format", choices=FORMATS, default="text", help="of standard error (text)")


def log_options(args: argparse.Namespace) -> LogOptions:
    """Return what the options say."""
    return LogOptions(1 if args.verbose else -args.quiet, args.log_format)


@contextmanager
def shown(options: LogOptions | None = None, program: str = "") -> Iterator[None]:
    """Show what is logged below ``zofedht`` on standard error, in the block; once, where a block is in a block."""
    logger = logging.getLogger(_ROOT)
    if any(isinstance(handler, _Lines) for handler in logger.handlers):
        yield
        return
    options = options or LogOptions()
    handler, before = _Lines(), logger.level
    handler.setFormatter(_Json() if options.format == "json" else _Text(program))
    logger.addHandler(handler)
    logger.setLevel(options.level)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def shows_text() -> bool:
    """Return whether what happens is shown as text, so that a bar may stand below it."""
    logger = logging.getLogger(_ROOT)
    mine = [handler.formatter for handler in logger.handlers if isinstance(handler, _Lines)]
    return logger.isEnabledFor(logging.INFO) and any(isinstance(formatter, _Text) for formatter in mine)

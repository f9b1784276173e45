"""``zofedht-server``: run, serve, resume, compare, plot, export."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from zofedht.common.terminal.command_line import Interrupt, guarded, parsed
from zofedht.common.terminal.logs import log_options
from zofedht.server.cli import parser

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    args = parsed(parser(), argv)
    # docker and systemd stop a process with SIGTERM, which checkpoints the run like an interrupt.
    Interrupt().install("SIGINT", "SIGTERM", "SIGHUP")  # a terminal that is closed hangs up
    return guarded("zofedht-server", lambda: _run(args), log_options(args))


def _run(args: argparse.Namespace) -> int:
    from zofedht.server.commands.table import ACTIONS  # loads what --help and a mistyped option do not need

    return ACTIONS[args.command](args)


if __name__ == "__main__":
    sys.exit(main())

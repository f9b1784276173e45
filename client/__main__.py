"""``zofedht-client``: join a server, or check an objective."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from zofedht.client.cli import parser
from zofedht.common.terminal.command_line import Interrupt, guarded, parsed
from zofedht.common.terminal.logs import log_options

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    args = parsed(parser(), argv)
    Interrupt().install("SIGINT", "SIGTERM", "SIGHUP")
    actions = {"check": _check, "join": _join, "ledger": _ledger, "completion": _completion}
    return guarded("zofedht-client", lambda: actions[args.command](args), log_options(args))


def _join(args: argparse.Namespace) -> int:
    from zofedht.client.join.command import join

    return join(args)


def _ledger(args: argparse.Namespace) -> int:
    from zofedht.client.join.ledger import ledger_text

    print(ledger_text(args.file.expanduser()))
    return 0


def _completion(args: argparse.Namespace) -> int:
    from zofedht.common.terminal.completion import completion_script

    print(completion_script(parser(), args.shell))
    return 0


def _check(args: argparse.Namespace) -> int:
    from zofedht.common.checks.report import check_config
    from zofedht.common.config.run_config import RunConfig
    from zofedht.common.config.texts import load_toml, parse_assignments
    from zofedht.common.errors import ConfigError
    from zofedht.common.objective.base import Shard

    if not (args.objective or args.config):
        raise ConfigError(["check needs --objective MODULE:FACTORY, or --config FILE of a run"])
    keys = load_toml(args.config.expanduser()) if args.config else {}
    named = {"objective": args.objective} if args.objective else {}
    config = RunConfig.from_mapping(keys | parse_assignments(args.set) | named)
    index = int(args.client) if args.client.isdecimal() else 0
    data = str(Path(args.data).expanduser().resolve()) if args.data else ""
    shard = Shard(args.client, index, max(config.num_clients, index + 1), data, config.seed)
    report = check_config(config, shard)
    print(report)
    return 0 if report.ok else 2


if __name__ == "__main__":
    sys.exit(main())

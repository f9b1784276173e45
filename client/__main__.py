"""``zofedht-client``: join a server, or check an objective."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from client.cli import parser
from common.command_line import guarded
from common.config import RunConfig
from common.config_files import parse_assignments
from common.objective import Shard, load_objective
from common.objective_checks import check_objective

__all__ = ["main"]

_MARKS = {"ok": "ok     ", "warning": "WARNING", "error": "ERROR  "}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    args = parser().parse_args(argv)
    return guarded("zofedht-client", lambda: {"check": _check, "join": _join}[args.command](args))


def _join(args: argparse.Namespace) -> int:
    from client.join import join

    return join(args)


def _check(args: argparse.Namespace) -> int:
    config = RunConfig.from_mapping(parse_assignments([*args.set, f"objective={args.objective}"]))
    index = int(args.client) if args.client.isdecimal() else 0
    shard = Shard(client=args.client, index=index, count=max(config.num_clients, index + 1), seed=config.seed)
    objective = load_objective(args.objective, shard)
    findings = check_objective(
        objective,
        radius=config.radius,
        batch_size=config.batch_size,
        steps=config.local_steps,
        seed=config.seed,
    )
    for finding in findings:
        print(f"{_MARKS[finding.level]} {finding.name}: {finding.text}")
    errors = sum(finding.level == "error" for finding in findings)
    print(f"{args.objective} " + (f"cannot run: {errors} to mend" if errors else "can run"))
    return 2 if errors else 0


if __name__ == "__main__":
    sys.exit(main())

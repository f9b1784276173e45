"""``zofedht-client``: check an objective."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from common.command_line import guarded
from common.config import RunConfig
from common.config_files import parse_assignments
from common.objective import Shard, load_objective
from common.objective_checks import check_objective

__all__ = ["main"]

_MARKS = {"ok": "ok     ", "warning": "WARNING", "error": "ERROR  "}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    args = _parser().parse_args(argv)
    return guarded("zofedht-client", lambda: _check(args))


def _parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="zofedht-client", description="The client's side: check an objective.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    check = commands.add_parser(
        "check",
        help="try an objective before a run is spent on it",
        description="Exit code 0: it can run; 2: it cannot.",
    )
    check.add_argument("--objective", required=True, metavar="MODULE:FACTORY", help="what makes the objective")
    check.add_argument("--client", default="0", metavar="N", help="partition number that the factory is told (0)")
    check.add_argument(
        "--set",
        metavar="KEY=VALUE",
        nargs="+",
        action="extend",
        default=[],
        help="radius, batch-size, local-steps, seed",
    )
    return top


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

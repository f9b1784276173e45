"""``zofedht-client``: join a server, or check an objective."""

from __future__ import annotations

import argparse
import math
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from zofedht.client.cli import parser
from zofedht.common.checks.check import Finding, WorkPlan, check_objective, failed
from zofedht.common.command_line import guarded
from zofedht.common.config.files import parse_assignments
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.base import Shard
from zofedht.common.objective.loading import load_objective

__all__ = ["main"]

_MARKS = {"ok": "ok     ", "warning": "WARNING", "error": "ERROR  "}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    args = parser().parse_args(argv)
    return guarded("zofedht-client", lambda: {"check": _check, "join": _join}[args.command](args))


def _join(args: argparse.Namespace) -> int:
    from zofedht.client.join.command import join

    return join(args)


def _check(args: argparse.Namespace) -> int:
    config = RunConfig.from_mapping(parse_assignments([*args.set, f"objective={args.objective}"]))
    findings = _findings(args, config)
    for finding in findings:
        print(f"{_MARKS[finding.level]} {finding.name}: {finding.text}")
        if finding.traceback:
            print(textwrap.indent(finding.traceback, " " * 8))
    errors = sum(finding.level == "error" for finding in findings)
    print(f"{args.objective} " + (f"cannot run: {errors} to mend" if errors else "can run"))
    return 2 if errors else 0


def _findings(args: argparse.Namespace, config: RunConfig) -> list[Finding]:
    index = int(args.client) if args.client.isdecimal() else 0
    data = str(Path(args.data).expanduser().resolve()) if args.data else ""
    shard = Shard(args.client, index, max(config.num_clients, index + 1), data, config.seed)
    try:
        objective = load_objective(args.objective, shard)
    except ObjectiveError as error:
        if error.__cause__ is None or isinstance(error.__cause__, ModuleNotFoundError):
            raise
        return [failed("factory", error)]
    slot = 2 * config.local_steps * (config.batch or len(objective))
    rounds = config.rounds or math.ceil(config.budget / (slot * config.clients_per_round))
    plan = WorkPlan(config.local_steps, rounds, config.clients_per_round, config.round_timeout)
    found = check_objective(objective, radius=config.radius, batch_size=config.batch, seed=config.seed, plan=plan)
    fitted = config.fitted(objective.dim)
    if fitted != config:
        text = f"with {objective.dim} parameters the run takes memory = {fitted.memory} instead of {config.memory}"
        found.append(Finding("memory", "ok", text))
    return found


if __name__ == "__main__":
    sys.exit(main())

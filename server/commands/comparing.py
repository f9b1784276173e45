"""Commands before a run and over several: compare and plan."""

from __future__ import annotations

import argparse
import logging
import re
from contextlib import ExitStack

from zofedht.common.config.run_config import RunConfig
from zofedht.common.config.texts import parse_assignments
from zofedht.common.errors import ConfigError
from zofedht.common.terminal.command_line import check_count
from zofedht.common.tls import check_plain_text
from zofedht.server.commands.arguments import out_of, read_config, refuse_ray
from zofedht.server.inprocess import run_in_process
from zofedht.server.plan.planning import Plan, plan_here, plan_over
from zofedht.server.records.plots import plot_runs
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.terminal.summary import comparison_text

__all__ = ["compare", "plan"]

_LEAST_CALLS = 3  # of a site: whether equal questions get equal answers

_log = logging.getLogger(__name__)


def compare(args: argparse.Namespace) -> int:
    """Run several algorithms one after another, and draw them."""
    configs = _compared(args)  # all are checked before the first run starts
    out = out_of(args, "compare")
    folders = [RunFolder(out / name) for name in configs]
    picture = out / "compare.png"
    with ExitStack() as held:
        for folder, chosen in zip(folders, configs.values(), strict=True):
            held.enter_context(folder).begin(chosen, "in-process")
        rows = []
        for (name, chosen), folder in zip(configs.items(), folders, strict=True):
            _log.info("%s:", name)
            rows.append(run_in_process(chosen, folder=folder, show_progress=True).summary)
        print(comparison_text(list(configs), rows))
        plot_runs([folder.path for folder in folders], picture)
    print(f"picture: {picture}")
    return 0


def _compared(args: argparse.Namespace) -> dict[str, RunConfig]:
    """Return the configs to run by the name of their folder: one for each item of --algorithms and each seed."""
    check_count("--seeds", args.seeds)
    found: dict[str, RunConfig] = {}
    common = read_config(args)
    refuse_ray(common, "in-process")
    config = common.to_mapping()
    for item in (item.strip() for item in args.algorithms.split(",") if item.strip()):
        algorithm, *assignments = item.split(":")
        own = RunConfig.from_mapping(config | parse_assignments(assignments) | {"algorithm": algorithm})
        name = re.sub(r"[^\w.=,-]+", "-", item.replace(":", ","))
        for repeat in range(args.seeds):
            label = name if args.seeds == 1 else f"{name}-seed{own.seed + repeat}"
            if label in found:
                raise ConfigError([f"--algorithms must list different algorithms, got {args.algorithms!r}"])
            found[label] = own.replace(seed=own.seed + repeat)
    if not found:
        raise ConfigError([f"--algorithms must list different algorithms, got {args.algorithms!r}"])
    return found


def plan(args: argparse.Namespace) -> int:
    """Say what a run will cost, before its first evaluation."""
    config = read_config(args)
    if args.calls < _LEAST_CALLS:
        raise ConfigError([f"--calls must be at least {_LEAST_CALLS}, got {args.calls}"])
    if config.in_place:
        raise ConfigError(
            ["plan must be asked without in-place; `zofedht-client check` tells the time of a slot in place"]
        )
    plan = _plan_over(args, config) if args.address else plan_here(config, most=args.calls)
    print(plan)
    return 0 if plan.ok else 2


def _plan_over(args: argparse.Namespace, config: RunConfig) -> Plan:
    from zofedht.server.fleet.listening import Listening
    from zofedht.server.fleet.network import NetworkSites

    if not config.objective:
        raise ConfigError(["plan --address is for an objective of your own, which the sites bring; set objective"])
    check_plain_text(args.address, args.insecure, args.tls_dir)
    listening = Listening(
        address=args.address,
        tls_dir=args.tls_dir.expanduser() if args.tls_dir else None,
        insecure=args.insecure,
        min_clients=args.min_clients,
        timeout=config.round_timeout,
        rejoin=0.0,
        seed=config.seed,
    )
    sites = NetworkSites(listening, None)
    try:
        return plan_over(config, sites.parameters, sites.samples, sites.ask, sites.check, most=args.calls)
    finally:
        sites.close(over=False)  # they come back to the run that was planned

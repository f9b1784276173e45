"""What each ``zofedht-server`` command does with its arguments."""

from __future__ import annotations

import argparse
import json
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zofedht.common.choices import CLIENTS_HOLD_DATA
from zofedht.common.config.reference import json_schema, key_rows
from zofedht.common.config.run_config import RunConfig
from zofedht.common.config.texts import load_toml, parse_assignments
from zofedht.common.errors import ConfigError, ObjectiveError, RoundError
from zofedht.common.shards import source_digest, with_standard_columns
from zofedht.common.terminal.command_line import NOT_BETTER, check_address
from zofedht.common.terminal.completion import completion_script
from zofedht.common.tls import check_plain_text, read_tls
from zofedht.server.cli import parser
from zofedht.server.core.state import ServerState
from zofedht.server.inprocess import run_in_process
from zofedht.server.plan.planning import Plan, plan_here, plan_over
from zofedht.server.records.finished_run import export, load_run
from zofedht.server.records.plots import plot_runs
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.report.write import write_report
from zofedht.server.terminal.summary import comparison_text, summary_text

if TYPE_CHECKING:
    from zofedht.server.page.access import PageOptions

__all__ = ["ACTIONS"]

_LEAST_EVALUATIONS = 3  # of a site: whether equal questions get equal answers

_log = logging.getLogger(__name__)


def _keys(args: argparse.Namespace) -> dict[str, Any]:
    """Merge --config and --set."""
    return (load_toml(args.config) if args.config else {}) | parse_assignments(args.set)


def _read_config(args: argparse.Namespace) -> RunConfig:
    """Return the checked config with absolute paths: nodes may run in other folders."""
    config = RunConfig.from_mapping(_keys(args))
    changes = {}
    if config.data_dir:
        changes["data_dir"] = str(Path(config.data_dir).expanduser().resolve())
    if Path(config.dataset).expanduser().is_file():
        changes["dataset"] = str(Path(config.dataset).expanduser().resolve())
    return with_standard_columns(config.replace(**changes))


@contextmanager
def _naming_the_way_on(folder: RunFolder, command: str) -> Iterator[None]:
    """Add to the sentence of a run that has failed where it is kept, and how it goes on."""
    try:
        yield
    except (RoundError, ObjectiveError) as error:
        if folder.exists():
            error.args = (f"{error}; go on with `{command}`",)
        raise


def _out(args: argparse.Namespace, name: str) -> Path:
    """Return the folder of --out, else a new one below ``runs``, named after what runs and the time."""
    if args.out is not None:
        return Path(args.out).expanduser()
    named = f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}-{time.strftime('%Y%m%d-%H%M%S')}"
    out, count = Path("runs") / named, 1
    while out.exists():
        count += 1
        out = Path("runs") / f"{named}-{count}"
    _log.info("results go to %s", out)
    return out


def _named_after(config: RunConfig) -> str:
    return config.objective or f"{Path(config.dataset).stem}-{config.model}"


def _exit_code(summary: Mapping[str, Any]) -> int:
    """Return 0, or NOT_BETTER where the run knows that it is not better than its start."""
    return NOT_BETTER if summary["success"] is False else 0


def _run(args: argparse.Namespace) -> int:
    config = _read_config(args)
    out = _out(args, _named_after(config))
    with _page(args, out), RunFolder(out) as folder, _naming_the_way_on(folder, f"zofedht-server resume {out}"):
        folder.begin(config, args.engine)
        folder.check_source(source_digest(config), changed=False)
        return _conduct(config, folder, args.engine, None)


def _serve(args: argparse.Namespace) -> int:
    from zofedht.server.grpc.revoked import Revoked
    from zofedht.server.grpc.serve import ServeOptions, serve

    check_address("--address", args.address)
    check_plain_text(args.address, args.insecure, args.tls_dir)
    if args.resume and args.out is None:
        raise ConfigError(["--resume needs --out, the folder of the run that goes on"])
    options = ServeOptions(
        address=args.address,
        out=_out(args, _named_after(RunConfig.from_mapping(_keys(args)))),
        min_clients=args.min_clients,
        settle=args.settle,
        tls=read_tls(args.tls_dir, "server") if args.tls_dir else None,
        resume=args.resume,
        max_message_bytes=args.max_message_mb * 2**20,
        health_address=args.health_address,
        linger=args.linger,
        revoked=Revoked(args.refuse, args.refuse_file.expanduser() if args.refuse_file else None),
        data_changed=args.data_changed,
    )
    command = f"zofedht-server serve --resume --out {options.out}` and the options of before, `--address {args.address}"
    with _page(args, options.out), _naming_the_way_on(RunFolder(options.out), command):
        summary = serve(
            options,
            _keys(args),
            report=_log.info,
            listening=lambda port: _log.info("listening on port %d", port),
            over=lambda summary, folder: print(summary_text(summary, folder), flush=True),
        )
    return _exit_code(summary)


def _page(args: argparse.Namespace, folder: Path) -> AbstractContextManager[int]:
    """Return what shows the page of --page while its block runs."""
    if not args.page:
        return nullcontext(0)
    from zofedht.server.page.serving import show_page

    return show_page(folder, _page_options(args), _log.info)


def _page_options(args: argparse.Namespace) -> PageOptions:
    from zofedht.server.page.access import PageOptions

    token, tls = (None if path is None else path.expanduser() for path in (args.page_token, args.tls_dir))
    return PageOptions(args.page, token, tls)


def _watch(args: argparse.Namespace) -> int:
    from zofedht.server.page.serving import watch

    watch(args.folder.expanduser(), _page_options(args), _log.info)
    return 0


def _make_certificates(args: argparse.Namespace) -> int:
    from zofedht.server.certificates import expand_names, make_certificates

    text = args.server_names
    servers = None if text is None else [name.strip() for name in text.split(",") if name.strip()]
    for folder in make_certificates(args.out.expanduser(), servers, expand_names(args.clients), args.days):
        print(f"--tls-dir {folder}")
    return 0


def _resume(args: argparse.Namespace) -> int:
    command = f"zofedht-server resume {args.folder}"
    path = args.folder.expanduser()
    with _page(args, path), RunFolder(path) as folder, _naming_the_way_on(folder, command):
        config, state, engine = folder.reopen(parse_assignments(args.set))
        if engine == "grpc" and args.engine is None:
            _refuse_what_clients_hold(config, folder)
            engine = "in-process"  # the rows are the server's, and all engines give the same numbers
        if engine == "python":
            raise ConfigError(
                [
                    f"the objective or the rows of {folder.path} live in Python; go on there with run(objective,"
                    " x0=load_run(DIR).x)"
                ]
            )
        _log.info("continuing %s after round %d", folder.path, state.round)
        folder.check_source(source_digest(config), changed=args.data_changed)
        return _conduct(config, folder, args.engine or engine, state)


def _refuse_what_clients_hold(config: RunConfig, folder: RunFolder) -> None:
    """Raise ConfigError for a served run whose data or objective only the clients hold."""
    if config.server_has_rows:
        return
    what = "rows" if config.dataset == CLIENTS_HOLD_DATA else f"objective, {config.objective},"
    raise ConfigError(
        [
            f"the {what} of {folder.path} lived on its clients; go on with them by `zofedht-server serve --resume --out"
            f" {folder.path}` and the options of before, or give --engine where this machine holds the same"
        ]
    )


def _conduct(config: RunConfig, folder: RunFolder, engine: str, state: ServerState | None) -> int:
    if engine == "simulation":
        from zofedht.server.flower.simulation import run_simulation

        result = run_simulation(config, folder, state=state)
    else:
        result = run_in_process(config, folder=folder, state=state, show_progress=True)
    print(summary_text(result.summary, folder))
    return _exit_code(result.summary)


def _compare(args: argparse.Namespace) -> int:
    configs = _compared(args)  # all are checked before the first run starts
    out = _out(args, "compare")
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
    if args.seeds < 1:
        raise ConfigError([f"--seeds must be at least 1, got {args.seeds}"])
    found: dict[str, RunConfig] = {}
    config = _read_config(args).to_mapping()
    for item in (item.strip() for item in args.algorithms.split(",") if item.strip()):
        algorithm, *assignments = item.split(":")
        own = RunConfig.from_mapping(config | parse_assignments(assignments) | {"algorithm": algorithm})
        name = re.sub(r"[^\w.=-]+", "-", item)
        for repeat in range(args.seeds):
            label = name if args.seeds == 1 else f"{name}-seed{own.seed + repeat}"
            if label in found:
                raise ConfigError([f"--algorithms must list different algorithms, got {args.algorithms!r}"])
            found[label] = own.replace(seed=own.seed + repeat)
    if not found:
        raise ConfigError([f"--algorithms must list different algorithms, got {args.algorithms!r}"])
    return found


def _plot(args: argparse.Namespace) -> int:
    plot_runs([folder.expanduser() for folder in args.folders], args.out.expanduser())
    print(f"picture: {args.out}")
    return 0


def _plan(args: argparse.Namespace) -> int:
    config = _read_config(args)
    if args.evaluations < _LEAST_EVALUATIONS:
        raise ConfigError([f"--evaluations must be at least {_LEAST_EVALUATIONS}, got {args.evaluations}"])
    plan = _plan_over(args, config) if args.address else plan_here(config, most=args.evaluations)
    print(plan)
    return 0 if plan.ok else 2


def _plan_over(args: argparse.Namespace, config: RunConfig) -> Plan:
    from zofedht.server.fleet.network import Listening, NetworkSites

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
        return plan_over(config, sites.parameters, sites.samples, sites.ask, most=args.evaluations)
    finally:
        sites.close(over=False)  # they come back to the run that was planned


def _report(args: argparse.Namespace) -> int:
    print(f"report: {write_report(RunFolder(args.folder.expanduser()))}")
    return 0


def _export(args: argparse.Namespace) -> int:
    run = load_run(args.folder)
    export(run, args.out.expanduser(), last=args.last)
    which = "the last x" if args.last else "x"
    print(f"{which}: {args.out} ({run.x.shape[0]} numbers)")
    return 0


def _list_keys(args: argparse.Namespace) -> int:
    if args.json_schema:
        print(json.dumps(json_schema(), indent=2))
        return 0
    rows = [row for row in key_rows() if args.pattern.lower() in f"{row.key} {row.meaning}".lower()]
    if not rows:
        raise ConfigError([f"no key has {args.pattern!r} in its name or meaning; `zofedht-server keys` lists all"])
    for row in rows:
        unit = "" if row.unit == "-" else f" ({row.unit})"
        names = f": {', '.join(row.choices)}" if row.choices else ""
        print(f"{row.key} = {json.dumps(row.default)}{unit}\n    {row.meaning}{names}")
    return 0


def _completion(args: argparse.Namespace) -> int:
    print(completion_script(parser(), args.shell))
    return 0


ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "run": _run,
    "serve": _serve,
    "resume": _resume,
    "compare": _compare,
    "watch": _watch,
    "plot": _plot,
    "plan": _plan,
    "report": _report,
    "export": _export,
    "keys": _list_keys,
    "completion": _completion,
    "make-certs": _make_certificates,
}
"""By the name of the command: what runs it and returns its exit code."""

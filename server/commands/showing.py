"""Commands that read a run or this program: watch, plot, report, export, keys, completion, and make-certs."""

from __future__ import annotations

import argparse
import json
import logging
from pathlib import Path

from zofedht.common.config.reference import json_schema, key_rows
from zofedht.common.errors import ConfigError
from zofedht.common.terminal.completion import completion_script
from zofedht.server.cli import parser
from zofedht.server.commands.arguments import page_options, page_refuses
from zofedht.server.records.finished_run import FinishedRun, export, load_run
from zofedht.server.records.plots import plot_runs
from zofedht.server.records.rebuild_in_place import export_parameters
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.report.write import write_report

__all__ = ["completion", "export_x", "list_keys", "make_certs", "plot", "report", "watch_folder"]

_log = logging.getLogger(__name__)


def watch_folder(args: argparse.Namespace) -> int:
    """Show the page of a folder until interrupted."""
    from zofedht.server.page.serving import watch

    options = page_options(args)
    watch(args.folder.expanduser(), options, _log.info, page_refuses(args, options))
    return 0


def plot(args: argparse.Namespace) -> int:
    """Draw the losses of folders."""
    plot_runs([folder.expanduser() for folder in args.folders], args.out.expanduser())
    print(f"picture: {args.out}")
    return 0


def report(args: argparse.Namespace) -> int:
    """Write report.html and settings.toml of a folder again."""
    print(f"report: {write_report(RunFolder(args.folder.expanduser()))}")
    return 0


def export_x(args: argparse.Namespace) -> int:
    """Write x as numbers or settings."""
    run = load_run(args.folder)
    which = "the last x" if args.last else "x"
    if run.tensors is not None:
        data = str(Path(args.data).expanduser().resolve()) if args.data else ""
        asked = {"objective": args.objective, "data": data, "last": args.last}
        count = export_parameters(run, args.out.expanduser(), **asked)
        print(f"{which}: {args.out} ({count:,} parameters)")
        _tell_unfinished(run, args.folder)
        return 0
    export(run, args.out.expanduser(), last=args.last)
    print(f"{which}: {args.out} ({len(run.settings) or run.x.shape[0]} values)")
    _tell_unfinished(run, args.folder)
    return 0


def _tell_unfinished(run: FinishedRun, folder: Path) -> None:
    """Say whose x it is where the run has not ended: another run may have been refused since."""
    if not run.summary:
        about = f"objective {run.config.objective}" if run.config.objective else f"dataset {run.config.dataset}"
        _log.warning(
            "%s holds a run of %s that has not ended; continue it with %s", folder, about, RunFolder(folder).way_on
        )


def list_keys(args: argparse.Namespace) -> int:
    """Print the keys whose name or meaning has the pattern, or the JSON schema."""
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


def completion(args: argparse.Namespace) -> int:
    """Print the completion script of a shell."""
    print(completion_script(parser(), args.shell))
    return 0


def make_certs(args: argparse.Namespace) -> int:
    """Make certificates of a server and its clients."""
    from zofedht.server.certificates import expand_names, make_certificates

    text = args.server_names
    servers = None if text is None else [name.strip() for name in text.split(",") if name.strip()]
    for folder in make_certificates(args.out.expanduser(), servers, expand_names(args.clients), args.days):
        print(f"--tls-dir {folder}")
    return 0

"""Commands that run: run, serve, resume."""

from __future__ import annotations

import argparse
import logging

from zofedht.common.choices import CLIENTS_HOLD_DATA
from zofedht.common.config.run_config import RunConfig
from zofedht.common.config.texts import parse_assignments
from zofedht.common.errors import ConfigError
from zofedht.common.shards import source_digest
from zofedht.common.terminal.command_line import check_address, check_count
from zofedht.common.tls import check_plain_text, read_tls
from zofedht.server.commands.arguments import (
    exit_code,
    keys_of,
    named_after,
    out_of,
    page_of,
    read_config,
    refuse_ray,
    revoked,
)
from zofedht.server.core.state import ServerState
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.records.way_on import naming_the_way_on, telling_of_its_end
from zofedht.server.terminal.summary import summary_text

__all__ = ["resume", "run", "serve_clients"]

_log = logging.getLogger(__name__)


def run(args: argparse.Namespace) -> int:
    """Run on this machine and return the exit code."""
    config = read_config(args)
    refuse_ray(config, args.engine)
    out = out_of(args, named_after(config))
    with page_of(args, out), RunFolder(out) as folder, naming_the_way_on(folder):
        folder.begin(config, args.engine)
        folder.about.check_source(source_digest(config), changed=False)
        return _conduct(config, folder, args.engine, None)


def serve_clients(args: argparse.Namespace) -> int:
    """Serve clients that join, and return the exit code."""
    from zofedht.server.grpc.serve import ServeOptions, serve

    check_address("--address", args.address)
    check_count("--min-clients", args.min_clients)
    check_count("--max-message-mb", args.max_message_mb, 2047)  # gRPC counts bytes in 31 bits
    check_plain_text(args.address, args.insecure, args.tls_dir)
    if args.resume and args.out is None:
        raise ConfigError(["--resume needs --out, the folder of the run that goes on"])
    asked = RunConfig.from_mapping(keys_of(args))
    refuse_ray(asked, "grpc")
    options = ServeOptions(
        address=args.address,
        out=out_of(args, named_after(asked)),
        min_clients=args.min_clients,
        settle=args.settle,
        tls=read_tls(args.tls_dir, "server") if args.tls_dir else None,
        resume=args.resume,
        max_message_bytes=args.max_message_mb * 2**20,
        health_address=args.health_address,
        linger=args.linger,
        revoked=revoked(args),
        data_changed=args.data_changed,
    )
    page = page_of(args, options.out, options.revoked.refuses)
    with page, naming_the_way_on(RunFolder(options.out)):
        summary = serve(
            options,
            keys_of(args),
            report=_log.info,
            listening=lambda port: _log.info("listening on port %d", port),
            over=lambda summary, folder: print(summary_text(summary, folder), flush=True),
        )
    return exit_code(summary)


def resume(args: argparse.Namespace) -> int:
    """Go on with the run of a folder, and return the exit code."""
    path = args.folder.expanduser()
    with page_of(args, path), RunFolder(path) as folder, naming_the_way_on(folder):
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
        folder.about.check_source(source_digest(config), changed=args.data_changed)
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
    refuse_ray(config, engine)
    if engine == "simulation":
        from zofedht.server.flower.simulation import run_simulation

        result = run_simulation(config, folder, state=state)
    else:
        with telling_of_its_end(folder):
            result = run_in_process(config, folder=folder, state=state, show_progress=True)
    print(summary_text(result.summary, folder))
    return exit_code(result.summary)

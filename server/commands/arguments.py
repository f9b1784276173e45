"""What several commands make of their arguments: a config, a folder, a page, an exit code."""

from __future__ import annotations

import argparse
import logging
import re
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zofedht.common.config.run_config import RunConfig
from zofedht.common.config.texts import load_toml, parse_assignments
from zofedht.common.errors import ConfigError
from zofedht.common.shards import with_standard_columns
from zofedht.common.terminal.command_line import NOT_BETTER

if TYPE_CHECKING:
    from zofedht.server.admission.revoked import Revoked
    from zofedht.server.page.access import PageOptions
    from zofedht.server.page.careful_http import Refuses

__all__ = [
    "exit_code",
    "keys_of",
    "named_after",
    "out_of",
    "page_of",
    "page_options",
    "page_refuses",
    "read_config",
    "refuse_ray",
    "revoked",
]

_log = logging.getLogger(__name__)


def keys_of(args: argparse.Namespace) -> dict[str, Any]:
    """Merge --config and --set."""
    return (load_toml(args.config) if args.config else {}) | parse_assignments(args.set)


def read_config(args: argparse.Namespace) -> RunConfig:
    """Return the checked config with absolute paths: nodes may run in other folders."""
    config = RunConfig.from_mapping(keys_of(args))
    changes = {}
    if config.data_dir:
        changes["data_dir"] = str(Path(config.data_dir).expanduser().resolve())
    if Path(config.dataset).expanduser().is_file():
        changes["dataset"] = str(Path(config.dataset).expanduser().resolve())
    return with_standard_columns(config.replace(**changes))


def out_of(args: argparse.Namespace, name: str) -> Path:
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


def named_after(config: RunConfig) -> str:
    """Return what a folder is called: the objective, or the data and the model."""
    return config.objective or f"{Path(config.dataset).stem}-{config.model}"


def refuse_ray(config: RunConfig, engine: str) -> None:
    """Raise ConfigError where nothing would read ``ray-address``."""
    if config.ray_address and engine != "simulation":
        raise ConfigError(
            [
                f"ray-address must be empty unless the engine is simulation, got {config.ray_address!r} with {engine}"
                " (--set ray-address= for no cluster)"
            ]
        )


def exit_code(summary: Mapping[str, Any]) -> int:
    """Return 0, or NOT_BETTER where the run knows that it is not better than its start."""
    return NOT_BETTER if summary["success"] is False else 0


def page_of(args: argparse.Namespace, folder: Path, refuses: Refuses | None = None) -> AbstractContextManager[int]:
    """Return what shows the page of --page while its block runs; ``refuses`` in the place of ``page_refuses``."""
    if not args.page:
        return nullcontext(0)
    from zofedht.server.page.serving import show_page

    options = page_options(args)
    return show_page(folder, options, _log.info, refuses or page_refuses(args, options))


def page_refuses(args: argparse.Namespace, options: PageOptions) -> Refuses:
    """Return whether a certificate may not see the page, by --refuse and its file, which SIGHUP reads again.

    Raises ConfigError where they would refuse nobody: the page asks for no certificate.
    """
    refused = revoked(args)
    if (args.refuse or args.refuse_file) and not options.asks_certificate:
        raise ConfigError(
            [
                "--refuse and --refuse-file close the page to certificates, and this page asks for none: leave them"
                " out, or give --tls-dir and an address beyond this machine without --page-token"
            ]
        )
    refused.follow_hangups()
    return refused.refuses


def revoked(args: argparse.Namespace) -> Revoked:
    """Return whom --refuse and --refuse-file name."""
    from zofedht.server.admission.revoked import Revoked

    return Revoked(args.refuse, args.refuse_file.expanduser() if args.refuse_file else None)


def page_options(args: argparse.Namespace) -> PageOptions:
    """Return the address, the token and the certificates of the page."""
    from zofedht.server.page.access import PageOptions

    token, tls = (None if path is None else path.expanduser() for path in (args.page_token, args.tls_dir))
    return PageOptions(args.page, token, tls)

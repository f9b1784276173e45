"""The arguments of the ``zofedht-client`` commands."""

from __future__ import annotations

import argparse
import socket
from pathlib import Path

from zofedht.common.choices import CSV_HEADERS
from zofedht.common.terminal.command_line import add_version
from zofedht.common.terminal.completion import add_completion, keys_complete
from zofedht.common.terminal.logs import add_log_options

__all__ = ["parser"]


def parser() -> argparse.ArgumentParser:
    """Return the parser; each command's ``command`` attribute is its name."""
    top = argparse.ArgumentParser(
        prog="zofedht-client", description="The client's side: join a server, check an objective."
    )
    add_version(top)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    check = commands.add_parser(
        "check",
        help="check an objective before a run",
        description="Check --objective, or what --config trains. Exit code 0: it can run; 2: it cannot.",
    )
    check.add_argument(
        "--config", type=Path, metavar="FILE", help="TOML file of the run; all its keys are checked, too"
    )
    check.add_argument("--objective", default="", metavar="MODULE:FACTORY", help="factory of the objective")
    check.add_argument("--data", default="", metavar="FILE", help="data file of the Shard, as with join")
    check.add_argument("--client", default="0", metavar="N", help="index of the Shard (0)")
    keys_complete(
        check.add_argument(
            "--set",
            metavar="KEY=VALUE",
            nargs="+",
            action="extend",
            default=[],
            help="keys of the run, such as radius, batch-size, rounds; they win over --config",
        )
    )
    _join(commands)
    ledger = commands.add_parser("ledger", help="sum up what a client has sent", description="Sum up a ledger.")
    ledger.add_argument("file", metavar="FILE", type=Path, help="the file of join --ledger")
    add_completion(commands)
    for command in commands.choices.values():
        add_log_options(command)
    return top


def _join(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command's arguments."""
    command = commands.add_parser(
        "join",
        help="join a server and work until the run is over",
        description="Join a server and work until the run is over.",
    )
    command.add_argument("--server", required=True, metavar="HOST:PORT", help="address of zofedht-server serve")
    command.add_argument(
        "--name",
        default=socket.gethostname(),
        help="name of this client (host name); with TLS the name in its certificate",
    )
    share = command.add_mutually_exclusive_group()
    share.add_argument(
        "--partition", default="auto", metavar="I/N", help="shard I (from 0) of N of the server's data set, or auto"
    )
    share.add_argument("--data", default="", metavar="FILE", help="this client's own rows: npz, csv, svmlight, IDX")
    command.add_argument(
        "--dataset",
        default="",
        metavar="NAME|FILE",
        help="the data set of --partition: a named set, which may be fetched, or this device's copy of the server's"
        " file (a named set with files on this device)",
    )
    command.add_argument("--objective", default="", metavar="MODULE:FACTORY", help="this client's own objective")
    command.add_argument(
        "--parameters",
        type=Path,
        metavar="FILE",
        help="TOML file whose table [parameters] names what a function of --objective is called with; the run's own"
        " file will do",
    )
    command.add_argument(
        "--label-column", default="auto", metavar="COLUMN", help="label of --data: a name, or a number from 1 (auto)"
    )
    command.add_argument(
        "--csv-header",
        choices=CSV_HEADERS,
        default="auto",
        help="whether --data begins with names (auto)",
    )
    command.add_argument(
        "--least-batch", type=int, default=1, metavar="B", help="refuse to tell about fewer samples at once (1)"
    )
    command.add_argument(
        "--most-steps", type=int, default=0, metavar="K", help="refuse slots of more steps; 0: no bound (0)"
    )
    command.add_argument(
        "--privacy-key",
        type=Path,
        metavar="FILE",
        help="file of the secret that this device draws noise from under privacy = local; made when first used",
    )
    command.add_argument(
        "--least-noise",
        type=float,
        default=0.0,
        metavar="Z",
        help="refuse to tell anything but slopes with at least this noise-multiplier; 0: no bound (0)",
    )
    command.add_argument(
        "--only-sums",
        action="store_true",
        help="refuse to tell anything but slopes under the masks of secure aggregation",
    )
    command.add_argument(
        "--ledger", type=Path, metavar="FILE", help="file that receives every message in plain numbers before it leaves"
    )
    command.add_argument(
        "--copies",
        choices=("auto", "memory", "disk"),
        default="auto",
        help="where copies of parameters in place lie; no number depends on it (auto: memory where there is plenty)",
    )
    command.add_argument(
        "--most-snapshot-mb",
        type=float,
        default=float("inf"),
        metavar="MB",
        help="refuse to send or to take in more parameters in place than this, for clients that join late; 0: none (no"
        " bound)",
    )
    command.add_argument(
        "--save", type=Path, metavar="FILE", help="after a run in place, write the parameters to this .npz"
    )
    command.add_argument(
        "--lifetime-epsilon",
        type=float,
        default=0.0,
        metavar="E",
        help="tell nothing but noisy slopes, and those only while all runs together spend at most E of a row's privacy;"
        " kept beside --ledger; 0: no bound (0)",
    )
    command.add_argument(
        "--lifetime-delta", type=float, default=1e-5, metavar="D", help="delta of --lifetime-epsilon (1e-5)"
    )
    command.add_argument("--data-dir", default="", metavar="DIR", help="folder of the large sets on this machine")
    command.add_argument("--tls-dir", type=Path, metavar="DIR", help="folder with ca.crt, client.crt and client.key")
    command.add_argument(
        "--server-name", default="", metavar="NAME", help="name in the server's certificate (the address)"
    )
    command.add_argument(
        "--insecure",
        action="store_true",
        help="plain text without certificates: anybody on the way may read and change it",
    )
    command.add_argument(
        "--health-address",
        metavar="HOST:PORT",
        default="",
        help="gRPC health service on loopback: SERVING while joined",
    )
    command.add_argument(
        "--max-wait",
        type=float,
        default=float("inf"),
        metavar="SECONDS",
        help="give up after so long without a connection (never)",
    )

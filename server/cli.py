"""The arguments of the ``zofedht-server`` commands."""

from __future__ import annotations

import argparse
from pathlib import Path

from zofedht.common.terminal.command_line import add_version
from zofedht.common.terminal.completion import add_completion, keys_complete
from zofedht.common.terminal.logs import add_log_options

__all__ = ["parser"]


def parser() -> argparse.ArgumentParser:
    """Return the parser; each command's ``command`` attribute is its name."""
    top = argparse.ArgumentParser(
        prog="zofedht-server",
        description="Federated optimisation without gradients: run, resume, compare, plot and export.",
    )
    add_version(top)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="start a run", description="Start a run and write its results to a folder.")
    run.add_argument(
        "--engine",
        choices=("in-process", "simulation"),
        default="in-process",
        help="all clients in this process (default), or Flower's simulation",
    )
    _config(run)
    _out(run, "result folder; must not hold a run yet")
    _page(run)

    _serve(commands)

    certificates = commands.add_parser(
        "make-certs", help="make an authority, a server's certificate and one for each client"
    )
    certificates.add_argument(
        "--out", metavar="DIR", type=Path, required=True, help="receives authority/, server/ and clients/NAME/"
    )
    certificates.add_argument(
        "--server-names", metavar="HOST,IP", help="addresses of the server for clients (localhost,127.0.0.1)"
    )
    certificates.add_argument("--clients", metavar="A,B,C-1..C-9", default="", help="names of the clients, with ranges")
    certificates.add_argument("--days", metavar="N", type=float, default=825.0, help="validity (825)")

    resume = commands.add_parser("resume", help="continue a run from its newest checkpoint")
    resume.add_argument("folder", metavar="DIR", type=Path, help="result folder of the run")
    resume.add_argument(
        "--engine", choices=("in-process", "simulation"), help="engine of the remaining rounds (that of the run)"
    )
    _data_changed(resume)
    _set(resume, "a key that changes no finished round, such as rounds=500")
    _page(resume)

    watch = commands.add_parser(
        "watch",
        help="show a run in the browser, live or finished",
        description="Serve a page that shows the run of a folder, until Ctrl-C.",
    )
    watch.add_argument("folder", metavar="DIR", type=Path, help="result folder of the run")
    _page(watch, "127.0.0.1:8088")

    compare = commands.add_parser("compare", help="run several algorithms with the same seed and plot them")
    compare.add_argument(
        "--algorithms",
        required=True,
        metavar="A,B:KEY=VALUE,C",
        help="rows of the algorithm table; keys after a colon are of that run alone",
    )
    compare.add_argument("--seeds", type=int, default=1, metavar="N", help="runs of each, with seeds from `seed` on")
    _config(compare)
    _out(compare, "folder for one result folder per algorithm, and compare.png")

    export = commands.add_parser(
        "export", help="write x of a run as npz, csv or json", description="Write x of a run as a file."
    )
    export.add_argument("folder", metavar="DIR", type=Path, help="result folder of the run")
    export.add_argument("--out", metavar="FILE", type=Path, required=True, help="file to write: .npz, .csv or .json")
    export.add_argument("--last", action="store_true", help="the x of the last round instead of the best x")
    export.add_argument(
        "--objective",
        default="",
        metavar="MODULE:FACTORY",
        help="of a run in place: it holds its start",
    )
    export.add_argument("--data", default="", metavar="FILE", help="data file of the Shard that --objective is given")

    keys = commands.add_parser("keys", help="list the keys of the run config")
    keys.add_argument("pattern", nargs="?", default="", help="only keys whose name or meaning has this text")
    keys.add_argument(
        "--json-schema", action="store_true", help="print a JSON Schema of --config files, for editors, instead"
    )

    add_completion(commands)
    _plan(commands)

    report = commands.add_parser("report", help="make report.html of a finished run again")
    report.add_argument("folder", metavar="DIR", type=Path, help="result folder of the run")

    plot = commands.add_parser("plot", help="loss against evaluations and against bytes")
    plot.add_argument("folders", metavar="DIR", type=Path, nargs="+", help="result folders")
    plot.add_argument("--out", metavar="FILE", type=Path, required=True, help="picture to write: .png, .pdf or .svg")
    for command in commands.choices.values():
        add_log_options(command)
    return top


def _plan(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    plan = commands.add_parser(
        "plan",
        help="check all sites, and say what a run will take, before it begins",
        description="Ask each site, here or over the network, a few times for F near the start. Exit code 2: a site"
        " cannot run.",
    )
    _config(plan)
    plan.add_argument(
        "--address", metavar="HOST:PORT", default="", help="wait for sites here; else they are in process"
    )
    plan.add_argument("--min-clients", metavar="N", type=int, default=1, help="look when N sites have joined (1)")
    plan.add_argument("--tls-dir", metavar="DIR", type=Path, help="folder with ca.crt, server.crt and server.key")
    plan.add_argument("--insecure", action="store_true", help="plain text without certificates: anybody may join")
    plan.add_argument("--calls", metavar="C", type=int, default=200, help="ask each site at most so often for F (200)")


def _serve(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    serve = commands.add_parser(
        "serve",
        help="run over clients that join by gRPC",
        description="Listen for zofedht-client join, run to the end, write the results to a folder.",
    )
    serve.add_argument(
        "--address", metavar="HOST:PORT", required=True, help="address to listen at, such as 0.0.0.0:8080"
    )
    serve.add_argument("--min-clients", metavar="N", type=int, default=1, help="begin when N clients have joined (1)")
    serve.add_argument(
        "--settle",
        metavar="SECONDS",
        type=float,
        default=0.0,
        help="without num-clients, begin when no client has joined for so long; a resumed run then goes on with"
        " the connected clients (0)",
    )
    serve.add_argument(
        "--linger",
        metavar="SECONDS",
        type=float,
        default=0.0,
        help="after the run, stay so long for clients that join late (0)",
    )
    _page(
        serve,
        tls_help="folder with ca.crt, server.crt and server.key, for clients and for a page beyond loopback",
        refuse_help="clients that may not join, nor see the page",
    )
    serve.add_argument("--insecure", action="store_true", help="plain text without certificates: anybody may join")
    serve.add_argument("--resume", action="store_true", help="continue the run in --out, if any")
    _data_changed(serve)
    serve.add_argument("--max-message-mb", metavar="MB", type=int, default=256, help="largest accepted reply (256)")
    serve.add_argument("--health-address", metavar="HOST:PORT", default="", help="gRPC health service on loopback")
    _config(serve)
    _out(serve, "result folder; must not hold a run yet, unless --resume")


def _page(
    command: argparse.ArgumentParser,
    address: str = "",
    tls_help: str = "folder with ca.crt, server.crt and server.key, for a page beyond loopback",
    refuse_help: str = "certificates that may not see the page",
) -> None:
    shown = f" ({address})" if address else ""
    command.add_argument(
        "--page", metavar="HOST:PORT", default=address, help=f"show the run in the browser there{shown}"
    )
    command.add_argument(
        "--page-token",
        metavar="FILE",
        type=Path,
        help="the page asks for the token in this file, which is made if missing",
    )
    command.add_argument("--tls-dir", metavar="DIR", type=Path, help=tls_help)
    command.add_argument("--refuse", metavar="NAME|SERIAL", nargs="+", action="extend", default=[], help=refuse_help)
    command.add_argument(
        "--refuse-file", metavar="FILE", type=Path, help="more of them, one a line; read again on SIGHUP"
    )


def _data_changed(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--data-changed", action="store_true", help="go on although data or objective are not those of before"
    )


def _config(command: argparse.ArgumentParser) -> None:
    command.add_argument("--config", metavar="FILE", type=Path, help="TOML file of run config keys")
    _set(command, "a run config key; wins over --config")


def _set(command: argparse.ArgumentParser, text: str) -> None:
    keys_complete(command.add_argument("--set", metavar="KEY=VALUE", nargs="+", action="extend", default=[], help=text))


def _out(command: argparse.ArgumentParser, text: str) -> None:
    default = "a new folder below runs/, named after what runs and the time, unless given"
    command.add_argument("--out", metavar="DIR", type=Path, help=f"{text}; {default}")

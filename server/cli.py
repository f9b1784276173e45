"""Shapes of the ``zofedht-server`` commands."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["parser"]


def parser() -> argparse.ArgumentParser:
    """Return the parser; each command's ``command`` attribute is its name."""
    top = argparse.ArgumentParser(
        prog="zofedht-server",
        description="Federated optimisation without gradients: run, resume, compare and plot.",
    )
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

    resume = commands.add_parser("resume", help="continue a run from its newest checkpoint")
    resume.add_argument("folder", metavar="DIR", type=Path, help="result folder of the run")
    resume.add_argument("--engine", choices=("in-process", "simulation"), help="another engine than the run's")
    _set(resume, "change a key that enters no number, such as rounds=500 to go on")

    compare = commands.add_parser("compare", help="run several algorithms on the same draws and plot them")
    compare.add_argument("--algorithms", required=True, metavar="A,B,C", help="rows of the algorithm table")
    _config(compare)
    _out(compare, "folder for one result folder per algorithm, and compare.png")

    plot = commands.add_parser("plot", help="loss against evaluations and against bytes")
    plot.add_argument("folders", metavar="DIR", type=Path, nargs="+", help="result folders")
    plot.add_argument("--out", metavar="FILE", type=Path, required=True, help="picture to write (png, pdf, svg)")
    return top


def _config(command: argparse.ArgumentParser) -> None:
    command.add_argument("--config", metavar="FILE", type=Path, help="TOML file of run config keys")
    _set(command, "a run config key; wins over --config")


def _set(command: argparse.ArgumentParser, text: str) -> None:
    command.add_argument("--set", metavar="KEY=VALUE", nargs="+", action="extend", default=[], help=text)


def _out(command: argparse.ArgumentParser, text: str) -> None:
    command.add_argument("--out", metavar="DIR", type=Path, required=True, help=text)

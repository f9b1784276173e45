"""The command line of ``python -m zofedht.experiments``."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path

from zofedht.common.algorithms import ALGORITHMS
from zofedht.common.choices import PARTITIONS, UPLINKS
from zofedht.experiments.family.methods import METHODS
from zofedht.experiments.study.cells import DATASETS, MODELS, PARTITION_NAMES
from zofedht.experiments.study.presets import EPOCHS, PRESETS

__all__ = ["parser"]


def parser() -> argparse.ArgumentParser:
    """Return the parser; each command's ``command`` attribute is its name."""
    top = argparse.ArgumentParser(
        prog="python -m zofedht.experiments", description="The paper's studies, each as one command."
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    table1 = commands.add_parser("table1", help="Table I: the two-dimensional study, as printed and as corrected")
    table1.add_argument("--out", metavar="DIR", type=Path, help="receives table1.csv and table1.png")
    table1.add_argument("--runs", metavar="N", type=_at_least(1), default=10, help="runs to average over (10)")
    table1.add_argument("--seed", metavar="N", type=_at_least(0), default=0)

    _study(commands)

    report = commands.add_parser("report", help="pictures, tables and claims from study folders")
    report.add_argument("folders", metavar="DIR", type=Path, nargs="*", help="study folders")
    report.add_argument("--cells", metavar="DIR", type=Path, help="cells as lines, and what table1 and theory wrote")
    report.add_argument("--out", metavar="DIR", type=Path, help="where the report goes (the first study folder)")
    report.add_argument("--page", metavar="FILE.md", type=Path, help="page that gets the report between two marks")

    _family(commands)
    published = commands.add_parser("published", help="rows beside what the loops of their sources give")
    published.add_argument("--seeds", metavar="N", type=_at_least(1), default=5, help="runs of a figure (5)")
    _auto(commands)

    curious = commands.add_parser("curious", help="what a curious server rebuilds of a client's rows")
    curious.add_argument("--seed", metavar="N", type=_at_least(0), default=0)

    liars = commands.add_parser("liars", help="clients that lie, against every aggregation rule")
    liars.add_argument("--dataset", choices=("digits", "mnist"), default="digits")
    liars.add_argument("--partition", choices=("iid", "thirds", "sorted"), default="iid")
    liars.add_argument("--algorithm", choices=tuple(ALGORITHMS), default="zofedavg-sgd")
    liars.add_argument("--uplink", choices=UPLINKS, default="move")
    liars.add_argument("--step-size", metavar="ETA", type=_positive, default=3.0)
    liars.add_argument("--rounds", metavar="R", type=_at_least(1), default=100)
    liars.add_argument("--seeds", metavar="N", type=_at_least(1), default=3, help="runs of a cell (3)")
    liars.add_argument("--liars", metavar="N", type=_at_least(1), nargs="+", default=[1, 2, 3], help="liars of ten")
    liars.add_argument("--data-dir", metavar="DIR", type=Path, help="folder of the large sets (the user's cache)")

    theory = commands.add_parser("theory", help="Theorem 1 and Lemmas 1-3 on a quadratic")
    theory.add_argument("--out", metavar="DIR", type=Path, help="receives theory.md and theory.json")
    theory.add_argument("--quick", action="store_true", help="fewer Monte Carlo draws and repeats")
    theory.add_argument("--seed", metavar="N", type=_at_least(0), default=0)
    return top


def _study(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    study = commands.add_parser(
        "study",
        help="the grid behind the 18 panels",
        description="Run every unfinished cell. A killed study continues with the same command.",
    )
    study.add_argument(
        "--preset", choices=tuple(PRESETS), required=True, help="follow the text, or the scripts; or with linear steps"
    )
    study.add_argument("--dataset", nargs="+", choices=DATASETS, default=None)
    study.add_argument("--model", nargs="+", choices=MODELS, default=None)
    study.add_argument("--partition", nargs="+", choices=PARTITION_NAMES, default=None)
    study.add_argument("--algorithms", nargs="+", choices=tuple(ALGORITHMS), default=None)
    study.add_argument("--etas", metavar="ETA", nargs="+", type=_positive, help="eta_0 to try (0.1 1 10)")
    study.add_argument("--alphas", metavar="ALPHA", nargs="+", type=_share, help="alpha to try (.1 .3 .5 .7 .9)")
    study.add_argument("--repeats", metavar="N", type=_at_least(1), default=None, help="runs of a cell (3)")
    study.add_argument("--repeat-all", action="store_true", help="repeat all cells, not only the tuned ones")
    length = study.add_mutually_exclusive_group()
    length.add_argument(
        "--rounds", metavar="R", type=_at_least(1), default=None, help="minibatch rounds' worth of budget"
    )
    length.add_argument(
        "--budget", metavar="E", type=_at_least(1), default=None, help="evaluations (500 a training row)"
    )
    study.add_argument("--train-rows", metavar="N", type=_at_least(100), default=0, help="a random subset of the rows")
    study.add_argument(
        "--jobs",
        metavar="J",
        type=_jobs,
        default=1,
        help="worker processes of one thread (1), or ray: a Ray cluster",
    )
    study.add_argument("--data-dir", metavar="DIR", type=Path, help="folder of the large sets (the user's cache)")
    study.add_argument("--seed", metavar="N", type=_at_least(0), default=0, help="seed of the first repeat (0)")
    study.add_argument("--quick", action="store_true", help="a part of the grid, in minutes")
    study.add_argument("--out", metavar="DIR", type=Path, required=True, help="one folder a cell goes here")
    study.add_argument(
        "--cells", metavar="DIR", type=Path, help="cells as lines: done are those there; new ones are added"
    )
    study.add_argument(
        "--minutes", metavar="M", type=_positive, default=math.inf, help="begin no cell after that; run again for more"
    )


def _family(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    family = commands.add_parser(
        "family",
        help="rows of the algorithm table, each at its best step size",
        description="Run every unfinished cell, and write family.md. A killed study continues with the same command.",
    )
    family.add_argument("--dataset", nargs="+", choices=DATASETS, default=None)
    family.add_argument(
        "--model", nargs="+", choices=("logistic", "svm-squared-hinge", "svm-hinge", "mlp"), default=None
    )
    family.add_argument("--partition", nargs="+", choices=PARTITIONS, default=None)
    family.add_argument(
        "--methods",
        metavar="NAME",
        nargs="+",
        choices=tuple(METHODS),
        help="rows of the table (those of the docs)",
    )
    family.add_argument("--etas", metavar="ETA", nargs="+", type=_positive, default=(), help="step sizes to try (four)")
    family.add_argument("--epochs", metavar="E", type=_at_least(1), default=EPOCHS, help="evaluations a row (500)")
    family.add_argument("--seeds", metavar="N", type=_at_least(1), default=3, help="runs of each best step (3)")
    family.add_argument("--jobs", metavar="J", type=_jobs, default=1, help="worker processes (1), or ray")
    family.add_argument("--data-dir", metavar="DIR", type=Path, help="folder of the large sets (the user's cache)")
    family.add_argument("--quick", action="store_true", help="digits alone: minutes")
    family.add_argument("--tables", action="store_true", help="run nothing; write family.md from the finished cells")
    family.add_argument("--out", metavar="DIR", type=Path, required=True, help="one folder a run goes here")


def _auto(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    auto = commands.add_parser(
        "auto",
        help="step-size and subspace-weight = auto against a grid",
        description="Run every unfinished cell, and write auto.md. A killed study continues with the same command.",
    )
    auto.add_argument("--dataset", nargs="+", choices=("digits", "mnist", "fashion-mnist", "rcv1"), default=None)
    models = ("logistic", "svm-squared-hinge", "svm-hinge", "mlp")
    auto.add_argument("--model", nargs="+", choices=models, default=None)
    auto.add_argument("--partition", nargs="+", choices=("iid", "thirds", "sorted"), default=None)
    auto.add_argument("--rounds", metavar="R", type=_at_least(1), default=None, help="rounds of a run (225)")
    auto.add_argument("--train-rows", metavar="N", type=_at_least(1), default=0, help="training rows (most of the set)")
    auto.add_argument("--seeds", metavar="N", type=_at_least(1), default=1, help="runs of a cell (1)")
    auto.add_argument("--jobs", metavar="J", type=_jobs, default=1, help="worker processes (1), or ray")
    auto.add_argument("--data-dir", metavar="DIR", type=Path, help="folder of the large sets (the user's cache)")
    auto.add_argument("--quick", action="store_true", help="digits and the logistic loss, 60 rounds: minutes")
    auto.add_argument("--tables", action="store_true", help="run nothing; write auto.md from the finished cells")
    auto.add_argument("--out", metavar="DIR", type=Path, required=True, help="one folder a run goes here")


def _jobs(text: str) -> int | str:
    """Read a number of worker processes, or ``ray``."""
    if text == "ray":
        return text
    try:
        return _at_least(1)(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, or ray") from error


def _at_least(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, got {text!r}")
        return int(text)

    return read


def _positive(text: str) -> float:
    return _number(text, lambda value: 0.0 < value < float("inf"), "a number greater than 0")


def _share(text: str) -> float:
    return _number(text, lambda value: 0.0 <= value <= 1.0, "a number in [0, 1]")


def _number(text: str, fits: Callable[[float], bool], what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not fits(value):
        raise argparse.ArgumentTypeError(f"must be {what}, got {text!r}")
    return value

"""``python -m zofedht.experiments``: table1, study, report, family, published, auto, theory, liars, curious."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zofedht.common.terminal.command_line import Interrupt, guarded, parsed
from zofedht.experiments.cli import parser
from zofedht.experiments.study.cells import Grid
from zofedht.experiments.study.presets import ALPHAS, EPOCHS, ETAS, PRESETS, QUICK

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    args = parsed(parser(), argv)
    actions = {
        "table1": _table1,
        "study": _study,
        "report": _report,
        "theory": _theory,
        "family": _family,
        "published": _published,
        "auto": _auto,
        "liars": _liars,
        "curious": _curious,
    }
    Interrupt().install("SIGINT", "SIGTERM", "SIGHUP")
    return guarded("experiments", lambda: actions[args.command](args))


def _workers(args: argparse.Namespace) -> Any:
    """Return the number of worker processes, or the Ray cluster."""
    if args.jobs != "ray":
        return args.jobs
    from zofedht.experiments.study.cluster import Cluster

    return Cluster()


def _table1(args: argparse.Namespace) -> int:
    from zofedht.experiments.theory.table1 import table1

    table1(args.out.expanduser() if args.out else None, runs=args.runs, seed=args.seed)
    return 0


def _study(args: argparse.Namespace) -> int:
    from zofedht.experiments.study.command import run_study

    quick = QUICK if args.quick else None
    grid = Grid(
        preset=PRESETS[args.preset],
        datasets=args.dataset or (quick.datasets if quick else ("mnist", "fashion-mnist", "rcv1")),
        models=args.model or (quick.models if quick else ("logistic", "svm", "mlp")),
        partitions=args.partition or ("iid", "non-iid"),
        algorithms=args.algorithms or PRESETS[args.preset].algorithms,
        etas=sorted(set(args.etas or ETAS)),
        alphas=args.alphas or (quick.alphas if quick else ALPHAS),
        repeats=args.repeats or (quick.repeats if quick else 3),
        rounds=args.rounds or 0,
        budget=args.budget or 0,
        epochs=quick.epochs if quick else EPOCHS,
        train_rows=args.train_rows,
        data_dir=_data_dir(args),
        first_seed=args.seed,
    )
    cells = args.cells.expanduser() if args.cells else None
    left = run_study(
        grid,
        args.out.expanduser(),
        workers=_workers(args),
        repeat_all=args.repeat_all,
        cells=cells,
        minutes=args.minutes,
    )
    source = f"--cells {args.cells}" if cells else f"{args.out}"
    state = f"stopped, {left} cells left; the same command continues" if left else "finished"
    print(f"{state}; draw it with: python -m zofedht.experiments report {source} --out {args.out}")
    return 0


def _report(args: argparse.Namespace) -> int:
    from zofedht.experiments.report.command import write_report

    folders = [folder.expanduser() for folder in args.folders]
    cells = args.cells.expanduser() if args.cells else None
    with tempfile.TemporaryDirectory() as aside:
        out = args.out.expanduser() if args.out else folders[0] if folders else Path(aside)
        written = write_report(folders, out, cells)
        if args.page:
            from zofedht.experiments.report.docs_page import fill_page

            written += fill_page(args.page.expanduser(), out / "report.md")
        written = [path for path in written if not path.is_relative_to(aside)]
    for path in written:
        print(path)
    return 0


def _auto(args: argparse.Namespace) -> int:
    from zofedht.experiments.auto.runs import STEPS, AutoGrid, run_auto, write_page

    grid = AutoGrid(
        datasets=args.dataset or (("digits",) if args.quick else ("digits", "mnist")),
        models=args.model or (("logistic",) if args.quick else tuple(STEPS)),
        partitions=args.partition or ("iid", "thirds", "sorted"),
        rounds=args.rounds or (60 if args.quick else 225),
        seeds=args.seeds,
        train_rows=args.train_rows,
        data_dir=_data_dir(args),
    )
    out = args.out.expanduser()
    print(write_page(grid, out) if args.tables else run_auto(grid, out, workers=_workers(args)))
    return 0


def _family(args: argparse.Namespace) -> int:
    from zofedht.experiments.family.grid import FamilyGrid
    from zofedht.experiments.family.methods import COMPARED
    from zofedht.experiments.family.page import write_family
    from zofedht.experiments.family.runs import run_family

    grid = FamilyGrid(
        datasets=args.dataset or (("digits",) if args.quick else ("digits", "mnist", "fashion-mnist")),
        models=args.model or ("logistic", "svm-squared-hinge"),
        partitions=args.partition or ("iid", "thirds", "sorted"),
        methods=args.methods or COMPARED,
        seeds=args.seeds,
        epochs=args.epochs,
        etas=args.etas,
        data_dir=_data_dir(args),
    )
    out = args.out.expanduser()
    if not args.tables:
        run_family(grid, out, workers=_workers(args))
    print(write_family(grid, out))
    return 0


def _published(args: argparse.Namespace) -> int:
    from zofedht.experiments.family.published import published_table

    print(published_table(args.seeds), end="")
    return 0


def _liars(args: argparse.Namespace) -> int:
    from zofedht.experiments.trust.liars import Panel, liars_table

    panel = Panel(
        args.dataset, args.partition, args.step_size, args.rounds, _data_dir(args), args.algorithm, args.uplink
    )
    print(liars_table(panel, args.seeds, args.liars, report=lambda row: print(row, file=sys.stderr)), end="")
    return 0


def _curious(args: argparse.Namespace) -> int:
    from zofedht.experiments.trust.curious import curious_table

    print(curious_table(args.seed), end="")
    return 0


def _theory(args: argparse.Namespace) -> int:
    from zofedht.experiments.theory.command import theory

    theory(args.out.expanduser() if args.out else None, quick=args.quick, seed=args.seed)
    return 0


def _data_dir(args: argparse.Namespace) -> str:
    return str(args.data_dir.expanduser().resolve()) if args.data_dir else ""


if __name__ == "__main__":
    sys.exit(main())

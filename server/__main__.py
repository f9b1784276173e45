"""``zofedht-server``: run, resume, compare, plot."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from common.command_line import guarded
from common.config import RunConfig
from common.config_files import load_toml, parse_assignments
from common.errors import ConfigError
from server.cli import parser
from server.conduct import Result
from server.inprocess import run as run_in_process
from server.plots import plot_runs
from server.rounds import ServerState
from server.run_folder import RunFolder
from server.summary import summary_text

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    args = parser().parse_args(argv)
    actions = {"run": _run, "resume": _resume, "compare": _compare, "plot": _plot}
    return guarded("zofedht-server", lambda: actions[args.command](args))


def _read_config(args: argparse.Namespace) -> RunConfig:
    """Merge --config and --set, and make paths absolute: nodes may run in other folders."""
    keys = (load_toml(args.config) if args.config else {}) | parse_assignments(args.set)
    config = RunConfig.from_mapping(keys)
    changes = {}
    if config.data_dir:
        changes["data_dir"] = str(Path(config.data_dir).expanduser().resolve())
    if Path(config.dataset).expanduser().is_file():
        changes["dataset"] = str(Path(config.dataset).expanduser().resolve())
    return config.replace(**changes)


def _run(args: argparse.Namespace) -> int:
    config = _read_config(args)
    folder = RunFolder(args.out.expanduser())
    folder.begin(config, args.engine)
    _conduct(config, folder, args.engine, None)
    return 0


def _resume(args: argparse.Namespace) -> int:
    folder = RunFolder(args.folder.expanduser())
    config, state, engine = folder.reopen(parse_assignments(args.set))
    print(f"continuing {folder.path} at round {state.round}", file=sys.stderr)
    _conduct(config, folder, args.engine or engine, state)
    return 0


def _conduct(config: RunConfig, folder: RunFolder, engine: str, state: ServerState | None) -> Result:
    if engine == "simulation":
        from server.simulation import run_simulation

        result = run_simulation(config, folder, state=state)
    else:
        result = run_in_process(config, folder=folder, state=state, show_progress=True)
    print(summary_text(result.summary, folder))
    return result


def _compare(args: argparse.Namespace) -> int:
    names = [name.strip() for name in args.algorithms.split(",") if name.strip()]
    if len(set(names)) != len(names) or not names:
        raise ConfigError([f"--algorithms must list different algorithms, got {args.algorithms!r}"])
    config = _read_config(args)
    configs = [config.replace(algorithm=name) for name in names]  # all are checked before the first run
    folders = [RunFolder(args.out.expanduser() / name) for name in names]
    for folder, chosen in zip(folders, configs, strict=True):
        folder.begin(chosen, "in-process")
    rows = []
    for name, folder, chosen in zip(names, folders, configs, strict=True):
        print(f"{name}:", file=sys.stderr)
        rows.append(run_in_process(chosen, folder=folder, show_progress=True).summary)
    width = max(len("algorithm"), *(len(name) for name in names))
    print(f"{'algorithm':<{width}}  final train loss  test accuracy   evaluations  MB up + down")
    for name, row in zip(names, rows, strict=True):
        accuracy = "-" if row["test_accuracy"] is None else f"{row['test_accuracy']:.4f}"
        loss, megabytes = row["final_train_loss"], (row["bytes_up"] + row["bytes_down"]) / 1e6
        print(f"{name:<{width}}  {loss:16.4f}  {accuracy:>13}  {row['evaluations']:12,}  {megabytes:12.2f}")
    picture = args.out.expanduser() / "compare.png"
    plot_runs([folder.path for folder in folders], picture)
    print(f"picture: {picture}")
    return 0


def _plot(args: argparse.Namespace) -> int:
    plot_runs([folder.expanduser() for folder in args.folders], args.out.expanduser())
    print(f"picture: {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

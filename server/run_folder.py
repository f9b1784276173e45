"""The result folder of a run: what is in it, how it is begun, continued and finished."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from common.config import FREE_KEYS, RunConfig
from common.config_files import dump_toml, load_toml
from common.errors import CheckpointError, ConfigError, DataError, MissingExtraError
from common.typing import Vector
from server.checkpoint import CheckpointWriter, load_newest, write_checkpoint
from server.coordinator import Metrics, Observer
from server.files import replace_file
from server.history import HistoryWriter, truncate_history
from server.rounds import ServerState

__all__ = ["RunFolder", "x_digest"]


def x_digest(x: Vector) -> str:
    """Return the sha256 of x's little-endian float64 bytes."""
    return hashlib.sha256(np.ascontiguousarray(x, dtype="<f8").tobytes()).hexdigest()


class RunFolder:
    """DIR with config.toml, run.json, checkpoints/, history.jsonl, and at the end summary.json and loss.png."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / "config.toml"
        self.about_file = path / "run.json"
        self.checkpoints = path / "checkpoints"
        self.history_file = path / "history.jsonl"
        self.summary_file = path / "summary.json"
        self.picture_file = path / "loss.png"

    def begin(self, config: RunConfig, engine: str) -> None:
        """Make the folder and write the config.

        Raises DataError when the folder holds a run already (nothing is overwritten) or cannot be written.
        """
        if self.config_file.exists() or self.history_file.exists():
            raise DataError(
                f"{self.path} already holds a run; continue it with `zofedht-server resume {self.path}`"
                " or choose another --out"
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            replace_file(self.config_file, dump_toml(config).encode())
        except OSError as error:
            raise DataError(f"the result folder {self.path} cannot be written ({error.strerror})") from error
        about = {
            "engine": engine,
            "zofedht": _version("zofedht"),
            "flwr": _version("flwr"),
            "numpy": np.__version__,
        }
        replace_file(self.about_file, _pretty(about))

    def reopen(self, changes: Mapping[str, Any]) -> tuple[RunConfig, ServerState, str]:
        """Return (config, state, engine) to continue with; history rows after the state are dropped.

        Raises ConfigError for a change of a key that enters the numbers, CheckpointError when there is
        nothing to continue from.
        """
        if not self.config_file.exists():
            raise CheckpointError(
                f"{self.path} holds no run: it has no config.toml; start one with `zofedht-server run`"
            )
        fixed = sorted(set(changes) & set(RunConfig().to_mapping()) - FREE_KEYS)
        if fixed:
            raise ConfigError(
                [f"{key} cannot change when a run is resumed; only {', '.join(sorted(FREE_KEYS))} can" for key in fixed]
            )
        config = RunConfig.from_mapping(load_toml(self.config_file) | dict(changes))
        state = load_newest(self.checkpoints, config)
        truncate_history(self.history_file, state.round)
        replace_file(self.config_file, dump_toml(config).encode())
        return config, state, self._engine()

    def _engine(self) -> str:
        try:
            engine: str = json.loads(self.about_file.read_text(encoding="utf-8"))["engine"]
        except (OSError, ValueError, KeyError):
            return "in-process"  # every engine gives the same numbers; this one needs nothing else
        return engine

    def start(self, config: RunConfig, state: ServerState, initial: Metrics) -> list[Observer]:
        """Write the first checkpoint and what x_0 scores; return the observers that record the rounds."""
        if state.round == 0:
            write_checkpoint(self.checkpoints, state, config)
            about = json.loads(self.about_file.read_text(encoding="utf-8"))
            replace_file(self.about_file, _pretty(about | {"initial": initial}))
        return [HistoryWriter(self.history_file), CheckpointWriter(self.checkpoints, config)]

    def save(self, config: RunConfig, state: ServerState) -> None:
        """Write a checkpoint now, whatever the period is."""
        write_checkpoint(self.checkpoints, state, config)

    def finish(self, config: RunConfig, state: ServerState, final: Metrics) -> dict[str, Any]:
        """Write the last checkpoint, summary.json and loss.png; return the summary."""
        self.save(config, state)
        about = json.loads(self.about_file.read_text(encoding="utf-8"))
        summary = {
            "initial_train_loss": about["initial"].get("train_loss"),
            "final_train_loss": final.get("train_loss"),
            "final_train_accuracy": final.get("train_accuracy"),
            "test_accuracy": final.get("test_accuracy"),
            "rounds": state.round,
            "evaluations": state.totals.evaluations,
            "bytes_up": state.totals.bytes_up,
            "bytes_down": state.totals.bytes_down,
            "seconds": round(state.totals.seconds, 3),
            "x_sha256": x_digest(state.x),
            "engine": about["engine"],
            "config": config.to_mapping(),
        }
        replace_file(self.summary_file, _pretty(summary))
        return summary

    def draw(self) -> str:
        """Draw loss.png; return a sentence that says where it is, or which extra would draw it."""
        from server.plots import plot_runs

        try:
            plot_runs([self.path], self.picture_file)
        except MissingExtraError as error:
            return f"no picture: {error}"
        return f"picture: {self.picture_file}"


def _pretty(value: Mapping[str, Any]) -> bytes:
    finite = {k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in value.items()}
    return (json.dumps(finite, indent=2, allow_nan=False) + "\n").encode()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"

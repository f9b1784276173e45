"""The result folder of a run: its files, and how it is begun, continued and finished."""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np

from zofedht.common.config.run_config import FREE_KEYS, RunConfig
from zofedht.common.config.texts import dump_toml, load_toml
from zofedht.common.errors import CheckpointError, ConfigError, DataError, MissingExtraError
from zofedht.common.machine.files import read_json, remove_parts, replace_file
from zofedht.common.typing import Vector
from zofedht.server.core.round_record import Observer, signed
from zofedht.server.core.state import ServerState
from zofedht.server.evaluation.full_evaluation import FullEvaluation
from zofedht.server.evaluation.verdict import Verdict
from zofedht.server.records.about import AboutRun, as_json
from zofedht.server.records.checkpoint import CheckpointWriter, load_newest, write_checkpoint
from zofedht.server.records.clients import ClientLog
from zofedht.server.records.history import HistoryWriter, read_history, truncate_history
from zofedht.server.records.lock import FolderLock
from zofedht.server.records.run_summary import summary_of

__all__ = ["RunFolder", "sha256_of_x"]


def sha256_of_x(x: Vector) -> str:
    """Return the sha256 of x's little-endian float64 bytes."""
    return hashlib.sha256(np.ascontiguousarray(x, dtype="<f8").tobytes()).hexdigest()


class RunFolder:
    """A folder with config.toml, run.json, checkpoints/, history.jsonl and clients.jsonl.

    At the end it also has summary.json, x.npy and loss.png.

    ``claim``, ``begin`` and ``reopen`` lock the folder for this writer; the end of a ``with`` block unlocks it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path  # as people have typed it
        self._home = path = _from_here(path)
        self.config_file = path / "config.toml"
        self.about = AboutRun(path / "run.json", self.path)
        self.checkpoints = path / "checkpoints"
        self.history_file = path / "history.jsonl"
        self.summary_file = path / "summary.json"
        self.vector_file = path / "x.npy"
        self.last_file = path / "x-last.npy"
        self.settings_file = path / "settings.toml"
        self.report_file = path / "report.html"
        self.picture_file = path / "loss.png"
        self.clients = ClientLog(path / "clients.jsonl")
        self._lock = FolderLock(path / "run.lock")
        self._made = False  # whether this object made the folder

    def shown(self, file: Path) -> Path:
        """Return a file of the folder as people have typed its place."""
        return self.path / file.name

    def exists(self) -> bool:
        """Return whether the folder holds a run. A config alone is no run: an error before round 0 left it."""
        return self.history_file.exists() or any(self.checkpoints.glob("*.ckpt"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.give_back()

    def give_back(self) -> None:
        """Unlock the folder after the last write."""
        self._lock.give_back()
        if self._made:
            if not self.config_file.exists():
                self.clients.path.unlink(missing_ok=True)
            with suppress(OSError):  # not empty: only a run that never began leaves no folder
                self._home.rmdir()
        self._made = False

    def claim(self) -> None:
        """Make and lock the folder for a new run.

        Raises DataError when the folder holds a run, another writer has it, or it cannot be written.
        """
        try:
            self._made = self._made or not self._home.exists()
            self._home.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"the result folder {self.path} cannot be written ({error.strerror})") from error
        self._lock.take()
        if self.exists():
            raise DataError(f"{self.path} already holds a run; continue it with {self.way_on}, or choose another --out")

    @property
    def way_on(self) -> str:
        """What goes on with the run, which depends on its engine: a part of a sentence."""
        match self.about.engine:
            case "grpc":
                return f"`zofedht-server serve --resume --out {self.path}` and the options of before"
            case "python":
                return "run(objective, x0=load_run(DIR).x) in Python"
            case _:
                return f"`zofedht-server resume {self.path}`"

    def begin(self, config: RunConfig, engine: str, *, maximize: bool = False, objective: str = "") -> None:
        """Claim the folder and write the config. Raises DataError as ``claim`` does.

        ``objective`` is the name of an objective that lives in Python, where no key of the config names it.
        """
        self.claim()
        replace_file(self.config_file, dump_toml(config).encode())
        self.about.begin(engine, maximize=maximize, objective=objective)

    def _other_keys(self, fixed: Sequence[str], changes: Mapping[str, Any]) -> str:
        """Return one sentence about all keys that the run in this folder has otherwise, and the ways out."""
        kept = RunConfig.from_mapping(load_toml(self.config_file)).to_mapping()
        differ = "; ".join(f"{key} = {kept[key]!r}, now {changes[key]!r}" for key in fixed)
        return (
            f"{', '.join(fixed)} cannot change when a run is resumed, and {self.path} holds a run with {differ}: give"
            " --out another folder (RUN=NAME with docker compose), or move this one away, for a new run; until then"
            f" export and report tell of the old one (only {', '.join(sorted(FREE_KEYS))} can change)"
        )

    def reopen(self, changes: Mapping[str, Any]) -> tuple[RunConfig, ServerState, str]:
        """Lock the folder of an interrupted run, and drop the records of rounds after its newest checkpoint.

        Parameters
        ----------
        changes : mapping
            Changed keys of the run config, among FREE_KEYS.

        Returns
        -------
        config, state, engine : RunConfig, ServerState, str

        Raises
        ------
        ConfigError
            For a change of another key.
        CheckpointError
            When the folder has no usable checkpoint.
        DataError
            When another writer has the folder.
        """
        if not self.config_file.exists():
            raise CheckpointError(
                f"{self.path} holds no run: it has no config.toml; start one with `zofedht-server run`"
            )
        fixed = sorted(set(changes) & set(RunConfig().to_mapping()) - FREE_KEYS)
        if fixed:
            raise ConfigError([self._other_keys(fixed, changes)])
        self._lock.take()
        config = RunConfig.from_mapping(load_toml(self.config_file) | dict(changes))
        state = load_newest(self.checkpoints, config)
        truncate_history(self.history_file, state.round)
        self.clients.truncate(state.round)
        if parts := remove_parts(self._home):
            warnings.warn(f"{self.path} held {parts} half-written files; they are deleted", stacklevel=2)
        try:
            read_json(self.about.file)
        except DataError as error:
            text = f"{error}; the loss of the start, and the digests of data and objectives, are lost"
            warnings.warn(text, stacklevel=2)
        replace_file(self.config_file, dump_toml(config).encode())
        return config, state, self.about.engine

    def start(self, config: RunConfig, state: ServerState, initial: FullEvaluation) -> list[Observer]:
        """Write the first checkpoint and the metrics of x_0; return the observers that record the rounds."""
        self._lock.take()
        if state.round == 0:
            write_checkpoint(self.checkpoints, state, config)
            self.about.add(initial=signed(initial.metrics, self.about.sign), initial_evaluation=initial.about())
        return [
            self.clients,
            HistoryWriter(self.history_file, self.about.sign),
            CheckpointWriter(self.checkpoints, config),
        ]

    def save(self, config: RunConfig, state: ServerState) -> None:
        """Write a checkpoint now."""
        write_checkpoint(self.checkpoints, state, config)

    def finish(self, config: RunConfig, state: ServerState, last: FullEvaluation, verdict: Verdict) -> dict[str, Any]:
        """Write the last checkpoint, x.npy and summary.json; return the summary."""
        self.save(config, state)
        x = state.in_user_units(verdict.chosen.x)
        for path, vector in ((self.vector_file, x), (self.last_file, state.user_x)):
            content = io.BytesIO()
            np.save(content, vector, allow_pickle=False)
            replace_file(path, content.getvalue())
        rows = read_history(self.history_file) if self.history_file.exists() else []
        about = self.about.read()
        initial = FullEvaluation.kept(about.get("initial", {}), about.get("initial_evaluation", {}))
        summary = {
            **summary_of(config, state, verdict, initial, last, rows, self.about.sign),
            "x_sha256": sha256_of_x(x),
            "last_x_sha256": sha256_of_x(state.user_x),
            "engine": self.about.engine,
            "config": config.to_mapping(),
        }
        replace_file(self.summary_file, as_json(summary))
        return summary

    def summary(self) -> dict[str, Any]:
        """Return the summary of a finished run. Raises DataError when it cannot be read."""
        return read_json(self.summary_file)

    def draw(self) -> str:
        """Draw loss.png; return a line with its place, or with the reason why it is missing."""
        from zofedht.server.records.plots import plot_runs

        try:
            plot_runs([self._home], self.picture_file)
        except (DataError, MissingExtraError) as error:  # a run without finite losses has no curve
            return f"no picture: {error}"
        return f"picture: {self.shown(self.picture_file)}"


def _from_here(path: Path) -> Path:
    """Return the whole path: code of the user's may change the working folder."""
    try:
        return path.absolute()
    except OSError:  # there is no working folder any more
        return path

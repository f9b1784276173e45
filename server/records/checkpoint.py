"""ServerState <-> one file. Files are replaced by rename, and the newest few are kept."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import warnings
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from zofedht.common.config.run_config import FREE_KEYS, RunConfig
from zofedht.common.errors import CheckpointError
from zofedht.common.objective.scaling import Units
from zofedht.common.typing import Vector
from zofedht.server.auto.state import Race, StepState
from zofedht.server.auto.subspace_weight import WeightState
from zofedht.server.auto.trials import Trial
from zofedht.server.core.rounds import ServerState, Totals
from zofedht.server.records.files import replace_file

__all__ = ["CheckpointWriter", "check_dimension", "check_units", "load_newest", "read_checkpoint", "write_checkpoint"]

_MAGIC = b"ZOFEDHT1"
_KEEP = 3
_PATTERN = "round-*.ckpt"
_STEPPING = frozenset(field.name for field in fields(StepState))


def write_checkpoint(folder: Path, state: ServerState, config: RunConfig) -> Path:
    """Write the state as ``folder/round-NNNNNNNN.ckpt`` and drop all but the newest few.

    Layout: magic, length of the header, header (JSON), arrays (.npz), sha256 of all before it.
    """
    header = {
        "round": state.round,
        "version": state.version,
        "window": len(state.window),
        "has_basis": state.basis is not None,
        "dimension": state.x.shape[0],
        "totals": asdict(state.totals),
        "stepping": None if state.stepping is None else _stepping_header(state.stepping),
        "weighing": None if state.weighing is None else asdict(state.weighing),
        "config": config.to_mapping(),
    }
    arrays = {"x": state.x} | {f"move{i}": move for i, move in enumerate(state.window)}
    if state.basis is not None:
        arrays["basis"] = state.basis
    if state.units is not None:
        arrays |= {"scale": state.units.scale, "lower": state.units.lower, "upper": state.units.upper}
    if state.stepping is not None:
        arrays |= _stepping_arrays(state.stepping)
    packed = io.BytesIO()
    np.savez(packed, **arrays)  # type: ignore[arg-type]
    text = json.dumps(header, sort_keys=True).encode()
    body = _MAGIC + struct.pack("<Q", len(text)) + text + packed.getvalue()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"round-{state.round:08d}.ckpt"
    replace_file(path, body + hashlib.sha256(body).digest())
    for old in sorted(folder.glob(_PATTERN))[:-_KEEP]:
        old.unlink()
    return path


def read_checkpoint(path: Path) -> tuple[ServerState, RunConfig]:
    """Read a checkpoint back, bit for bit.

    Raises CheckpointError when the file is missing, truncated, altered or no checkpoint.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror})") from error
    body, digest = content[:-32], content[-32:]
    if not content.startswith(_MAGIC):
        raise CheckpointError(f"{path} is not a checkpoint of this program")
    if hashlib.sha256(body).digest() != digest:
        raise CheckpointError(f"{path} is truncated or altered: its checksum does not match")
    start = len(_MAGIC) + 8
    (length,) = struct.unpack("<Q", body[len(_MAGIC) : start])
    header: dict[str, Any] = json.loads(body[start : start + length])
    with np.load(io.BytesIO(body[start + length :]), allow_pickle=False) as arrays:
        state = ServerState(
            round=header["round"],
            x=arrays["x"],
            window=tuple(arrays[f"move{i}"] for i in range(header["window"])),
            basis=arrays["basis"] if header["has_basis"] else None,
            version=header["version"],
            totals=Totals(**header["totals"]),
            units=Units(arrays["scale"], arrays["lower"], arrays["upper"]) if "scale" in arrays else None,
            stepping=_stepping(header.get("stepping"), arrays),
            weighing=WeightState(**header["weighing"]) if header.get("weighing") else None,
        )
    return state, RunConfig.from_mapping(header["config"])


def _stepping_header(state: StepState) -> dict[str, Any]:
    """All but the vectors; JSON keeps every bit of a finite number, and Python's knows Infinity."""
    plain = asdict(replace(state, best_x=None, race=None))
    if state.race is not None:
        plain["race"] = asdict(replace(state.race, start=None, best_x=None))
    return plain


def _stepping_arrays(state: StepState) -> dict[str, Vector]:
    race = state.race
    vectors = {
        "best_x": state.best_x,
        "race_start": None if race is None else race.start,
        "race_best_x": None if race is None else race.best_x,
    }
    return {name: vector for name, vector in vectors.items() if vector is not None}


def _stepping(header: dict[str, Any] | None, arrays: Mapping[str, Vector]) -> StepState | None:
    if header is None:
        return None
    # Versions before remember more of a search and race otherwise: what they measured is kept, their race begins anew.
    header = {name: value for name, value in header.items() if name in _STEPPING}
    race = header.get("race")
    if race is not None and "seen" not in race:
        race = Race(race["began"])
    elif race is not None:
        losses = {name: tuple((r, client, loss) for r, client, loss in race[name]) for name in ("seen", "least")}
        race = Race(**(race | losses | {"start": arrays.get("race_start"), "best_x": arrays.get("race_best_x")}))
    rest = {
        "tried": tuple(Trial(**trial) for trial in header["tried"]),
        "recent": tuple(header["recent"]),
        "rises": tuple(tuple(rises) for rises in header.get("rises", ())),  # versions before had none
        "best_x": arrays.get("best_x"),
        "race": race,
    }
    return StepState(**(header | rest))


def load_newest(folder: Path, config: RunConfig) -> ServerState:
    """Return the state of the newest checkpoint that can be read; a damaged one is warned of and passed over.

    Raises CheckpointError when there is none, when all are damaged, or when the checkpoint belongs to
    a config that would have given other numbers.
    """
    complaints = []
    for path in sorted(folder.glob(_PATTERN), reverse=True):
        try:
            state, written = read_checkpoint(path)
        except CheckpointError as error:
            complaints.append(str(error))
            continue
        _check_config(path, config, written)
        for complaint in complaints:
            warnings.warn(f"{complaint}; continuing from {path.name}", stacklevel=2)
        return state
    if complaints:
        raise CheckpointError("no checkpoint can be continued from: " + "; ".join(complaints))
    raise CheckpointError(f"no checkpoint in {folder}; a run writes its first one before round 0")


def check_dimension(state: ServerState, dimension: int) -> None:
    """Raise CheckpointError when the state is of another number of parameters than the objective's."""
    if state.x.shape[0] != dimension:
        raise CheckpointError(
            f"the checkpoint has n = {state.x.shape[0]} parameters, the objective has {dimension};"
            " resume with the data and the objective that it was made with"
        )


def check_units(state: ServerState, units: Units | None) -> None:
    """Raise CheckpointError when the state is in other units than the objective's scale and bounds make."""
    kept, now = (None if which is None else which.digest for which in (state.units, units))
    if kept != now:
        raise CheckpointError(
            "the objective's scale or bounds are not those that the checkpoint was made with; resume with the objective"
            " that it was made with, or start a new run"
        )


def _check_config(path: Path, config: RunConfig, written: RunConfig) -> None:
    ours, theirs = config.to_mapping(), written.to_mapping()
    changed = [f"{k} = {theirs[k]!r}, now {ours[k]!r}" for k in ours if ours[k] != theirs[k] and k not in FREE_KEYS]
    if changed:
        raise CheckpointError(
            f"the checkpoint {path.name} was made with another config ({'; '.join(changed)}); start a new run for this"
            f" one, or change only {', '.join(sorted(FREE_KEYS))}"
        )


class CheckpointWriter:
    """An observer that writes every ``checkpoint-every`` rounds."""

    def __init__(self, folder: Path, config: RunConfig) -> None:
        self._folder = folder
        self._config = config

    def __call__(self, state: ServerState, record: object) -> None:
        if state.round % self._config.checkpoint_every == 0:
            write_checkpoint(self._folder, state, self._config)

"""ServerState <-> one file. Files are replaced by rename, and the newest few are kept."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from zofedht.common.config.run_config import FREE_KEYS, RunConfig
from zofedht.common.errors import CheckpointError, ConfigError
from zofedht.common.machine.files import replace_file
from zofedht.common.objective.agreement import units_digest
from zofedht.common.objective.units import Units
from zofedht.common.space.space import Space
from zofedht.common.tensors.agreement import Tensors, tensors_mismatch
from zofedht.server.core.state import ServerState
from zofedht.server.records.packing import pack, unpack

__all__ = [
    "CheckpointWriter",
    "check_dimension",
    "check_tensors",
    "check_units",
    "load_newest",
    "read_checkpoint",
    "write_checkpoint",
]

_log = logging.getLogger(__name__)

_MAGIC = b"ZOFEDHT1"  # the number is the version of the format
_KEEP = 3
_PATTERN = "round-*.ckpt"


def write_checkpoint(folder: Path, state: ServerState, config: RunConfig) -> Path:
    """Write the state as ``folder/round-NNNNNNNN.ckpt`` and drop all but the newest few."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"round-{state.round:08d}.ckpt"
    write_state(path, state, config)
    _log.debug("checkpoint %s", path)
    for old in sorted(folder.glob(_PATTERN))[:-_KEEP]:
        old.unlink()
    return path


def write_state(path: Path, state: ServerState, config: RunConfig) -> None:
    """Write the state to a file, which is replaced at once.

    Layout: magic, length of the header, header (JSON), arrays (.npz), sha256 of all before it.
    """
    tree, arrays = pack(state)
    header = {"state": tree, "config": config.to_mapping()}
    packed = io.BytesIO()
    np.savez(packed, **arrays)  # type: ignore[arg-type]
    text = json.dumps(header, sort_keys=True).encode()
    body = _MAGIC + struct.pack("<Q", len(text)) + text + packed.getvalue()
    replace_file(path, body + hashlib.sha256(body).digest())


def read_checkpoint(path: Path) -> tuple[ServerState, RunConfig]:
    """Read a checkpoint back, bit for bit.

    Raises CheckpointError when the file is missing, truncated, altered, no checkpoint, or another version's.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror})") from error
    body, digest = content[:-32], content[-32:]
    if content.startswith(_MAGIC[:-1]) and not content.startswith(_MAGIC):
        raise CheckpointError(
            f"{path} was written by another version of this program: its format is {content[7:8]!r}, this one reads"
            f" {_MAGIC[7:]!r}; go on with that version"
        )
    if not content.startswith(_MAGIC):
        raise CheckpointError(f"{path} is not a checkpoint of this program")
    if hashlib.sha256(body).digest() != digest:
        raise CheckpointError(f"{path} is truncated or altered: its checksum does not match")
    start = len(_MAGIC) + 8
    (length,) = struct.unpack("<Q", body[len(_MAGIC) : start])
    header: dict[str, Any] = json.loads(body[start : start + length])
    with np.load(io.BytesIO(body[start + length :]), allow_pickle=False) as arrays:
        try:
            state = unpack(ServerState, header["state"], dict(arrays))
            return state, RunConfig.from_mapping(header["config"])
        except (KeyError, TypeError, ValueError, ConfigError) as error:
            raise CheckpointError(f"{path} was written by another version of this program ({error})") from error


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
    if state.tensors is None and state.x.shape[0] != dimension:
        raise CheckpointError(
            f"the checkpoint has n = {state.x.shape[0]} parameters, the objective has {dimension};"
            " resume with the data and the objective that it was made with"
        )


def check_units(state: ServerState, units: Units | None, space: Space | None) -> None:
    """Raise CheckpointError when the state is in other units than the objective's scale, bounds and space make."""
    if state.units_digest != units_digest(units, space):
        raise CheckpointError(
            "the objective's scale, bounds or parameters are not those that the checkpoint was made with; resume with"
            " the objective that it was made with, or start a new run"
        )


def check_tensors(state: ServerState, tensors: Tensors | None) -> None:
    """Raise CheckpointError when the state's trail begins with other parameters than the clients' objectives."""
    if (state.tensors is None) != (tensors is None):
        raise CheckpointError("the checkpoint and the clients' objectives must both be in place, or neither of them")
    both = None if state.tensors is None or tensors is None else (tensors, state.tensors)
    if both and (unlike := tensors_mismatch(*both, "the clients' objective", "the checkpoint")):
        raise CheckpointError(unlike)


def _check_config(path: Path, config: RunConfig, written: RunConfig) -> None:
    ours, theirs = config.settled(), written.settled()
    changed = [f"{k} = {theirs[k]!r}, now {ours[k]!r}" for k in ours if ours[k] != theirs[k] and k not in FREE_KEYS]
    if changed:
        raise CheckpointError(
            f"the checkpoint {path.name} was made with another config ({'; '.join(changed)}); start a new run for this"
            f" one, or change only {', '.join(sorted(FREE_KEYS))}"
        )


class CheckpointWriter:
    """An observer that writes every ``checkpoint-every`` rounds, and after each round of a private run.

    A private run that is killed has then counted all that it asked before the round in which it was killed.
    """

    def __init__(self, folder: Path, config: RunConfig) -> None:
        self._folder = folder
        self._config = config

    def __call__(self, state: ServerState, record: object) -> None:
        if self._config.privacy != "none" or state.round % self._config.checkpoint_every == 0:
            write_checkpoint(self._folder, state, self._config)

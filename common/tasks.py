"""Tasks and replies of ``Optimizer`` as values, and as bytes for any transport.

The bytes are JSON: scalars as they are, bytes and the numbers of arrays as base64. Nothing of them is executed, and the
sizes of arrays are checked as on every other wire.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from zofedht.common.errors import EVALUATION_FAILED, MessageError, ObjectiveError
from zofedht.common.objective.units import Units
from zofedht.common.space.kinds import Settings
from zofedht.common.space.space import Space
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.codec import decode, encode
from zofedht.common.wire.messages import Broadcast, Update

__all__ = ["Reply", "Task"]


@dataclass(frozen=True)
class Task:
    """The work of one client in one round: ``work(task, objective)`` does it.

    Attributes
    ----------
    client : str
        Whose work it is.
    points : (points, n) or None
        Where F is to be evaluated, in the user's units, by algorithms that search (cma-es, lbfgs, auto). The values may
        then be told by ``reply``. None for algorithms that take local steps.
    settings : list of dict or None
        The same points as values of named parameters; empty where parameters have no names.
    """

    broadcast: Broadcast
    units: Units | None = None
    named: str = ""  # the text of the space, where parameters have names

    @property
    def client(self) -> str:
        """Whose work it is."""
        return self.broadcast.client

    @property
    def round(self) -> int:
        """The round, from 0."""
        return self.broadcast.round

    @property
    def points(self) -> Matrix | None:
        """Where F is to be evaluated; a point that is wanted twice is there twice."""
        if self.broadcast.points is None:
            return None
        points = np.tile(self.broadcast.points, (self.broadcast.repeats, 1))
        return points if self.units is None else np.asarray(self.units.to_user(points))

    @property
    def space(self) -> Space | None:
        """The named parameters."""
        return Space.of_text(self.named) if self.named else None

    @property
    def settings(self) -> list[Settings] | None:
        """The points as values of named parameters."""
        points, space = self.points, self.space
        return None if points is None else [] if space is None else [space.settings(point) for point in points]

    def reply(self, values: Sequence[float | None] | Vector) -> Reply:
        """Return the reply with F at each of the points; NaN or None where the evaluation failed.

        It is for an F without samples. Raises MessageError where points are not asked for, or values are not as many.
        """
        asked = self.broadcast
        if asked.points is None:
            raise MessageError("this task asks for local steps and not for values; do it by work(task, objective)")
        try:
            told = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise MessageError(
                f"values must be {asked.answers} numbers, one for each point, got {values!r:.60}"
            ) from error
        if told.shape != (asked.answers,):
            raise MessageError(f"values must be {asked.answers} numbers, one for each point, got {len(values)}")
        lost = int(np.sum(~np.isfinite(told)))
        return Reply(
            Update(
                round=asked.round,
                slot=asked.slot,
                client=asked.client,
                values=np.where(np.isfinite(told), told, np.nan),
                examples=1,
                evaluations=asked.evaluations(1),
                loss=float(np.mean(told[np.isfinite(told)])) if lost < len(told) else float("nan"),
                cause=EVALUATION_FAILED[0] if lost else None,
                reason="no value was told" if lost else "",
                skipped=lost,
            )
        )

    def to_bytes(self) -> bytes:
        """Return the task for a transport."""
        units = b"" if self.units is None else self.units.as_bytes
        return _to_bytes(self.broadcast, units=units, named=self.named)

    @classmethod
    def from_bytes(cls, data: bytes) -> Task:
        """Read it back. Raises MessageError where it is none."""
        scalars, arrays, more = _from_bytes(data)
        broadcast = decode(Broadcast, scalars, arrays)
        units = more.get("units") or b""
        if not isinstance(units, bytes) or len(units) not in (0, 24 * broadcast.dimension):
            raise MessageError(f"units must be those of {broadcast.dimension} parameters")
        named = more.get("named", "")
        if not isinstance(named, str):
            raise MessageError(f"named must be a text, got {named!r}")
        task = cls(broadcast, Units(*np.frombuffer(units, dtype="<f8").reshape(3, -1)) if units else None, named)
        try:
            space = task.space
        except ObjectiveError as error:
            raise MessageError(f"named must be the text of named parameters: {error}") from error
        if space is not None and space.dim != broadcast.dimension:
            raise MessageError(f"named must be {broadcast.dimension} coordinates, got {space.dim}")
        return task


@dataclass(frozen=True)
class Reply:
    """The answer to a task."""

    update: Update
    public_reason: str | None = None  # that leaves this process, where the full one may hold rows or paths

    @property
    def client(self) -> str:
        """Whose answer it is."""
        return self.update.client

    def to_bytes(self) -> bytes:
        """Return the reply for a transport."""
        reason = self.update.reason if self.public_reason is None else self.public_reason
        return _to_bytes(replace(self.update, reason=reason), examples=self.update.examples)

    @classmethod
    def from_bytes(cls, data: bytes) -> Reply:
        """Read it back. Raises MessageError where it is none."""
        scalars, arrays, more = _from_bytes(data)
        examples = more.get("examples")
        if isinstance(examples, bool) or not isinstance(examples, int):
            raise MessageError(f"examples must be a whole number, got {examples!r}")
        return cls(decode(Update, scalars, arrays, examples=examples))


def _to_bytes(message: Any, **more: Any) -> bytes:
    sent = encode(message)
    arrays = [[str(array.dtype), _text(np.ascontiguousarray(array).tobytes())] for array in sent.arrays]
    tree = {"scalars": _plain(sent.scalars), "arrays": arrays, "more": _plain(more)}
    return json.dumps(tree).encode()


def _from_bytes(data: bytes) -> tuple[dict[str, Any], list[Vector], dict[str, Any]]:
    try:
        tree = json.loads(data)
        arrays = [np.frombuffer(_bytes(text), dtype=_dtype(kind)) for kind, text in tree["arrays"]]
        return _rich(tree["scalars"]), arrays, _rich(tree["more"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise MessageError(f"this is no task and no reply ({type(error).__name__})") from error


def _dtype(kind: str) -> str:
    if kind not in ("float64", "float32"):
        raise ValueError(kind)
    return kind


def _plain(scalars: dict[str, Any]) -> dict[str, Any]:
    return {key: {"bytes": _text(value)} if isinstance(value, bytes) else value for key, value in scalars.items()}


def _rich(scalars: dict[str, Any]) -> dict[str, Any]:
    return {key: _bytes(value["bytes"]) if isinstance(value, dict) else value for key, value in scalars.items()}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)

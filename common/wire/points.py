"""A site is asked what its parameters are, or for F at points: questions and answers as scalars of Flower's messages.

Points and values go as little-endian float64 bytes. Sizes are checked before anything is allocated, and no pickle is
ever read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zofedht.common.errors import EVALUATION_FAILED, Cause, MessageError
from zofedht.common.objective.names import checked_names
from zofedht.common.objective.parameters import Parameters
from zofedht.common.objective.points import Answer
from zofedht.common.objective.units import Units
from zofedht.common.plain_text import MOST_TEXT, printable
from zofedht.common.space.space import MOST_SPACE_TEXT, Space
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.messages import MOST_POINTS

__all__ = [
    "MOST_POINTS",
    "MOST_REASON",
    "asks_for_parameters",
    "asks_for_points",
    "decode_answers",
    "decode_parameters",
    "decode_points",
    "encode_answers",
    "encode_parameters",
    "encode_points",
    "parameters_question",
]

MOST_REASON = MOST_TEXT
"""Characters of a reason."""

_CAUSES: tuple[Cause, ...] = (*EVALUATION_FAILED, "not-finite")  # the others are for the server to say

_POINTS, _PARAMETERS = "points", "parameters"

Config = dict[str, bool | bytes | float | int | str]


def parameters_question() -> Config:
    """Return what asks a site for its Parameters."""
    return {_PARAMETERS: True}


def asks_for_parameters(config: Mapping[str, Any]) -> bool:
    """Whether a question is one for Parameters."""
    return _PARAMETERS in config


def asks_for_points(config: Mapping[str, Any]) -> bool:
    """Whether a question is one for F at points."""
    return _POINTS in config


def encode_points(points: Matrix) -> Config:
    """Return what asks a site for F at the rows of ``points``, at most MOST_POINTS, in its own units."""
    return {_POINTS: _to_bytes(points)}


def decode_points(config: Mapping[str, Any], dimension: int) -> Matrix:
    """Read the points back, (points, n). Raises MessageError unless they are 1 to MOST_POINTS of n finite numbers."""
    numbers = _vector(config, _POINTS)
    if not numbers.size or numbers.size % dimension or numbers.size > MOST_POINTS * dimension:
        raise MessageError(
            f"points must be 1 to {MOST_POINTS} vectors of n = {dimension} numbers, got {numbers.size} numbers"
        )
    if not np.all(np.isfinite(numbers)):
        raise MessageError("points must hold finite numbers, got NaN or inf")
    return numbers.reshape(-1, dimension)


def encode_answers(answers: Sequence[Answer]) -> Config:
    """Return values, seconds and, where some are lost, a cause and a reason for each."""
    metrics: Config = {
        "values": _to_bytes(np.array([answer.value for answer in answers])),
        "seconds": _to_bytes(np.array([answer.seconds for answer in answers])),
    }
    if any(answer.cause for answer in answers):
        metrics["causes"] = "\n".join(answer.cause or "" for answer in answers)
        metrics["reasons"] = "\n".join(" ".join(answer.reason.split())[:MOST_REASON] for answer in answers)
    return metrics


def decode_answers(metrics: Mapping[str, Any], asked: int) -> list[Answer]:
    """Read the answers to the first of ``asked`` points back.

    Raises MessageError unless there are 1 to ``asked``, each a finite value or a cause.
    """
    values, seconds = _vector(metrics, "values"), _vector(metrics, "seconds")
    count = len(values)
    if not 1 <= count <= asked or len(seconds) != count:
        raise MessageError(f"there must be 1 to {asked} values and as many seconds, got {count} and {len(seconds)}")
    causes = _lines(metrics, "causes", count) if "causes" in metrics else [""] * count
    reasons = _lines(metrics, "reasons", count) if "causes" in metrics else [""] * count
    if unknown := [cause for cause in causes if cause not in ("", *_CAUSES)]:
        raise MessageError(f"a site's cause must be one of {', '.join(_CAUSES)}, got {unknown[0][:60]!r}")
    rows = zip(values, seconds, causes, reasons, strict=True)
    answers = [
        Answer.lost(cause, printable(reason, MOST_REASON), float(took)) if cause else Answer(float(value), float(took))  # type: ignore[arg-type]
        for value, took, cause, reason in rows
    ]
    if wrong := [answer.value for answer in answers if answer.cause is None and not np.isfinite(answer.value)]:
        raise MessageError(f"a value must be a finite number, or have a cause, got {wrong[0]}")
    return answers


def encode_parameters(parameters: Parameters) -> Config:
    """Return start, names and, where they are declared, scale and bounds and the space of named parameters."""
    metrics: Config = {"start": _to_bytes(parameters.start), "names": "\n".join(parameters.names)}
    if parameters.space is not None:
        metrics["space"] = parameters.space.text
    return metrics | ({} if parameters.units is None else {"units": parameters.units.as_bytes})


def decode_parameters(metrics: Mapping[str, Any], dimension: int) -> Parameters:
    """Read Parameters of n = ``dimension`` back.

    Raises MessageError when the sizes are others, ObjectiveError where names, scale or bounds are none.
    """
    start, names = _vector(metrics, "start"), metrics.get("names")
    if start.shape != (dimension,) or not np.all(np.isfinite(start)) or not isinstance(names, str):
        raise MessageError(f"a start must hold {dimension} finite numbers, got {start.size}, and names a text")
    units = None
    if "units" in metrics:
        numbers = _vector(metrics, "units")
        if numbers.size != 3 * dimension:
            raise MessageError(f"scale and bounds must hold {3 * dimension} numbers, got {numbers.size}")
        units = Units(*numbers.reshape(3, dimension))
    told = checked_names(names.split("\n") if names else None, dimension)
    return Parameters(start, told, units, _space(metrics, told))


def _space(metrics: Mapping[str, Any], names: tuple[str, ...]) -> Space | None:
    text = metrics.get("space", "")
    if not isinstance(text, str) or len(text) > MOST_SPACE_TEXT:
        raise MessageError(f"the space of the parameters must be a text of at most {MOST_SPACE_TEXT} characters")
    space = Space.of_text(text) if text else None
    if space is not None and space.labels != names:
        raise MessageError("the space of the parameters must have their names")
    return space


def _to_bytes(array: Matrix | Vector) -> bytes:
    return np.ascontiguousarray(array, dtype="<f8").tobytes()


def _vector(config: Mapping[str, Any], key: str) -> Vector:
    value = config.get(key)
    if not isinstance(value, bytes) or len(value) % 8:
        got = f"{len(value)} bytes" if isinstance(value, bytes) else type(value).__name__
        raise MessageError(f"{key} must be the bytes of float64 numbers, got {got}")
    return np.frombuffer(value, dtype="<f8").astype(np.float64, copy=False)


def _lines(config: Mapping[str, Any], key: str, count: int) -> list[str]:
    value = config.get(key)
    lines = value.split("\n") if isinstance(value, str) else []
    if len(lines) != count:
        raise MessageError(f"{key} must be a text of {count} lines, got {len(lines)}")
    return lines

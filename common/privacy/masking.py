"""Secure aggregation: what both sides must agree on. Slopes become whole numbers, and masks are added modulo 2^64.

The protocol is that of Bonawitz et al. 2017, "Practical secure aggregation for privacy-preserving machine learning",
against a server that keeps to it and listens. Each party is a slot. Its numbers carry a mask of its own, and one with
every other party, which cancels in the sum. Keys and seeds of masks are shared among the parties, so that a threshold
of them can take away the masks of those who have gone.

    keys     each party sends two public keys
    shares   each party sends to every other a share of its mask key and of its seed, sealed
    masked   each party takes its steps and sends its numbers with all masks
    unmask   each party sends, for every other, the share of the seed (it answered) or of the key (it is gone)
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zofedht.common.errors import MessageError
from zofedht.common.typing import Vector

__all__ = [
    "STAGES",
    "Words",
    "expanded",
    "mean_of",
    "pack_parts",
    "read_parts",
    "read_words",
    "resolution",
    "slots_of",
    "to_words",
]

STAGES = ("", "keys", "shares", "masked", "unmask")
"""What a message belongs to; empty without secure aggregation."""

Words = NDArray[np.uint64]
"""Whole numbers modulo 2^64."""

_MOST_SLOTS = 2**31

_STEPS = 2.0**40
"""Steps from 0 to the largest number. A sum of a million such numbers does not reach 2^63."""


def resolution(largest: float) -> float:
    """Return the distance of two numbers that can be told apart: numbers are off by half of it at most."""
    return largest / _STEPS


def to_words(numbers: Vector, largest: float) -> Words:
    """Return finite numbers of at most this size as whole numbers, rounded to the nearest."""
    return np.rint(numbers / resolution(largest)).astype(np.int64).view(np.uint64)


def mean_of(total: Words, count: int, largest: float) -> Vector:
    """Return the mean of so many vectors from the sum of their words."""
    mean: Vector = total.view(np.int64).astype(np.float64) * resolution(largest) / count
    return mean


def expanded(key: bytes, count: int) -> Words:
    """Return the mask of a key of 32 bytes, by SHAKE-256.

    Flower's own generator folds a key to 32 bits, which a server could search.
    """
    return np.frombuffer(hashlib.shake_256(key).digest(8 * count), dtype="<u8").astype(np.uint64)


def read_words(payload: bytes, count: int) -> Words:
    """Return the masked numbers of a party. Raises MessageError for another number of bytes."""
    if len(payload) != 8 * count:
        raise MessageError(f"masked numbers must have {8 * count} bytes, got {len(payload)}")
    return np.frombuffer(payload, dtype="<u8").astype(np.uint64)


def slots_of(numbers: Vector) -> list[int]:
    """Return the slots that a client names. Raises MessageError unless these are whole numbers that rise from 0."""
    whole = np.array_equal(numbers, np.floor(numbers)) and bool(np.all(numbers[1:] > numbers[:-1]))
    if not whole or not numbers.size or numbers[0] < 0.0 or numbers[-1] >= _MOST_SLOTS:
        raise MessageError(f"slots must come as whole numbers that rise from 0, got {numbers[:5].tolist()}")
    return [int(number) for number in numbers]


def pack_parts(**parts: Any) -> bytes:
    """Return parts as JSON: texts, numbers, lists, and bytes by slot."""
    return json.dumps(parts, default=_text, sort_keys=True, separators=(",", ":")).encode()


def read_parts(payload: bytes, **kinds: type) -> dict[str, Any]:
    """Return the parts that ``pack_parts`` made, of these kinds: bytes by slot (dict), slots (list), int or str.

    Raises MessageError for anything else.
    """
    try:
        found = json.loads(payload)
        return {name: _read(found[name], kind) for name, kind in kinds.items()}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise MessageError(f"a message of secure aggregation cannot be read ({type(error).__name__})") from error


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _read(value: Any, kind: type) -> Any:
    if kind is dict and isinstance(value, Mapping):
        return {_slot(int(slot)): base64.b64decode(text, validate=True) for slot, text in value.items()}
    if kind is list and isinstance(value, list):
        return [_slot(slot) for slot in value]
    if kind in (int, str) and type(value) is kind:
        return value
    raise TypeError


def _slot(value: Any) -> int:
    if type(value) is not int or not 0 <= value < _MOST_SLOTS:
        raise ValueError
    return value

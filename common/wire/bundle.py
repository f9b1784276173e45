"""Several messages of one kind as one, such as all slots of a node: what they share is sent once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zofedht.common.errors import MessageError
from zofedht.common.wire.codec import Config, Encoded, decode, encode
from zofedht.common.wire.messages import Update

__all__ = ["bundled", "decode_updates", "encode_updates", "unbundled"]

_COUNT = ":messages"
_ARRAY = ":array"  # the place of a message's array, or -1
_EXAMPLES = ":examples"
_MOST = 1_000
_OF_ONE = ":"  # "3:slot" is the key "slot" of message 3; ":messages" is of all


def bundled(messages: Sequence[Encoded]) -> Encoded:
    """Return one message that holds all of these; a single message stays as it is.

    Examples
    --------
    >>> bundled([Encoded([], {"round": 7, "slot": 0}), Encoded([], {"round": 7, "slot": 1})]).scalars
    {':messages': 2, 'round': 7, ':array': -1, '0:slot': 0, '1:slot': 1}
    """
    if len(messages) == 1:
        return messages[0]
    arrays: list[Any] = []
    parts: list[Config] = []
    for message in messages:
        place = -1
        for array in message.arrays:  # at most one
            known = [index for index, other in enumerate(arrays) if other is array]
            place = known[0] if known else len(arrays)
            arrays += [] if known else [array]
        parts.append(message.scalars | {_ARRAY: place})
    first = parts[0]
    shared = {
        key: value
        for key, value in first.items()
        if (_OF_ONE not in key or key.startswith(_OF_ONE)) and all(_same(part.get(key), value) for part in parts)
    }
    own = {
        f"{index}{_OF_ONE}{key}": value
        for index, part in enumerate(parts)
        for key, value in part.items()
        if key not in shared
    }
    return Encoded(arrays, {_COUNT: len(parts), **shared, **own})


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are one; two floats that are equal may differ in their sign."""
    return one is other or (type(one) is type(other) is not float and one == other)


def unbundled(scalars: Mapping[str, Any], arrays: Sequence[Any]) -> list[Encoded]:
    """Return the messages of ``bundled``.

    Raises MessageError for a count, or for the place of an array, that is none.
    """
    if _COUNT not in scalars:
        return [Encoded(list(arrays), dict(scalars))]
    count = scalars[_COUNT]
    if type(count) is not int or not 1 <= count <= _MOST:
        raise MessageError(f"{_COUNT} must be a whole number from 1 to {_MOST}, got {count!r:.80}")
    shared: Config = {}
    own: list[Config] = [{} for _ in range(count)]
    for key, value in scalars.items():
        place, colon, name = key.partition(_OF_ONE)
        if not colon or not place:
            shared[key] = value
        elif place.isdecimal() and int(place) < count:
            own[int(place)][name] = value
        else:
            raise MessageError(f"the key {key[:80]!r} is of none of the {count} messages")
    del shared[_COUNT]
    return [_part(shared | scalars_of_one, arrays) for scalars_of_one in own]


def _part(scalars: Config, arrays: Sequence[Any]) -> Encoded:
    place = scalars.pop(_ARRAY, None)
    if type(place) is not int or not -1 <= place < len(arrays):
        raise MessageError(f"{_ARRAY} must be the place of one of {len(arrays)} arrays or -1, got {place!r:.80}")
    return Encoded([] if place < 0 else [arrays[place]], scalars)


def encode_updates(updates: Sequence[Update]) -> Encoded:
    """Return the answers of a node as one message; Flower's own number of examples says those of a single one."""
    if len(updates) == 1:
        return encode(updates[0])
    parts = [encode(update) for update in updates]
    for part, update in zip(parts, updates, strict=True):
        part.scalars[_EXAMPLES] = update.examples
    return bundled(parts)


def decode_updates(scalars: Mapping[str, Any], arrays: Sequence[Any], examples: int, slots: int = 1) -> list[Update]:
    """Return the answers of ``encode_updates``; ``examples`` are those of the message.

    Raises MessageError unless there is one for each of so many slots.
    """
    if slots == 1:
        return [decode(Update, scalars, arrays, examples=examples)]
    parts = unbundled(scalars, arrays)
    if len(parts) != slots:
        raise MessageError(f"the message must hold answers for {slots} slots, got {len(parts)}")
    return [decode(Update, part.scalars, part.arrays, examples=_examples(part.scalars)) for part in parts]


def _examples(scalars: Config) -> int:
    examples = scalars.get(_EXAMPLES)
    if type(examples) is not int or examples < 0:
        raise MessageError(f"{_EXAMPLES} must be a whole number of at least 0, got {examples!r:.80}")
    return examples

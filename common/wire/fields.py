"""What the fields of a message say of themselves: their keys, their rules, and how their arrays are laid out."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from typing import Any, Literal, TypeVar

from zofedht.common.rules import Rule

__all__ = ["Field", "Layout", "Shape", "changed", "constants_of", "fields_of", "made", "wired"]

Layout = Literal["scalar", "array", "packed", "nested", "apart"]
"""array: in the list of arrays. packed: the bytes of numbers. nested: its own fields. apart: carried by other means."""

Shape = Callable[[Mapping[str, Any]], tuple[int, ...]]
"""From the values of the other fields to the shape of a packed array; -1 stands for any length of the first axis."""


def wired(
    rule: Rule | None = None,
    *,
    key: str = "",
    layout: Layout = "scalar",
    shape: Shape | None = None,
    dtype: str = "float64",
    sent: bool = False,
    **default: Any,
) -> Any:
    """Return a dataclass field of a message.

    Parameters
    ----------
    rule : callable, optional
        What a value must keep.
    key : str, optional
        The key on the wire; unless given, the name of the field with dashes.
    layout : str, optional
        Where the value goes.
    shape : callable, optional
        The shape of an array that goes as bytes; it makes the layout "packed".
    dtype : str, optional
        The type in which the numbers of an array go; "": that of the message.
    sent : bool, optional
        Whether a value that equals the default is sent, too, and must be there.
    **default
        ``default`` or ``default_factory``, as for ``dataclasses.field``.
    """
    about = {"rule": rule, "key": key, "layout": "packed" if shape else layout, "shape": shape}
    return dataclasses.field(metadata=about | {"dtype": dtype, "sent": sent}, **default)


@dataclass(frozen=True)
class Field:
    """A field of a message as the codec needs it."""

    name: str
    key: str
    kind: type  # of a value, or of the items
    many: bool  # whether there are several
    layout: Layout
    rule: Rule | None
    shape: Shape | None
    dtype: str
    required: bool  # whether a message must have it
    default: Callable[[], Any]
    constant: Any  # the default, where all messages may share it; else MISSING


_PLAIN = dict(wired().metadata)

_Message = TypeVar("_Message")


def changed(message: _Message, **changes: Any) -> _Message:
    """Return a message with some fields changed, as ``dataclasses.replace`` does for a twentieth of the time.

    A round makes thousands of messages. It is for plain frozen dataclasses, whose values are looked at nowhere when
    they are made.
    """
    return made(type(message), message.__dict__ | changes)


def made(kind: type[_Message], values: Mapping[str, Any]) -> _Message:
    """Return a message with these values, one for each field: ``changed`` says for which dataclasses."""
    message = object.__new__(kind)
    message.__dict__.update(values)
    return message


@functools.cache
def constants_of(message: Any) -> Mapping[str, Any]:
    """Return the defaults that all messages of a dataclass may share, by name."""
    return {field.name: field.constant for field in fields_of(message) if field.constant is not MISSING}


@functools.cache
def fields_of(message: Any) -> tuple[Field, ...]:
    """Return the fields of a dataclass, each after those that its type and shape depend on."""
    hints = typing.get_type_hints(message)
    found = [_field(field, hints[field.name]) for field in dataclasses.fields(message)]
    return tuple(sorted(found, key=lambda field: {"array": 1, "packed": 2}.get(field.layout, 0)))


def _field(field: dataclasses.Field[Any], hint: Any) -> Field:
    kind, many = _kind(hint)
    about: dict[str, Any] = _PLAIN | dict(field.metadata)
    if about["layout"] == "scalar" and dataclasses.is_dataclass(kind):
        about["layout"] = "nested"
    has_default = field.default is not MISSING or field.default_factory is not MISSING
    return Field(
        name=field.name,
        key=about["key"] or field.name.replace("_", "-"),
        kind=kind,
        many=many,
        layout=about["layout"],
        rule=about["rule"],
        shape=about["shape"],
        dtype=about["dtype"],
        required=about["sent"] or not has_default,
        default=(lambda: field.default) if field.default_factory is MISSING else field.default_factory,
        constant=field.default,
    )


def _kind(hint: Any) -> tuple[type, bool]:
    """Return the type of the values of an annotation, or of their items, and whether there are several."""
    parts, origin = typing.get_args(hint), typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):  # X | None
        return _kind(next(part for part in parts if part is not types.NoneType))
    if origin is tuple:
        return parts[0], True
    return (str if origin is Literal else hint), False

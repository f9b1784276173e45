"""A frozen dataclass as JSON and arrays, and back bit for bit: its annotations say what is where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from zofedht.common.typing import Matrix, Vector

__all__ = ["pack", "unpack"]

T = TypeVar("T")


def pack(value: Any) -> tuple[Any, dict[str, Vector | Matrix]]:
    """Return a tree for JSON, and the arrays by their path in it; the tree has None in their places.

    Dataclasses become mappings, tuples lists. JSON keeps every bit of a finite number, and Python's knows Infinity
    and NaN.
    """
    arrays: dict[str, Vector | Matrix] = {}
    return _packed(value, "", arrays), arrays


def _packed(value: Any, path: str, arrays: dict[str, Vector | Matrix]) -> Any:
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return None
    if is_dataclass(value):
        names = [field.name for field in fields(value)]
        return {name: _packed(getattr(value, name), _below(path, name), arrays) for name in names}
    if isinstance(value, tuple):
        return [_packed(part, _below(path, index), arrays) for index, part in enumerate(value)]
    return value


def unpack(kind: type[T], tree: Any, arrays: Mapping[str, Any]) -> T:
    """Return the value of type ``kind`` that was packed. Raises KeyError, TypeError or ValueError for another type."""
    return cast(T, _unpacked(kind, tree, "", arrays))


def _unpacked(kind: Any, tree: Any, path: str, arrays: Mapping[str, Any]) -> Any:
    if path in arrays:
        return arrays[path]
    if tree is None:
        return None
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        names = [field.name for field in fields(kind)]
        parts = {name: _unpacked(hints[name], tree[name], _below(path, name), arrays) for name in names}
        return cast(Any, kind)(**parts)
    if get_origin(kind) is tuple:
        kinds = get_args(kind)
        each = kinds[:1] * len(tree) if kinds[1:] == (...,) else kinds
        pairs = enumerate(zip(each, tree, strict=True))
        return tuple(_unpacked(one, part, _below(path, index), arrays) for index, (one, part) in pairs)
    return tree


def _below(path: str, name: str | int) -> str:
    return f"{path}.{name}" if path else str(name)

"""What was packed comes back: every bit of a number, and None where there was nothing."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest

from zofedht.common.typing import Vector
from zofedht.server.records.packing import pack, unpack


@dataclass(frozen=True)
class Leaf:
    name: str
    at: Vector | None = None
    pairs: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Tree:
    first: Leaf
    second: Leaf | None = None
    many: tuple[Leaf, ...] = ()
    number: float = 0.0
    moves: tuple[Vector, ...] = ()


def again(tree: Tree) -> Tree:
    packed, arrays = pack(tree)
    return unpack(Tree, json.loads(json.dumps(packed)), arrays)


def test_nested_dataclasses_and_tuples_come_back():
    tree = Tree(Leaf("a", None, ((1, "x"), (2, "y"))), None, (Leaf("b"), Leaf("c")), 1 / 3)
    assert again(tree) == tree
    assert again(Tree(Leaf("a"), Leaf("b"))).second == Leaf("b")


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, -0.0, 5e-324, 1e308, 0.1])
def test_every_bit_of_a_number_comes_back(number: float):
    assert repr(again(Tree(Leaf("a"), number=number)).number) == repr(number)


def test_arrays_come_back_from_their_places():
    x, y = np.array([np.pi, -0.0]), np.array([5e-324])
    tree = again(Tree(Leaf("a", x), many=(Leaf("b"), Leaf("c", y)), moves=(y, x)))
    assert tree.first.at is x
    assert tree.many[0].at is None
    assert tree.many[1].at is y
    assert [move is wanted for move, wanted in zip(tree.moves, (y, x), strict=True)] == [True, True]


def test_a_tree_of_another_type_is_refused():
    packed, arrays = pack(Leaf("a"))
    with pytest.raises(KeyError, match="first"):
        unpack(Tree, packed, arrays)

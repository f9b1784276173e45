"""Shrinking in place: along directions that all clients name alike, as a run on a vector shrinks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.common.tensors.test_guide import Fed, whole
from tests.place import Rows
from zofedht import ConfigError, DataError, ObjectiveError, load_run, run
from zofedht.common.directions.law import DirectionLaw
from zofedht.common.random.source import Source
from zofedht.common.random.streams import Address
from zofedht.common.tensors.blocks import Block
from zofedht.common.tensors.directions import PIECE, Direction
from zofedht.common.tensors.guide import plain
from zofedht.common.tensors.stiff import Shrunk, checked_stiff

KEYS: dict[str, Any] = {
    "algorithm": "zofed-shrink", "rounds": 8, "local_steps": 3, "slopes_per_step": 2, "batch_size": 0,
    "step_size": 0.02, "radius": 1e-3, "seed": 5, "step_schedule": "constant", "slope": "central",
    "clients_per_round": 2, "sampling": "without-replacement", "warm_up": 3, "shrink": 0.1, "probe": "gaussian",
}  # fmt: skip
STIFF = [{"weight": np.outer(np.arange(7.0), [1.0, 2.0, 0.0]), "bias": np.ones(3)}, {"bias": np.array([3, 0, -1])}]
SIZES = (21, 3)


def sites(stiff: Any = STIFF, kind: str = "float64") -> list[Rows]:
    made = [Rows(site, kind) for site in range(2)]
    for one in made:
        one.stiff = stiff
    return made


def basis() -> Any:
    first = np.concatenate([STIFF[0]["weight"].reshape(-1), STIFF[0]["bias"]])
    second = np.concatenate([np.zeros(21), STIFF[1]["bias"]])
    return np.linalg.qr(np.stack([first, second], axis=1))[0]


def test_a_run_takes_the_steps_of_a_run_on_a_vector():
    """The same walk, written out for one vector with the law of runs on vectors; it shrinks after the warm-up."""
    clients, alone = sites(), [Rows(site, "float64") for site in range(2)]
    run(clients, **KEYS)
    x = alone[0].vector()

    def value(site: int, w: Any) -> float:
        alone[site].put(0, w[:21].reshape(7, 3))
        alone[site].put(1, w[21:])
        return alone[site].value(slice(None))

    for round_ in range(8):
        address, moves = Address(5, round_, 0), []
        step = 0.02 * min(1.0, (round_ + 1) / 3) ** 2
        drawn = np.stack([whole(Direction(address, k, "gaussian"), SIZES) for k in range(6)])
        if round_ >= 3:
            law = DirectionLaw(24, basis(), shrink=0.1)
            drawn = law.block(Fed(drawn), Source(address.stream("subspace"), "numpy"), 6)
        for site in range(2):
            w = x.copy()
            for pair in drawn.reshape(3, 2, 24):
                slopes = [(value(site, w + 1e-3 * v) - value(site, w - 1e-3 * v)) / 2e-3 for v in pair]
                w -= step * sum(slope * v for slope, v in zip(slopes, pair, strict=True))
            moves.append(w - x)
        x = x + np.mean(moves, axis=0)
    np.testing.assert_allclose(clients[0].vector(), x, rtol=1e-5, atol=1e-6)


def test_only_named_blocks_are_summed_and_all_pieces_of_them():
    blocks = (Block("first", (50,)), Block("large", (PIECE + 31,)), Block("last", (9,)))
    rng = np.random.default_rng(0)
    d = rng.standard_normal(PIECE + 31)
    shrunk = Shrunk(checked_stiff([{"large": d}], blocks), 0.25, 0, blocks)
    u = Direction(Address(1, 2, 0), 0, "rademacher")
    (v,) = shrunk.bend([u], 0, np.empty(0), lambda earlier: ([], []))
    directions, coefficients = plain([v], [1.0])
    assert directions[0] is u
    assert coefficients[0] == 1.0
    assert [len(list(directions[1].pieces(b, block.size))) for b, block in enumerate(blocks)] == [0, 2, 0]
    inner = d @ whole(u, (50, PIECE + 31))[50:]
    bent = coefficients[1] * np.concatenate([part for _, part in directions[1].pieces(1, PIECE + 31)])
    np.testing.assert_allclose(bent, -0.75 * inner / (d @ d) * d, rtol=1e-5, atol=1e-9)


def test_a_run_is_rebuilt_with_the_same_directions_alone(tmp_path: Path):
    clients = sites(kind="float32")
    run(clients, **KEYS, out=tmp_path / "run")
    alone, other = sites(kind="float32")
    load_run(tmp_path / "run").rebuild(alone)
    assert alone.state_digest() == clients[0].state_digest() == clients[1].state_digest()
    other.stiff = STIFF[:1]
    with pytest.raises(DataError, match="must name the stiff directions of the clients of"):
        load_run(tmp_path / "run").rebuild(other)


def test_a_factor_of_one_changes_no_bit():
    shrunk, plain_run = sites([]), sites([])
    run(shrunk, **(KEYS | {"shrink": 1.0}))
    run(plain_run, **({**KEYS, "algorithm": "zofedavg-sgd"}))
    assert shrunk[0].state_digest() == plain_run[0].state_digest()
    bent = sites()
    run(bent, **KEYS)
    assert bent[0].state_digest() != shrunk[0].state_digest()


def test_who_names_others_is_refused():
    clients = sites()
    clients[1].stiff = STIFF[:1]
    with pytest.raises(ObjectiveError, match="client 1 names other stiff directions than client 0"):
        run(clients, **KEYS)


@pytest.mark.parametrize(
    ("stiff", "sentence"),
    [
        ([], "zofed-shrink in place needs an objective whose stiff names directions"),
        ([{"head": np.ones(3)}], "stiff must name blocks of the objective, got 'head'"),
        ([{"bias": np.ones(4)}], r"finite numbers of shape \(3,\) for block bias, got an array of float64"),
        ([{"bias": np.array([1.0, np.nan, 0.0])}], "finite numbers of shape"),
        ([{"bias": np.zeros(3)}], "not 0 everywhere"),
        ([{}], "not 0 everywhere"),
        ({"bias": np.ones(3)}, "at most 100 dicts from names of blocks to their numbers, got dict"),
    ],
)  # fmt: skip
def test_bad_directions_are_told(stiff: Any, sentence: str):
    with pytest.raises(ObjectiveError, match=sentence):
        run(sites(stiff), **KEYS)


def test_the_round_from_which_directions_shrink_must_be_given():
    keys = {name: value for name, value in KEYS.items() if name != "warm_up"}
    with pytest.raises(ConfigError, match="warm-up must be a number of rounds with zofed-shrink where in"):
        run(sites(), **keys)

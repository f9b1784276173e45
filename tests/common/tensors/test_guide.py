"""Guides in place: they follow the last moves as a run on a vector does, and take the memory that is told."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.place import Rows
from zofedht import ObjectiveError, run
from zofedht.common.config.run_config import RunConfig
from zofedht.common.directions.law import DirectionLaw, subspace_gain
from zofedht.common.directions.trajectory import basis_of
from zofedht.common.machine import memory
from zofedht.common.random.source import Source
from zofedht.common.random.streams import Address
from zofedht.common.tensors.blocks import Block
from zofedht.common.tensors.directions import PIECE, Direction
from zofedht.common.tensors.guide import Guided, dot, plain, polar_coefficients, product
from zofedht.common.tensors.trail import TrailLaw

KEYS: dict[str, Any] = {
    "algorithm": "zofedht", "rounds": 12, "local_steps": 3, "batch_size": 0, "step_size": 0.02, "radius": 1e-3,
    "seed": 5, "step_schedule": "constant", "slope": "central", "clients_per_round": 2, "memory": 3,
    "sampling": "without-replacement",
}  # fmt: skip


def law_of(**keys: Any) -> TrailLaw:
    said = {name.replace("_", "-"): value for name, value in (KEYS | keys).items()}
    return TrailLaw.of_config(RunConfig.from_mapping(said | {"in-place": True, "num-clients": 2}))


def whole(direction: Direction, sizes: tuple[int, ...]) -> Any:
    return np.concatenate([part for b, n in enumerate(sizes) for _, part in direction.pieces(b, n)]).astype(float)


class Fed(Source):
    """Gives numbers that were drawn before."""

    def __init__(self, numbers: Any) -> None:
        self.numbers = numbers

    def normals(self, rows: int, columns: int) -> Any:
        return self.numbers.copy()

    signs = normals


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"probe": "rademacher", "refresh": 2},
        {"refresh": 1, "memory": 4, "covariance": "paper"},
        {"algorithm": "guided-es"},
        {"refresh": 5, "memory": 2, "subspace_weight": 0.9},
        {"directions": "per-slot"},
    ],
)
def test_a_run_takes_the_steps_of_a_run_on_a_vector(keys: dict[str, Any]):
    """The same walk, written out for one vector with the law and the basis of runs on vectors."""
    given = KEYS | keys
    alike = "directions" in keys  # which client has which slot is drawn
    clients = [Rows(0 if alike else site, "float64") for site in range(2)]
    result = run(clients, **given)
    law, sizes = law_of(**keys), (21, 3)
    sites = [Rows(0 if alike else site, "float64") for site in range(2)]
    x, trajectory, basis = sites[0].vector(), list[Any](), None

    def value(site: int, w: Any) -> float:
        sites[site].put(0, w[:21].reshape(7, 3))
        sites[site].put(1, w[21:])
        return sites[site].value(slice(None))

    guides = 0
    for round_ in range(12):
        if round_ and round_ % law.refresh == 0:
            basis = basis_of(trajectory[-law.memory :])
            guides += 1
        moves = []
        for site in range(2):
            address, w = Address(5, round_, site if law.slots > 1 else 0), x.copy()
            drawn = np.stack([whole(Direction(address, k, law.probe), sizes) for k in range(law.slopes)])
            if basis is not None:
                gain = subspace_gain(law.covariance, 24, basis.shape[1])
                bent = DirectionLaw(24, basis, law.weight, gain, law.probe)
                drawn = bent.block(Fed(drawn), Source(address.stream("subspace"), "numpy"), law.slopes)
            for v in drawn:
                slope = (value(site, w + 1e-3 * v) - value(site, w - 1e-3 * v)) / 2e-3
                w -= 0.02 * slope * v
            moves.append(w - x)
        x = x + np.mean(moves, axis=0)
        trajectory.append(np.mean(moves, axis=0))
    assert guides > 1
    # Moves are float32 in the guide, and slopes carry the rounding of F, about 10, over the radius.
    np.testing.assert_allclose(clients[0].vector(), x, rtol=1e-4, atol=1e-5)
    assert not np.allclose(clients[0].vector(), sites[0].vector() * 0 + run_without(alike), rtol=1e-2)
    assert result.x.shape == (12 * law.lengths,)


def run_without(alike: bool) -> Any:
    clients = [Rows(0 if alike else site, "float64") for site in range(2)]
    run(clients, **(KEYS | {"algorithm": "zofedavg-sgd"}))
    return clients[0].vector()


def test_a_product_is_summed_in_one_order():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 64 * 50 + 7)).astype(np.float32)
    lanes = [0.0] * 64
    for place in range(64 * 50):
        lanes[place % 64] += float(a[place]) * float(b[place])
    rest = [float(x) * float(y) for x, y in zip(a[-7:], b[-7:], strict=True)]
    assert dot(a, b) == float(sum(map(Fraction, [*lanes, *rest])))


@pytest.mark.parametrize("spread", [1.0, 1e-2, 1e-4])
def test_coefficients_make_the_basis_of_a_run_on_a_vector(spread: float):
    rng = np.random.default_rng(1)
    common = rng.standard_normal(40)
    moves = [10.0**-i * (common + spread * rng.standard_normal(40)) for i in range(6)]
    moves[3] = np.zeros(40)
    rows = np.stack([move / (np.max(np.abs(move)) or 1.0) for move in moves])
    sizes = np.array([np.max(np.abs(move)) for move in moves])
    found = polar_coefficients(product(rows, rows.T), sizes)
    assert found.shape == (6, 5)
    np.testing.assert_allclose(rows.T @ found, basis_of(moves), atol=1e-11 / spread**2)


def test_moves_that_depend_on_others_are_dropped():
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((4, 30)).astype(np.float32).astype(float)
    rows[2] = (rows[0] - 3.0 * rows[1]).astype(np.float32)
    rows[3] *= 1e-14
    found = polar_coefficients(product(rows, rows.T), np.ones(4))
    assert found.shape == (4, 2)
    assert not polar_coefficients(np.zeros((3, 3)), np.zeros(3)).size


def test_a_guided_direction_is_its_parts_together():
    law, blocks = TrailLaw(3, "gaussian", 4, "trajectory", weight=0.3, memory=2, refresh=2), (
        Block("large", (PIECE + 999,)),
        Block("small", (70,)),
    )  # fmt: skip
    trail, kept = np.random.default_rng(0).standard_normal(16), law.guide(blocks, ())
    directions = law.directions(3, 0, blocks, trail, kept)
    assert kept is not None
    moves = []
    for round_ in range(2):
        plain_law = TrailLaw(3, "gaussian", 4)
        vs = [whole(v, (PIECE + 999, 70)) for v in plain_law.directions(round_, 0, blocks, trail)]
        moves.append(-sum(float(length) * v for length, v in zip(trail[4 * round_ :], vs, strict=False)))
    basis = basis_of(moves)
    inside = Source(Address(3, 3, 0).stream("subspace"), "numpy").normals(4, 2)
    n = PIECE + 999 + 70
    for number, v in enumerate(directions):
        assert isinstance(v, Guided)
        found = sum(c * whole(one, (PIECE + 999, 70)) for one, c in zip(*plain([v], [1.0]), strict=True))
        u = whole(Direction(Address(3, 3, 0), number, "gaussian"), (PIECE + 999, 70))
        wanted = np.sqrt(0.7) * u + np.sqrt(0.3 * n / 2) * basis @ inside[number]
        np.testing.assert_allclose(found, wanted, atol=1e-5 * np.abs(wanted).max())


def test_columns_are_summed_once_for_all_directions():
    column = Direction(Address(0, 0, 0), 0, "")
    first, second = (Guided(Direction(Address(1, 0, 0), i, "gaussian"), 0.5, (column,), (2.0 + i,)) for i in range(2))
    directions, coefficients = plain([first, second, first.u], [1.0, -1.0, 4.0])
    assert directions == [first.u, second.u, first.u, column]
    assert coefficients == [0.5, -0.5, 4.0, -1.0]


def test_too_little_memory_for_the_guide_is_told_before_the_start(monkeypatch: pytest.MonkeyPatch):
    size = 3 * 4 * 24
    monkeypatch.setattr(memory, "_SMALL", 0)
    for free, fits in ((2 * size, True), (2 * size - 1, False)):
        clients = [Rows(0), Rows(1)]
        monkeypatch.setattr(memory, "free_bytes", lambda: free)  # noqa: B023  it is asked within this turn
        if fits:
            run(clients, **KEYS)
            continue
        text = "the guide of memory = 3 moves of n = 24 parameters in float32, for each of 2 models, take at least .*MB"
        with pytest.raises(ObjectiveError, match=text):
            run(clients, **KEYS)
        assert clients[0].calls == 0

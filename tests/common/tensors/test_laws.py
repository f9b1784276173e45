"""Laws in place: low rank, subsets and pools give the numbers of the laws for vectors."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.place import Rows
from zofedht import run
from zofedht.common.config.run_config import RunConfig
from zofedht.common.directions.blocks import low_rank
from zofedht.common.directions.pool import drawn_candidates
from zofedht.common.random.streams import Address
from zofedht.common.tensors.blocks import Block
from zofedht.common.tensors.directions import PIECE, Direction, add_all
from zofedht.common.tensors.laws import farthest
from zofedht.common.tensors.trail import TrailLaw

BLOCKS = (
    Block("large", (600, 500)),
    Block("bias", (600,)),
    Block("small", (9, 7, 2), "float64"),
    Block("head", (2, 9)),
)
NOTHING = np.empty(0)


def whole(direction: Direction, block: int) -> Any:
    return np.concatenate([part for _, part in direction.pieces(block, BLOCKS[block].size)]).astype(float)


def directions(law: str, round_: int, probe: str = "gaussian", **more: Any) -> list[Direction]:
    return TrailLaw(3, probe, 4, law, side_rounds=5, **more).directions(round_, 0, BLOCKS, NOTHING)


@pytest.mark.parametrize("law", ["lowrank", "subspace-core"])
@pytest.mark.parametrize("probe", ["gaussian", "rademacher"])
def test_matrices_have_low_rank_and_all_else_does_not(law: str, probe: str):
    assert BLOCKS[0].size > PIECE
    for v in directions(law, 7, probe):
        for block, shape in ((0, (600, 500)), (2, (9, 14))):
            sizes = np.linalg.svd(whole(v, block).reshape(shape), compute_uv=False)
            assert probe == "rademacher" or sizes[1] > 1e-3 * sizes[0]
            assert sizes[2] < 1e-5 * sizes[0]
        for block in (1, 3):  # a vector, and a matrix that is as thin as the rank
            plain = Direction(v.address, v.number, probe)
            assert np.array_equal(whole(v, block), whole(plain, block))


@pytest.mark.parametrize("probe", ["gaussian", "rademacher"])
def test_low_rank_is_that_of_the_law_for_vectors(probe: str):
    """It makes the same of the same isotropic numbers, in float64."""
    for v in directions("lowrank", 7, probe):
        plain = Direction(v.address, v.number, probe)
        vector = low_rank(whole(plain, 0)[None, :], "600x500", 2, "lowrank", Address(3, 7, 0), 5)
        np.testing.assert_allclose(whole(v, 0), vector[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("law", ["lowrank", "subspace-core"])
def test_sides_stay_for_some_rounds(law: str):
    matrices = [
        whole(directions(law, round_)[number], 2).reshape(9, 14) for round_, number in ((5, 0), (9, 1), (10, 0))
    ]
    ranks = [np.linalg.matrix_rank(np.vstack(pair), tol=1e-4) for pair in pairwise(matrices)]
    assert ranks == [2, 4]
    rows = [np.linalg.matrix_rank(np.hstack(pair), tol=1e-4) for pair in pairwise(matrices)]
    assert rows == ([2, 4] if law == "subspace-core" else [4, 4])


@pytest.mark.parametrize("law", ["lowrank", "subspace-core"])
def test_the_second_moment_is_the_unit_matrix(law: str):
    blocks, count = (Block("w", (4, 3)),), 4000
    rows = []
    for round_ in range(count):
        (v,) = TrailLaw(0, "gaussian", 1, law, side_rounds=1).directions(round_, 0, blocks, NOTHING)
        rows.append(next(v.pieces(0, 12))[1])
    found = np.stack(rows).T.astype(float) @ np.stack(rows) / count
    # A product of two normals has a fourth moment of 9, so that of v is at most some 20.
    assert np.abs(found - np.eye(12)).max() < 5.0 * np.sqrt(20.0 / count)


@pytest.mark.parametrize("law", ["lowrank", "subspace-core"])
@pytest.mark.parametrize("kind", ["float64", "float32", "float16"])
def test_arrays_get_the_product_rounded_to_their_type(law: str, kind: str):
    v = directions(law, 2)[1]
    array = np.random.default_rng(0).standard_normal((600, 500)).astype(kind)
    wanted = array.reshape(-1) + whole(v, 0).astype(kind) * np.dtype(kind).type(0.3)
    add_all(array, 0, [v], [0.3])
    assert np.array_equal(array.reshape(-1), wanted)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999, 1.0])
def test_the_farthest_are_those_of_a_stable_order(share: float):
    rng = np.random.default_rng(1)
    blocks = (Block("a", (50,)), Block("b", (7, 9)), Block("c", (301,)))
    moved = [rng.standard_normal(block.size).astype(np.float32).round(1) for block in blocks]  # with many equal ones
    found = farthest(moved.__getitem__, blocks, share)
    bits = np.concatenate([np.unpackbits(one, count=b.size) for one, b in zip(found.bits, blocks, strict=True)])
    wanted = np.zeros(414, np.uint8)
    wanted[np.argsort(-np.abs(np.concatenate(moved)), kind="stable")[: max(1, round(share * 414))]] = 1
    assert np.array_equal(bits, wanted)


def test_a_pool_has_the_same_candidates_in_all_rounds_and_slots():
    law = TrailLaw(3, "gaussian", 40, "pool", slots=2, pool_size=6)
    for round_, slot in ((0, 0), (4, 1)):
        drawn = drawn_candidates(6, None, 40, Address(3, round_, slot))
        for v, candidate in zip(law.directions(round_, slot, BLOCKS, NOTHING), drawn, strict=True):
            assert v == Direction(Address(3, 0, 0), int(candidate), "gaussian")
    assert len(set(drawn.tolist())) == 6


CASES: list[dict[str, Any]] = [
    {"algorithm": "lozo", "refresh": 3}, {"algorithm": "subzero", "refresh": 3, "rank": 1},
    {"algorithm": "meerkat", "refresh": 2, "subset_share": 0.4}, {"algorithm": "fedkseed", "pool_size": 6},
    {"algorithm": "meerkat", "refresh": 2, "directions": "per-slot"}, {"directions": "per-slot", "slope": "forward"},
]  # fmt: skip


@pytest.mark.parametrize("keys", CASES)
def test_a_run_takes_the_steps_of_a_run_on_a_vector(keys: dict[str, Any]):
    """In float64, whole shards: the same walk along the same directions, written out for one vector."""
    given: dict[str, Any] = {
        "rounds": 6,
        "local_steps": 3,
        "batch_size": 0,
        "step_size": 0.02,
        "radius": 1e-3,
        "seed": 5,
    }
    given |= {
        "step_schedule": "constant",
        "slope": "central",
        "clients_per_round": 2,
        "sampling": "without-replacement",
    } | keys
    rows = [0, 0] if "directions" in keys else [0, 1]  # which client has which slot is drawn
    clients = [Rows(site, "float64") for site in rows]
    result = run(clients, **given)
    said = {name.replace("_", "-"): value for name, value in given.items()} | {"in-place": True, "num-clients": 2}
    law, sites = TrailLaw.of_config(RunConfig.from_mapping(said)), [Rows(site, "float64") for site in rows]
    x, trail = sites[0].vector(), NOTHING

    def value(site: int, w: Any) -> float:
        sites[site].put(0, w[:21].reshape(7, 3))
        sites[site].put(1, w[21:])
        return sites[site].value(slice(None))

    for round_ in range(6):
        moves, lengths = [], []
        for site in range(2):
            w, slot = x.copy(), site if law.slots > 1 else 0
            for v in law.directions(round_, slot, sites[0].blocks, trail):
                dense = np.concatenate([part for b, n in enumerate((21, 3)) for _, part in v.pieces(b, n)]).astype(
                    float
                )
                low = value(site, w) if given["slope"] == "forward" else value(site, w - 1e-3 * dense)
                slope = (value(site, w + 1e-3 * dense) - low) / (1e-3 if given["slope"] == "forward" else 2e-3)
                w -= 0.02 * slope * dense
                lengths.append(0.02 * slope)
            moves.append(w - x)
        x = x + np.mean(moves, axis=0)
        own = np.array(lengths).reshape(2, 3)
        trail = np.concatenate([trail, (own / 2).reshape(-1) if law.slots > 1 else own.mean(axis=0)])
    # Slopes carry the rounding of F, about 10, over the radius, and the walk bends them a little more.
    np.testing.assert_allclose(result.x, trail, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(clients[0].vector(), x, rtol=1e-6, atol=1e-9)

"""Replay: from a slot's slopes back to its move, by drawing the addressed directions again. Pure.

w_K - x_r = -eta sum_k c_k v_k, and v_k is a function of (seed, round, slot, k) and Q. So K slopes give the n numbers of
the move to everybody who draws the same directions. A sketch checks that both ends do: the client sends the sums of its
move over a few stretches of the coordinates, and the replayed directions must give the same sums. A sketch is linear,
so the sums of the directions serve all slots with these directions. A sketch compares real numbers, so the last bits of
a product, which another BLAS rounds otherwise, raise no alarm.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from dataclasses import dataclass, replace

import numpy as np

from zofedht.common.directions.law import BLOCK_BYTES, DirectionLaw, law_of, slot_directions
from zofedht.common.directions.pool import pooled
from zofedht.common.objective.units import Units
from zofedht.common.random.streams import Address
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.messages import Broadcast, TrailStep

__all__ = [
    "SKETCH_SUMS",
    "Replay",
    "agrees",
    "draw_digest",
    "landed",
    "past_round",
    "pool_move",
    "projected",
    "replay",
    "sketch",
]

SKETCH_SUMS = 4
"""Numbers of a sketch: sums over so many stretches of the coordinates."""

_COLUMNS = 8192  # of the move at a time, so that they stay in the cache; no result depends on it
_RELATIVE = 1e-9  # a wrong direction is off by 1 / sqrt(K) or more, rounding by 1e-13
_OF_X = 1e-13  # the client's move w_K - x carries the rounding of x


@dataclass(frozen=True)
class Replay:
    """move: -sum_k eta c_k v_k, (n,). sums: of each direction over the stretches, (K, SKETCH_SUMS)."""

    move: Vector
    sums: Matrix


def replay(broadcast: Broadcast, basis: Matrix | None, lengths: Vector) -> Replay:
    """Return the move -sum_k l_k v_k of the step lengths l_k = eta c_k, (K,), and the sums for sketches.

    The sum runs step by step and number by number. Unlike a product it rounds equally on every machine and for every
    size of a block. A law with Q takes a product, so call ``replay`` within ``one_thread``.
    """
    move = np.zeros(broadcast.dimension)
    sums = np.empty((lengths.shape[0], SKETCH_SUMS))
    done = 0
    law = law_of(broadcast.spec, broadcast.dimension, basis)
    # A mean may overflow; the caller checks that the move is finite.
    with np.errstate(over="ignore", invalid="ignore"):
        for block in slot_directions(law, lengths.shape[0], broadcast.address):
            taken = slice(done, done + block.shape[0])
            _take_steps(move, block, lengths[taken])
            sums[taken] = _sketch_sums(block)
            done += block.shape[0]
    return Replay(move, sums)


def projected(broadcast: Broadcast, basis: Matrix | None, u: Vector) -> Vector:
    """Return sum_k (v_k.u) v_k over the directions of a slot, (n,)."""
    spec, total = broadcast.spec, np.zeros(broadcast.dimension)
    with np.errstate(over="ignore", invalid="ignore"):
        for block in slot_directions(law_of(spec, broadcast.dimension, basis), spec.slopes, broadcast.address):
            _take_steps(total, block, -(block * u).sum(axis=1))
    return total


def pool_move(law: DirectionLaw, seed: int, sums: Vector, kernel: str = "auto") -> Vector:
    """Return -sum_j a_j z_j, (n,), of the sums a, (S,), over the candidates z of a pool."""
    move, done = np.zeros(law.dimension), 0
    most = max(1, BLOCK_BYTES // (8 * law.dimension))
    with np.errstate(over="ignore", invalid="ignore"):
        for block in pooled(np.arange(len(sums)), len(sums), law.dimension, seed, law.probe, kernel, most):
            _take_steps(move, block, sums[done : done + len(block)])
            done += len(block)
    return move


def past_round(broadcast: Broadcast, round_: int, step: TrailStep, x: Vector) -> Broadcast:
    """Return the broadcast of an earlier round, from the present one and the step of the trail."""
    address = replace(broadcast.address, round=round_)
    law = {name: getattr(step, name) for name in ("subspace_weight", "subspace_gain", "shrink")}
    spec = replace(broadcast.spec, **law)
    return replace(broadcast, address=address, spec=spec, x=x, basis_version=step.basis_version)


def landed(x: Vector, move: Vector, units: Units | None) -> tuple[Vector, Vector]:
    """Return x + move, projected onto the bounds if there are any, and the move that leads there."""
    with np.errstate(over="ignore", invalid="ignore"):  # the caller checks that x is finite
        following = x + move
    if units is None or not np.all(np.isfinite(following)):
        return following, move
    following = units.project(following)
    return following, following - x


def sketch(move: Vector) -> Vector:
    """Return the sums of a move over SKETCH_SUMS stretches of its coordinates."""
    with np.errstate(over="ignore", invalid="ignore"):  # who reads the sketch looks for what is not finite
        total: Vector = _sketch_sums(move[None, :])[0]
    return total


def agrees(told: Vector, slopes: Vector, broadcast: Broadcast, sums: Matrix) -> bool:
    """Return whether a sketch is that of these slopes along directions with these sums."""
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = broadcast.spec.step_size * slopes
        expected = -np.sum(lengths[:, None] * sums, axis=0)
        scale = float(np.sum(np.abs(lengths))) * np.sqrt(broadcast.dimension)
        allowed = _RELATIVE * scale + _OF_X * float(np.sum(np.abs(broadcast.x)))
        return bool(np.all(np.abs(told - expected) <= allowed))


@functools.cache
def draw_digest() -> str:
    """Return a short digest of drawn directions; clients show it when they join, and with every move."""
    # Both kernels draw the same, and this one is there at once.
    blocks = slot_directions(DirectionLaw(dimension=64), 4, Address(2024, 7, 3), kernel="numpy")
    return hashlib.sha256(b"".join(block.tobytes() for block in blocks)).hexdigest()[:16]


def _take_steps(move: Vector, block: Matrix, lengths: Vector) -> None:
    scratch = np.empty(min(_COLUMNS, move.shape[0]))
    for start in range(0, move.shape[0], _COLUMNS):
        piece = move[start : start + _COLUMNS]
        product = scratch[: piece.shape[0]]
        for length, v in zip(lengths, block[:, start : start + _COLUMNS], strict=True):
            np.multiply(v, length, out=product)
            piece -= product


def _sketch_sums(block: Matrix) -> Matrix:
    bounds = [block.shape[1] * place // SKETCH_SUMS for place in range(SKETCH_SUMS + 1)]
    return np.stack([block[:, start:end].sum(axis=1) for start, end in itertools.pairwise(bounds)], axis=1)

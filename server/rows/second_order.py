"""Server steps from second-order information: newton, quasi-newton, and the growth of batches. Pure.

With g = -d / (eta K q) the mean of c v, d the mean move and r ``server-rate``:

newton         H <- H + e u u' for each direction v of the round, from H = 0, with u = v/|v|, e = k/|v|^2 - u'Hu and k
               the mean of the slots' v'Hv; x <- x - r (H + s I)^-1 g. Eigenvalues count by their size. s is what H's
               error is at most by its own forecasts: the mean of e^2 is 2/(n (n+2)) of the error's square, and more
               by the square of its trace. So first steps are short, and the last ones are Newton's.
quasi-newton   x <- x - r B g, B from the last ``memory`` pairs (s, y) by L-BFGS, s = x - x_before. y is the change of g
               along s: each slot measures its slopes at x_before again, on the same samples and along the same
               directions. A pair that bends too little is left out. Without a pair x moves by d.

A batch doubles where the variance of the mean over slots exceeds theta^2 = ``batch-growth``^2 times its square.

Sources: Maritan et al. 2023 (FedZeN; Leventhal and Lewis 2011 for H), Nocedal 1980 (L-BFGS), Bollapragada and Wild 2023
(pairs on the same samples, norm test).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.directions.law import law_of, slot_directions
from zofedht.common.machine.blas import one_thread
from zofedht.common.rules import MOST_DRAWN
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.aggregation.replays import draws_alike

__all__ = [
    "Curvature",
    "Pair",
    "curved_move",
    "directions_of",
    "grown_batch",
    "mean_change",
    "mean_curvatures",
    "shift_back",
    "with_probes",
]

_LEAST_BEND = 0.01  # cosine of the angle between a pair's step and its change of g


@dataclass(frozen=True)
class Pair:
    """How x moved from one round to the next, and how the gradient changed."""

    step: Vector
    change: Vector


@dataclass(frozen=True)
class Curvature:
    """What is known of F's second derivatives."""

    hessian: Matrix | None = None  # H: (n, n)
    pairs: tuple[Pair, ...] = ()  # the newest last
    x: Vector | None = None  # of the round before


def directions_of(asked: Broadcast, basis: Matrix | None) -> Iterator[Matrix]:
    """Yield the directions of a slot again, in blocks of rows."""
    return slot_directions(law_of(asked.spec, asked.dimension, basis), asked.spec.slopes, asked.address)


def mean_curvatures(updates: Sequence[Update]) -> Vector | None:
    """Return the mean over the slots of v'Hv of each direction, (K q,), or None where there are none."""
    rows = [update.curvatures for update in updates if update.curvatures is not None and draws_alike(update)]
    return np.mean(rows, axis=0) if rows else None


def mean_change(updates: Sequence[Update], asked: Mapping[int, Broadcast], basis: Matrix | None) -> tuple[Vector, int]:
    """Return the sum over slots and slopes of change times v, (n,), and how many slopes there were."""
    total, count = np.zeros(next(iter(asked.values())).dimension), 0
    for update in updates:
        if update.changes is None or not draws_alike(update):
            continue
        done = 0
        for block in directions_of(asked[update.slot], basis):
            total += (update.changes[done : done + len(block), None] * block).sum(axis=0)
            done += len(block)
        count += done
    return total, count


def shift_back(curvature: Curvature, x: Vector, config: RunConfig) -> Vector | None:
    """Return what leads from x to the x before it, where quasi-newton is to measure there again: (n,)."""
    if config.server_step != "quasi-newton" or curvature.x is None or np.array_equal(curvature.x, x):
        return None
    return curvature.x - x


def with_probes(hessian: Matrix | None, v: Matrix, curvatures: Vector) -> tuple[Matrix, float]:
    """Return H after measurements of v'Hv along the rows of v, and what |H - true H|_F was at most before."""
    squares, n = np.einsum("ij,ij->i", v, v), v.shape[1]
    held = np.zeros((n, n)) if hessian is None else hessian.copy()
    errors = np.empty(len(v))
    for k, (row, square) in enumerate(zip(v, squares, strict=True)):
        u = row / np.sqrt(square)
        errors[k] = curvatures[k] / square - u @ held @ u
        held += errors[k] * np.outer(u, u)
    return held, float(np.sqrt(np.mean(errors**2) * n * (n + 2) / 2.0))


def curved_move(
    curvature: Curvature,
    x: Vector,
    mean: Vector,
    updates: Sequence[Update],
    asked: Mapping[int, Broadcast],
    basis: Matrix | None,
    config: RunConfig,
) -> tuple[Vector, Curvature]:
    """Return where newton or quasi-newton leads at rate 1, (n,), and what is known then.

    ``mean`` is the mean move, and ``asked`` are the slots, all of which share their directions.
    """
    one = next(iter(asked.values()))
    gradient = -mean / (one.spec.step_size * one.spec.slopes)
    with one_thread(), np.errstate(all="ignore"):
        if config.server_step == "newton":
            found = mean_curvatures(updates)
            if found is None:
                return np.zeros_like(mean), curvature  # nobody measured along the server's directions
            v = np.concatenate(list(directions_of(one, basis)))
            hessian, error = with_probes(curvature.hessian, v, found)
            if not np.all(np.isfinite(hessian)):
                return mean, curvature
            values, vectors = np.linalg.eigh(hessian)
            sizes = np.abs(values) + error
            inverse = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0.0)
            return -vectors @ (inverse * (vectors.T @ gradient)), replace(curvature, hessian=hessian)
        known = replace(curvature, pairs=_with_pair(curvature.pairs, updates, asked, basis, config.memory), x=x)
        return (-_two_loops(known.pairs, gradient) if known.pairs else mean), known


def _with_pair(
    pairs: tuple[Pair, ...],
    updates: Sequence[Update],
    asked: Mapping[int, Broadcast],
    basis: Matrix | None,
    memory: int,
) -> tuple[Pair, ...]:
    shift = next(iter(asked.values())).shift
    total, count = mean_change(updates, asked, basis)
    if shift is None or not count:
        return pairs
    pair = Pair(-shift, -total / count)
    lengths = float(np.linalg.norm(pair.step)) * float(np.linalg.norm(pair.change))
    bends = float(pair.step @ pair.change) > _LEAST_BEND * lengths and np.isfinite(lengths)
    return (*pairs, pair)[-memory:] if bends else pairs


def _two_loops(pairs: Sequence[Pair], gradient: Vector) -> Vector:
    """Return B g by the two loops of L-BFGS."""
    q, factors = gradient.copy(), []
    for pair in reversed(pairs):
        factors.append(float(pair.step @ q) / float(pair.step @ pair.change))
        q -= factors[-1] * pair.change
    newest = pairs[-1]
    q *= float(newest.step @ newest.change) / float(newest.change @ newest.change)
    for pair, factor in zip(pairs, reversed(factors), strict=True):
        q += (factor - float(pair.change @ q) / float(pair.step @ pair.change)) * pair.step
    return q


def grown_batch(batch: int, moves: Sequence[Vector], config: RunConfig) -> int:
    """Return the batch of the next round from this one's moves, which are as they were sent by the slots."""
    if len(moves) < 2 or not batch:
        return batch
    mean = np.mean(moves, axis=0)
    spread = sum(float(np.sum((move - mean) ** 2)) for move in moves) / (len(moves) * (len(moves) - 1))
    grows = spread > config.batch_growth**2 * float(mean @ mean)
    return min(2 * batch, MOST_DRAWN // config.local_steps) if grows else batch

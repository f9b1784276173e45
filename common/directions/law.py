"""Laws of the random direction v.

A slot draws the directions of all its steps in blocks. The isotropic parts come from the slot's
``directions`` stream and the coefficients inside span(Q) from its ``subspace`` stream, each read row
by row, so the size of a block cannot change what is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from statistics import NormalDist

import numpy as np

from zofedht.common.config.step_spec import StepSpec
from zofedht.common.directions.blocks import low_rank
from zofedht.common.directions.pool import drawn_candidates, pooled
from zofedht.common.directions.probes import LAWS, framed
from zofedht.common.random.source import Source
from zofedht.common.random.streams import Address
from zofedht.common.typing import Matrix

__all__ = ["BLOCK_BYTES", "DirectionLaw", "law_of", "slot_directions", "subspace_gain"]

_BENT = ("cone", "diagonal", "weighted-pool", "subset")
"""Laws that are shaped by a guide as soon as there is one."""

BLOCK_BYTES = 32 * 2**20
"""Memory for one block of directions; a constant, since the shape of a product can change its last bits."""


def subspace_gain(covariance: str, dimension: int, rank: int) -> float:
    """Return s: 1 for ``paper`` (C <= I, as Theorem 1 needs), n/tau' for ``trace`` (trace C = n)."""
    return dimension / rank if covariance == "trace" and rank > 0 else 1.0


@dataclass(frozen=True)
class DirectionLaw:
    """Directions that are stretched or shrunk along the guide, the orthonormal columns of Q.

    Stretched: v = sqrt(1-a) v1 + sqrt(a s) Q v2, E[v1 v1^T] = I_n, E[v2 v2^T] = I_k (paper eq. 9 with s = 1). v1 and v2
    are independent and follow the probe's law, N(0, I) in the paper. E[v v^T] = (1-a) I + a s Q Q^T.
    Shrunk: v = v1 - (1-f) Q Q^T v1, so that E[v v^T] = I - (1-f^2) Q Q^T.
    Without a guide, or with weight 0 and f = 1, v = v1 exactly.

    Other laws, by name:
    either: sqrt(s) Q v2 with probability a, else sqrt(s/(s-1)) (I - Q Q^T) v1 (where s = 1 as it is). With s = n/k both
        have n as mean square length, and E[v v^T] = a s Q Q^T + (1-a) s/(s-1) (I - Q Q^T).
    cone: v = sqrt(n) cos(t) m + sin(t) v1 around m = Q, one column. Its mean is not 0;
        E[v v^T] = n cos(t)^2 m m^T + sin(t)^2 I.
    pool, weighted-pool: one of S fixed vectors, drawn by chance (``pool``); Q holds the chances as a column, (S, 1).
    subset: v = m v1, number by number, where Q is m as a column of 0 and 1. E[v v^T] = diag(m).
    lowrank, subspace-core: matrices of low rank in the place of blocks (``blocks``); E[v v^T] = I over all rounds.
    diagonal: v = v1 / sqrt(h), where Q is h as a column, not of unit length (HiSo, eq. 8 to 10). E[v v^T] = diag(1/h).
    """

    dimension: int  # n
    basis: Matrix | None = None  # Q: (n, k), orthonormal columns
    subspace_weight: float = 0.0  # a, alpha in the paper
    subspace_gain: float = 1.0  # s
    probe: str = "gaussian"  # law of v1 and v2
    shrink: float = 1.0  # f
    law: str = "isotropic"
    cone_angle: float = 1.35  # t
    pool_size: int = 1024  # S
    slopes_per_step: int = 1  # q: so many make a frame
    blocks: str = ""
    rank: int = 2  # r
    side_rounds: int = 1

    @property
    def follows_basis(self) -> bool:
        """Whether the guide matters."""
        bent = self.subspace_weight > 0.0 or self.shrink < 1.0 or self.law in _BENT
        return self.basis is not None and self.basis.shape[1] > 0 and bent

    @property
    def draws_inside(self) -> bool:
        """Whether coefficients inside span(Q) are drawn."""
        return self.follows_basis and self.subspace_weight > 0.0

    def block(self, source: Source, coefficients: Source, steps: int, chance: Source | None = None) -> Matrix:
        """Draw ``steps`` directions as the rows of a (steps, n) array; ``chance`` is for the law ``either``."""
        draw = LAWS[self.probe]
        v = draw(source, steps, self.dimension)
        if self.probe == "frame":
            v = framed(v, self.slopes_per_step)
        if not self.follows_basis or self.basis is None:
            return v
        if self.law == "cone":
            v *= math.sin(self.cone_angle)
            v += math.sqrt(self.dimension) * math.cos(self.cone_angle) * self.basis[:, 0]
            return v
        if self.law == "subset":
            v *= self.basis[:, 0]
            return v
        if self.law == "diagonal":
            v /= np.sqrt(self.basis[:, 0])
            return v
        if self.shrink < 1.0:
            v -= ((1.0 - self.shrink) * (v @ self.basis)) @ self.basis.T
        if not self.draws_inside:
            return v
        inside = draw(coefficients, steps, self.basis.shape[1])
        if self.law == "either" and chance is not None:
            return self._either(v, inside, chance)
        v *= math.sqrt(1.0 - self.subspace_weight)
        inside *= math.sqrt(self.subspace_weight * self.subspace_gain)
        v += inside @ self.basis.T
        return v

    def _either(self, v: Matrix, inside: Matrix, chance: Source) -> Matrix:
        """Return rows that lie inside span(Q) by chance, from the coefficients there, or across it."""
        assert self.basis is not None
        gain = self.subspace_gain
        across = v - (v @ self.basis) @ self.basis.T
        across *= math.sqrt(gain / (gain - 1.0)) if gain > 1.0 else 1.0
        below = math.inf if self.subspace_weight == 1.0 else NormalDist().inv_cdf(self.subspace_weight)
        chosen = chance.normals(len(v), 1) < below
        return np.where(chosen, math.sqrt(gain) * (inside @ self.basis.T), across)


def law_of(spec: StepSpec, dimension: int, basis: Matrix | None = None) -> DirectionLaw:
    """Return the law of directions in n = ``dimension`` parameters; ``basis`` is Q or None."""
    return DirectionLaw(dimension, basis, **{name: getattr(spec, name) for name in _OF_SPEC})


_OF_SPEC = {field.name for field in fields(DirectionLaw)} & {field.name for field in fields(StepSpec)}


def slot_directions(
    law: DirectionLaw,
    count: int,
    address: Address,
    *,
    kernel: str = "auto",
    block_bytes: int | None = None,
    together: int = 1,
) -> Iterator[Matrix]:
    """Yield the ``count`` directions of one slot in blocks of at most ``block_bytes`` or BLOCK_BYTES, (block, n) each.

    A block holds a multiple of ``together`` directions, those of whole steps.
    """
    most = max(1, (block_bytes or BLOCK_BYTES) // (8 * law.dimension * together)) * together
    if law.law in ("pool", "weighted-pool"):
        candidates = drawn_candidates(law.pool_size, law.basis, count, address)
        yield from pooled(candidates, law.pool_size, law.dimension, address.seed, law.probe, kernel, most)
        return
    source = Source(address.directions.stream("directions"), kernel)
    # Making a source costs as much as a step: none is made where nothing will be drawn from it.
    coefficients = Source(address.directions.stream("subspace"), kernel) if law.draws_inside else source
    chance = Source(address.directions.stream("chance"), kernel) if law.law == "either" and law.draws_inside else None
    for start in range(0, count, most):
        v = law.block(source, coefficients, min(most, count - start), chance)
        low = law.law in ("lowrank", "subspace-core") and law.blocks
        yield low_rank(v, law.blocks, law.rank, law.law, address.directions, law.side_rounds) if low else v

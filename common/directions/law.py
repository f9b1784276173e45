"""Laws of the random direction v.

A slot draws the directions of all its steps in blocks. The isotropic parts come from the slot's
``directions`` stream and the coefficients inside span(Q) from its ``subspace`` stream, each read row
by row, so the size of a block cannot change what is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields

from zofedht.common.config.step_spec import StepSpec
from zofedht.common.directions.probes import LAWS
from zofedht.common.random.source import Source
from zofedht.common.random.streams import Address
from zofedht.common.typing import Matrix

__all__ = ["BLOCK_BYTES", "DirectionLaw", "law_of", "slot_directions", "subspace_gain"]

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
    """

    dimension: int  # n
    basis: Matrix | None = None  # Q: (n, k), orthonormal columns
    subspace_weight: float = 0.0  # a, alpha in the paper
    subspace_gain: float = 1.0  # s
    probe: str = "gaussian"  # law of v1 and v2
    shrink: float = 1.0  # f

    @property
    def follows_basis(self) -> bool:
        """Whether the guide matters."""
        bent = self.subspace_weight > 0.0 or self.shrink < 1.0
        return self.basis is not None and self.basis.shape[1] > 0 and bent

    @property
    def draws_inside(self) -> bool:
        """Whether coefficients inside span(Q) are drawn."""
        return self.follows_basis and self.subspace_weight > 0.0

    def block(self, source: Source, coefficients: Source, steps: int) -> Matrix:
        """Draw ``steps`` directions as the rows of a (steps, n) array."""
        draw = LAWS[self.probe]
        v = draw(source, steps, self.dimension)
        if not self.follows_basis or self.basis is None:
            return v
        if self.shrink < 1.0:
            v -= ((1.0 - self.shrink) * (v @ self.basis)) @ self.basis.T
        if not self.draws_inside:
            return v
        v *= math.sqrt(1.0 - self.subspace_weight)
        inside = draw(coefficients, steps, self.basis.shape[1])
        inside *= math.sqrt(self.subspace_weight * self.subspace_gain)
        v += inside @ self.basis.T
        return v


def law_of(spec: StepSpec, dimension: int, basis: Matrix | None = None) -> DirectionLaw:
    """Return the law of directions in n = ``dimension`` parameters; ``basis`` is Q or None."""
    own = {field.name for field in fields(DirectionLaw)} & {field.name for field in fields(spec)}
    return DirectionLaw(dimension, basis, **{name: getattr(spec, name) for name in own})


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
    source = Source(address.directions.stream("directions"), kernel)
    # Making a source costs as much as a step: none is made where nothing will be drawn from it.
    coefficients = Source(address.directions.stream("subspace"), kernel) if law.draws_inside else source
    most = max(1, (block_bytes or BLOCK_BYTES) // (8 * law.dimension * together)) * together
    for start in range(0, count, most):
        yield law.block(source, coefficients, min(most, count - start))

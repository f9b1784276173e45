"""Laws of probes: E[v v^T] = I, whatever the law."""

from __future__ import annotations

import numpy as np
import pytest

from tests.common.samples import orthonormal
from zofedht.common.directions.law import DirectionLaw, slot_directions
from zofedht.common.directions.probes import LAWS
from zofedht.common.random.source import Source
from zofedht.common.random.streams import Address, stream
from zofedht.common.typing import Matrix

_N = 7


def _drawn(probe: str, rows: int, columns: int = _N, blocks: int = 1) -> Matrix:
    source = Source(stream(1, "directions", 2, 3), "auto")
    return np.concatenate([LAWS[probe](source, rows // blocks, columns) for _ in range(blocks)])


@pytest.mark.parametrize("probe", LAWS)
def test_second_moment_is_the_identity(probe: str) -> None:
    """Five standard errors, of at most sqrt(2/count) for each of 28 entries; the seed is fixed."""
    count = 20_000
    v = _drawn(probe, count)
    assert np.all(np.abs(v.T @ v / count - np.eye(_N)) <= 5 * np.sqrt(2.0 / count))
    assert np.all(np.abs(v.mean(axis=0)) <= 5 / np.sqrt(count))


@pytest.mark.parametrize("probe", LAWS)
@pytest.mark.parametrize("columns", [1, 64, 65, 200])
def test_the_size_of_a_block_changes_nothing(probe: str, columns: int) -> None:
    whole = _drawn(probe, 12, columns)
    np.testing.assert_array_equal(_drawn(probe, 12, columns, blocks=4), whole)


def test_signs_and_spheres_have_the_norm_of_n() -> None:
    for probe in ("rademacher", "sphere"):
        np.testing.assert_allclose(np.linalg.norm(_drawn(probe, 50), axis=1), np.sqrt(_N), rtol=1e-14)
    assert set(np.unique(_drawn("rademacher", 50))) == {-1.0, 1.0}


@pytest.mark.parametrize("probe", LAWS)
def test_directions_of_every_law_have_the_stated_covariance(probe: str) -> None:
    q, count = orthonormal(_N, 2), 40_000
    law = DirectionLaw(_N, q, 0.4, _N / 2, probe)
    v = np.concatenate(list(slot_directions(law, count, Address(1, 2, 3))))
    wanted = 0.6 * np.eye(_N) + 0.4 * (_N / 2) * q @ q.T
    diagonal = np.diag(wanted)
    # Gaussian entries have the largest error of the three laws.
    error = np.sqrt((np.outer(diagonal, diagonal) + wanted**2) / count)
    assert np.all(np.abs(v.T @ v / count - wanted) <= 5 * error)

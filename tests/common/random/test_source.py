"""Every kernel draws NumPy's own numbers from NumPy's own streams."""

from __future__ import annotations

import numpy as np
import pytest

from zofedht.common.random import source
from zofedht.common.random.kernels import runs_compiled
from zofedht.common.random.source import Source
from zofedht.common.random.streams import stream
from zofedht.common.typing import Matrix

_SEED = 7
_needs_numba = pytest.mark.skipif(not runs_compiled("auto"), reason="the extra `fast` is not installed")
_KERNELS = ["numpy", pytest.param("compiled", marks=_needs_numba)]


@_needs_numba
def test_compiled_normals_are_numpys_here() -> None:
    assert source._compiled_normals() is not None


@pytest.mark.parametrize("kernel", _KERNELS)
def test_normals_are_numpys_from_every_branch_of_the_ziggurat(kernel: str) -> None:
    """Ten million numbers: some 120,000 beyond their strip's limit, 2,580 of them in the tail."""
    wanted = stream(_SEED, "check").standard_normal((10, 1_000_000))
    assert np.sum(np.abs(wanted) > 3.6541528853610088) > 2_300
    np.testing.assert_array_equal(Source(stream(_SEED, "check"), kernel).normals(10, 1_000_000), wanted)


@pytest.mark.parametrize("kernel", _KERNELS)
@pytest.mark.parametrize("columns", [1, 63, 64, 65, 785, 6000])
def test_blocks_of_normals_and_signs_follow_numpys_order(kernel: str, columns: int) -> None:
    drawn, numpys = Source(stream(_SEED, "check"), kernel), stream(_SEED, "check")
    for rows in (3, 1, 7):
        assert drawn.normals(rows, columns).tobytes() == numpys.standard_normal((rows, columns)).tobytes()
        assert drawn.signs(rows, columns).tobytes() == _signs(numpys, rows, columns).tobytes()


def _signs(generator: np.random.Generator, rows: int, columns: int) -> Matrix:
    """Return signs as they are defined, one by one."""
    signs = np.empty((rows, columns))
    for row in range(rows):
        words = [int(word) for word in generator.bit_generator.random_raw(-(-columns // 64))]
        signs[row] = [1.0 if words[j // 64] >> (j % 64) & 1 else -1.0 for j in range(columns)]
    return signs


@_needs_numba
def test_numpy_draws_where_compiled_numbers_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    from zofedht.common.random import normals

    wanted = Source(stream(_SEED, "check"), "numpy").normals(4, 785)
    monkeypatch.setattr(source, "_compiled_normals", lambda: lambda _, drawn: drawn.fill(0.0))
    assert not np.any(Source(stream(_SEED, "check"), "compiled").normals(4, 785))  # the compiled loop draws
    monkeypatch.undo()
    monkeypatch.setattr(normals, "fill_normals", lambda _, drawn: drawn.fill(0.0))  # as with another NumPy
    source._compiled_normals.cache_clear()
    np.testing.assert_array_equal(Source(stream(_SEED, "check"), "compiled").normals(4, 785), wanted)
    source._compiled_normals.cache_clear()

"""Compiled code draws NumPy's own normal numbers, and leaves NumPy's generator where NumPy would."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from common.noise import GENERATORS, Sequential, noise
from common.streams import stream

pytest.importorskip("numba", reason="the extra `fast` is not installed")
from common import compiled_pcg

_SIZES = [1, 2, 3, 63, 64, 65, 255, 256, 257, 785, 2048, 39_300]


def _pair(seed: int = 7) -> tuple[np.random.Generator, np.random.Generator]:
    return stream(seed, "directions", 3, 2), stream(seed, "directions", 3, 2)


def test_it_gives_numpys_numbers_here() -> None:
    assert compiled_pcg.gives_numpys()


@pytest.mark.parametrize("columns", _SIZES)
def test_numbers_and_state_are_numpys_block_after_block(columns: int) -> None:
    ours, numpys = _pair()
    for rows in (3, 1, 7):
        drawn = compiled_pcg.normals(ours, rows, columns)
        assert drawn.tobytes() == numpys.standard_normal((rows, columns)).tobytes()
        assert ours.bit_generator.state == numpys.bit_generator.state


def test_no_branch_of_the_ziggurat_differs() -> None:
    """Three million numbers: some 36,000 beyond their strip's limit, 770 of them in the tail, anywhere in a chunk."""
    ours, numpys = _pair(8)
    drawn = compiled_pcg.normals(ours, 3, 1_000_000)
    wanted = numpys.standard_normal((3, 1_000_000))
    assert np.sum(np.abs(wanted) > 3.6541528853610088) > 700
    np.testing.assert_array_equal(drawn, wanted)


def test_short_calls_meet_every_place_where_a_chunk_can_end() -> None:
    ours, numpys = _pair(9)
    for count in range(1, 1200):
        drawn = compiled_pcg.normals(ours, 1, count)
        assert drawn.tobytes() == numpys.standard_normal(count).tobytes(), count
    assert ours.bit_generator.state == numpys.bit_generator.state


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("columns", [5, 785, 6000])
def test_all_kernels_draw_the_same_numbers(generator: str, columns: int) -> None:
    one, other = (noise(generator, kernel, 1, "directions", 2, 3) for kernel in ("compiled", "numpy"))
    for rows in (1, 4, 2):
        np.testing.assert_array_equal(one.normals(rows, columns), other.normals(rows, columns))
        np.testing.assert_array_equal(one.bits(rows, columns), other.bits(rows, columns))


def test_a_source_draws_by_compiled_code_where_that_gives_numpys_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    ours, numpys = _pair()
    draw = compiled_pcg.normals
    monkeypatch.setattr(compiled_pcg, "normals", lambda *call: calls.append(call) or draw(*call))
    source = Sequential(ours, compiled=True)
    np.testing.assert_array_equal(source.normals(4, 785), numpys.standard_normal((4, 785)))
    assert len(calls) == 1
    monkeypatch.setattr(compiled_pcg, "gives_numpys", lambda: False)  # as under a NumPy with another method
    np.testing.assert_array_equal(source.normals(4, 785), numpys.standard_normal((4, 785)))
    assert len(calls) == 1


def test_numbers_are_normal_and_independent() -> None:
    """Five standard errors; the seed is fixed."""
    z = noise("pcg64dxsm", "compiled", 4, "directions", 0, 0).normals(1000, 800)
    count = z.size
    assert abs(z.mean()) < 5 / np.sqrt(count)
    assert abs(z.var() - 1.0) < 5 * np.sqrt(2.0 / count)
    assert abs(stats.kurtosis(z.ravel())) < 5 * np.sqrt(24.0 / count)
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-4
    assert abs(np.mean(z[:, 1:] * z[:, :-1])) < 5 / np.sqrt(count)

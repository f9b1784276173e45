"""Compiled code draws NumPy's own numbers from NumPy's own streams."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from zofedht.common.random import source as noises
from zofedht.common.random.source import GENERATORS, indices, noise
from zofedht.common.random.streams import Purpose, fits_words, key, stream

pytest.importorskip("numba", reason="the extra `fast` is not installed")
from zofedht.common.random import compiled_streams
from zofedht.common.random.compiled_streams import Stream

_Name = tuple[int, Purpose, int, int]
_NAME: _Name = (7, "directions", 3, 2)


def test_it_gives_numpys_numbers_here() -> None:
    assert compiled_streams.gives_numpys()


@pytest.mark.parametrize(
    "name", [(0, "check", 0, 0), _NAME, (2**32 - 1, "redraw", 2**32 - 1, 2**32 - 1), (123456, "minibatch", 9, 77)]
)
def test_a_name_leads_to_numpys_stream(name: _Name) -> None:
    np.testing.assert_array_equal(compiled_streams.key(*name), key(*name))
    words = stream(*name).integers(0, 2**64, (1, 9), dtype=np.uint64)
    np.testing.assert_array_equal(Stream(*name).words((1, 9)), words)


@pytest.mark.parametrize("field", [0, 2, 3])
def test_longer_names_are_left_to_numpy(field: int) -> None:
    name = list(_NAME)
    name[field] = 2**32
    assert not fits_words(name[0], name[2], name[3])  # type: ignore[arg-type]
    for generator in GENERATORS:
        one, other = (noise(generator, kernel, *name).normals(2, 3) for kernel in ("compiled", "numpy"))  # type: ignore[arg-type]
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("columns", [1, 2, 3, 63, 64, 65, 255, 256, 257, 785, 2048, 39_300])
def test_numbers_are_numpys_block_after_block(columns: int) -> None:
    ours, numpys = Stream(*_NAME), stream(*_NAME)
    for rows in (3, 1, 7):
        assert ours.standard_normal((rows, columns)).tobytes() == numpys.standard_normal((rows, columns)).tobytes()
        words = numpys.integers(0, 2**64, (1, 2), dtype=np.uint64)
        np.testing.assert_array_equal(ours.words((1, 2)), words)
        # An odd number of half words: one waits for the next turn.
        np.testing.assert_array_equal(ours.below(480, (1, 3)), numpys.integers(0, 480, (1, 3), dtype=np.intp))


def test_no_branch_of_the_ziggurat_differs() -> None:
    """Three million numbers: some 36,000 beyond their strip's limit, 770 of them in the tail, anywhere in a chunk."""
    wanted = stream(*_NAME).standard_normal((3, 1_000_000))
    assert np.sum(np.abs(wanted) > 3.6541528853610088) > 700
    np.testing.assert_array_equal(Stream(*_NAME).standard_normal((3, 1_000_000)), wanted)


def test_short_calls_meet_every_place_where_a_chunk_can_end() -> None:
    ours, numpys = Stream(*_NAME), stream(*_NAME)
    for count in range(1200):
        assert ours.standard_normal((1, count)).tobytes() == numpys.standard_normal((1, count)).tobytes(), count


@pytest.mark.parametrize("high", [1, 2, 3, 480, 2**16 + 1, 2**31 + 1, 3 * 2**30, 2**32 - 1, 2**32, 2**40])
def test_samples_are_numpys(high: int) -> None:
    """Above 2^31 up to half of the draws are refused."""
    drawn, wanted = (indices(kernel, *_NAME, high, (40, 25)) for kernel in ("compiled", "numpy"))
    assert drawn.dtype == np.intp
    np.testing.assert_array_equal(drawn, wanted)


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("columns", [5, 785, 6000])
def test_all_kernels_draw_the_same_numbers(generator: str, columns: int) -> None:
    one, other = (noise(generator, kernel, 1, "directions", 2, 3) for kernel in ("compiled", "numpy"))
    for rows in (1, 4, 2):
        np.testing.assert_array_equal(one.normals(rows, columns), other.normals(rows, columns))
        np.testing.assert_array_equal(one.bits(rows, columns), other.bits(rows, columns))


def test_compiled_code_draws_only_where_that_gives_numpys_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noises, "stream", None)
    np.testing.assert_array_equal(
        noise("pcg64dxsm", "compiled", *_NAME).normals(4, 785), stream(*_NAME).standard_normal((4, 785))
    )
    assert indices("compiled", *_NAME, 480, (2, 3)).shape == (2, 3)
    monkeypatch.undo()
    monkeypatch.setattr(compiled_streams, "gives_numpys", lambda: False)  # as under a NumPy with another method
    monkeypatch.setattr(compiled_streams, "Stream", None)
    assert noise("pcg64dxsm", "compiled", *_NAME).normals(4, 785).shape == (4, 785)
    assert indices("compiled", *_NAME, 480, (2, 3)).shape == (2, 3)


def test_numbers_are_normal_and_independent() -> None:
    """Five standard errors; the seed is fixed."""
    z = noise("pcg64dxsm", "compiled", 4, "directions", 0, 0).normals(1000, 800)
    count = z.size
    assert abs(z.mean()) < 5 / np.sqrt(count)
    assert abs(z.var() - 1.0) < 5 * np.sqrt(2.0 / count)
    assert abs(stats.kurtosis(z.ravel())) < 5 * np.sqrt(24.0 / count)
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-4
    assert abs(np.mean(z[:, 1:] * z[:, :-1])) < 5 / np.sqrt(count)

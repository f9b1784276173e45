"""Philox: the published numbers, one number an address, and normal ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from zofedht.common.random import philox
from zofedht.common.random.streams import key

_KEY = key(7, "directions", 3, 2)


@pytest.mark.parametrize(
    ("words", "row", "wanted"),
    [
        ((0, 0, 0, 0), 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        # Counter (243f6a88 85a308d3 13198a2e 03707344), key (a4093822 299f31d0): digits of pi.
        ((0xA4093822, 0x299F31D0, 0x13198A2E, 0x03707344), 0x85A308D3,
         (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
    ],
)  # fmt: skip
def test_the_words_are_those_of_the_reference_implementation(
    words: tuple[int, ...], row: int, wanted: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = 0x243F6A88 if row else 0
    monkeypatch.setattr(np, "arange", lambda start, *more, **kind: np.array([start if more else first], **kind))
    drawn = philox.philox(np.array(words, dtype=np.uint32), row, 1, 1)
    assert tuple(int(word) for word in drawn[:, 0, 0]) == wanted


@pytest.mark.parametrize("columns", [1, 3, 4, 5, 785, 9000])
def test_a_number_is_a_function_of_its_row_and_column(columns: int) -> None:
    whole = philox.normals(_KEY, 0, 20, columns)
    np.testing.assert_array_equal(philox.normals(_KEY, 13, 2, columns), whole[13:15])
    bits = philox.bits(_KEY, 0, 20, columns)
    np.testing.assert_array_equal(philox.bits(_KEY, 13, 2, columns), bits[13:15])


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 785, 2048, 2049, 39_300])
def test_compiled_code_gives_the_same_bytes(columns: int) -> None:
    pytest.importorskip("numba", reason="the extra `fast` is not installed")
    from zofedht.common.random import compiled_philox

    plain, compiled = (law.normals(_KEY, 5, 3, columns) for law in (philox, compiled_philox))
    assert plain.tobytes() == compiled.tobytes()
    plain_bits, compiled_bits = (law.bits(_KEY, 5, 3, columns) for law in (philox, compiled_philox))
    assert plain_bits.tobytes() == compiled_bits.tobytes()


def test_numbers_are_normal_and_independent() -> None:
    """Five standard errors, 1/sqrt(count) or as stated; the seed is fixed."""
    rows, columns = 2000, 400
    z = philox.normals(_KEY, 0, rows, columns)
    count = z.size
    assert abs(z.mean()) < 5 / np.sqrt(count)
    assert abs(z.var() - 1.0) < 5 * np.sqrt(2.0 / count)
    assert abs(stats.kurtosis(z.ravel())) < 5 * np.sqrt(24.0 / count)
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-4
    lanes = z.reshape(rows, 4, columns // 4)  # the four numbers of a block
    pairs = rows * columns // 4
    for one in range(4):
        for other in range(one):
            a, b = lanes[:, one], lanes[:, other]
            assert abs(np.mean(a * b)) < 5 / np.sqrt(pairs)
            assert abs(np.mean(a**2 * b**2) - 1.0) < 5 * np.sqrt(8.0 / pairs)
    assert abs(np.mean(z[1:] * z[:-1])) < 5 / np.sqrt(count)
    assert abs(np.mean(z[:, 1:] * z[:, :-1])) < 5 / np.sqrt(count)


def test_the_extreme_words_give_finite_numbers() -> None:
    ends = np.array([0, 1, 2, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1], dtype=np.uint32)
    for radius in ends:
        one, other = philox.box_muller(np.full(len(ends), radius), ends)
        assert np.all(np.isfinite(one))
        assert np.all(np.isfinite(other))
        # r <= sqrt(-2 log 2^-32) = 6.66
        assert np.all(np.hypot(one, other) < 6.67)


def test_bits_are_fair_and_independent() -> None:
    bits = philox.bits(_KEY, 0, 500, 400).astype(float)
    assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(bits.size)
    signs = 2.0 * bits - 1.0
    assert abs(np.mean(signs[:, 1:] * signs[:, :-1])) < 5 / np.sqrt(bits.size)
    assert abs(np.mean(signs[1:] * signs[:-1])) < 5 / np.sqrt(bits.size)

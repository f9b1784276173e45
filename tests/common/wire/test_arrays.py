"""The decoder of vectors: what NumPy writes for one goes through, anything else is an error and allocates nothing."""

from __future__ import annotations

import io
import pickle
import tracemalloc

import numpy as np
import pytest
from flwr.common import ndarrays_to_parameters
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from zofedht.common.errors import MessageError
from zofedht.common.wire.arrays import decode_vector, decode_vectors, encode_vector

GOOD = ndarrays_to_parameters([np.arange(8.0)]).tensors[0]


def saved(array: np.ndarray, *, allow_pickle: bool = False) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=allow_pickle)
    return file.getvalue()


@given(npst.arrays(np.float64, st.integers(0, 300), elements=st.floats(allow_nan=True)))
def test_a_vector_comes_back_bit_for_bit(x: np.ndarray):
    assert decode_vector(saved(x), "x").tobytes() == x.tobytes()


def test_the_vector_is_a_view_and_cannot_be_written():
    x = decode_vector(GOOD, "x")
    assert not x.flags.owndata
    assert not x.flags.writeable
    assert x.dtype == np.float64


@given(st.integers(0, len(GOOD) - 1))
def test_a_truncated_vector_is_an_error(length: int):
    with pytest.raises(MessageError):
        decode_vector(GOOD[:length], "x")


@given(st.binary(min_size=1, max_size=64))
def test_bytes_too_many_are_an_error(more: bytes):
    with pytest.raises(MessageError, match=r"x must hold 8 float64 numbers, got \d+ bytes"):
        decode_vector(GOOD + more, "x")


@given(st.integers(0, 127), st.integers(0, 255))
def test_a_changed_header_never_changes_the_numbers(position: int, value: int):
    data = bytearray(GOOD)
    data[position] = value
    try:
        x = decode_vector(bytes(data), "x")
    except MessageError:
        return
    assert x.tobytes() == np.arange(8.0).tobytes()


@settings(max_examples=300)
@given(st.binary(max_size=400) | st.binary(max_size=400).map(lambda tail: GOOD[:10] + tail))
@example(b"")
@example(GOOD[:6])
@example(b"\x93NUMPY\x01\x00\xff\xff" + b"{" * 70000)
@example(b"\x93NUMPY\x03\x00\xff\xff\xff\xff{")
def test_junk_is_an_error(data: bytes):
    with pytest.raises(MessageError):
        decode_vector(data, "x")


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(4, np.float32),
        np.zeros(4, np.int64),
        np.zeros(4, ">f8"),
        np.zeros(4, complex),
        np.zeros((2, 2)),
        np.zeros((4, 1)),
        np.zeros((1, 4), order="F"),
        np.array(1.0),
        np.array(["a"]),
        np.zeros(2, [("a", "<f8")]),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_what_is_no_float64_vector_is_an_error(array: np.ndarray):
    with pytest.raises(MessageError, match="x must"):
        decode_vector(saved(array), "x")


class Bomb:
    """Shows itself when it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was read",))


def test_no_pickle_is_read():
    for data in (saved(np.array([Bomb()], dtype=object), allow_pickle=True), pickle.dumps(Bomb())):
        with pytest.raises(MessageError):
            decode_vector(data, "x")


@pytest.mark.parametrize(
    "shape", ["9999999999999,", "99999999999999999999999999,", "1000000000, 1000000000", "8, ", ""]
)
def test_nothing_is_allocated_for_what_a_header_claims(shape: str):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({shape}), }}".ljust(117) + "\n"
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + GOOD[128:]
    tracemalloc.start()
    try:
        with pytest.raises(MessageError):
            decode_vector(data, "x")
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_message_holds_one_vector_or_none():
    assert decode_vectors([], "x") == []
    assert len(decode_vectors([GOOD], "x")) == 1
    with pytest.raises(MessageError, match="at most one array, x, got 2"):
        decode_vectors([GOOD, GOOD], "x")


@given(npst.arrays(st.sampled_from([np.float64, np.float32]), st.integers(0, 300)))
def test_a_vector_is_written_as_numpy_writes_it(x: np.ndarray):
    assert encode_vector(x) == saved(x)

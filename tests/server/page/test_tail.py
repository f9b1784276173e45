"""A growing file is read line by line, each line once, until it is another file."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from zofedht.server.page.tail import Tail


def test_lines_come_once_and_whole(tmp_path: Path):
    path = tmp_path / "log"
    tail = Tail(path)
    assert list(tail.lines()) == []
    path.write_bytes(b"one\ntwo\nthr")
    assert list(tail.lines()) == [b"one\n", b"two\n"]
    path.write_bytes(b"one\ntwo\nthree\n")
    assert not tail.was_replaced()
    assert list(tail.lines()) == [b"three\n"]


def test_another_file_is_read_anew(tmp_path: Path):
    path = tmp_path / "log"
    tail = Tail(path)
    path.write_bytes(b"one\ntwo\n")
    assert len(list(tail.lines())) == 2
    path.write_bytes(b"one\n2 2\n3\n")
    assert tail.was_replaced()
    assert list(tail.lines()) == [b"one\n", b"2 2\n", b"3\n"]
    path.unlink()
    assert tail.was_replaced()
    assert not tail.was_replaced()
    assert list(tail.lines()) == []


@given(st.lists(st.binary(max_size=9).filter(lambda text: b"\n" not in text), max_size=20), st.integers(1, 7))
def test_pieces_add_up_to_the_file(tmp_path_factory, lines: list[bytes], size: int):
    whole = b"".join(line + b"\n" for line in lines)
    path = tmp_path_factory.mktemp("tail") / "log"
    tail, read = Tail(path), []
    for start in range(0, len(whole), size):
        with path.open("ab") as file:
            file.write(whole[start : start + size])
        assert not tail.was_replaced()
        read += tail.lines()
    assert b"".join(read) == whole

"""docs/paper.md goes through the whole paper, and names code that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_PAGE = (_ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
_NAMED = sorted(set(re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", _PAGE)))


def _numbers(word: str) -> set[int]:
    """Return the numbers that follow a word; "eqs. (13) to (19)" has all between."""
    found: set[int] = set()
    for listed in re.findall(rf"{word}s?\.? ((?:\(?\d+\)?(?:, | and | to )?)+)", _PAGE):
        for first, last in re.findall(r"(\d+)(?:\)? to \(?(\d+))?", listed):
            found |= set(range(int(first), int(last or first) + 1))
    return found


@pytest.mark.parametrize(("path", "name"), _NAMED)
def test_the_page_names_code_that_exists(path: str, name: str) -> None:
    text = (_ROOT / path).read_text(encoding="utf-8")
    if name:
        assert re.search(rf"^\s*(?:def|class) {name}\b|^{name}\b[^=\n]*=", text, re.MULTILINE), f"{path} has no {name}"


def test_every_numbered_thing_of_the_paper_has_a_row() -> None:
    assert set(range(1, 10)) | set(range(11, 33)) <= _numbers("eq")
    assert "problem (10)" in _PAGE
    assert set(range(1, 7)) <= _numbers("lemma")
    assert {1, 2} <= _numbers("definition")
    assert all(f"| {number}: " in _PAGE for number in range(1, 5))  # assumptions


def test_every_line_of_the_algorithm_has_a_row() -> None:
    section = _PAGE.split("## Section III")[1].split("\n## ")[0]
    cells = re.findall(r"^\| ((?:\d+(?:, | and )?)+)", section, re.MULTILINE)
    lines = {int(number) for cell in cells for number in re.findall(r"\b\d+\b", cell)}
    ends = {8, 17, 19, 22}  # of loops and of the condition
    assert set(range(1, 23)) - ends <= lines

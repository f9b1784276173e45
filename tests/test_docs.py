"""The docs say what the code does."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from zofedht.common.config.run_config import RunConfig, dashed

_ROOT = Path(__file__).parents[1]
_KEYS = {dashed(field.name): field.metadata for field in dataclasses.fields(RunConfig)}


def _glossary() -> list[list[str]]:
    """Return the cells of each entry: word, meaning, symbol, key."""
    lines = (_ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines()
    return [re.split(r"(?<!\\) \| ", line.strip("| ")) for line in lines if line.startswith("| **")]


def test_the_glossary_names_keys_that_exist() -> None:
    named = {key for *_, cell in _glossary() for key in re.findall(r"`([^`]+)`", cell)}
    assert {key for key, about in _KEYS.items() if about["symbol"] != "-"} <= named
    assert named <= set(_KEYS)


def test_the_glossary_defines_each_word_once() -> None:
    words = [word for word, *_ in _glossary()]
    assert all(len(entry) == 4 for entry in _glossary())
    assert len(words) == len(set(words)) > 50

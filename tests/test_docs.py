"""The docs say what the code does."""

from __future__ import annotations

import argparse
import dataclasses
import re
from pathlib import Path

import pytest

from zofedht.client.cli import parser as client_parser
from zofedht.common.algorithms import ALGORITHMS
from zofedht.common.config.reference import key_rows, key_table
from zofedht.common.config.run_config import RunConfig, dashed
from zofedht.common.config.texts import parse_assignments
from zofedht.server.cli import parser as server_parser
from zofedht.server.core.round_record import RoundRecord

_ROOT = Path(__file__).parents[1]
_DOCS = _ROOT / "docs"
_PAGES = sorted([_ROOT / "README.md", _ROOT / "CHANGELOG.md", *_DOCS.glob("*.md"), *_ROOT.glob("examples/*/README.md")])
_KEYS = {dashed(field.name): field.metadata for field in dataclasses.fields(RunConfig)}


def _glossary() -> list[list[str]]:
    """Return the cells of each entry: word, meaning, symbol, key."""
    lines = (_DOCS / "glossary.md").read_text(encoding="utf-8").splitlines()
    return [re.split(r"(?<!\\) \| ", line.strip("| ")) for line in lines if line.startswith("| **")]


def test_the_glossary_names_keys_that_exist() -> None:
    named = {key for *_, cell in _glossary() for key in re.findall(r"`([^`]+)`", cell)}
    assert {key for key, about in _KEYS.items() if about["symbol"] != "-"} <= named
    assert named <= set(_KEYS)


def test_the_glossary_defines_each_word_once() -> None:
    words = [word for word, *_ in _glossary()]
    assert all(len(entry) == 4 for entry in _glossary())
    assert len(words) == len(set(words)) > 50


def _outside_of_code(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def _anchors(page: Path) -> set[str]:
    """Return the anchors that a forge gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", _outside_of_code(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _links(page: Path) -> list[tuple[Path, str]]:
    """Return the file and the anchor of each link within the repository."""
    targets = re.findall(r"\]\((?!https?:)([^)\s]+)\)", _outside_of_code(page))
    pairs = [target.partition("#")[::2] for target in targets]
    return [((page.parent / path).resolve() if path else page, anchor) for path, anchor in pairs]


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(_ROOT)))
def test_every_link_within_the_docs_resolves(page: Path) -> None:
    links = _links(page)
    assert [path for path, _ in links if not path.exists()] == []
    assert [(path, anchor) for path, anchor in links if anchor and anchor not in _anchors(path)] == []


def test_the_index_links_to_every_page() -> None:
    linked = {path for path, _ in _links(_DOCS / "README.md")}
    assert {page for page in _PAGES if page.name != "README.md" or "examples" in page.parts} <= linked
    assert _DOCS / "README.md" in {path for path, _ in _links(_ROOT / "README.md")}


def test_the_config_page_lists_every_key() -> None:
    """A new key has all of these; the table is what the page must hold."""
    assert all(row.meaning and row.unit and row.symbol for row in key_rows())
    assert key_table() in (_DOCS / "config.md").read_text(encoding="utf-8")


def test_the_files_page_names_every_field_of_a_round() -> None:
    page = (_DOCS / "files.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`.*?`) \|", page.split("## history.jsonl")[1].split("\n## ")[0], re.MULTILINE)
    named = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(named) == sorted({field.name for field in dataclasses.fields(RoundRecord)} - {"clients"})


def test_the_family_page_says_all_of_every_row() -> None:
    """Its recipe, its state, and which figure it is held against."""
    page = (_DOCS / "family.md").read_text(encoding="utf-8")
    parts = [page.split(begin)[1].split(end)[0] for begin, end in (
        ("# The family", "Some rows take no steps"), ("| state of the server", "The state is in the checkpoint"),
        ("Of these rows", "# no such"),
    )]  # fmt: skip
    for part in parts:
        named = set(re.findall(r"`([\w-]+)`", part))
        assert {name for name, row in ALGORITHMS.items() if not row.asks_points} <= named


def test_the_family_page_has_the_source_of_every_row() -> None:
    page = (_DOCS / "family.md").read_text(encoding="utf-8").split("## Who wins where")[0]
    cells = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    named = {name: last for first, *_, last in cells for name in re.findall(r"`([\w-]+)`", first)}
    assert [name for name, row in ALGORITHMS.items() if row.source not in named[name]] == []


def _commands(page: Path) -> list[str]:
    """Return the command lines in a page's blocks of code that name one of our programs or a key of the run config."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    lines = "\n".join(text for kind, text in blocks if kind in ("", "sh")).replace("\\\n", " ").splitlines()
    return [line.partition(" #")[0] for line in lines if re.search(r"zofedht-(server|client) |--run-config ", line)]


def _parsers(side: str) -> dict[str, argparse.ArgumentParser]:
    top = {"server": server_parser, "client": client_parser}[side]()
    return dict(next(action.choices for action in top._actions if action.dest == "command"))


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(_ROOT)))
def test_commands_use_options_and_keys_that_exist(page: Path) -> None:
    for line in _commands(page):
        assert set(re.findall(r"[\s'\"]([a-z][a-z0-9-]*)=", line)) <= set(_KEYS), line
        for side, name, options in re.findall(r"zofedht-(server|client) ([\w-]+)(.*)", line):
            assert set(re.findall(r"--[\w-]+", options)) <= set(_parsers(side)[name]._option_string_actions), line


def test_the_commands_page_has_every_command() -> None:
    page = (_DOCS / "commands.md").read_text(encoding="utf-8")
    found = re.findall(r"^zofedht-(server|client) (\S+)", page, re.MULTILINE)
    assert sorted(set(found)) == sorted((side, name) for side in ("server", "client") for name in _parsers(side))


def test_the_guide_sets_keys_that_exist() -> None:
    """Each key and value that docs/choose.md names is taken by a run config."""
    text = (_ROOT / "docs" / "choose.md").read_text(encoding="utf-8")
    spans = re.findall(r"`([^`]+)`", text)
    set_to = [pair for span in spans for pair in re.findall(r"(?<![\w-])([a-z][a-z-]+)=([\w.-]+)", span)]
    values = [(key, value) for key, value in set_to if value != "N"]
    assert len(values) > 8
    for key, value in values:
        RunConfig.of_part(parse_assignments([f"{key}={value}"]))
    rows = [name for span in spans for name in [span.removeprefix("algorithm=")] if name in ALGORITHMS]
    assert {"auto", "cma-es", "zofed-shrink", "decomfl", "fedkseed", "lbfgs"} <= set(rows)

"""docs/reproduction.md is what its cells say."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.experiments.study.test_cells import grid
from zofedht.experiments.__main__ import main
from zofedht.experiments.study.cell_lines import read_lines
from zofedht.experiments.study.cells import cell_config

DOCS = Path(__file__).resolve().parents[3] / "docs"
CELLS = DOCS / "reproduction" / "cells"


def test_the_page_is_that_of_its_cells(tmp_path: Path):
    """Who adds cells rebuilds the page: python -m zofedht.experiments report --cells ... --page ..."""
    page = tmp_path / "reproduction.md"
    shutil.copy(DOCS / "reproduction.md", page)
    assert main(["report", "--cells", str(CELLS), "--page", str(page)]) == 0
    assert page.read_text() == (DOCS / "reproduction.md").read_text()
    assert {path.name for path in (tmp_path / "reproduction").iterdir()} <= {
        path.name for path in (DOCS / "reproduction").iterdir()
    }


def test_the_cells_have_the_settings_of_the_preset_at_their_length():
    for study in read_lines(CELLS):
        length = {key: study.about[key] for key in ("rounds", "budget", "train_rows")}
        own = grid(study.preset.name, **length)
        for outcome in study.outcomes:
            wanted = cell_config(own, outcome.cell).to_mapping()
            assert outcome.result["config"] == {key: wanted[key] for key in outcome.result["config"]}, outcome.cell.name

"""The notebooks of the docs run from top to bottom."""

from __future__ import annotations

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed (pip install 'zofedht[dev]')")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (pip install 'zofedht[dev]')")
pytest.importorskip("ipykernel", reason="ipykernel is not installed (pip install 'zofedht[dev]')")
pytest.importorskip("matplotlib", reason="the extra `plots` is not installed")
pytestmark = pytest.mark.slow

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))


def _texts(notebook) -> list[str]:
    """Return what the cells printed."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return [output["text"] for output in outputs if output.output_type == "stream" and output["name"] == "stdout"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_prints_what_it_shows(path: Path):
    shown = nbformat.read(path, as_version=4)
    ran = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(ran, timeout=900, kernel_name="python3").execute()
    assert _texts(ran)[-1] == _texts(shown)[-1]


def test_there_are_two():
    assert [path.stem for path in NOTEBOOKS] == ["black_box", "paper_comparison"]

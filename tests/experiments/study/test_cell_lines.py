"""Cells as lines: what is written is read, the study resumes from them, and the page is rebuilt from them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests.experiments.studies import DIGITS, add, begin, cell, tuned
from zofedht.common.errors import DataError
from zofedht.experiments.__main__ import main
from zofedht.experiments.study.cell_lines import add_lines, read_lines
from zofedht.experiments.study.results import curve, read_study

TINY = ["study", "--preset", "authors", "--dataset", "digits", "--model", "logistic", "--partition", "iid",
        "--repeats", "1", "--rounds", "3", "--algorithms", "zofedavg-sgd"]  # fmt: skip
NAMES = [f"digits-logistic-iid-zofedavg-sgd-eta{eta}-alphanone-repeat0" for eta in (1, 10)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a study folder of whole runs, one of which diverged."""
    folder = begin(tmp_path / "study")
    about = json.loads((folder / "study.json").read_text()) | {"rounds": 0, "epochs": 500}
    (folder / "study.json").write_text(json.dumps(about))
    tuned(folder, "zofedht", (0.3, 0.31))
    tuned(folder, "zofedavg-sgd", (0.4,))
    add(folder, cell("zofedht", 30.0), [0.6, None])
    return folder


def test_lines_say_what_the_folder_says(folder: Path, tmp_path: Path):
    study, lines = read_study(folder), tmp_path / "cells"
    assert add_lines(study, lines) == len(study.outcomes) == 15 + 3 + 1 + 1
    assert [path.name for path in lines.iterdir()] == ["authors-digits.jsonl"]
    (found,) = read_lines(lines)
    assert (found.name, found.preset) == ("authors", study.preset)
    of = {outcome.cell.name: outcome for outcome in found.outcomes}
    for outcome in study.outcomes:
        line = of[outcome.cell.name]
        assert (line.cell, line.loss, line.traffic) == (outcome.cell, outcome.loss, outcome.traffic)
        assert str(line.points) == str(outcome.points)  # NaN is NaN
    assert math.isinf(of[cell("zofedht", 30.0).name].loss)
    assert [chosen.mean for chosen in found.chosen(DIGITS)] == [chosen.mean for chosen in study.chosen(DIGITS)]
    assert curve(found.chosen(DIGITS)[0].outcomes)[0] == curve(study.chosen(DIGITS)[0].outcomes)[0]


def test_a_line_is_small_and_added_once(folder: Path, tmp_path: Path):
    study, lines = read_study(folder), tmp_path / "cells"
    add_lines(study, lines)
    before = (lines / "authors-digits.jsonl").read_bytes()
    assert add_lines(study, lines) == 0
    assert (lines / "authors-digits.jsonl").read_bytes() == before
    assert max(len(line) for line in before.splitlines()) < 4000
    assert str(tmp_path).encode() not in before  # no folder of the machine


def test_a_shorter_study_has_a_file_of_its_own(tmp_path: Path):
    folder = begin(tmp_path / "study")  # 5 rounds
    add(folder, cell("zofedht", 1.0), [0.5, 0.3])
    add_lines(read_study(folder), tmp_path / "cells")
    assert [study.name for study in read_lines(tmp_path / "cells")] == ["authors-rounds-5"]


def test_one_cell_with_two_losses_is_refused(folder: Path, tmp_path: Path):
    lines = tmp_path / "cells"
    add_lines(read_study(folder), lines)
    first = json.loads((lines / "authors-digits.jsonl").read_text().splitlines()[0])
    (lines / "others.jsonl").write_text(json.dumps(first) + "\n")  # the same again is the same
    assert len(read_lines(lines)[0].outcomes) == 20
    (lines / "others.jsonl").write_text(json.dumps(first | {"final_train_loss": 0.1}) + "\n")
    with pytest.raises(DataError, match="twice, with the losses"):
        read_lines(lines)


@pytest.mark.parametrize("line", ["{", "{}", '{"preset": "x"}', "[]"])
def test_what_is_no_cell_is_named_by_its_line(tmp_path: Path, line: str):
    (tmp_path / "mine.jsonl").write_text(line + "\n")
    with pytest.raises(DataError, match=r"line 1 of .*mine\.jsonl is not a finished cell"):
        read_lines(tmp_path)


def test_a_study_goes_on_where_the_lines_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Another machine has the lines and not the folder: what is a line there is not run again."""
    cells = tmp_path / "cells"
    assert main([*TINY, "--etas", "1", "--out", str(tmp_path / "here"), "--cells", str(cells)]) == 0
    assert main([*TINY, "--etas", "1", "10", "--out", str(tmp_path / "there"), "--cells", str(cells)]) == 0
    assert not (tmp_path / "there" / NAMES[0]).exists()
    assert (tmp_path / "there" / NAMES[1] / "result.json").exists()
    (study,) = read_lines(cells)
    assert [outcome.cell.name for outcome in study.outcomes] == NAMES
    whole = tmp_path / "whole"
    assert main([*TINY, "--etas", "1", "10", "--out", str(whole)]) == 0
    assert [o.loss for o in read_study(whole).outcomes] == [o.loss for o in study.outcomes]
    capsys.readouterr()
    assert main([*TINY, "--seed", "5", "--etas", "1", "--out", str(tmp_path / "seed"), "--cells", str(cells)]) == 2
    assert "with another seed" in capsys.readouterr().err


def test_a_study_stops_after_its_minutes(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "out"
    assert main([*TINY, "--etas", "1", "10", "--out", str(out), "--minutes", "1e-6"]) == 0
    assert "stopped, 2 cells left; the same command continues" in capsys.readouterr().out
    assert not (out / NAMES[0]).exists()
    assert main([*TINY, "--etas", "1", "10", "--out", str(out), "--minutes", "100"]) == 0
    assert "finished" in capsys.readouterr().out
    assert (out / NAMES[1] / "result.json").exists()


def test_the_page_is_rebuilt_from_the_lines(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    cells, page = tmp_path / "cells", tmp_path / "docs" / "page.md"
    add_lines(read_study(folder), cells)
    (cells / "theory.md").write_text("### Slopes\n\nsteep\n")
    page.parent.mkdir()
    page.write_text("# Mine\n\n<!-- report: begin -->\n<!-- report: end -->\n")
    capsys.readouterr()
    assert main(["report", "--cells", str(cells), "--page", str(page)]) == 0
    text = page.read_text()
    assert "| digits logistic iid | zofedht | 1 | 0.3 | 0.3000 |" in text
    assert "steep" in text
    assert (page.parent / "page" / "authors-iid.png").exists()
    assert set(capsys.readouterr().out.split()) == {str(page), *map(str, (page.parent / "page").iterdir())}
    assert main(["report", "--cells", str(tmp_path / "nothing")]) == 2
    assert "has no cells as lines" in capsys.readouterr().err

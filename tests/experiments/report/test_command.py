"""The report of known histories: no display, the right numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.experiments.studies import DIGITS, add, begin, cell
from zofedht.experiments.__main__ import main
from zofedht.experiments.report.claims import judge, winner
from zofedht.experiments.report.command import _anywhere, write_report
from zofedht.experiments.report.pictures import draw_panels
from zofedht.experiments.study.cells import Panel
from zofedht.experiments.study.results import read_study

ROOT = Path(__file__).resolve().parents[3]
SORTED = Panel("digits", "logistic", "sorted")
MNIST = Panel("mnist", "logistic", "iid")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """zofedht is better than both on iid rows (.30, .32 against .40, .42 and .50), worse on sorted ones."""
    folder = begin(tmp_path / "study")
    for repeat in (0, 1):
        add(folder, cell("zofedht", 1.0, repeat), [0.5, 0.30 + 0.02 * repeat])
        add(folder, cell("zofedavg-sgd", 1.0, repeat), [0.5, 0.40 + 0.02 * repeat])
    add(folder, cell("zofedht", 10.0), [0.6, None])
    add(folder, cell("zofedavg-gd", 1.0), [0.6, 0.5])
    add(folder, cell("zofedht", 1.0, panel=SORTED), [0.6, 0.55])
    add(folder, cell("zofedavg-sgd", 1.0, panel=SORTED), [0.6, 0.45])
    return folder


def test_the_report_is_drawn_without_a_display(folder: Path, tmp_path: Path):
    out = tmp_path / "out"
    script = (
        "import sys; from zofedht.experiments.__main__ import main;"
        f"code = main(['report', {str(folder)!r}, '--out', {str(out)!r}]);"
        "assert 'matplotlib.pyplot' not in sys.modules; sys.exit(code)"
    )
    # No DISPLAY, and a backend that would fail if it were looked for.
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "MPLCONFIGDIR": str(tmp_path / "mpl")}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for partition in ("iid", "sorted"):
        assert (out / f"study-{partition}.png").read_bytes().startswith(b"\x89PNG")
        assert (out / f"study-{partition}.pdf").read_bytes().startswith(b"%PDF")


def test_each_alpha_is_shown_with_its_best_step(folder: Path, tmp_path: Path):
    add(folder, cell("zofedht", 1.0, alpha=0.1), [0.6, 0.48])
    add(folder, cell("zofedht", 3.0, alpha=0.1), [0.6, 0.44])
    write_report([folder], tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert "| panel | alpha 0.1 | alpha 0.3 | zofedavg-sgd |" in text
    assert "| digits logistic iid | 0.4400 | 0.3000 | 0.4000 |" in text
    assert "| digits logistic sorted | - | 0.5500 | 0.4500 |" in text


def test_the_tables_hold_the_numbers_of_the_cells(folder: Path, tmp_path: Path):
    write_report([folder], tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert "| digits logistic iid | zofedht | 1 (edge) | 0.3 | 0.3000 | 0.3100 | 0.0141 | 0.3000 | 2 | 0.9000 |" in text
    assert "| digits logistic sorted | zofedht | 1 (only) | 0.3 |" in text
    assert "| digits logistic sorted | **zofedavg-sgd** | 0.4500 | zofedht | +0.1000 | one run |" in text
    assert "9 runs" not in text
    assert "8 runs" in text
    assert "1 diverged" in text


def test_what_the_other_commands_left_is_put_in(folder: Path, tmp_path: Path):
    assert main(["table1", "--runs", "1", "--out", str(tmp_path / "out")]) == 0
    (tmp_path / "out" / "theory.md").write_text("### Slopes\n\nsteep\n")
    write_report([folder], tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert "| epsilon | printed | as_printed_settings | corrected_settings |" in text
    assert "steep" in text
    assert text.count("![") == 3


def test_the_winner_is_clear_only_where_repeats_say_so(folder: Path):
    study = read_study(folder)
    iid, ordered = winner(study, DIGITS), winner(study, SORTED)
    assert iid is not None
    assert ordered is not None
    assert (iid.first.algorithm, iid.second.algorithm, iid.clear) == ("zofedht", "zofedavg-sgd", True)
    assert iid.margin == pytest.approx(0.10)
    assert (ordered.first.algorithm, ordered.clear) == ("zofedavg-sgd", None)  # one repeat has no sd


def test_claims_are_judged_by_the_cells(folder: Path, tmp_path: Path):
    verdicts = {verdict.claim: verdict for verdict in judge([read_study(folder)])}
    assert verdicts["iid: ZOFedHT ends with a lower training loss than ZOFedAvg-SGD"].verdict == "holds"
    assert verdicts["non-iid: ZOFedHT ends with a lower training loss than ZOFedAvg-SGD"].verdict == "does not hold"
    assert verdicts["non-iid: ZOFedHT ends with a lower training loss than ZOFedAvg-GD"].verdict == "not run"
    overhead = next(verdict for claim, verdict in verdicts.items() if "communication" in claim)
    assert overhead.verdict == "holds only if the downlink is not counted"
    assert "bytes up 1.00, bytes down 4.00" in overhead.evidence
    assert "CPU time 1.10 (2 panels)" in overhead.evidence
    other = begin(tmp_path / "other", "paper")
    add(other, cell("zofedht", 1.0), [0.6, 0.55])
    add(other, cell("zofedavg-sgd", 1.0), [0.6, 0.5])
    both = judge([read_study(folder), read_study(other)])
    assert both[0].verdict == "holds only if covariance trace, iid"


def test_a_difference_below_one_percent_is_a_tie(tmp_path: Path):
    """A claim does not hold by a tie alone."""
    folder = begin(tmp_path / "study")
    add(folder, cell("zofedht", 1.0), [0.5, 0.397])
    add(folder, cell("zofedavg-sgd", 1.0), [0.5, 0.4])
    first = judge([read_study(folder)])[0]
    assert first.verdict == "does not hold"
    assert "covariance trace, iid: better 0, tie 1, worse 0" in first.evidence
    add(folder, cell("zofedht", 1.0, panel=MNIST), [0.5, None])  # what diverged is worse than what did not
    add(folder, cell("zofedavg-sgd", 1.0, panel=MNIST), [0.5, 0.4])
    assert "better 0, tie 1, worse 1" in judge([read_study(folder)])[0].evidence


def test_a_figure_has_a_row_for_each_model(tmp_path: Path):
    folder = begin(tmp_path / "study")
    for model in ("mlp", "svm-hinge", "svm-squared-hinge"):
        add(folder, cell("zofedht", 1.0, panel=Panel("mnist", model, "iid")), [0.5, 0.4])
    study = read_study(folder)
    figure = draw_panels(study, study.panels(), "title")
    models = [axes.get_title() for axes in figure.axes if axes.get_title().startswith("mnist")]
    assert models == ["mnist, svm-squared-hinge", "mnist, svm-hinge", "mnist, mlp"]
    assert len(figure.axes) == 9


def test_the_published_numbers_are_compared_where_they_belong(tmp_path: Path):
    folder = begin(tmp_path / "study")
    add(folder, cell("zofedht", 10.0, panel=MNIST), [0.5, 0.37, 0.3738], evaluations=24_000_000)
    write_report([folder], tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert "| mnist logistic iid | zofedht | 0.3818 | 0.3738 | -0.0080 | -0.0118 | 100% |" in text
    assert "not run in this study" in text


def test_a_folder_without_a_study_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["report", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("experiments: error: ")
    assert error.count("\n") == 1


def test_a_page_gets_the_report_between_its_marks(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page = tmp_path / "docs" / "reproduction.md"
    page.parent.mkdir()
    page.write_text("# Mine\n\nbefore\n\n<!-- report: begin -->\nstale\n<!-- report: end -->\n\nafter\n")
    for _ in range(2):  # twice is as once
        assert main(["report", str(folder), "--out", str(tmp_path / "out"), "--page", str(page)]) == 0
        text = page.read_text()
        assert text.startswith("# Mine\n\nbefore\n\n<!-- report: begin -->\n\n## Claims")
        assert text.endswith("<!-- report: end -->\n\nafter\n")
        assert "stale" not in text
        assert text.count("(reproduction/study-iid.png)") == 1
    assert (page.parent / "reproduction" / "study-iid.png").read_bytes().startswith(b"\x89PNG")
    page.write_text("# Mine\n")
    assert main(["report", str(folder), "--page", str(page)]) == 2
    assert "must have the marks" in capsys.readouterr().err


def test_commands_are_shown_without_folders() -> None:
    shown = _anywhere("python -m zofedht.experiments study --data-dir /srv/sets --jobs 2 --out /srv/runs/paper")
    assert shown == "python -m zofedht.experiments study --data-dir DIR --jobs 2 --out runs/paper"

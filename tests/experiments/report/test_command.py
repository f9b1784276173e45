"""The report of known histories: no display, the right numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.experiments.studies import DIGITS, add, begin, cell, tuned
from zofedht.experiments.__main__ import main
from zofedht.experiments.report.claims import judge, winner
from zofedht.experiments.report.command import _anywhere, write_report
from zofedht.experiments.report.pictures import draw_figure
from zofedht.experiments.study.cells import Panel
from zofedht.experiments.study.presets import ALPHAS, ETAS
from zofedht.experiments.study.results import read_study

ROOT = Path(__file__).resolve().parents[3]
SORTED = Panel("digits", "logistic", "sorted")
MNIST = Panel("mnist", "logistic", "iid")
RCV1 = Panel("rcv1", "logistic", "iid")


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
    for partition in ("iid", "sorted"):  # a figure of the paper, and what it does not have
        assert (out / f"study-{partition}.png").read_bytes().startswith(b"\x89PNG")
    assert not (out / "study-thirds.png").exists()  # the paper's other figure was not run


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


@pytest.fixture
def enough(tmp_path: Path) -> Path:
    """As the folder, with three runs, the whole grid and the whole budget."""
    folder = begin(tmp_path / "enough")
    tuned(folder, "zofedht", (0.30, 0.31, 0.32))
    tuned(folder, "zofedavg-sgd", (0.40, 0.41, 0.42))
    tuned(folder, "zofedavg-gd", (0.50, 0.50, 0.50))
    for panel in (MNIST, RCV1):
        tuned(folder, "zofedht", (0.30, 0.31, 0.32), panel)
        tuned(folder, "zofedavg-sgd", (0.40, 0.41, 0.42), panel)
    tuned(folder, "zofedht", (0.55, 0.56, 0.57), SORTED)
    tuned(folder, "zofedavg-sgd", (0.45, 0.45, 0.45), SORTED)
    return folder


SGD = "ZOFedHT ends with a lower training loss than ZOFedAvg-SGD"


def verdict_of(study: Path, claim: str) -> tuple[str, str]:
    found = next(verdict for verdict in judge([read_study(study)]) if verdict.claim.startswith(claim))
    return found.verdict, found.evidence


def test_claims_are_judged_by_the_cells(enough: Path, tmp_path: Path):
    verdict, evidence = verdict_of(enough, f"iid: {SGD}")
    assert verdict == "holds, on 3 of 9 panels"
    assert "digits logistic +25.0% (3 runs, 100% of the budget)" in evidence
    assert verdict_of(enough, f"non-iid: {SGD}")[0] == "does not hold, on 1 of 9 panels"
    assert verdict_of(enough, "non-iid: ZOFedHT ends with a lower training loss than ZOFedAvg-GD") == ("not run", "-")
    other = begin(tmp_path / "other", "paper")
    tuned(other, "zofedht", (0.55, 0.55, 0.55))
    tuned(other, "zofedavg-sgd", (0.5, 0.5, 0.5))
    both = judge([read_study(enough), read_study(other)])
    assert both[0].verdict == "holds only if covariance trace, iid, on 3 of 9 panels"


def test_one_run_at_a_part_of_the_budget_is_not_enough(tmp_path: Path):
    """A better loss by a quarter, once, at 8% of the budget, with each step size at the edge of those tried."""
    folder = begin(tmp_path / "study")
    for algorithm, end in (("zofedht", 0.3), ("zofedavg-sgd", 0.4)):
        add(folder, cell(algorithm, 1.0), [0.5, end], share=0.08)
        add(folder, cell(algorithm, 0.1), [0.6, 0.6], share=0.08)
    verdict, evidence = verdict_of(folder, f"iid: {SGD}")
    assert verdict == "not enough"
    assert "better 0, tie 0, worse 0, no evidence 1" in evidence
    for reason in ("a step size at the edge of those tried", "fewer than 3 runs", "less than the budget"):
        assert f"1 with {reason}" in evidence
    assert "(1 run, 8% of the budget, at the edge: zofedht and zofedavg-sgd)" in evidence
    assert verdict_of(folder, "ZOFedHT adds no significant")[0] == "not enough"
    write_report([folder], tmp_path / "out")
    claims = (tmp_path / "out" / "report.md").read_text().split("## Study")[0]
    assert "| not enough |" in claims
    assert "**" not in claims


@pytest.mark.parametrize(("ours", "theirs"), [((0.30, 0.31), (0.40, 0.41, 0.42)), ((0.30, 0.31, 0.32), (0.40,))])
def test_fewer_runs_than_the_papers_decide_nothing(tmp_path: Path, ours: list[float], theirs: list[float]):
    folder = begin(tmp_path / "study")
    tuned(folder, "zofedht", ours)
    tuned(folder, "zofedavg-sgd", theirs)
    verdict, evidence = verdict_of(folder, f"iid: {SGD}")
    assert verdict == "not enough"
    assert "(1 with fewer than 3 runs)" in evidence


def test_who_ends_higher_must_have_been_tuned(tmp_path: Path):
    """The winner can only gain by more tuning."""
    folder = begin(tmp_path / "study")
    for panel in (DIGITS, MNIST, RCV1):
        for repeat in range(3):
            add(folder, cell("zofedht", 1.0, repeat, panel=panel), [0.5, 0.30])  # one step size, one weight
        tuned(folder, "zofedavg-sgd", (0.40, 0.41, 0.42), panel)
    assert verdict_of(folder, f"iid: {SGD}")[0] == "holds, on 3 of 9 panels"
    other = begin(tmp_path / "other")
    for repeat in range(3):
        add(other, cell("zofedht", 1.0, repeat), [0.5, 0.50])
    tuned(other, "zofedavg-sgd", (0.40, 0.41, 0.42))
    verdict, evidence = verdict_of(other, f"iid: {SGD}")
    assert verdict == "not enough"
    assert "weights not tried" in evidence


def test_a_reading_without_evidence_is_named(enough: Path, tmp_path: Path):
    weak = begin(tmp_path / "weak", "paper")
    add(weak, cell("zofedht", 1.0), [0.6, 0.55])
    add(weak, cell("zofedavg-sgd", 1.0), [0.6, 0.5])
    first = judge([read_study(enough), read_study(weak)])[0].verdict
    assert first == "holds for covariance trace, iid, on 3 of 9 panels; not enough for covariance paper, iid"


def test_two_panels_do_not_make_a_claim_hold(tmp_path: Path):
    """One panel can show that a claim about all panels does not hold."""
    folder = begin(tmp_path / "study")
    for panel in (DIGITS, MNIST):
        tuned(folder, "zofedht", (0.30, 0.31, 0.32), panel)
        tuned(folder, "zofedavg-sgd", (0.40, 0.41, 0.42), panel)
    assert verdict_of(folder, f"iid: {SGD}")[0] == "not enough"
    tuned(folder, "zofedavg-gd", (0.20, 0.20, 0.20))
    wanted = "does not hold, on 1 of 9 panels"
    assert verdict_of(folder, "iid: ZOFedHT ends with a lower training loss than ZOFedAvg-GD")[0] == wanted


def test_the_overhead_is_that_of_whole_runs(tmp_path: Path):
    folder = begin(tmp_path / "study")
    for panel in (DIGITS, SORTED, MNIST):
        add(folder, cell("zofedht", 1.0, panel=panel), [0.5, 0.4])
        add(folder, cell("zofedavg-sgd", 1.0, panel=panel), [0.5, 0.4])
    verdict, evidence = verdict_of(folder, "ZOFedHT adds no significant")
    assert verdict == "holds only if the downlink is not counted"
    assert "bytes up 1.00, bytes down 4.00" in evidence
    assert "CPU time 1.10 (3 panels)" in evidence


@pytest.mark.parametrize(("early", "wanted"), [(0.4, "holds"), (0.6, "does not hold")])
def test_rcv1_is_judged_early_and_at_the_end(tmp_path: Path, early: float, wanted: str):
    panel = Panel("rcv1", "logistic", "thirds")
    folder = begin(tmp_path / "study")
    tuned(folder, "zofedht", (0.35, 0.35, 0.35), panel, early=early, rounds=158)
    tuned(folder, "zofedavg-sgd", (0.30, 0.30, 0.30), panel, rounds=158)
    assert verdict_of(folder, "non-iid rcv1")[0] == wanted


def test_what_happens_before_the_first_basis_is_no_evidence_for_a_fast_begin(tmp_path: Path):
    panel = Panel("rcv1", "logistic", "thirds")
    folder = begin(tmp_path / "study")
    tuned(folder, "zofedht", (0.35, 0.35, 0.35), panel, early=0.4, rounds=10)
    tuned(folder, "zofedavg-sgd", (0.30, 0.30, 0.30), panel, rounds=10)
    verdict, evidence = verdict_of(folder, "non-iid rcv1")
    assert verdict == "not enough"
    assert "Q is first made at 50% of the budget" in evidence


def test_a_difference_below_one_percent_is_a_tie(tmp_path: Path):
    """A claim does not hold by a tie alone."""
    folder = begin(tmp_path / "study")
    tuned(folder, "zofedht", (0.397, 0.397, 0.397))
    tuned(folder, "zofedavg-sgd", (0.4, 0.4, 0.4))
    verdict, evidence = verdict_of(folder, f"iid: {SGD}")
    assert verdict == "does not hold, on 1 of 9 panels"
    assert "covariance trace, iid, 1 of 9 panels: better 0, tie 1, worse 0" in evidence


def test_what_diverged_is_worse_than_what_did_not(tmp_path: Path):
    folder = begin(tmp_path / "study")
    for eta in ETAS:
        for alpha in ALPHAS:
            for repeat in range(3):
                add(folder, cell("zofedht", eta, repeat, alpha), [0.5, None])
    tuned(folder, "zofedavg-sgd", (0.4, 0.4, 0.4))
    assert "better 0, tie 0, worse 1" in verdict_of(folder, f"iid: {SGD}")[1]


def test_a_figure_has_the_panels_that_were_run(tmp_path: Path):
    """Data sets down, models across; a panel that is missing among them is named."""
    folder = begin(tmp_path / "study", "paper")
    for panel in (MNIST, RCV1, Panel("rcv1", "mlp", "iid")):
        add(folder, cell("zofedht", 1.0, panel=panel), [0.5, 0.4])
    figure = draw_figure(read_study(folder), "iid", "title")
    assert [axes.get_title() for axes in figure.axes] == ["LR, mnist", "MLP, mnist", "LR, rcv1", "MLP, rcv1"]
    assert [[text.get_text() for text in axes.texts][:1] == ["not run"] for axes in figure.axes] == [0, 1, 0, 0]
    assert figure.get_suptitle() == "title\nmedian and range over seeds 0; 100 clients, 10 a round"


def test_a_line_is_the_median_in_its_range(tmp_path: Path):
    """Its label has the end, a diamond is the published end, and a start that is cut off is told."""
    folder = begin(tmp_path / "study", "paper")
    for repeat, end in enumerate((0.3, 0.38, 0.31)):
        add(folder, cell("zofedht", 1.0, repeat, panel=MNIST), [0.32, end])
    (drawn,) = draw_figure(read_study(folder), "iid", "title").axes
    assert (drawn.get_xlabel(), drawn.get_ylabel()) == ("function evaluations, millions", "training loss")
    median, *diamonds = drawn.lines
    assert list(median.get_ydata()) == [0.7, 0.32, 0.31]
    assert median.get_label() == "zofedht, eta 1, alpha 0.3, 3 seeds: 0.31"
    (band,) = drawn.collections
    assert set(band.get_paths()[0].vertices[:, 1]) == {0.7, 0.32, 0.3, 0.38}
    published = {"zofedavg-sgd": 0.4060, "zofedht": 0.3818, "zofedavg-gd": 0.3872}
    ends = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in diamonds}
    assert ends == {f"{name}, published: {end:.4g}": ([24.0], [end]) for name, end in published.items()}
    assert diamonds[1].get_color() == median.get_color()
    low, high = drawn.get_ylim()
    assert low < min(0.3, *published.values())
    assert max(published.values()) < high < 0.7
    assert [text.get_text() for text in drawn.texts] == ["begins at 0.7"]


def test_what_diverged_is_not_drawn(tmp_path: Path):
    folder = begin(tmp_path / "study")
    add(folder, cell("zofedht", 1.0, panel=MNIST), [0.5, None])
    (axes,) = draw_figure(read_study(folder), "iid", "title").axes
    assert [text.get_text() for text in axes.texts] == ["all runs diverged"]


def test_the_other_svm_gets_a_column(tmp_path: Path):
    folder = begin(tmp_path / "study")
    for model in ("svm-hinge", "svm-squared-hinge"):
        add(folder, cell("zofedht", 1.0, panel=Panel("mnist", model, "iid")), [0.5, 0.4])
    titles = [axes.get_title() for axes in draw_figure(read_study(folder), "iid", "title").axes]
    assert titles == ["SVM (hinge), mnist", "SVM (squared hinge), mnist"]


def test_the_published_numbers_are_compared_where_they_belong(tmp_path: Path):
    folder = begin(tmp_path / "study")
    add(folder, cell("zofedht", 10.0, panel=MNIST), [0.5, 0.37, 0.3738])
    write_report([folder], tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert "| mnist logistic iid | zofedht | 0.3818 | 0.3738 | -0.0080 | -0.0118 | 100% |" in text
    assert "- mnist logistic iid: 1 of 21 cells of the grid, 0 of 6 repeats" in text
    assert "- rcv1 mlp thirds: not run" in text


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


def test_each_algorithm_is_shown_at_its_better_schedule(tmp_path: Path):
    """The linear step is better for one algorithm and worse for the other; the successor joins."""
    base, linear = begin(tmp_path / "paper", "paper"), begin(tmp_path / "linear", "paper-linear")
    for algorithm, ends in (("zofedht", (0.3, 0.4)), ("zofedavg-sgd", (0.5, 0.2)), ("zofed-shrink", (None, 0.1))):
        for folder, schedule, end in zip((base, linear), ("inverse-sqrt", "linear"), ends, strict=True):
            if end is not None:
                config = {"budget": 24_000_000, "step-schedule": schedule}
                add(folder, cell(algorithm, 1.0, panel=MNIST), [0.6, end], config=config)
    add(linear, cell("zofedavg-sgd", 1.0, panel=SORTED), [0.6, 0.1])  # not run with the paper's schedule
    write_report([base, linear], tmp_path / "out")
    head, text = (tmp_path / "out" / "report.md").read_text().split("## Study `paper`, each algorithm at its best")
    assert "| mnist logistic iid | 0.3000 (inverse-sqrt, eta 1, alpha 0.3, 1 run) | 0.2000 (linear, eta 1" in text
    assert "| - | 0.1000 (linear, eta 1, 1 run) |" in text
    assert "digits" not in text
    assert "zofed-shrink" not in head  # the paper's claims are judged by its own schedule
    pictures = {path.name for path in (tmp_path / "out").glob("paper-best-*")}
    assert pictures == {"paper-best-iid.png"}

"""report.html and settings.toml of a finished run."""

from __future__ import annotations

import json
import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import quadratics, small
from zofedht import Choice, Integer, Real, load_run, run
from zofedht.common.errors import DataError
from zofedht.server.__main__ import main
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.report.html import SiteCost, report_html
from zofedht.server.report.write import write_report
from zofedht.server.terminal.words import percent

SPACE = {"valve": Real(0, 1), "teeth": Integer(8, 40), "mode": Choice("slow", 'fa"st')}


def pump(valve: float, teeth: int, mode: str) -> float:
    return (valve - 0.7) ** 2 + 0.01 * abs(teeth - 20) + (mode == "slow")


class _Page(HTMLParser):
    """Collects tags, attributes and the cells of tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.rows: list[list[str]] = []
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data.strip() if self.inside else ""

    def row(self, first: str) -> list[str]:
        return next(row for row in self.rows if row and row[0] == first)


def finished(folder: Path, **changes: Any) -> RunFolder:
    made = RunFolder(folder)
    config = small(init="ones", step_size=0.05, rounds=12, return_x="best", **changes)
    made.begin(config, "in-process")
    run_in_process(config, quadratics(), folder=made)
    return made


def test_the_report_tells_verdict_sites_and_costs(tmp_path: Path):
    folder = finished(tmp_path / "run")
    summary, page = folder.summary(), _Page(folder.report_file.read_text())
    text = folder.report_file.read_text()
    assert "Better than the start: gain " in text
    assert f"better at {summary['comparison']['wins']} of 4 sites" in text
    for row in summary["comparison"]["sites"]:
        shown = page.row(row["site"])
        assert shown[1:3] == [f"{row['start']:.4g}", f"{row['x']:.4g}"]
        assert shown[5] == "exact"
        assert shown[6].startswith("better by" if row["gain"] > 0.0 else "worse by")
    slots = [int(page.row(str(site))[7]) for site in range(4)]
    assert sum(slots) == 12 * small().clients_per_round
    assert page.row("evaluations of full evaluations")[1] == f"{summary['full_evaluations']:,}"
    assert page.row("evaluations of rounds")[1] == f"{summary['evaluations']:,}"
    assert "polyline" in page.tags


def test_the_report_needs_no_script_and_no_network(tmp_path: Path):
    text = finished(tmp_path / "run").report_file.read_text()
    page = _Page(text)
    assert not page.tags & {"script", "link", "img", "iframe", "object"}
    assert not [name for name, _ in page.attributes if name in ("src", "href") or name.startswith("on")]
    assert "http://" not in text
    assert "https://" not in text
    assert "default-src 'none'" in text


def test_names_and_reasons_cannot_forge_html(tmp_path: Path):
    folder = finished(tmp_path / "run")
    evil = '<script>alert("x")</script>\x1b[31m'
    summary: dict[str, Any] = json.loads(
        folder.summary_file.read_text().replace('"site": "1"', f'"site": {json.dumps(evil)}')
    )
    summary["lost"] |= {"slots": 1, "reason": evil, "causes": {evil: 1}}
    summary["outliers"] = {evil: {"times": 9.0, "slots": 2}}
    summary["evaluation_notes"] = [evil]
    summary["config"]["objective"] = evil
    settings = {"before": {evil: 1.0}, "after": {evil: evil}}
    text = report_html(evil, summary, load_run(folder.path).history, {evil: SiteCost(lost=1)}, settings)
    assert "<script" not in text
    assert "\x1b" not in text
    assert text.count("&lt;script&gt;") > 5


def test_settings_have_names_before_and_after(tmp_path: Path):
    start = {"valve": 0.1, "teeth": 30, "mode": "slow"}
    result = run(pump, x0=start, parameters=SPACE, algorithm="cma-es", rounds=30, out=tmp_path / "run")
    told = tomllib.loads((tmp_path / "run" / "settings.toml").read_text())
    assert told["before"] == start
    assert told["after"] == result.settings
    assert (told["success"], told["loss-before"]) == (True, pytest.approx(pump(**start)))
    page = _Page((tmp_path / "run" / "report.html").read_text())
    assert page.row("valve")[1:3] == ["0.1", f"{result.settings['valve']:.4g}"]
    assert page.row("mode")[1:] == ["slow", str(result.settings["mode"]), "changed"]


def test_numbers_of_settings_read_back_bit_for_bit(tmp_path: Path):
    folder = finished(tmp_path / "run")
    told = tomllib.loads(folder.settings_file.read_text())
    assert np.array(told["after"]["x"]).tobytes() == load_run(folder.path).x.tobytes()
    assert told["before"]["x"] == [1.0] * 12


def test_a_worse_site_is_named():
    sites = [lambda x: float((x[0] - 1.0) ** 2)] * 3 + [lambda x: 1.0 + 0.1 * float(x[0])]
    result = run(sites, x0=[0.0], rounds=40, step_size=0.05)
    assert result.success
    assert result.comparison is not None
    assert (result.comparison.wins, result.comparison.worst) == (3, "3")


def test_a_worse_site_is_in_the_verdict(tmp_path: Path):
    sites = [lambda x: float((x[0] - 1.0) ** 2)] * 3 + [lambda x: 1.0 + 0.1 * float(x[0])]
    run(sites, x0=[0.0], rounds=40, step_size=0.05, out=tmp_path / "run")
    text = (tmp_path / "run" / "report.html").read_text()
    assert re.search(r"better at 3 of 4 sites \(worst: 3, worse by \d", text)


def test_noise_gives_each_site_an_interval(tmp_path: Path):
    rng = np.random.default_rng(0)
    sites = [lambda x: float((x[0] - 1.0) ** 2 + 0.01 * rng.standard_normal())] * 3
    run(sites, x0=[0.0], rounds=10, step_size=0.02, radius=0.3, out=tmp_path / "run")
    page = _Page((tmp_path / "run" / "report.html").read_text())
    found = json.loads((tmp_path / "run" / "summary.json").read_text())["comparison"]
    assert found["repeats"] == 3
    low, high = map(float, page.row("0")[5].split(" to "))
    assert low < found["sites"][0]["gain"] < high


def test_the_report_is_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = finished(tmp_path / "run")
    before = folder.report_file.read_bytes()
    folder.report_file.unlink()
    assert main(["report", str(folder.path)]) == 0
    assert str(folder.report_file) in capsys.readouterr().out
    assert folder.report_file.read_bytes() == before


def test_a_folder_without_a_run_has_no_report(tmp_path: Path):
    with pytest.raises(DataError, match="holds no run: a result folder has config"):
        write_report(RunFolder(tmp_path))


def test_an_unfinished_run_has_no_report(tmp_path: Path):
    folder = finished(tmp_path / "run")
    folder.summary_file.unlink()
    with pytest.raises(DataError, match="holds no finished run"):
        write_report(folder)


def test_sites_of_a_search_have_slots(tmp_path: Path):
    """A generation is one slot of each client that it asks."""
    keys: dict[str, Any] = {"algorithm": "cma-es", "rounds": 3, "out": tmp_path / "run"}
    run([lambda x: float(x @ x)] * 2, x0=[1.0, 1.0], **keys)
    page = _Page((tmp_path / "run" / "report.html").read_text())
    assert sum(int(page.row(site)[7]) for site in "01") == sum(
        row["replies"] for row in load_run(tmp_path / "run").history
    )


def test_an_option_is_no_bound(tmp_path: Path):
    parameters = {"valve": Real(0, 1), "mode": Choice("slow", "fast")}
    keys: dict[str, Any] = {"algorithm": "cma-es", "rounds": 3, "out": tmp_path / "run"}
    run(lambda valve, mode: (valve - 0.5) ** 2 + (mode == "slow"), parameters=parameters, **keys)
    assert load_run(tmp_path / "run").summary["at_bounds"] == {"parameters": 0, "of": 1}


@pytest.mark.parametrize(
    ("change", "of", "text"),
    [
        (1.0, 1.0, "100%"),
        (0.9996, 1.0, "100%"),
        (-0.031, 1.0, "3.1%"),
        (5.0, 0.0, "5"),
        (2.0, 1e-9, "2"),
        (30.0, 2.0, "1500%"),
    ],
)
def test_percents_are_plain_numbers(change: float, of: float, text: str):
    assert percent(change, of) == text

"""A run for Prometheus: its own parser reads what a scrape gets."""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.server.page.runs import begin, lost, record, write
from tests.waiting import PATIENCE
from zofedht.common.errors import MissingExtraError
from zofedht.server.page.access import PageOptions
from zofedht.server.page.metrics import CONTENT_TYPE, metrics_text
from zofedht.server.page.serving import show_page
from zofedht.server.page.view import RunView
from zofedht.server.records.run_folder import RunFolder

ROOT = Path(__file__).resolve().parents[3]


def scraped(view: RunView) -> dict[tuple[str, ...], float]:
    """Return each sample by its name and the values of its labels, in the order of the labels' names."""
    parser = pytest.importorskip("prometheus_client.parser", reason="prometheus-client, of the extra `metrics`")
    families = list(parser.text_string_to_metric_families(metrics_text(view).decode()))
    assert all(family.documentation for family in families)
    samples = [sample for family in families for sample in family.samples]
    return {(sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value for sample in samples}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = begin(tmp_path / "run")
    folder.clients.listening()
    folder.clients.joined("a")
    changes = [{"what": "step-size"}]
    write(folder, record(0), record(1, failures=[lost(1, "b")], interventions=changes))
    return folder


def test_metrics_are_those_of_the_files(folder: RunFolder):
    view = RunView(folder.path)
    view.look()
    found = scraped(view)
    assert found["zofedht_rounds_total",] == 2
    assert found["zofedht_train_loss",] == 0.5
    assert found["zofedht_evaluations_total",] == 20
    assert (found["zofedht_bytes_total", "up"], found["zofedht_bytes_total", "down"]) == (400, 800)
    assert found["zofedht_lost_slots_total", "raised"] == 1
    assert found["zofedht_interventions_total",] == 1
    assert found["zofedht_state", "running"] == 1
    assert found["zofedht_state", "finished"] == 0
    assert found["zofedht_connected_clients",] == 1
    assert found["zofedht_client_slots_total", "a"] == 2
    assert found["zofedht_client_connected", "a"] == 1
    assert ("zofedht_client_connected", "b") not in found
    assert found["zofedht_client_lost_slots_total", "raised", "b"] == 1
    assert found["zofedht_client_bytes_total", "a", "down"] == 400
    assert all(name.startswith("zofedht_") for name, *_ in found)


def test_a_run_that_waits_has_metrics(tmp_path: Path):
    view = RunView(tmp_path)
    view.look()
    assert scraped(view)["zofedht_state", "waiting"] == 1


def test_names_of_clients_are_escaped(tmp_path: Path):
    folder, name = begin(tmp_path / "run"), 'a"} 1\nzofedht_forged 1 #\\'
    write(folder, record(0, failures=[lost(0, name)]))
    view = RunView(folder.path)
    view.look()
    found = scraped(view)
    assert found["zofedht_client_lost_slots_total", "raised", name] == 1
    assert ("zofedht_forged",) not in found


def test_clients_are_bounded(tmp_path: Path):
    folder = begin(tmp_path / "run")
    work = record(0).clients["a"]
    write(folder, record(0, clients={f"c{i}": work for i in range(1500)}))
    view = RunView(folder.path)
    view.look()
    assert sum(name == "zofedht_client_slots_total" for name, *_ in scraped(view)) == 1000


def test_the_page_serves_them(folder: RunFolder):
    pytest.importorskip("prometheus_client", reason="prometheus-client, of the extra `metrics`")
    with (
        show_page(folder.path, PageOptions("127.0.0.1:0"), lambda text: None) as port,
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer,
    ):
        assert answer.headers["content-type"] == CONTENT_TYPE
        assert b"\nzofedht_rounds_total 2.0\n" in answer.read()


def test_without_the_library_a_sentence_says_so(folder: RunFolder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'zofedht\[metrics\]'"):
        metrics_text(RunView(folder.path))


def test_the_dashboard_asks_for_metrics_that_exist(folder: RunFolder):
    view = RunView(folder.path)
    view.look()
    text = (ROOT / "docker" / "grafana.json").read_text(encoding="utf-8")
    panels = json.loads(text)["panels"]
    asked = {name for panel in panels for one in panel["targets"] for name in re.findall(r"zofedht_\w+", one["expr"])}
    assert len(asked) > 10
    assert asked <= {name for name, *_ in scraped(view)}

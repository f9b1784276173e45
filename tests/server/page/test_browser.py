"""The page in a real browser: the line moves, a client goes and comes back, the server is started again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.servers.browser import Tab, browser, chromium
from tests.server.grpc.processes import Site
from tests.server.page.runs import begin, lost, record, write
from tests.waiting import PATIENCE, free_port
from zofedht import Choice, Real, load_run, run
from zofedht.server.page.access import PageOptions
from zofedht.server.page.serving import show_page
from zofedht.server.records.run_folder import RunFolder

pytestmark = pytest.mark.skipif(not chromium(), reason="there is no Chromium here: apt-get install chromium")
PARAMETERS = {"valve": Real(0, 1), "mode": Choice("off", "on")}
CURVE = "document.querySelector('#loss-chart .curve').getAttribute('d')"
ROUNDS = "Number(document.body.dataset.points)"
POINTS = f"{CURVE}.split('L').length"


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Tab]:
    with browser(tmp_path) as tab:
        yield tab


def state_of(client: str) -> str:
    rows = "[...document.querySelectorAll('#clients tbody tr')]"
    return f"({rows}.find((row) => row.cells[0].textContent === '{client}') ?? 0).cells?.[1].textContent"


def shown(folder: RunFolder) -> Any:
    return show_page(folder.path, PageOptions("127.0.0.1:0"), lambda text: None)


def test_a_run_is_followed_through_all_that_happens(tmp_path: Path, tab: Tab):
    """One run, since the browser and the processes take long to start."""
    site, port = Site(tmp_path), free_port()
    options = ("--page", f"127.0.0.1:{port}", "--min-clients", "3")
    keys = {"rounds": 5000, "checkpoint_every": 1, "round_timeout": 5.0}
    try:
        server = site.server(*options, **keys)
        clients = site.paced(0.05)
        tab.open(f"http://127.0.0.1:{port}/")
        tab.wait(f"{ROUNDS} > 3", PATIENCE)
        before = tab.value(CURVE)
        tab.wait(f"{CURVE} !== {before!r}", PATIENCE)  # the line moves
        tab.wait(f"{state_of('c1')} === 'connected'", PATIENCE)

        clients[1].kill()
        tab.wait(f"{state_of('c1')} === 'away'", PATIENCE)
        assert tab.value(state_of("c0")) == "connected"
        site.evil("paced", "c1", "1/3", amount=0.05)
        tab.wait(f"{state_of('c1')} === 'connected'", PATIENCE)

        server.kill()
        tab.wait("document.getElementById('state').textContent === 'no connection'", PATIENCE)
        rounds = tab.value(ROUNDS)
        site.server(*options, resume=True, port=site.port, **keys)
        tab.wait(f"document.getElementById('state').textContent === 'running' && {ROUNDS} > {rounds} + 3", PATIENCE)
        tab.wait(f"{state_of('c2')} === 'connected'", PATIENCE)
        assert tab.value("document.getElementById('name').textContent") == "out"
    finally:
        site.close()


def test_what_a_client_says_is_text(tmp_path: Path, tab: Tab):
    evil = "<img src=x onerror=document.body.dataset.evil=1><script>document.body.dataset.evil=1</script>"
    folder = begin(tmp_path / "run")
    change = {"what": evil, "before": None, "after": 1.0, "why": evil}
    write(folder, record(0), record(1, failures=[lost(1, evil, evil, evil)], interventions=[change]))
    with shown(folder) as port:
        tab.open(f"http://127.0.0.1:{port}/")
        tab.wait(f"{ROUNDS} === 2", PATIENCE)
        for place in ("clients", "failures", "changes"):
            assert evil in tab.value(f"document.querySelector('#{place} tbody').textContent"), place
        assert evil in tab.value("document.getElementById('causes').textContent")
        assert tab.value("document.querySelectorAll('img, script').length") == 1  # the page's own script
        assert tab.value("document.body.dataset.evil ?? 'no'") == "no"


def test_the_curve_zooms_by_mouse_and_keyboard(tmp_path: Path, tab: Tab):
    folder = begin(tmp_path / "run")
    write(folder, *(record(round_) for round_ in range(2000)))
    with shown(folder) as port:
        tab.open(f"http://127.0.0.1:{port}/")
        tab.wait(f"{ROUNDS} === 800", PATIENCE)
        axis = "[...document.querySelectorAll('#loss-chart text')].map((text) => text.textContent).join(' ')"
        whole = tab.value(axis)
        box = tab.value(
            "(({x, y, width}) => [x, y, width])(document.querySelector('#loss-chart svg').getBoundingClientRect())"
        )
        x, y, width = box
        tab.drag((x + 0.50 * width, y + 50), (x + 0.55 * width, y + 50))
        tab.wait(f"{axis} !== {whole!r} && {POINTS} > 70", PATIENCE)  # every round of the part, where 40 were kept
        tab.value("document.querySelector('#loss-chart svg').focus()")
        tab.press("0")
        tab.wait(f"{axis} === {whole!r}", PATIENCE)
        tab.press("End")
        tab.wait("document.querySelector('#loss-chart output').textContent.startsWith('round 2000: ')", PATIENCE)
        tab.value("document.getElementById('log').click()")
        tab.wait(f"{axis} !== {whole!r}", PATIENCE)
        tab.value("document.querySelector('input[value=bytes]').click()")
        tab.wait(f"{axis}.includes('bytes up and down')", PATIENCE)
        tab.value("document.querySelector('input[value=round]').click()")
        tab.value("document.querySelector('#loss-chart svg').focus()")
        tab.press("End")
        tab.wait(
            "/^round 2000: .* at 2.?000 rounds$/.test(document.querySelector('#loss-chart output').textContent)", 9
        )


def test_all_that_is_shown_has_a_name(tmp_path: Path, tab: Tab):
    """For who hears the page: labels, heads of tables, one main part, and nothing that only a colour tells."""
    folder = begin(tmp_path / "run")
    write(folder, record(0), record(1))
    with shown(folder) as port:
        tab.open(f"http://127.0.0.1:{port}/")
        tab.wait(f"{ROUNDS} === 2", PATIENCE)
        tab.call("Accessibility.enable")
        nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
        named = [node for node in nodes if not node.get("ignored")]
        roles = [node["role"]["value"] for node in named]
        assert roles.count("main") == 1
        for role in ("button", "radio", "checkbox", "image", "link", "progressbar", "columnheader", "region"):
            names = [node["name"]["value"] for node in named if node["role"]["value"] == role]
            assert names, role
            assert all(names), role
        assert any(node["name"]["value"].startswith("training loss against evaluations, from") for node in named)


def test_the_values_of_a_finished_run_have_their_names(tmp_path: Path, tab: Tab):
    run(
        lambda valve, mode: (valve - 0.3) ** 2 + (mode == "off"), parameters=PARAMETERS, budget=60, out=tmp_path / "run"
    )
    values = load_run(tmp_path / "run").settings
    with shown(RunFolder(tmp_path / "run")) as port:
        tab.open(f"http://127.0.0.1:{port}/")
        tab.wait("!document.getElementById('settings').hidden", PATIENCE)
        cells = "[...document.querySelectorAll('#settings tr')].map((row) => [...row.cells].map((c) => c.textContent))"
        assert tab.value(cells) == [["valve", repr(values["valve"])], ["mode", "on"]]


def test_a_narrow_page_has_rows_of_few_lines(tmp_path: Path, tab: Tab):
    """A long reason must not make its row as high as the screen of a telephone."""
    folder = begin(tmp_path / "run")
    write(folder, record(0), record(1, failures=[lost(1, "a", "LostClient: the connection was lost", "no-answer")]))
    with shown(folder) as port:
        tab.open(f"http://127.0.0.1:{port}/", width=390)
        tab.wait(f"{ROUNDS} === 2", PATIENCE)
        assert tab.value("document.querySelector('#clients tbody tr').offsetHeight") < 120
        assert tab.value("document.documentElement.scrollWidth") <= 390  # tables scroll, the page does not

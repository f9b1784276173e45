"""A fleet over clients that are real processes."""

from __future__ import annotations

import csv
import re
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.server.fleet.program import search
from tests.server.fleet.pump import ByName, Pump
from tests.server.grpc.processes import Process, Site
from tests.waiting import PATIENCE, until
from zofedht import BudgetError, Fleet, FleetError, ObjectiveError, Shard
from zofedht.server.grpc.resident_proxy import ResidentProxy

ROOT = Path(__file__).resolve().parents[3]
MODULE = "tests.server.fleet.pump"
FAR = [0.2, 80.0]


def join(site: Site, name: str, kind: str = "Pump", *options: Any) -> Process:
    return site.client(name, "--objective", f"{MODULE}:{kind}", "--data", site.folder, *options, folder=ROOT)


def listening(site: Site, **options: Any) -> Fleet:
    """Return a fleet of three sites that listens, in this process."""
    said: list[str] = []
    folder = None if site.certificates is None else site.certificates / "server"
    security = {"insecure": True} if folder is None else {"tls_dir": folder}
    fleet = Fleet("127.0.0.1:0", **({"min_clients": 3, "folder": site.out, "report": said.append} | security | options))
    fleet.said = said  # type: ignore[attr-defined]
    site.port = fleet.port
    return fleet


def local(**options: Any) -> Fleet:
    return Fleet.local({name: Pump(Shard(name)) for name in ("c0", "c1", "c2")}, **options)


def ledger(site: Site) -> list[list[str]]:
    file = site.out / "evaluations.csv"
    return list(csv.reader(file.read_text().split("\n")[1:-1])) if file.exists() else []


def test_sites_with_certificates_are_a_function(secure_site: Site):
    fleet = listening(secure_site, folder=None)
    clients = [join(secure_site, f"c{index}") for index in range(3)]
    points = [[0.7, 3.3], FAR, [1.0, 100.0]]
    with fleet, local() as same:
        assert (fleet.sites, fleet.names, fleet.dim) == (("c0", "c1", "c2"), ("valve", "pause"), 2)
        assert fleet.x0.tolist() == [0.7, 3.3]  # in round numbers, as the sites say it
        assert fleet.bounds == [(0.0, 1.0), (1.0, 100.0)]
        assert fleet.scale.tolist() == [0.3, 30.0]
        np.testing.assert_array_equal(fleet.table(points), same.table(points))
        np.testing.assert_array_equal(fleet.table(points, ["c2", "c0"]), same.table(points)[[2, 0]])
        assert fleet(FAR) == fleet.many([FAR])[0] == same(FAR)
    assert [client.ends() for client in clients] == [0, 0, 0]


def test_sites_tell_their_named_parameters(site: Site):
    fleet = listening(site)
    [join(site, f"c{index}", "ByName") for index in range(3)]
    with fleet, Fleet.local({name: ByName(Shard(name)) for name in ("c0", "c1", "c2")}) as same:
        assert fleet.settings(fleet.x0) == {"valve": 0.7, "pause": 3.3, "teeth": 24, "mode": "a"}
        asked = {"valve": 0.4, "pause": 45.0, "teeth": 30, "mode": "b"}
        assert fleet(asked) == same(asked)
        mine, theirs = (each.minimize(maxfev=900, method="cma-es") for each in (fleet, same))
        np.testing.assert_array_equal(mine.x, theirs.x)
        assert mine.settings == theirs.settings
        assert (mine.settings["teeth"], mine.settings["mode"]) == (30, "b")


def test_a_refused_site_does_not_join_and_leaves(secure_site: Site):
    file = secure_site.folder / "refused"
    file.write_text("c2  # stolen\n")
    fleet = listening(secure_site, folder=None, min_clients=2, refuse=file, rejoin=0.0)
    clients = [join(secure_site, f"c{index}") for index in range(3)]
    assert clients[2].ends() == 2
    assert "the server's operator refuses this client" in clients[2].text
    with fleet:
        assert fleet.sites == ("c0", "c1")
        fleet.refuse("c1")
        assert clients[1].ends() == 2
        assert np.isnan(fleet.table([[0.7, 3.3]])).tolist() == [[False], [True]]


def test_a_fleet_holds_no_thread_a_site(site: Site):
    fleet = listening(site, min_clients=3)
    [join(site, f"c{index}") for index in range(3)]
    seen: list[str] = []
    with fleet:
        begin = ResidentProxy.evaluate_later

        def watched(*args: Any) -> Any:
            seen.extend(thread.name for thread in threading.enumerate())
            return begin(*args)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ResidentProxy, "evaluate_later", watched)
            fleet.table([[0.7, 3.3], FAR])
    assert seen
    assert not [name for name in seen if name.startswith(("site", "slot", "ThreadPool"))]


def test_a_false_first_site_keeps_nobody_out(site: Site):
    fleet = listening(site, min_clients=2)
    liar = join(site, "c9", "Wide")
    until(lambda: any("joined: c9" in text for text in fleet.said), "the liar")  # type: ignore[attr-defined]
    [join(site, f"c{index}") for index in range(2)]
    with fleet:
        assert fleet.sites == ("c0", "c1")
    assert "more clients say otherwise" in "".join(fleet.said)  # type: ignore[attr-defined]
    liar.kill()


def test_a_site_s_code_that_ends_the_program_loses_its_answer(site: Site):
    fleet = listening(site, max_retries=0)
    clients = [join(site, f"c{index}", "Quitting") for index in range(3)]
    with fleet:
        table = fleet.table([[0.5, 50.0], [0.95, 50.0], [0.6, 50.0]])
        assert np.isnan(table).tolist() == [[False] * 3, [False, True, False], [False] * 3]
    assert [client.ends() for client in clients] == [0, 0, 0]


def test_many_points_go_in_several_messages(site: Site):
    fleet = listening(site, folder=None)
    [join(site, f"c{index}") for index in range(3)]
    points = np.random.default_rng(1).uniform([0.0, 1.0], [1.0, 100.0], (2500, 2))
    with fleet, local() as same:
        np.testing.assert_array_equal(fleet.table(points), same.table(points))


def test_lost_answers_have_a_cause_and_tell_no_secret(site: Site):
    fleet = listening(site, max_retries=1)
    clients = [join(site, f"c{index}", "Shut") for index in range(3)]
    with fleet:
        table = fleet.table([[0.5, 50.0], [0.95, 50.0], [0.05, 50.0]])
        assert np.isnan(table).tolist() == [[False] * 3, [False, True, True], [False] * 3]
        assert fleet.many([[0.95, 50.0]])[0] == np.mean(table[[0, 2], 1])
    lost = [row for row in ledger(site) if row[1] == "c1" and row[4] == ""]
    assert [row[6] for row in lost] == ["raised", "not-finite"] * 2 + ["raised"] * 2
    assert "raised RuntimeError (pump.py, line " in lost[0][7]
    assert "secret" not in (site.out / "evaluations.csv").read_text()
    assert "a secret of the plant" in clients[1].text  # the site's own log has it


def test_a_lost_answer_can_stop_the_program(site: Site):
    fleet = listening(site, on_error="stop", max_retries=0)
    [join(site, f"c{index}", "Shut") for index in range(3)]
    with fleet, pytest.raises(ObjectiveError, match=r"1 of 6 answers are lost, the first at site c1, point 1: .*stop"):
        fleet.many([[0.5, 50.0], [0.95, 50.0]])


def test_a_killed_site_may_come_back(site: Site):
    fleet = listening(site)
    [join(site, f"c{index}", "Paced") for index in (0, 2)]
    second = join(site, "c1", "Paced")
    with fleet, local() as same:
        fleet(FAR)
        second.send(signal.SIGKILL)
        until(lambda: any("left: c1" in line for line in fleet.said), "c1 to leave")
        join(site, "c1", "Paced")
        np.testing.assert_array_equal(fleet.table([FAR, [0.5, 50.0]]), same.table([FAR, [0.5, 50.0]]))
    assert [row for row in ledger(site) if row[6]] == []


def test_a_deadly_point_costs_no_other_point(site: Site):
    fleet = listening(site)
    [join(site, f"c{index}") for index in (0, 2)]
    first = join(site, "c1", "Crashing")
    with fleet, local() as same:
        fleet(FAR)
        points = [[0.4, 50.0], [1.0, 50.0], [0.6, 50.0]]
        with ThreadPoolExecutor(1) as beside:
            asked = beside.submit(fleet.table, points)
            assert first.ends() == -signal.SIGKILL
            join(site, "c1", "Crashing")
            np.testing.assert_array_equal(asked.result(), same.table(points))
    assert (site.folder / "crashed").exists()


def test_an_absent_site_costs_no_budget(site: Site):
    fleet = listening(site, rejoin=0.5, budget=6)
    clients = [join(site, f"c{index}") for index in range(3)]
    with fleet:
        fleet(FAR)
        clients[1].send(signal.SIGKILL)
        until(lambda: any("left: c1" in line for line in fleet.said), "c1 to leave")
        assert np.isnan(fleet.table([FAR])[1, 0])
        assert fleet.evaluations == 5
    assert [row[6] for row in ledger(site) if row[6]] == ["absent"]


def test_closing_a_fleet_notes_no_lost_answer(site: Site):
    fleet = listening(site)
    [join(site, f"c{index}") for index in (0, 2)]
    join(site, "c1", "Hanging")
    with fleet, ThreadPoolExecutor(1) as beside:
        fleet(FAR)
        asked = beside.submit(fleet.table, [[1.0, 50.0]])
        until((site.folder / "hangs").exists, "the site to hang")
        fleet.close(over=False)
        assert isinstance(asked.exception(timeout=PATIENCE), FleetError)
    assert [row[6] for row in ledger(site)] == [""] * len(ledger(site))


def test_a_late_answer_does_not_lose_the_site(site: Site):
    fleet = listening(site, timeout=10.0, rejoin=0.1, max_retries=0)
    [join(site, f"c{index}") for index in (0, 2)]
    join(site, "c1", "Hanging")
    with fleet:
        table = fleet.table([[1.0, 50.0]])
        assert np.isnan(table[:, 0]).tolist() == [False, True, False]
        assert np.isnan(fleet.table([FAR])[1, 0])  # it is still at work
    assert [(row[1], row[6]) for row in ledger(site) if row[6]] == [("c1", "no-answer"), ("c1", "absent")]


def test_a_server_that_is_killed_goes_on_by_replay(secure_site: Site):
    site, tls = secure_site, str(secure_site.certificates / "server")

    def start(port: int) -> Process:
        process = site.run("tests.server.fleet.program", ["network", str(site.out), str(port), tls])
        site.port = int(process.says(r"listening on port (\d+)")[1])
        return process

    server = start(0)
    clients = [join(site, f"c{index}", "Paced") for index in range(3)]
    until(lambda: len(ledger(site)) > 40, "evaluations")
    server.send(signal.SIGKILL)
    server.kill()
    asked = len(ledger(site))
    again = start(site.port)
    x = again.says(r"x \[.*\] evaluations \d+")[0]
    assert again.ends() == 0
    assert [client.ends() for client in clients] == [0, 0, 0]
    with local() as same:
        assert x == search(same)
    assert len(ledger(site)) == int(re.search(r"\d+$", x)[0]) > asked  # none was asked twice


def test_others_are_refused_at_the_door(site: Site):
    fleet = listening(site)
    [join(site, f"c{index}") for index in range(3)]
    with fleet:
        late = join(site, "c3")
        assert late.ends() == 2
        assert "the fleet has begun with the sites c0, c1, c2 and takes no other, got 'c3'" in late.text


def test_sites_must_call_their_parameters_the_same(site: Site):
    fleet = listening(site, min_clients=2)
    first = join(site, "c0", "Misnamed")
    first.says("joined")
    other = join(site, "c2", "Misnamed")
    other.says("not admitted yet by .*this client's objective calls parameter 1 'paws', the run's 'pause'")
    fleet.close()


def test_the_budget_ends_search_and_sites(site: Site):
    fleet = listening(site, budget=7)
    clients = [join(site, f"c{index}") for index in range(3)]
    wanted = "the budget of 7 site evaluations has 1 left, and 1 x 3 are wanted"
    with pytest.raises(BudgetError, match=wanted), fleet:
        list(map(fleet, [FAR, [0.5, 50.0], FAR]))
    assert fleet.best is not None
    assert fleet.best.x.tolist() == [0.5, 50.0]
    assert [client.ends() for client in clients] == [0, 0, 0]


def _ask_and_end(fleet: Fleet, ending: BaseException, asked: list[float]) -> None:
    asked.append(fleet(FAR))
    raise ending


@pytest.mark.parametrize("ending", [SystemExit(1), ValueError("a mistake"), KeyboardInterrupt()], ids=repr)
def test_the_sites_hear_that_a_program_has_ended(site: Site, ending: BaseException):
    """There is no folder in which it could go on."""
    fleet = listening(site, folder=None, min_clients=1)
    client = join(site, "c0")
    asked: list[float] = []
    with pytest.raises(type(ending)), fleet:
        _ask_and_end(fleet, ending, asked)
    assert asked
    assert client.ends() == 0
    assert "the run is over" in client.text


@pytest.mark.parametrize(
    ("ending", "over"), [(SystemExit(), True), (ValueError(), False), (KeyboardInterrupt(), False)]
)
def test_sites_of_a_folder_that_goes_on_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: BaseException, over: bool
):
    told: list[bool] = []
    fleet = local(folder=tmp_path / "fleet")
    close = fleet.close
    monkeypatch.setattr(fleet, "close", lambda *, over: (told.append(over), close(over=over)))
    with pytest.raises(type(ending)), fleet:
        raise ending
    assert told == [over]


def test_plain_text_needs_to_be_asked_for() -> None:
    with pytest.raises(FleetError, match=r"tls_dir is needed for 127\.0\.0\.1:0;.*insecure=True"):
        Fleet("127.0.0.1:0")
    with pytest.raises(FleetError, match="exclude each other"):
        Fleet("127.0.0.1:0", insecure=True, tls_dir="certs")

"""clients.jsonl of a served run: who came and went, and every byte that was on the wire."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from tests.server.grpc.processes import Site
from tests.waiting import until


def lines(site: Site) -> list[dict[str, Any]]:
    file = site.out / "clients.jsonl"
    return [json.loads(line) for line in file.read_text().split("\n")[:-1]] if file.exists() else []


def test_a_served_run_keeps_visits_and_bytes(site: Site):
    server = site.server()
    clients = site.clients()
    assert (server.ends(), *[client.ends() for client in clients]) == (0, 0, 0, 0)
    rows = lines(site)
    assert rows[0] == {"time": rows[0]["time"], "connected": 0}
    assert sorted(row["joined"] for row in rows if "joined" in row) == ["c0", "c1", "c2"]
    work = [row["clients"] for row in rows if "clients" in row]
    assert [row["round"] for row in rows if "round" in row] == list(range(12))
    summary = site.summary()
    for place, way in ((2, "bytes_up"), (3, "bytes_down")):
        assert sum(cells[place] for told in work for cells in told.values()) == summary[way] > 0
    assert all(cells[0] == 1 and cells[1] > 0.0 for told in work for cells in told.values())


def test_a_client_that_goes_and_comes_is_told(site: Site):
    site.server(rounds=2000, round_timeout=5.0)
    clients = site.paced(0.02)
    until(lambda: len(site.history()) > 2, "three rounds")
    clients[1].kill()
    until(lambda: Counter(row.get("left") for row in lines(site))["c1"] == 1, "c1 gone")
    site.evil("paced", "c1", "1/3", amount=0.02)
    until(lambda: Counter(row.get("joined") for row in lines(site))["c1"] == 2, "c1 back")

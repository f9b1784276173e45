"""A client that does not join says so to the server, once, with its name, a cause, and nothing of its device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.server.grpc.processes import Process, Site
from zofedht.server.admission.refusal import RefusalsTold


def refusals(server: Process) -> list[dict[str, Any]]:
    """Return the facts of the refusals in the server's log."""
    lines = [json.loads(line) for line in server.text.splitlines() if line.startswith("{")]
    return [line for line in lines if line.get("event") == "refused"]


def table(site: Site, name: str, text: str) -> Path:
    path = site.folder / f"{name}.csv"
    path.write_text(text)
    return path


CLIENTS = {  # name, rows, options, what the server is told
    "texts": ("a,y\n" + "1,secret\n2,hidden\n" * 5, (), "the client's labels are texts"),
    "halves": ("a,y\n" + "1,0.25\n2,1\n" * 5, (), "the client's labels must be whole numbers"),
    "no-column": ("a,y\n" + "1,0\n2,1\n" * 5, ("--label-column", "z"), "the client's data cannot be used"),
}


def test_the_server_tells_why_clients_do_not_join(site: Site) -> None:
    server = site.server("--log-format", "json", num_clients=None, dataset="clients")
    for name, (text, options, _) in CLIENTS.items():
        client = site.client(name, "--data", table(site, name, text), *options)
        assert client.ends() == 2, client.text
        server.says(f'"client": "{name}"')
    told = {refusal["client"]: refusal for refusal in refusals(server)}
    assert list(told) == list(CLIENTS)
    for name, (_, _, reason) in CLIENTS.items():
        assert told[name]["reason"].startswith(reason)
        assert (told[name]["cause"], told[name]["by"]) == ("unusable", "client")
    for private in ("secret", "0.25", str(site.folder), ".csv"):
        assert private not in server.text.replace(str(site.out), "")


def test_other_parameters_are_told_once(site: Site) -> None:
    """The client says the whole difference on its own device alone."""
    (site.folder / "pump.py").write_text("def loss(valve):\n    return (valve - 1.0) ** 2\n")
    declared = "[parameters]\nvalve = { lower = 0.0, upper = %s }\n"
    (site.folder / "mine.toml").write_text(declared % "2.0")
    run = site.folder / "run.toml"
    run.write_text('objective = "pump:loss"\n' + declared % "4.0")
    server = site.server("--log-format", "json", "--config", run, num_clients=None, memory=None)
    for _ in range(2):
        client = site.client("pump-1", "--objective", "pump:loss", "--parameters", "mine.toml")
        assert client.ends() == 2
        assert "4" in client.text
        server.says('"client": "pump-1"')
    [told] = refusals(server)
    assert told["reason"] == "the run's named parameters are not those of this client's --parameters"


def test_refusals_are_told_once_and_in_bounds(caplog: pytest.LogCaptureFixture) -> None:
    """A flood of strangers fills no disk, and no name forges a line."""
    told = RefusalsTold()
    for _ in range(3):
        told("a\nb", "no\x1b[31m", "unusable")
    for number in range(200):
        told(f"c{number}", "no", None)
    assert len(caplog.records) == 100
    assert caplog.records[0].message == "'a\\nb' does not join (unusable): no\\x1b[31m"

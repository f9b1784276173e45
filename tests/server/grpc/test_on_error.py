"""A failing evaluation on a device costs what on-error says; the server hears where, and never imports the module."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import VALVE
from tests.server.grpc.processes import Process, Site
from tests.server.grpc.test_equality import in_process

KEYS = {"objective": "valve_on_device:Touchy", "init": "ones", "step_size": 0.05, "local_steps": 12, "rounds": 5}


@pytest.fixture
def device(site: Site, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that only the clients can import from; this process may, to compare."""
    folder = site.folder / "device"
    folder.mkdir()
    (folder / "valve_on_device.py").write_text(VALVE)
    monkeypatch.syspath_prepend(folder)
    return folder


def join(site: Site, device: Path, factory: str = "Touchy") -> list[Process]:
    own = ("--objective", f"valve_on_device:{factory}")
    return [site.client(f"c{i}", *own, "--partition", f"{i}/3", folder=device) for i in range(3)]


def test_skipped_steps_are_counted(site: Site, device: Path):
    server = site.server(**KEYS, on_error="skip-step")
    clients = join(site, device)
    assert server.ends() == 0, server.text
    assert [client.ends() for client in clients] == [0, 0, 0]
    assert site.failures() == []
    skipped = [line for row in site.history() for line in row["skipped"]]
    assert {line["client"] for line in skipped} <= {"c0", "c1", "c2"}
    assert skipped
    lost = site.summary()["lost"]
    assert (lost["slots"], lost["steps"]) == (0, sum(line["steps"] for line in skipped))
    assert lost["of_steps"] == 12 * sum(row["replies"] for row in site.history())
    assert f"lost            {lost['steps']} of {lost['of_steps']} steps; most often: the objective" in server.text
    assert "the objective raised RuntimeError (valve_on_device.py, line " in skipped[0]["reason"]
    assert any("steps skipped, the first, step " in client.text for client in clients)
    assert site.summary()["last_x_sha256"] == in_process(**KEYS, on_error="skip-step")


def test_stop_ends_a_resumable_run(site: Site, device: Path):
    server = site.server(**KEYS, on_error="stop")
    clients = join(site, device)
    assert server.ends() == 2
    assert "error: client c" in server.text
    assert "the objective raised RuntimeError (valve_on_device.py, line " in server.text
    server = site.server(resume=True, port=site.port, **(KEYS | {"on_error": "skip-step"}))
    assert server.ends() == 0, server.text
    assert [client.ends() for client in clients] == [0, 0, 0]
    assert site.summary()["last_x_sha256"] == in_process(**KEYS, on_error="skip-step")


def test_a_missing_evaluation_is_named_everywhere(site: Site, device: Path):
    keys = KEYS | {"objective": "valve_on_device:LastFails", "init": "auto"}
    server = site.server(**keys)
    clients = join(site, device, "LastFails")
    assert server.ends() == 0, server.text
    assert [client.ends() for client in clients] == [0, 0, 0]
    reason = r"the objective raised TimeoutError \(valve_on_device\.py"
    server.says(
        f"warning: x after round 4 could not be evaluated by all clients, .* the other clients; client c2: {reason}"
    )
    server.says(f"the last x was evaluated on 2 of 3 clients: client c2: {reason}")
    clients[2].says(r"x could not be evaluated on all samples: the objective raised TimeoutError: the plant is in m")
    assert [[one["client"] for one in row["unevaluated"]] for row in site.history()] == [[]] * 4 + [["c2"]]
    summary = site.summary()
    assert summary["evaluated_clients"] == {"initial": 3, "last": 2}
    assert summary["last_x_sha256"] == in_process(**keys)


def test_one_local_step_runs_over_grpc(site: Site):
    """Rules between keys hold for the whole config: a client that is told a part has nothing to refuse."""
    (site.folder / "bowl.py").write_text(
        "from zofedht import Objective\nclass Bowl(Objective):\n    dim = 2\n"
        "    def value(self, x, batch):\n        return float(((x - 1.0) ** 2).sum())\n"
    )
    keys = {"objective": "bowl:Bowl", "local_steps": 1, "step_size": 0.1, "num_clients": 1, "clients_per_round": 1}
    server = site.server("--min-clients", 1, **keys)
    client = site.client("a", "--objective", "bowl:Bowl")
    assert server.ends() == 0, server.text
    assert client.ends() == 0, client.text
    assert site.summary()["final_train_loss"] < site.summary()["initial_train_loss"]

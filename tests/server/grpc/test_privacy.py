"""Private runs over the network: each device draws its noise from its own file."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest

from tests.server.grpc.processes import SMALL, Site
from tests.server.grpc.test_equality import all_end_well
from zofedht.client.join.lifetime import Spent, lifetime_file
from zofedht.client.privacy.secret_file import secret_of_file
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import DataError
from zofedht.common.wire.clients import Member
from zofedht.common.wire.messages import Broadcast
from zofedht.server import inprocess
from zofedht.server.records.run_folder import sha256_of_x

pytest.importorskip("dp_accounting")

PRIVATE = {"privacy": "local", "uplink": "slopes", "clip": 0.5, "rounds": 4}


def test_devices_draw_from_their_own_files(site: Site, monkeypatch: pytest.MonkeyPatch):
    """The same secrets in process give the same x; without the files nobody gets it."""
    server = site.server(**PRIVATE)
    noise = ("--privacy-key", "device.key", "--least-noise", "1")
    all_end_well(server, [site.client(f"c{i}", "--partition", f"{i}/3", *noise) for i in range(3)])
    assert all(row["failures"] == [] for row in site.history())
    assert [row["epsilon"] for row in site.history()] == sorted(row["epsilon"] for row in site.history())

    def secret(broadcast: Broadcast) -> bytes:
        return secret_of_file(site.folder / "device.key", f"c{broadcast.shard_index}")

    config = RunConfig.from_mapping(SMALL | PRIVATE)
    simulated = inprocess.run_in_process(config).state.x
    assert site.summary()["x_sha256"] != sha256_of_x(simulated)
    # Clients of a simulation have other names, and the name is in the question that noise belongs to.
    monkeypatch.setattr(inprocess, "_secret", secret)
    monkeypatch.setattr(inprocess, "members_of", lambda config: [Member(f"c{i}", i, f"c{i}") for i in range(3)])
    assert site.summary()["x_sha256"] == sha256_of_x(inprocess.run_in_process(config).state.x)


def test_least_noise_lets_nothing_else_out(site: Site):
    """Neither slopes with less noise, nor losses; the run of the others goes on."""
    site.server(uplink="slopes", rounds=2, max_retries=0)
    clients = [site.client(f"c{i}", "--partition", f"{i}/3") for i in range(2)]
    clients.append(site.client("c2", "--partition", "2/3", "--privacy-key", "device.key", "--least-noise", "1.5"))
    assert [client.ends() for client in clients] == [0, 0, 0]
    assert {failure["client"] for failure in site.failures()} == {"c2"}
    assert all("--least-noise 1.5 does not allow a slot of noise 0" in failure["reason"] for failure in site.failures())


def test_a_lifetime_bound_holds_over_two_served_runs(site: Site, tmp_path: Path):
    """What the first run has spent counts in the second, whose server knows nothing of it."""
    options = ("--privacy-key", "device.key", "--ledger", "sent.jsonl", "--lifetime-epsilon")
    keys = {**PRIVATE, "rounds": 2, "max_retries": 0}
    server = site.server(**keys)
    others = [site.client(f"c{i}", "--partition", f"{i}/3", "--privacy-key", "device.key") for i in range(2)]
    all_end_well(server, [*others, site.client("c2", "--partition", "2/3", *options, "1000")])
    spent = Spent.read(lifetime_file(site.folder / "sent.jsonl"))
    assert spent.slots == 2
    site.out = tmp_path / "second"
    site.server(**keys)
    clients = [site.client(f"c{i}", "--partition", f"{i}/3", "--privacy-key", "device.key") for i in range(2)]
    clients.append(site.client("c2", "--partition", "2/3", *options, str(1.01 * spent.epsilon(1e-5))))
    assert [client.ends() for client in clients] == [0, 0, 0]
    assert {failure["client"] for failure in site.failures()} == {"c2"}
    assert all("does not allow another such slot" in failure["reason"] for failure in site.failures())
    assert Spent.read(lifetime_file(site.folder / "sent.jsonl")).slots == 2


def test_no_losses_are_asked_of_private_devices(site: Site):
    """Their rows are their own: the run ends with an x, and no loss."""
    rng = np.random.default_rng(0)
    for index in range(3):
        rows = np.column_stack([rng.standard_normal((30, 4)), rng.integers(0, 2, 30)])
        np.savetxt(site.folder / f"{index}.csv", rows, delimiter=",", header="a,b,c,d,y", comments="")
    server = site.server(dataset="clients", **PRIVATE)
    noise = ("--privacy-key", "device.key", "--least-noise", "1")
    all_end_well(server, [site.client(f"c{i}", "--data", f"{i}.csv", *noise) for i in range(3)])
    assert site.summary()["final_train_loss"] is None
    assert site.summary()["privacy"]["epsilon"] > 0.0
    assert all(row["failures"] == [] for row in site.history())


def test_a_privacy_key_is_its_owners_alone(tmp_path: Path):
    path = tmp_path / "device.key"
    one = secret_of_file(path, "a")
    assert (stat.S_IMODE(path.stat().st_mode), len(path.read_bytes())) == (0o600, 32)
    assert secret_of_file(path, "a") == one != secret_of_file(path, "b")
    path.chmod(0o644)
    with pytest.raises(DataError, match="must be readable by its owner alone; chmod 600 it"):
        secret_of_file(path, "a")
    path.chmod(0o600)
    path.write_bytes(b"short")
    with pytest.raises(DataError, match="must hold 32 bytes, got 5"):
        secret_of_file(path, "a")
    with pytest.raises(DataError, match="cannot be made"):
        secret_of_file(tmp_path / "no" / "folder", "a")

"""A data set that is a file: each device opens its own copy, because its owner says so."""

from __future__ import annotations

import numpy as np

from tests.server.grpc.processes import Site
from tests.waiting import until


def test_a_shard_of_a_file_needs_the_devices_consent(site: Site):
    rows = np.random.default_rng(0).normal(size=(60, 4))
    file = site.folder / "everything.npz"
    np.savez(file, X=rows, y=rows[:, 0] > 0)
    site.server(dataset=str(file), rounds=4)
    shy = site.client("c0", "--partition", "0/3")
    assert until(lambda: shy.code is not None and shy, "the client that names no file") is shy
    assert shy.code == 2
    assert "join with --dataset FILE, its copy of the whole set, or with --data FILE, its own rows" in shy.text
    clients = [site.client(f"c{i}", "--partition", f"{i}/3", "--dataset", str(file)) for i in range(3)]
    assert [client.ends() for client in clients] == [0, 0, 0]
    assert site.summary()["final_train_loss"] < site.summary()["initial_train_loss"]

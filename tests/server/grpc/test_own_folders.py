"""A joined client's objective imports the user's own ``common``, beside which the package has one, too."""

from __future__ import annotations

import numpy as np

from tests.own_folders import OPTIMUM, own_folders
from tests.server.grpc.processes import Site


def test_joined_clients_find_the_users_own_folders(site: Site) -> None:
    own_folders(site.folder)
    keys = {"objective": "valve:make", "step_size": None, "rounds": 25, "batch_size": 0, "num_clients": 2}
    server = site.server("--min-clients", 2, clients_per_round=2, **keys)
    clients = [site.client(name, "--objective", "valve:make") for name in ("a", "b")]
    assert server.ends() == 0, server.text
    assert [client.ends() for client in clients] == [0, 0]
    np.testing.assert_allclose(np.load(site.out / "x.npy"), OPTIMUM, atol=0.1)

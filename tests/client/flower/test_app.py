"""The ClientApp: whose secret noise is drawn from where Flower starts the client."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.helpers import black_box, small
from zofedht.client.flower.app import client_fn
from zofedht.common.config.run_config import RunConfig
from zofedht.common.wire.clients import Member
from zofedht.common.wire.codec import encode
from zofedht.server.core.ask import ask
from zofedht.server.core.state import initial_state

PRIVATE = {"privacy": "local", "uplink": "slopes", "sampling": "without-replacement"}


def answered(config: RunConfig, dimension: int) -> dict[str, object]:
    """Return what a new client of the app answers to a slot."""
    [asked, *_] = ask(initial_state(config, np.zeros(dimension)), config, [Member("0", 0, "0")])
    arrays, scalars = encode(asked)
    client = client_fn(None)  # type: ignore[arg-type]
    return client.numpy_client.fit(arrays, scalars)[2]  # type: ignore[attr-defined, no-any-return]


def test_noise_on_rows_of_the_server_is_simulated(monkeypatch: pytest.MonkeyPatch):
    """All engines then end in the same x; there is nobody to hide from."""
    monkeypatch.delenv("ZOFEDHT_PRIVACY_KEY", raising=False)
    one, two = (answered(small(**PRIVATE), 65) for _ in range(2))
    assert one["status"] == "ok"
    assert one["slopes"] == two["slopes"]


def test_a_node_with_rows_of_its_own_needs_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ZOFEDHT_PRIVACY_KEY", raising=False)
    config = small(**PRIVATE, objective=f"{black_box(tmp_path, monkeypatch)}:Valve")
    told = answered(config, 6)
    assert told["status"] == "failed"
    assert "set ZOFEDHT_PRIVACY_KEY=FILE for a SuperNode" in str(told["reason"])
    monkeypatch.setenv("ZOFEDHT_PRIVACY_KEY", str(tmp_path / "node.key"))
    one = answered(config, 6)
    assert one["status"] == "ok"
    (tmp_path / "node.key").unlink()
    assert answered(config, 6)["slopes"] != one["slopes"]

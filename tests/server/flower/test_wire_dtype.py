"""Single precision on the wire: every engine rounds alike, and little is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.helpers import Fleet, quadratics, small
from tests.server.flower.loopback import fit, nodes
from zofedht.common.errors import ConfigError
from zofedht.common.wire.arrays import rounded
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.state import initial_state
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import sha256_of_x

DATA = {"train_rows": 240, "step_size": 1.0, "wire_dtype": "float32"}
KINDS = [{}, {"uplink": "slopes"}, {"uplink": "slopes", "directions": "shared"}, {"model": "mlp", "hidden_units": 3}]


@pytest.mark.parametrize("changes", KINDS)
def test_over_flower_and_in_process_round_alike(changes: dict[str, Any]):
    config = small(**DATA, **changes)
    assert sha256_of_x(fit(config, nodes(2)).state.x) == sha256_of_x(run_in_process(config).state.x)


@pytest.mark.parametrize("changes", KINDS)
def test_single_precision_is_near_double(changes: dict[str, Any]):
    single, double = (
        run_in_process(small(**DATA | {"wire_dtype": dtype}, **changes)).state.x for dtype in ("float32", "float64")
    )
    assert 0.0 < np.linalg.norm(single - double) < 1e-5 * np.linalg.norm(double)


def test_rounding_does_not_grow_with_the_trajectory():
    keys = {"rounds": 225, "local_steps": 5, "batch_size": 4, "memory": 8, "kernel": "numpy", "evaluate_every": 0}
    single, double = (
        run_in_process(small(train_rows=0, step_size=10.0, wire_dtype=dtype, **keys)).state.x
        for dtype in ("float32", "float64")
    )
    assert np.linalg.norm(single - double) < 1e-5 * np.linalg.norm(double)


def test_messages_are_rounded_but_the_servers_x():
    """x, Q and moves are rounded on the wire."""
    config = small(wire_dtype="float32", memory=2)
    fleet, coordinator = Fleet(quadratics()), Coordinator(config, initial_state(config, np.zeros(12)))
    for _ in range(3):
        fleet.round(coordinator)
    asked = coordinator.ask(fleet.members)
    basis = coordinator.state.basis
    assert basis is not None
    assert any(b.basis is not None for b in fleet.sent)
    for sent in (asked[0].x, basis, *(u.move for u in fleet.carry(asked))):
        assert sent is not None
        np.testing.assert_array_equal(rounded(sent, "float32"), sent)
    assert not np.array_equal(rounded(coordinator.state.x, "float32"), coordinator.state.x)


def test_a_kept_x_is_sent_in_full_precision():
    with pytest.raises(ConfigError, match="wire-dtype must be float64 where downlink is slopes, got 'float32'"):
        small(uplink="slopes", directions="shared", downlink="slopes", wire_dtype="float32")

"""Rows of the table whose messages hold more than x and a move: Flower's messages lead to the x of a run in process."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.helpers import small
from tests.server.flower.loopback import fit, nodes
from zofedht.server.inprocess import run_in_process

EVERYBODY = {"clients_per_round": 4, "sampling": "without-replacement"}
ROWS: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "fedkseed": {"pool_size": 9},
    "fedkseed-pro": {"pool_size": 9},
    "zo-scaffold": {},
    "zo-mgt": {"uplink": "slopes"},
    "mezo-svrg": {"uplink": "slopes"},
    "hizoo": {"uplink": "slopes"},
    "zoha": {},
    "fedzen": {"local_steps": 1, "rounds": 2, **EVERYBODY},
    "adaptive-qn": {"local_steps": 1, "rounds": 3},
    "meerkat": {"refresh": 2},
    "lozo": {"blocks": "8x8", "refresh": 3},
    "subzero": {"blocks": "8x8", "uplink": "slopes", "refresh": 3},
    "fedrzo": {},
    "fzoos": {"rounds": 3, "local_steps": 2, "model": "quadratic"},
}


@pytest.fixture(autouse=True)
def quiet() -> None:
    logging.getLogger("flwr").setLevel(logging.ERROR)


@pytest.mark.parametrize("name", ROWS)
def test_a_row_over_flower_ends_in_the_same_x(name: str) -> None:
    config = small(algorithm=name, train_rows=240, evaluate_every=0, **({"rounds": 5} | ROWS[name]))
    assert fit(config, nodes(2)).state.x.tobytes() == run_in_process(config).state.x.tobytes()


def test_learning_a_direction_over_flower_is_the_same_run() -> None:
    """Models name their directions, so that only the question in the first round is asked."""
    config = small(algorithm="zofed-shrink", train_rows=240, rounds=80, evaluate_every=0)
    assert fit(config, nodes(2)).state.x.tobytes() == run_in_process(config).state.x.tobytes()

"""Rows of the table whose messages hold more than x and a move: Flower's messages lead to the x of a run in process."""

from __future__ import annotations

import logging
from itertools import groupby
from typing import Any

import pytest

from tests.helpers import small
from tests.server.flower.loopback import fit, nodes
from zofedht.server.core.round_record import RoundRecord
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


@pytest.mark.parametrize("uplink", ["move", "slopes"])
def test_a_direction_that_is_let_go_and_taken_back_over_flower_is_the_same_run(uplink: str) -> None:
    keys = {"model": "svm-squared-hinge", "init": "ones", "warm_up": 1, "local_steps": 20, "shrink": 0.3, "rounds": 30}
    config = small(algorithm="zofed-shrink", train_rows=240, step_size=0.01, evaluate_every=0, uplink=uplink, **keys)
    records: list[RoundRecord] = []
    own = run_in_process(config, observers=[lambda state, record: records.append(record)])
    versions = [record.basis_version for record in records]
    assert [version for version, _ in groupby(versions)] == [None, 1, None, 21]
    assert fit(config, nodes(2)).state.x.tobytes() == own.state.x.tobytes()

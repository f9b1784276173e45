"""Objectives that answer 1.7e308 where x is not allowed: an honest penalty, whose sums and squares overflow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.place import Rows
from tests.server.grpc.processes import Site
from zofedht import run

SITES, PENALTY = 4, 1.7e308
MASKED = {
    "secure_aggregation": True,
    "uplink": "slopes",
    "directions": "shared",
    "sampling": "without-replacement",
    "subspace_weight": 0.3,
}


class Penalised:
    """A bowl with a wall near the start, or where the site forbids every x now and then."""

    def __init__(self, site: int, how: str, penalty: float) -> None:
        self._site, self._how, self._penalty = site, how, penalty
        self._rng = np.random.default_rng(site)

    def __call__(self, x: np.ndarray) -> float:
        forbidden = {
            "wall": bool(np.any(x > 1.05)),
            "one site": self._site == 1,
            "now and then": self._rng.random() < 0.2,
        }[self._how]
        return self._penalty if forbidden else float(np.sum((x - 1.0 - 0.1 * self._site) ** 2))


class PenalisedRows(Rows):
    """Rows in place that forbid parameters above 0.3."""

    def value(self, batch: Any) -> float:
        return PENALTY if np.any(np.abs(self.vector()) > 0.3) else super().value(batch)


@pytest.mark.parametrize("how", ["wall", "one site", "now and then"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"algorithm": "cma-es"},
        {"algorithm": "lbfgs"},
        {"algorithm": "auto"},
        {"algorithm": "zofedht", "step_size": "auto"},
        {"algorithm": "zofed-shrink", "step_size": 0.1},
        {"algorithm": "zofedht", "step_size": 0.1, "aggregation": "median"},
        {"algorithm": "zofedht", "step_size": 0.1, **MASKED},
        {"algorithm": "fzoos", "step_size": 0.1},
    ],
    ids=str,
)
def test_a_penalty_of_the_largest_number_ends_no_run(options: dict[str, Any], how: str):
    """Warnings are errors here, so no number may overflow."""
    sites = [Penalised(site, how, PENALTY) for site in range(SITES)]
    found = run(sites, np.full(3, 0.9), rounds=15, evaluate_every=1, seed=3, **options)
    assert found.nit == 15 or found.ended
    assert np.all(np.isfinite(found.x))


@pytest.mark.parametrize("penalty", [PENALTY, -PENALTY, 9e99, np.inf])
def test_a_round_in_which_all_diverge_ends_no_budget(penalty: float):
    sites = [Penalised(site, "now and then", penalty) for site in range(SITES)]
    found = run(sites, np.full(4, 0.9), algorithm="fedkseed", budget=400, evaluate_every=1, seed=267)
    assert found.nfev <= 400 + 400
    assert np.all(np.isfinite(found.x))


def test_a_penalty_ends_no_run_in_place():
    sites = [PenalisedRows(site) for site in range(3)]
    found = run(sites, in_place=True, algorithm="mezo", step_size=0.01, rounds=6, seed=3)
    assert found.nit == 6


_MODULE = """
import numpy as np
from zofedht import Objective

class Box(Objective):
    dim = 3
    def value(self, x, batch):
        return 1.7e308 if np.any(x > 1.05) else float(np.sum((x - 1) ** 2))
    def starting_point(self, seed):
        return np.full(3, 0.9)
"""


@pytest.mark.parametrize("algorithm", ["zofedht", "auto"])
def test_a_penalty_ends_no_served_run(tmp_path: Any, algorithm: str):
    (tmp_path / "boxes.py").write_text(_MODULE)
    site, none = Site(tmp_path), dict.fromkeys(["memory", "local_steps", "batch_size", "step_size"])
    none |= dict.fromkeys(["clients_per_round", "sampling", "kernel"] if algorithm == "auto" else [])
    try:
        server = site.server(objective="boxes:Box", algorithm=algorithm, **none)
        clients = [site.client(f"c{index}", "--objective", "boxes:Box") for index in range(3)]
        assert server.ends() == 0, server.text
        assert [client.ends() for client in clients] == [0, 0, 0]
        assert len(site.history()) == 12
    finally:
        site.close()

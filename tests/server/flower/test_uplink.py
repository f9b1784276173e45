"""Slopes over Flower's messages: the same x as in process, and the bytes that went over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flwr.common import FitIns, FitRes

from tests.helpers import small
from tests.server.flower.loopback import Loopback, fit, nodes
from zofedht.server.aggregation.replays import OTHER_DIRECTIONS
from zofedht.server.delivery.fallbacks import OTHER_NUMBERS
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.history import read_history
from zofedht.server.records.run_folder import RunFolder, sha256_of_x

CONFIG = small(train_rows=240, step_size=1.0, uplink="slopes")


@pytest.mark.parametrize("directions", ["per-slot", "shared"])
@pytest.mark.parametrize("changes", [{}, {"covariance": "paper"}, {"algorithm": "zofedavg-sgd"}])
def test_slopes_over_flower_equal_in_process(directions: str, changes: dict[str, Any]):
    config = CONFIG.replace(directions=directions, **changes)
    assert sha256_of_x(fit(config, nodes(2)).state.x) == sha256_of_x(run_in_process(config).state.x)


@pytest.mark.parametrize("algorithm", ["conmezo", "decomfl", "fzoo", "guided-es", "hiso", "sges", "zo-adam"])
def test_rows_over_flower_equal_in_process(algorithm: str):
    config = small(train_rows=240, algorithm=algorithm, rounds=4, step_size=0.1)
    assert sha256_of_x(fit(config, nodes(2)).state.x) == sha256_of_x(run_in_process(config).state.x)


@pytest.mark.parametrize("uplink", ["move", "slopes"])
def test_the_history_tells_the_bytes_that_went_over(tmp_path: Path, uplink: str):
    folder = RunFolder(tmp_path / "run")
    folder.begin(CONFIG, "simulation")
    proxies = nodes(2)
    fit(CONFIG.replace(uplink=uplink), proxies, folder=folder)
    row = read_history(folder.history_file)[-1]
    assert row["bytes_up"] == sum(proxy.up for proxy in proxies)
    assert row["bytes_down"] == sum(proxy.down for proxy in proxies)


class OtherDirections(Loopback):
    """A node that draws from another seed."""

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        changed = FitIns(ins.parameters, ins.config | {"seed": int(str(ins.config["seed"])) + 1})
        return super().fit(changed, timeout, group_id)


def test_a_node_with_other_directions_sends_moves(tmp_path: Path):
    config = CONFIG.replace(sampling="without-replacement", clients_per_round=4)
    folder = RunFolder(tmp_path / "run")
    folder.begin(config, "simulation")
    fit(config, [Loopback("1"), OtherDirections("2")], folder=folder)  # clients 1 and 3 live on node 2
    for row in read_history(folder.history_file):
        assert (row["replies"], row["attempts"], row["failures"]) == (4, 1, [])
        assert sorted((f["client"], f["reason"]) for f in row["fallbacks"]) == [
            ("1", OTHER_DIRECTIONS),
            ("3", OTHER_DIRECTIONS),
        ]


class OtherNumbers(Loopback):
    """A node whose NumPy draws other numbers."""

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        result = super().fit(ins, timeout, group_id)
        result.metrics["draw-digest"] = "0" * 16
        return result


def test_moves_say_what_their_sender_draws(tmp_path: Path):
    """These nodes never introduce themselves."""
    config = CONFIG.replace(uplink="move", sampling="without-replacement", clients_per_round=4)
    folder = RunFolder(tmp_path / "run")
    folder.begin(config, "simulation")
    result = fit(config, [Loopback("1"), OtherNumbers("2")], folder=folder)
    for row in read_history(folder.history_file):
        assert (row["replies"], row["failures"]) == (4, [])
        found = [(f["slot"], f["client"], f["reason"]) for f in row["fallbacks"]]
        assert sorted(client for _, client, _ in found) == ["1", "3"]
        assert {reason for _, _, reason in found} == {OTHER_NUMBERS}
    assert result.summary["fallbacks"] == {"1": 7, "3": 7}


def test_over_nodes_that_keep_nothing_x_goes_in_full(tmp_path: Path):
    config = CONFIG.replace(directions="shared", downlink="slopes")
    proxies = nodes(2)
    assert sha256_of_x(fit(config, proxies).state.x) == sha256_of_x(run_in_process(config).state.x)
    assert all(ins.parameters.tensors for proxy in proxies for ins in proxy.fits)

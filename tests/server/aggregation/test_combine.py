"""What the usable updates of a round come to, and which of them are named as outliers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.helpers import broadcast, reply, small
from zofedht.common.choices import AGGREGATIONS
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.aggregation.combine import Combined, combine, summed_outliers
from zofedht.server.aggregation.replays import Replays
from zofedht.server.inprocess import run_in_process

_MOVES = [(1.0, 2.0, 3.0), (1.5, 2.0, 2.5), (0.5, 2.5, 3.0), (1.0, 1.5, 3.5), (-300.0, -600.0, -900.0)]


def _round(moves: list[tuple[float, ...]] = _MOVES) -> tuple[list[Update], dict[int, Broadcast]]:
    asked = {slot: broadcast(slot, str(slot)) for slot in range(len(moves))}
    return [reply(asked[slot], move) for slot, move in enumerate(moves)], asked


def _combined(config: RunConfig, **more: Any) -> Combined:
    updates, asked = _round()
    return combine(updates, asked, config, Replays(), None, more.get("medians", ()))


def test_an_outlier_is_named_under_the_mean_too():
    combined = _combined(small(clients_per_round=5))
    assert [(one.slot, one.client) for one in combined.outliers] == [(4, "4")]
    assert combined.outliers[0].times == pytest.approx(300.0, rel=0.1)
    assert len(combined.contributions) == 5, "the mean takes it all the same"


def test_a_robust_rule_makes_one_part():
    combined = _combined(small(clients_per_round=5, aggregation="median"))
    [part] = combined.contributions
    np.testing.assert_array_equal(part.move, np.median(_MOVES, axis=0))
    assert part.lengths is None


def test_lengths_are_remembered_in_units_of_the_step_size():
    combined = _combined(small(clients_per_round=5), medians=(40.0,))
    assert len(combined.medians) == 2
    assert combined.medians[1] == pytest.approx(np.median(np.linalg.norm(_MOVES, axis=1)) / 0.1, rel=1e-12)


def test_a_round_without_updates_leaves_all_as_it_is():
    combined = combine([], {}, small(), Replays(), None, (3.0,))
    assert (combined.contributions, combined.outliers, combined.medians) == ([], (), (3.0,))


def test_no_round_takes_a_lone_move_for_an_outlier():
    updates, asked = _round([(1.0, 2.0, 3.0)])
    assert combine(updates, asked, small(aggregation="median"), Replays(), None, ()).outliers == ()


def test_outliers_are_summed_by_client():
    rows = [{"outliers": [{"client": "7", "times": times}]} for times in (31.0, 29.0, 60.0)] + [{}]
    assert summed_outliers(rows) == {"7": {"slots": 3, "times": 31.0}}


@pytest.mark.parametrize("rule", AGGREGATIONS)
def test_shared_slopes_and_moves_combine_alike(rule: str):
    """A rule on slopes is not the rule on moves, but for the mean; both keep the honest direction."""
    keys = {"aggregation": rule, "num_clients": 6, "clients_per_round": 6, "sampling": "without-replacement"}
    shared = small(**keys, directions="shared", local_steps=30, dataset="digits", train_rows=300)
    move, slopes = (run_in_process(shared.replace(uplink=uplink)).state.x for uplink in ("move", "slopes"))
    cosine = float(move @ slopes) / float(np.linalg.norm(move) * np.linalg.norm(slopes))
    assert cosine > (1.0 - 1e-12 if rule == "mean" else 0.5)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"weighting": "examples"}, "weighting must be uniform when aggregation is median"),
        ({"step_size": "auto", "local_steps": 9}, "aggregation must be mean when step-size is auto"),
        ({"aggregation": "krum", "tolerate": 1}, "clients-per-round must be at least 5 for krum to bear 1 false slots"),
        ({"aggregation": "trimmed-mean", "tolerate": 2}, "clients-per-round must be at least 5 for trimmed-mean"),
        ({"aggregation": "mode"}, "aggregation must be one of mean, clipped"),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, Any], problem: str):
    with pytest.raises(ConfigError, match=problem):
        small(**({"aggregation": "median"} | changes))


def test_a_resumed_run_remembers_the_usual_length():
    config = small(aggregation="clipped", dataset="digits", train_rows=200, step_schedule="constant")
    whole = run_in_process(config).state
    part = run_in_process(config.replace(rounds=3)).state
    assert part.lengths
    resumed = run_in_process(config, state=part).state
    assert resumed.x.tobytes() == whole.x.tobytes()
    assert resumed.lengths == whole.lengths

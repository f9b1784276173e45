"""Laws of whole runs, without Flower."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import Fleet, black_box, quadratics, small
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import DataError, ObjectiveError, RoundError
from zofedht.common.objective.base import Objective
from zofedht.common.objective.loading import starting_point
from zofedht.common.shards import members_of, objective_of
from zofedht.server.core.ask import ask
from zofedht.server.core.round_record import RoundRecord
from zofedht.server.core.selection import select
from zofedht.server.core.state import ServerState, initial_state
from zofedht.server.inprocess import run_in_process

QUADRATICS = quadratics()
DATA = {"num_clients": 6, "batch_size": 16, "train_rows": 240, "step_size": 1.0, "evaluate_every": 0}


def end(config: RunConfig, objectives: list[Objective] | None = QUADRATICS) -> bytes:
    return run_in_process(config, objectives).state.x.tobytes()


@pytest.mark.parametrize(("data", "objectives"), [({}, QUADRATICS), (DATA, None)], ids=["quadratic", "digits"])
class TestTheTable:
    """What the rows of the algorithm table have in common, on a black-box path and on the linear models' own."""

    def test_weight_0_equals_zofedavg_sgd_bit_for_bit(self, data: dict[str, Any], objectives: list[Objective] | None):
        one = small(subspace_weight=0.0, **data)
        assert end(one, objectives) == end(small(algorithm="zofedavg-sgd", **data), objectives)

    def test_zofedavg_gd_equals_zofedavg_sgd_on_whole_shards(
        self, data: dict[str, Any], objectives: list[Objective] | None
    ):
        gd = small(algorithm="zofedavg-gd", **data)
        assert end(gd, objectives) == end(small(algorithm="zofedavg-sgd", **(data | {"batch_size": 0})), objectives)

    def test_before_the_first_refresh_zofedht_is_zofedavg_sgd(
        self, data: dict[str, Any], objectives: list[Objective] | None
    ):
        for rounds, same in ((2, True), (3, False)):  # memory = 2
            ht, sgd = (small(rounds=rounds, algorithm=name, **data) for name in ("zofedht", "zofedavg-sgd"))
            assert (end(ht, objectives) == end(sgd, objectives)) is same

    def test_a_run_is_a_function_of_config_and_seed(self, data: dict[str, Any], objectives: list[Objective] | None):
        assert end(small(**data), objectives) == end(small(**data), objectives)
        assert end(small(**data), objectives) != end(small(seed=12, **data), objectives)

    def test_training_lowers_the_loss(self, data: dict[str, Any], objectives: list[Objective] | None):
        config = small(rounds=30, local_steps=10, init="ones", step_schedule="constant", **({"step_size": 0.01} | data))
        result = run_in_process(config, objectives)
        assert result.final["train_loss"] < 0.9 * result.initial["train_loss"]


@pytest.mark.parametrize(
    ("key", "other"),
    [
        ("covariance", "paper"),
        ("sampling", "without-replacement"),
        ("weighting", "examples"),
        ("slope", "forward"),
        ("step_schedule", "constant"),
        ("step_schedule", "inverse-sqrt"),
        ("warm_up", 3),
    ],
)
def test_each_choice_makes_a_difference(key: str, other: str):
    assert end(small(**{key: other})) != end(small())


def test_what_enters_no_number_changes_nothing():
    assert end(small(evaluate_every=3, checkpoint_every=1, max_retries=0, out="x", round_timeout=1.0)) == end(small())


def test_a_client_drawn_twice_does_two_slots():
    """They are independent, and both count."""
    config = small(rounds=1, clients_per_round=4, seed=1)
    drawn = select(members_of(config), 4, "with-replacement", seed=1, round_=0)
    twice = next(member.name for member, times in Counter(drawn).items() if times == 2)
    state = initial_state(config, np.zeros(12))
    updates = Fleet(QUADRATICS).carry(ask(state, config, members_of(config)))
    of_twice = [update.move for update in updates if update.client == twice]
    assert not np.array_equal(of_twice[0], of_twice[1])
    x = run_in_process(config, QUADRATICS).state.x
    np.testing.assert_allclose(x, np.mean([update.move for update in updates], axis=0), rtol=1e-14)


def test_observers_see_each_round_once():
    seen: list[tuple[int, int]] = []

    def watch(state: ServerState, record: RoundRecord) -> None:
        seen.append((record.round, state.round))

    run_in_process(small(), QUADRATICS, observers=[watch])
    assert seen == [(r, r + 1) for r in range(7)]


def test_a_black_box_trains_by_its_values_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = black_box(tmp_path, monkeypatch)
    result = run_in_process(small(objective=f"{module}:Valve", rounds=40, local_steps=10, init="ones", step_size=0.02))
    assert result.final["train_loss"] < result.initial["train_loss"] - 0.5


def test_a_network_starts_where_it_says_unless_told_otherwise():
    keys = {"model": "mlp", "hidden_units": 3, "rounds": 1, "step_size": 1e-300}  # so the end is the start
    own = starting_point(objective_of(small(**keys).task, 0), 11)
    np.testing.assert_array_equal(run_in_process(small(**keys)).state.x, own)
    assert not np.any(np.abs(run_in_process(small(init="zeros", **keys)).state.x) > 1e-290)


def test_a_black_box_starts_where_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = black_box(tmp_path, monkeypatch)
    starts = []
    for name, init in (("Starting", "auto"), ("Starting", "zeros"), ("Valve", "auto")):
        result = run_in_process(small(objective=f"{module}:{name}", rounds=1, init=init, step_size=1e-300))
        starts.append(bool(np.max(np.abs(result.state.x)) > 0.1))
    assert starts == [True, False, False]


def test_an_evaluation_that_fails_names_client_round_and_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = black_box(tmp_path, monkeypatch)
    with pytest.raises(RoundError) as caught:
        run_in_process(small(objective=f"{module}:Breaking", max_retries=1))
    assert "client 2: round 1, step 1: the objective raised RuntimeError: the valve is shut" in str(caught.value)


def test_a_failing_client_costs_its_slots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The record names it."""
    module = black_box(tmp_path, monkeypatch)
    records: list[RoundRecord] = []
    config = small(objective=f"{module}:FirstBroken", num_clients=3, rounds=6, sampling="without-replacement")
    run_in_process(config, observers=[lambda state, record: records.append(record)])
    assert [record.replies for record in records] == [2] * 6
    assert [[one["client"] for one in record.unevaluated] for record in records] == [[]] * 5 + [["0"]]
    failures = [(f["round"], f["client"], f["cause"], f["step"]) for record in records for f in record.failures]
    assert failures == [(round_, "0", "raised", 0) for round_ in range(6)]
    assert str(records[0].failures[0]["reason"]).startswith("the objective raised RuntimeError: the valve is shut (")


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        ("Broken", "the objective raised RuntimeError: the valve is shut"),
        ("Lossless", r"evaluate\(\) must return a dict with 'loss' in it, got cost"),
    ],
)
def test_a_full_evaluation_that_fails_names_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factory: str, reason: str
):
    module = black_box(tmp_path, monkeypatch)
    with pytest.raises(ObjectiveError, match=f"no client could evaluate the start: clients? 0.*: {reason}"):
        run_in_process(small(objective=f"{module}:{factory}"))


def test_nan_is_named_with_client_round_and_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = black_box(tmp_path, monkeypatch)
    with pytest.raises(RoundError, match="client 2: round 1, step 1: the objective returned nan, not a finite number"):
        run_in_process(small(objective=f"{module}:Diverging", max_retries=0))


def test_a_diverging_run_ends_with_reasons():
    """And without a warning."""
    with pytest.raises(RoundError, match=r"round \d+, step \d+: the slope is .*; a smaller step-size or radius"):
        run_in_process(small(rounds=200, local_steps=50, step_size=50.0, step_schedule="constant"), QUADRATICS)


def test_rows_that_only_clients_hold_are_refused():
    with pytest.raises(DataError) as caught:
        run_in_process(small(dataset="clients"))
    assert str(caught.value) == (
        "dataset = clients has rows only where clients join with --data; use it with `zofedht-server serve`"
    )

"""Runs whose parameters the clients hold: equal bits at all clients, after a kill, and from the trail alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import KilledError, kill_after
from tests.place import Rows
from zofedht import (
    CheckpointError,
    ConfigError,
    InPlaceObjective,
    ObjectiveError,
    Optimizer,
    RunConfig,
    TensorObjective,
    load_run,
    run,
)
from zofedht.client.tensors import copies
from zofedht.common.tensors.trail import TrailLaw
from zofedht.server.__main__ import main
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import RunFolder

KEYS: dict[str, Any] = {
    "rounds": 8, "step_size": 0.05, "local_steps": 4, "batch_size": 8, "radius": 1e-3, "seed": 3, "probe": "rademacher",
    "clients_per_round": 2,
}  # fmt: skip
NAMED = {key.replace("_", "-"): value for key, value in KEYS.items()} | {
    "objective": "tests.place:make", "in-place": True, "num-clients": 4, "checkpoint-every": 3,
}  # fmt: skip


def sites(count: int = 4, kind: str = "float32") -> list[Rows]:
    return [Rows(site, kind) for site in range(count)]


def test_a_run_lowers_the_loss_and_all_clients_end_equal():
    clients = sites()
    result = run(clients, **KEYS)
    assert result.success
    assert result.fun < 0.8 * result.comparison.gain + result.fun
    assert {client.state_digest() for client in clients} == {result.digest}
    assert result.x.shape == (8 * 4,)
    assert result.fun == pytest.approx(np.mean([client.value(slice(None)) for client in clients]), rel=1e-12)


def test_the_trail_and_the_start_give_the_parameters_bit_for_bit():
    result = run(sites(), **KEYS)
    alone = Rows(0)
    TrailLaw(3, "rademacher", 4).follow(alone, result.x, 0)
    assert alone.state_digest() == result.digest


@pytest.mark.parametrize(
    "keys",
    [
        {"algorithm": "decomfl", "slopes_per_step": 3},
        {"algorithm": "mezo"},
        {"algorithm": "fzoo"},
        {"algorithm": "zofedavg-gd", "slope": "forward"},
        {"warm_up": 3, "step_schedule": "constant", "sampling": "with-replacement"},
        {"aggregation": "median", "clients_per_round": 3},
        {"privacy": "central", "sampling": "without-replacement", "clip": 10.0, "noise_multiplier": 0.01},
        {"weighting": "examples", "probe": "gaussian"},
        {"return_x": "best", "evaluate_every": 2},
        {"algorithm": "fedkseed", "pool_size": 6},
        {"algorithm": "lozo", "refresh": 3},
        {"algorithm": "subzero", "refresh": 3},
        {"algorithm": "meerkat", "refresh": 2, "subset_share": 0.4},
        {"algorithm": "zofedht", "memory": 2, "step_size": 0.005},
        {"algorithm": "zofedht", "refresh": 1, "directions": "per-slot", "probe": "gaussian", "step_size": 0.005},
        {"algorithm": "guided-es"},
        {"directions": "per-slot"},
        {"algorithm": "fedkseed", "pool_size": 6, "directions": "per-slot"},
        {"algorithm": "meerkat", "refresh": 2, "directions": "per-slot"},
    ],
)
def test_rows_of_the_family_work_in_place(keys: dict[str, Any], tmp_path: Path):
    given = {name: value for name, value in KEYS.items() if not (name == "local_steps" and "algorithm" in keys)}
    clients = sites()
    result = run(clients, **(given | {"step_size": 0.01} | keys), out=tmp_path / "run")
    assert result.nit == 8
    assert len({client.state_digest() for client in clients}) == 1
    if result.digest:
        assert result.fun < 13.0  # the start has 13.8
    alone = Rows(0)
    load_run(tmp_path / "run").rebuild(alone)
    assert alone.state_digest() == clients[0].state_digest()


def test_one_net_for_all_clients_gives_the_same_bits():
    net = dict(Rows(0).arrays)
    together = [Rows(site, arrays=net) for site in range(4)]
    assert run(together, **KEYS).digest == run(sites(), **KEYS).digest == together[0].state_digest()


def test_where_copies_lie_changes_no_number(monkeypatch: pytest.MonkeyPatch):
    in_memory = run(sites(), **KEYS)
    monkeypatch.setattr(copies, "_SMALL", 0)
    monkeypatch.setattr(copies, "free_bytes", lambda: 1)
    on_disk = run(sites(), **KEYS)
    assert on_disk.digest == in_memory.digest
    assert np.array_equal(on_disk.x, in_memory.x)


@pytest.mark.parametrize(
    "guide",
    [
        {},
        {"algorithm": "zofedht", "memory": 2, "step-size": 0.01},
        {"algorithm": "zofed-shrink", "objective": "tests.place:stiff", "warm-up": 2, "step-size": 0.01},
    ],
)
@pytest.mark.parametrize("killed", [1, 3, 5])
def test_a_killed_run_goes_on_to_the_same_bits(tmp_path: Path, killed: int, guide: dict[str, Any]):
    config = RunConfig.from_mapping(NAMED | guide)
    whole = run_in_process(config)
    with RunFolder(tmp_path / "run") as folder:
        folder.begin(config, "in-process")
        with pytest.raises(KilledError):
            run_in_process(config, folder=folder, observers=[kill_after(killed)])
        config, state, _ = folder.reopen({})
        assert state.tensors is not None
        resumed = run_in_process(config, folder=folder, state=state)
    assert np.array_equal(resumed.state.x, whole.state.x)
    assert resumed.state.tensors == whole.state.tensors
    assert resumed.state.totals.evaluations == whole.state.totals.evaluations


def test_a_checkpoint_of_other_weights_is_refused():
    config = RunConfig.from_mapping(NAMED)
    state = run_in_process(config, sites()).state
    clients = sites()
    for client in clients:
        client.arrays["bias"][0] = 1.0
    with pytest.raises(CheckpointError, match="begins with other parameters than the checkpoint"):
        run_in_process(config.replace(rounds=9), clients, state=state)


def test_a_client_that_begins_with_other_weights_is_named():
    clients = sites()
    clients[2].arrays["weight"][0, 0] += 1e-6
    with pytest.raises(ObjectiveError, match="client 2 begins with other parameters than client 0"):
        run(clients, **KEYS)


def test_a_client_of_another_type_is_named():
    clients = [*sites(3), Rows(3, "float64")]
    text = "client 3 has a block 'weight float64 7x3' where client 0 has 'weight float32 7x3'"
    with pytest.raises(ObjectiveError, match=text):
        run(clients, **KEYS)


class Astray(Rows):
    """Changes a parameter by itself, outside of a slot."""

    def evaluate(self) -> dict[str, float]:
        metrics = super().evaluate()
        if self.calls > 10:
            self.arrays["bias"][0] += 1.0
        return metrics


def test_a_client_whose_parameters_went_astray_is_told_apart():
    clients = [*sites(3), Astray(3)]
    result = run(clients, **KEYS, evaluate_every=2)
    lacking = [row["unevaluated"] for row in result.records if row["unevaluated"]]
    assert {one["client"] for row in lacking for one in row} == {"3"}
    assert "not those of the other clients" in lacking[0][0]["reason"]


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"algorithm": "conmezo"}, "algorithm must have directions that are drawn block by block .*got 'conmezo'"),
        ({"algorithm": "zofedht", "subspace_weight": "auto"}, "subspace-weight must be a number where in-place is"),
        ({"algorithm": "fedkseed-pro"}, "algorithm must have directions .* block by block .*got 'fedkseed-pro'"),
        ({"algorithm": "cma-es"}, "algorithm must have directions that are drawn block by block .*got 'cma-es'"),
        ({"probe": "sphere"}, "probe must be gaussian or rademacher where in-place is true, got 'sphere'"),
        ({"slope": "three-point"}, "slope must be central or forward where in-place is true, got 'three-point'"),
        ({"step_size": "auto"}, "step-size must be a number where in-place is true, got 'auto'"),
        ({"directions": "per-slot", "aggregation": "median"}, "aggregation must be mean where in-place is true and"),
        ({"directions": "per-slot", "privacy": "central"}, "directions must be shared"),
        ({"algorithm": "lozo", "blocks": "7x3"}, "blocks must be auto where in-place is true"),
        ({"uplink": "move"}, "uplink must be slopes where in-place is true"),
        ({"downlink": "x"}, "downlink must be slopes where in-place is true"),
        ({"server_step": "adam"}, "server-step must be mean where in-place is true"),
        ({"correction": "svrg"}, "correction must be none where in-place is true"),
        ({"batch_growth": 0.5}, "batch-growth must be 0.0 where in-place is true"),
        ({"privacy": "local"}, "privacy must be none or central where in-place is true, got 'local'"),
        ({"secure_aggregation": True}, "secure-aggregation must be .* where in-place is true"),
        ({"init": "zeros"}, "init must be auto where in-place is true"),
        ({"in_place": False}, "in_place must not be False for InPlaceObjectives"),
    ],
)
def test_keys_that_need_whole_vectors_are_refused(keys: dict[str, Any], sentence: str):
    with pytest.raises(ConfigError, match=sentence):
        run(sites(), **(KEYS | keys))


def test_a_step_size_must_be_given():
    with pytest.raises(ConfigError, match="step-size must be a number where in-place is true, got 'default'"):
        run(sites(), rounds=3)


def test_arguments_of_functions_are_refused():
    with pytest.raises(ConfigError, match="an InPlaceObjective holds its own start"):
        run(sites(), x0=np.zeros(24), **KEYS)
    mixed: Any = [Rows(0), lambda x: 0.0]
    with pytest.raises(
        ConfigError, match="all objectives must be InPlaceObjectives where one of them is, got function"
    ):
        run(mixed, **KEYS)


def test_an_objective_that_is_not_in_place_is_refused_by_name():
    config = RunConfig.from_mapping(NAMED | {"objective": "tests.place:vector"})
    with pytest.raises(ObjectiveError, match=r"must be an InPlaceObjective .*, got FunctionObjective"):
        run_in_process(config)
    config = RunConfig.from_mapping({"objective": "tests.place:make", "num-clients": 2})
    with pytest.raises(ObjectiveError, match="set in-place = true"):
        run_in_process(config)


def test_who_holds_x_as_a_vector_refuses_in_place(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(ConfigError, match="in-place must be false where x is a vector"):
        Optimizer(x0=[0.0, 0.0], clients=["north"], in_place=True, step_size=0.1, budget=40)
    words = ["objective=tests.place:make", "in-place=true", "step-size=0.1", "num-clients=2", "clients-per-round=2"]
    assert main(["plan", "--set", *words]) == 2
    assert "plan must be asked without in-place" in capsys.readouterr().err


def test_a_tensor_that_is_not_its_block_is_refused():
    class Wrong(TensorObjective):
        def value(self, batch: Any) -> float:
            return 0.0

    wrong = Wrong({"w": np.zeros(3, np.float32)})
    wrong.blocks = (wrong.blocks[0].__class__("w", (4,), "float32"),)
    with pytest.raises(ObjectiveError, match=r"the tensor of block w must be float32 of shape \(4,\), got float32"):
        run([wrong], **KEYS)
    assert isinstance(wrong, InPlaceObjective)

"""A run returns the best x that was evaluated in full, and says whether it is better than the start."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.helpers import killed_and_resumed, quadratics, small
from zofedht import Objective, load_run
from zofedht.common.typing import Indices, Vector
from zofedht.server.core.state import ServerState
from zofedht.server.inprocess import run_in_process
from zofedht.server.minimise.run import run
from zofedht.server.records.run_folder import RunFolder

LONG = {
    "rounds": 12,
    "step_size": 0.08,
    "step_schedule": "constant",
    "init": "ones",
    "return_x": "best",
}  # too long a step: the loss goes up and down


def mean_loss(x: Vector) -> float:
    return float(np.mean([objective.evaluate(x)["loss"] for objective in quadratics()]))


def test_the_best_evaluated_x_is_returned():
    seen: list[Vector] = []
    result = run_in_process(small(**LONG), quadratics(), observers=[lambda state, record: seen.append(state.x)])
    losses = [mean_loss(x) for x in [np.ones(12), *seen]]
    assert 0 < np.argmin(losses) < 12
    assert result.x.tobytes() == seen[int(np.argmin(losses)) - 1].tobytes()
    assert (result.verdict.which, result.verdict.chosen.round) == ("best", np.argmin(losses))
    assert result.final["train_loss"] == pytest.approx(min(losses), rel=1e-12)


def test_evaluate_every_decides_which_x_are_seen():
    counted = {every: run_in_process(small(**LONG, evaluate_every=every), quadratics()) for every in (1, 5, 0)}
    fulls = {every: result.state.totals.full_evaluations for every, result in counted.items()}
    once = 6 + 7 + 8 + 9  # rows of the clients
    ends = {every: 2 if result.verdict.chosen.round in (0, 12) else 3 for every, result in counted.items()}
    assert fulls == {1: (13 + ends[1]) * once, 5: (4 + ends[5]) * once, 0: (2 + ends[0]) * once}
    assert counted[1].final["train_loss"] <= counted[5].final["train_loss"]


def test_a_resumed_run_keeps_its_best_x(tmp_path: Path):
    """Killed after the best round: the best x lies in the checkpoint, bit for bit."""
    config = small(**LONG, checkpoint_every=1)
    whole = run_in_process(config, quadratics())
    assert whole.verdict.chosen.round < 11
    again = killed_and_resumed(RunFolder(tmp_path / "run"), config, 11)
    assert again.state.best is not None
    assert whole.state.best is not None
    assert again.x.tobytes() == whole.x.tobytes()
    assert (again.state.best.round, again.verdict.which) == (whole.state.best.round, whole.verdict.which)
    assert load_run(tmp_path / "run").x.tobytes() == whole.x.tobytes()
    assert np.load(tmp_path / "run" / "x-last.npy").tobytes() == whole.state.x.tobytes()


def test_a_diverging_run_is_no_success_and_returns_the_start():
    result = run(lambda x: float(np.sum((x - 1.0) ** 2)), x0=[0.0, 0.5], step_size=5.0, rounds=15)
    assert not result.success
    np.testing.assert_array_equal(result.x, [0.0, 0.5])
    assert result.fun == 1.25


def test_noise_alone_is_no_success():
    """The loss of the last x may be lower by luck; it is not by more than the noise."""
    rng = np.random.default_rng(3)
    results = [run(lambda x: float(rng.normal()), x0=[0.0], rounds=3, step_size=1e-9, seed=seed) for seed in range(40)]
    assert sum(result.success for result in results) <= 6
    assert any("the noise of the answers hides" in result.message for result in results)


def test_a_private_run_returns_its_last_x():
    """Which x is best would tell something of losses that no noise hides."""
    pytest.importorskip("dp_accounting")
    shared = {"uplink": "slopes", "directions": "shared", "sampling": "without-replacement"}
    config = small(privacy="central", **shared, **LONG | {"return_x": "default"})
    result = run_in_process(config, quadratics())
    assert result.state.best is None
    assert result.x.tobytes() == result.state.x.tobytes()


class Exact(Objective):
    """Without noise."""

    dim = 3

    def value(self, x: Vector, batch: Indices | slice) -> float:
        return float(np.sum(np.square(x - 1.0)))


def test_python_tells_best_last_and_comparison():
    result = run([Exact(), Exact(), Exact()], rounds=20, step_size=0.05)
    assert result.success
    assert result.comparison is not None
    assert result.comparison.wins == 3
    assert result.nfev_full == 3 * (3 + (2 if result.x.tobytes() == result.last.tobytes() else 3))


@pytest.mark.parametrize(("keys", "which"), [({}, "last"), ({"return_x": "best"}, "best")])
def test_built_in_models_end_in_their_last_x(keys: dict[str, str], which: str):
    result = run_in_process(small(**LONG | {"return_x": "default"} | keys), quadratics())
    assert result.verdict.which == which
    assert (result.x.tobytes() == result.state.x.tobytes()) == (which == "last")


def test_observers_see_the_best_x():
    states: list[ServerState] = []
    run_in_process(small(**LONG), quadratics(), observers=[lambda state, record: states.append(state)])
    rounds = [state.best.round for state in states if state.best is not None]
    assert rounds == sorted(rounds)
    assert len(rounds) == 12

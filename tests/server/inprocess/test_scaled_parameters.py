"""Runs with scale and bounds: searched in scaled units, told in the user's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import NOT_ALIKE, black_box, quadratics, small
from zofedht import load_run
from zofedht.common.errors import CheckpointError, ObjectiveError
from zofedht.common.objective.base import Objective
from zofedht.common.objective.scaling import in_search_units
from zofedht.common.typing import Indices, Vector
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import RunFolder, sha256_of_x


class Bowl(Objective):
    """A quadratic around ``centre`` whose parameters have very different sizes."""

    dim = 4

    def __init__(self, client: int = 0, scale: Any = (1.0, 1e2, 1e-3, 1e4), bounds: Any = None) -> None:
        self.sizes = np.array([1.0, 1e2, 1e-3, 1e4])
        self.scale, self.bounds = scale, bounds
        self.rows = np.random.default_rng(client).standard_normal((5, 4)) * 0.1 + [1.0, 2.0, -1.0, 0.5]

    def __len__(self) -> int:
        return len(self.rows)

    def value(self, x: Vector, batch: Indices | slice) -> float:
        return float(np.mean(np.square(x / self.sizes - self.rows[batch])))


FAST = {"rounds": 40, "local_steps": 10, "batch_size": 0, "step_size": 0.05, "step_schedule": "constant", "memory": 3}


def centre(clients: int = 4) -> Vector:
    return np.mean([Bowl(i).rows.mean(axis=0) for i in range(clients)], axis=0) * Bowl().sizes


def test_with_a_scale_parameters_of_all_sizes_are_found():
    result = run_in_process(small(**FAST), [Bowl(i) for i in range(4)])
    np.testing.assert_allclose(result.x / Bowl().sizes, centre() / Bowl().sizes, atol=0.2)
    np.testing.assert_array_equal(result.x, result.verdict.chosen.x * Bowl().sizes)


def test_a_scale_is_nothing_but_another_function_of_z():
    class InZ(Objective):
        dim = 4

        def __init__(self, client: int) -> None:
            self.box = Bowl(client)

        def __len__(self) -> int:
            return len(self.box)

        def value(self, x: Vector, batch: Indices | slice) -> float:
            return self.box.value(x * self.box.sizes, batch)

    # Not to the last bit: the ends are made in the user's units.
    z = run_in_process(small(), [InZ(i) for i in range(4)]).state.x
    np.testing.assert_allclose(run_in_process(small(), [Bowl(i) for i in range(4)]).state.x, z, rtol=1e-6, atol=1e-9)


def test_a_minimum_at_a_bound_is_found():
    """Bounds hold everywhere."""
    bounds = [(-5.0, 0.5), (None, 1e3), (-5e-4, None), (0.0, 1e5)]
    boxes = [Bowl(i, bounds=bounds) for i in range(4)]
    x = run_in_process(small(**FAST), boxes).x
    low, high = np.array([-5.0, -np.inf, -5e-4, 0.0]), np.array([0.5, 1e3, np.inf, 1e5])
    assert np.all(x >= low)
    assert np.all(x <= high)
    wanted = np.clip(centre(), low, high)  # the function is separable
    np.testing.assert_allclose(x / Bowl().sizes, wanted / Bowl().sizes, atol=0.2)
    assert x[0] == 0.5
    assert x[2] == -5e-4


def test_a_parameter_can_leave_its_bound_again():
    """Started in a corner, with the minimum inside."""
    box = type("Corner", (Bowl,), {"initial": lambda self, rng: [3.0, 3e2, 1e-3, 2e4]})
    bounds = [(-3.0, 3.0), (-3e2, 3e2), (-3e-3, 1e-3), (-2e4, 2e4)]
    x = run_in_process(small(**FAST), [box(i, bounds=bounds) for i in range(4)]).x
    np.testing.assert_allclose(x / Bowl().sizes, centre() / Bowl().sizes, atol=0.2)


def test_the_start_is_projected_onto_the_bounds():
    started: list[Vector] = []

    def first(state: Any, record: object) -> None:
        started.append(state.user_x)

    run_in_process(small(rounds=1, step_size=1e-300), [Bowl(i, bounds=(2.0, 1e6)) for i in range(4)], observers=[first])
    np.testing.assert_allclose(started[0], 2.0)


def test_what_a_run_leaves_is_in_the_users_units(tmp_path: Path):
    boxes = [Bowl(i, bounds=[(-5.0, 0.5), (None, None), (None, None), (None, None)]) for i in range(4)]
    folder = RunFolder(tmp_path / "run")
    folder.begin(small(), "in-process")
    result = run_in_process(small(), boxes, folder=folder)
    found = load_run(tmp_path / "run")
    np.testing.assert_array_equal(found.x, result.x)
    np.testing.assert_array_equal(np.load(tmp_path / "run" / "x.npy"), result.x)
    assert found.summary["x_sha256"] == sha256_of_x(result.x)
    assert np.mean([box.evaluate(found.x)["loss"] for box in boxes]) == pytest.approx(result.final["train_loss"])


def test_a_resumed_run_refuses_other_units(tmp_path: Path):
    """With the same it equals an uninterrupted one."""
    boxes = [Bowl(i, bounds=(-5.0, 60.0)) for i in range(4)]
    folder = RunFolder(tmp_path / "run")
    folder.begin(small(rounds=4, step_schedule="inverse-sqrt"), "in-process")
    run_in_process(small(rounds=4, step_schedule="inverse-sqrt"), boxes, folder=folder)
    config, state, _ = folder.reopen({"rounds": 7})
    for others in ([Bowl(i) for i in range(4)], [Bowl(i, scale=None) for i in range(4)], quadratics(dimension=4)):
        with pytest.raises(
            CheckpointError, match="scale, bounds or parameters are not those that the checkpoint was made with"
        ):
            run_in_process(config, others, state=state)
    result = run_in_process(config, boxes, folder=folder, state=state)
    assert result.state.x.tobytes() == run_in_process(small(step_schedule="inverse-sqrt"), boxes).state.x.tobytes()


@pytest.mark.parametrize(("factory", "sentence"), NOT_ALIKE)
def test_clients_that_differ_are_named_before_round_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factory: str, sentence: str
):
    """They differ in n or in units."""
    module = black_box(tmp_path, monkeypatch)
    with pytest.raises(ObjectiveError, match=sentence):
        run_in_process(small(objective=f"{module}:{factory}"))


def test_objectives_given_in_python_are_compared_as_well():
    others = [Bowl(i, bounds=(-5.0, 60.0 if i != 3 else 61.0)) for i in range(4)]
    with pytest.raises(
        ObjectiveError, match=r"client 3 has the upper bound 61\.0 for parameter 0, that of client 0 has 60"
    ):
        run_in_process(small(), others)
    with pytest.raises(ObjectiveError, match="client 1 declares a scale or bounds and that of client 0 does not"):
        run_in_process(small(num_clients=2), [Bowl(0, scale=None), Bowl(1)])


def test_what_is_wrapped_once_is_not_wrapped_again():
    searched = in_search_units(Bowl())
    assert in_search_units(searched) is searched


def test_an_objective_without_samples_counts_calls():
    """It needs no ``__len__``."""
    calls = 0

    class Plain(Objective):
        dim = 3

        def value(self, x: Vector, batch: Indices | slice) -> float:
            nonlocal calls
            assert batch == slice(None)
            calls += 1
            return float(np.sum(np.square(x - 1.0)))

    config = small(num_clients=1, clients_per_round=1, evaluate_every=0)
    result = run_in_process(config, [Plain()])
    assert result.state.totals.evaluations + result.state.totals.full_evaluations == calls
    assert result.final["train_loss"] < result.initial["train_loss"]

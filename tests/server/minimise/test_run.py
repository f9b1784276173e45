"""``from zofedht import run``: one call, a result like scipy.optimize's, the same numbers as every other way."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import OptimizeResult

from tests.helpers import black_box, quadratics, small
from zofedht import load_run, run
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError, ObjectiveError
from zofedht.common.typing import Vector
from zofedht.server.__main__ import main
from zofedht.server.inprocess import run_in_process

TARGET = np.array([3.0, -1.0, 0.5])


STEPS: dict[str, Any] = {"algorithm": "zofedht"}
"""Local steps, for an objective that would be searched by evaluations."""


def bowl(x: Any) -> float:
    return float(np.sum((x - TARGET) ** 2))


def test_a_function_is_minimised_in_one_call() -> None:
    result = run(bowl, x0=np.zeros(3), rounds=40, step_size=0.05)
    assert isinstance(result, OptimizeResult)
    np.testing.assert_allclose(result.x, TARGET, atol=0.05)
    assert result.fun == bowl(result.x)
    assert (result.success, result.status) == (True, 0)
    assert result.message.startswith("all 40 rounds are done")
    assert result.nit == len(result.history) == 40
    assert result.nfev == 40 * 50 * 2 == result.history[-1]["evaluations"]
    assert result.metrics == {"train_loss": result.fun}


def test_without_a_step_size_it_is_measured() -> None:
    for size in (1e-3, 1.0, 1e2):
        result = run(lambda x, size=size: size * bowl(x), x0=np.zeros(3), rounds=60)
        np.testing.assert_allclose(result.x, TARGET, atol=0.05)
    given = run(bowl, x0=np.zeros(3), rounds=2, step_size=0.05)
    assert [row["step_size"] for row in given.history] == pytest.approx([0.05, 0.025])


def test_a_function_of_samples_draws_batches() -> None:
    rows = np.random.default_rng(0).standard_normal((30, 3)) * 0.1 + TARGET
    sizes = set()

    def loss(x: Any, batch: Any) -> float:
        sizes.add(len(rows[batch]))
        return float(np.mean(np.sum((x - rows[batch]) ** 2, axis=1)))

    result = run(loss, x0=np.zeros(3), samples=30, batch_size=4, rounds=20, step_size=0.05)
    assert sizes == {4, 30}
    np.testing.assert_allclose(result.x, rows.mean(axis=0), atol=0.15)


def test_several_functions_are_several_clients() -> None:
    functions = [lambda x, shift=shift: bowl(x - shift) for shift in (-1.0, 0.0, 1.0)]
    seen: list[dict[str, Any]] = []
    result = run(functions, x0=np.zeros(3), rounds=30, step_size=0.02, callback=seen.append)
    np.testing.assert_allclose(result.x, TARGET, atol=0.3)
    assert [{name: one[name] for name in result.records[0]} for one in seen] == result.records
    assert result.fun == pytest.approx(np.mean([f(result.x) for f in functions]))


def test_objectives_end_as_they_do_by_the_longer_way() -> None:
    options = {"rounds": 5, "local_steps": 4, "batch_size": 3, "step_size": 0.05, "memory": 2, "seed": 11}
    result = run(quadratics(), clients_per_round=3, **options)
    config = RunConfig.from_mapping({k.replace("_", "-"): v for k, v in options.items()}).replace(
        num_clients=4, clients_per_round=3, sampling="without-replacement"
    )
    assert (
        result.x.tobytes()
        == run_in_process(config.replace(evaluate_every=10, return_x="best"), quadratics()).x.tobytes()
    )
    assert (
        run(quadratics(), config=small(rounds=3)).last.tobytes()
        == run_in_process(small(rounds=3), quadratics()).state.x.tobytes()
    )


def test_full_participation_draws_each_client_once() -> None:
    """Else a round's mean would be of whoever was drawn twice, and x would walk about between the clients' minima."""
    started: list[int] = []

    def counted(client: int) -> Callable[[Any], float]:
        def value(x: Any) -> float:
            started.append(client)
            return bowl(x)

        return value

    clients = [counted(client) for client in range(4)]
    options = {"rounds": 6, "local_steps": 5, "step_size": 0.01}
    run(clients, x0=np.zeros(3), **options)
    calls = [started.count(client) for client in range(4)]
    assert len(set(calls)) == 1
    started.clear()
    run(clients, x0=np.zeros(3), sampling="with-replacement", **options)
    assert len({started.count(client) for client in range(4)}) > 1
    more = run(clients, x0=np.zeros(3), clients_per_round=8, **options)  # only with replacement
    assert all(row["replies"] == 8 for row in more.history)


def test_run_equals_the_longer_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = black_box(tmp_path, monkeypatch)
    wanted = run_in_process(small(objective=f"{module}:Bounded")).x
    assert run(f"{module}:Bounded", config=small()).x.tobytes() == wanted.tobytes()
    digits = {"train_rows": 240, "step_size": 1.0}
    result = run(config=small(), **digits)
    assert result.x.tobytes() == run_in_process(small(**digits)).state.x.tobytes()
    assert "test_accuracy" in result.metrics


def test_bounds_and_scale_are_kept() -> None:
    result = run(bowl, x0=[0.5, 0.5, 0.5], bounds=[(0, 1), (0, None), (None, None)], scale=1.0, step_size=0.01)
    np.testing.assert_allclose(result.x, [1.0, 0.0, 0.5], atol=0.1)
    assert (result.x[0], result.x[1]) == (1.0, 0.0)
    with pytest.raises(ObjectiveError, match=r"x0 must lie within the bounds, got 5\.0 for parameter 0"):
        run(bowl, x0=[5.0, 0.0, 0.0], bounds=(0, 1))


def test_x0_starts_an_objective_elsewhere() -> None:
    x0 = np.full(12, 7.0)
    result = run(quadratics(), x0=x0, rounds=1, step_size=1e-300)
    np.testing.assert_array_equal(result.x, x0)
    with pytest.raises(ObjectiveError, match=r"x0 must be a vector of 12 finite numbers, got an array of shape \(3,\)"):
        run(quadratics(), x0=np.zeros(3))
    box = type("Box", (type(quadratics()[0]),), {"bounds": (-1.0, 1.0)})(np.zeros((2, 3)))
    with pytest.raises(ObjectiveError, match=r"x0 must lie within the bounds, got 9\.0 for parameter 1"):
        run(box, x0=[0.0, 9.0, 0.0])


def test_a_budget_ends_the_run() -> None:
    result = run(bowl, x0=np.zeros(3), rounds=0, budget=1000, step_size=0.01)
    assert result.message == "the budget of 1,000 evaluations is spent"
    assert (result.success, result.nfev) == (True, 1000)


def test_diverging_steps_leave_x_finite() -> None:
    result = run(bowl, x0=np.zeros(3), step_size=50.0, step_schedule="constant")
    assert (result.success, result.status) == (False, 1)
    assert result.message.startswith("the loss went from 10.25 to ")
    assert "a smaller step_size usually cures this" in result.message
    assert np.all(np.isfinite(result.x))


@pytest.mark.parametrize(
    ("clients", "limits", "way_out"),
    [
        (1, {"rounds": 1}, "1 round; give the run more rounds, or step_size as a number"),
        (1, {"rounds": 2}, "2 rounds; give the run more rounds, or step_size as a number"),  # the last moves nothing
        (5, {"rounds": 1}, "1 round; give the run more rounds, or step_size as a number"),
        (1, {"rounds": 0, "budget": 12}, "1 round; give the run a larger budget, or step_size as a number"),
    ],
)
def test_an_unfinished_search_is_no_success(clients: int, limits: dict[str, int], way_out: str) -> None:
    result = run([bowl] * clients, x0=np.zeros(3), **STEPS, **limits)
    assert (result.success, result.status) == (False, 1)
    assert re.match(r"the search for a step \(step_size = auto\) took the whole run, " + way_out, result.message)
    np.testing.assert_array_equal(result.x, np.zeros(3))
    assert run([bowl] * clients, x0=np.zeros(3), **STEPS, **{key: 10 * limit for key, limit in limits.items()}).success


def test_a_risen_loss_names_the_measured_step() -> None:
    calls = []

    def worn(x: Any) -> float:
        calls.append(x)
        return bowl(x) + 100.0 * (len(calls) > 2000 and bool(np.any(x)))

    result = run(worn, x0=np.zeros(3), rounds=30, **STEPS)
    assert not result.success
    np.testing.assert_array_equal(result.x, np.zeros(3))
    found = re.match(
        r"the loss went from 10\.25 to 100\.?\d* with the step that step_size = auto found, (\S+);", result.message
    )
    assert found
    assert 1e-4 < float(found[1]) < 1.0
    assert "a number below that, or a larger radius where the function is noisy, usually cures this" in result.message
    assert "smaller step_size" not in result.message


def test_a_failure_in_round_0_returns_the_start() -> None:
    def fragile(x: Any) -> float:
        if np.any(x):
            raise RuntimeError("the plant is shut")
        return 1.0

    result = run(fragile, x0=np.zeros(3), **STEPS)
    assert not result.success
    assert "the objective raised RuntimeError: the plant is shut (test_run.py, line " in result.message
    np.testing.assert_array_equal(result.x, np.zeros(3))
    assert (result.nit, result.history) == (0, [])
    assert result.ended == "error"
    assert "fun: nan" in str(result)
    skipping = run(lambda x: bowl(x) if x[0] < 1.0 else 1 / 0, x0=np.zeros(3), on_error="stop", step_size=0.05)
    assert not skipping.success
    assert "ZeroDivisionError" in skipping.message


def test_a_function_that_breaks_at_the_start_raises() -> None:
    with pytest.raises(ObjectiveError, match="evaluate the start: client 0: the objective raised ZeroDivisionError"):
        run(lambda x: 1 / 0, x0=np.zeros(3))


def test_out_gets_the_files_of_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(bowl, x0=np.zeros(3), rounds=3, step_size=0.05, out=tmp_path / "run")
    found = load_run(tmp_path / "run")
    np.testing.assert_array_equal(found.x, result.x)
    assert found.history == result.records
    assert main(["resume", str(tmp_path / "run"), "--set", "rounds=5"]) == 2
    assert "live in Python; go on there with run(objective, x0=load_run(DIR).x)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        ((bowl,), {}, "objective is a function, so x0, the point to start from, must be given"),
        (([bowl, bowl],), {}, "objective 0 is a function, so x0"),
        (([],), {}, "a list with at least one of these"),
        ((bowl, [0.0] * 3), {"num_clients": 4}, "num_clients must be 1, the number of objectives or clients, got 4"),
        ((bowl, [0.0] * 3), {"stepsize": 4}, "unknown key 'stepsize'; did you mean 'step-size'"),
        ((quadratics(),), {"bounds": (0, 1)}, "samples, bounds, scale, parameters and args are for functions"),
        ((None,), {"scale": 2.0}, "samples, bounds, scale, parameters and args are for functions"),
    ],
)
def test_wrong_arguments_are_named(arguments: tuple[Any, ...], options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence.replace("(", r"\(")):
        run(*arguments, **options)


def test_objectives_have_equal_sizes() -> None:
    with pytest.raises(ObjectiveError, match=r"the same number of parameters, got \[12, 13\]"):
        run([quadratics()[0], quadratics(dimension=13)[1]])


@pytest.mark.parametrize("rounds", [30, 100])
@pytest.mark.parametrize("clients", [1, 5])
@pytest.mark.parametrize("seed", range(2))
def test_steps_from_bound_to_bound_are_too_long(seed: int, clients: int, rounds: int) -> None:
    functions = [lambda x, at=at: 1e4 * float(np.sum((x - at) ** 2)) for at in np.linspace(0.5, 0.6, clients)]
    start = np.full(10, 0.3)
    result = run(functions, start, bounds=(0.0, 1.0), rounds=rounds, seed=seed)
    least = float(np.mean([function(np.full(10, 0.5 + 0.05 * (clients > 1))) for function in functions]))
    assert result.fun - least < 0.05 * (np.mean([function(start) for function in functions]) - least)


@pytest.mark.parametrize("seed", range(3))
def test_least_squares_with_unequal_columns_do_not_diverge(seed: int) -> None:
    def clients_rows(client: int) -> Callable[[Any], float]:
        rng = np.random.default_rng(client)
        rows = rng.standard_normal((50, 20)) * np.logspace(0.0, 2.0, 20)
        wanted = rows @ (rng.standard_normal(20) / np.logspace(0.0, 2.0, 20)) + rng.standard_normal(50)
        return lambda x: float(np.mean((rows @ x - wanted) ** 2))

    functions = [clients_rows(client) for client in range(5)]
    result = run(functions, np.zeros(20), rounds=30, seed=seed, radius=1e-4)
    assert result.fun < np.mean([function(np.zeros(20)) for function in functions])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rounds", [10, 30])
def test_where_losses_are_counted_from_does_not_matter(rounds: int, seed: int) -> None:
    """Himmelblau's function, and what is gained over its start: zero there, and steep enough to throw x far."""

    def loss(x: Vector) -> float:
        return float((x[0] ** 2 + x[1] - 11.0) ** 2 + (x[0] + x[1] ** 2 - 7.0) ** 2)

    for offset in (0.0, -170.0):
        result = run(lambda x, offset=offset: loss(x) + offset, np.zeros(2), rounds=rounds, seed=seed, radius=1e-4)
        assert result.fun - offset < 17.0  # from 170


def test_without_slopes_the_message_names_a_larger_radius() -> None:
    def stairs(x: Vector) -> float:
        return float(np.sum(np.abs(0.1 * np.round(10.0 * x) - 3.0)))

    result = run(stairs, np.zeros(3), rounds=200, **STEPS)
    assert not result.success
    flat = r"the loss is still 9: the function does not change within the radius \(0\.0001\) of the start; "
    found = re.match(flat + r"try radius = (\S+), where \d of 8 slopes are not 0", result.message)
    assert found
    assert 0.01 < float(found[1]) < 0.3
    assert run(stairs, np.zeros(3), rounds=20, radius=float(found[1])).fun < 5.0


@pytest.mark.parametrize("clients", [1, 3])
@pytest.mark.parametrize(
    ("rounds", "step", "advice"),
    [
        (200, "auto", ": all slopes are exactly 0, and most are up to radius 1000; begin elsewhere"),
        (3, "auto", "; a larger radius may show its slopes, or begin elsewhere"),
        (3, 0.1, "; a larger radius may show its slopes, or begin elsewhere"),
    ],
)
def test_a_flat_function_does_not_need_more_rounds(clients: int, rounds: int, step: object, advice: str) -> None:
    functions = [lambda x, level=level: float(level) for level in range(1, clients + 1)]
    options = {"local_steps": 10} if rounds == 3 else {}
    result = run(functions, x0=np.zeros(5), rounds=rounds, step_size=step, **options)
    assert (result.success, result.status) == (False, 1)
    flat = (
        f"the loss is still {(1 + clients) / 2:g}: the function does not change within the radius (0.0001) of the start"
    )
    assert result.message.startswith(flat + advice)
    assert "more rounds" not in result.message


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_told_with_a_better_radius(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def noisy(x: Vector) -> float:
        return bowl(x) + 0.1 * float(rng.standard_normal())

    blurred = run(noisy, np.zeros(3), rounds=60, **STEPS)
    assert "; evaluations of the same x differ, here by " in blurred.message
    better = float(blurred.message.split("try radius = ")[1].split(",")[0])
    clear = run(noisy, np.zeros(3), rounds=60, radius=better)
    assert clear.success
    assert bowl(clear.x) < 0.1 * bowl(blurred.x)


def test_differences_between_batches_and_clients_are_no_noise() -> None:
    rows = np.random.default_rng(0).standard_normal((30, 3))
    result = run(lambda x, batch: float(np.mean((x - rows[batch]) ** 2)), np.zeros(3), samples=30, rounds=20, **STEPS)
    assert result.message == "all 20 rounds are done"


def test_a_failed_check_for_noise_keeps_the_result() -> None:
    asked = 0

    def worn_out(x: Vector) -> float:
        nonlocal asked
        asked += 1
        if asked > 2006:  # the rounds, full evaluations in rounds 0, 10 and 20, and of three x at the end
            raise OSError("the device is worn out")
        return bowl(x)

    result = run(worn_out, np.zeros(3), rounds=20, step_size=0.05)
    assert result.success
    assert result.message.startswith("all 20 rounds are done")
    assert "; the check for noise failed: the objective raised" in result.message
    assert "OSError: the device is worn out" in result.message
    np.testing.assert_allclose(result.x, TARGET, atol=0.2)


@pytest.mark.parametrize("rounds", [60, 120])
@pytest.mark.parametrize(
    ("function", "dimension"),
    [
        (lambda x: 1e6 * float(np.sum((x - 3.0) ** 2)), 20),
        (lambda x: float(np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)), 4),
    ],
    ids=["steep", "rosenbrock"],
)
def test_functions_of_any_steepness_need_no_step(
    function: Callable[[Vector], float], dimension: int, rounds: int
) -> None:
    start = np.zeros(dimension)
    result = run(function, start, rounds=rounds)
    assert result.success, result.message
    assert result.fun < function(start)


def test_numpys_scalars_give_what_pythons_numbers_give() -> None:
    plain = run(bowl, x0=np.zeros(3), rounds=3, step_size=0.5, seed=1, clients_per_round=1)
    numpys = run(
        bowl,
        x0=np.zeros(3),
        rounds=np.int64(3),
        step_size=np.float32(0.5),
        seed=np.arange(3)[1],
        clients_per_round=np.int32(1),
    )
    np.testing.assert_array_equal(plain.x, numpys.x)


@pytest.mark.parametrize("kind", [int, np.int64, np.float64, np.array])
def test_a_loss_may_be_any_number_of_64_bits(kind: Callable[[Any], Any]) -> None:
    assert run(lambda x: kind(round(1e6 * bowl(x))), x0=np.zeros(3), rounds=2, step_size=1e-8).nit == 2


@pytest.mark.parametrize("out", ["", "a\0b", 3])
def test_out_names_a_folder(out: Any) -> None:
    with pytest.raises(ConfigError, match="out must name a folder, got"):
        run(lambda x: float(x @ x), x0=[1.0], rounds=1, out=out)


@pytest.mark.parametrize("objective", [3, [abs, 3]])
def test_what_is_no_function_is_named(objective: Any) -> None:
    with pytest.raises(ConfigError, match=r"objective must be a function, an Objective, .* got 3"):
        run(objective, x0=[1.0], rounds=1)


@pytest.mark.parametrize("seed", [0, 1])
def test_pure_noise_is_no_success_and_no_long_step(seed: int):
    """The last evaluation was the luckiest by chance; the sentence says so."""
    rng = np.random.default_rng(seed)
    keys: dict[str, Any] = {"rounds": 5, "step_size": 0.1, "local_steps": 5}
    result = run(lambda x: float(rng.normal()), [0.0, 0.0], **keys)
    assert not result.success
    assert (
        "evaluated once more the last x is not lower than the start; x is the start: the answers are noisy"
        in result.message
    )

"""cma-es in the ordinary rounds: it finds the optimum of the mean, resumes, bears losses and ends in time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import killed_and_resumed, quadratics, searches
from zofedht import Integer, Real, load_run, run
from zofedht.common.config.run_config import RunConfig, dashed
from zofedht.common.errors import ConfigError
from zofedht.common.models.quadratic import QuadraticObjective
from zofedht.common.objective.base import Objective
from zofedht.common.typing import Indices, Vector
from zofedht.common.wire.messages import MOST_POINTS
from zofedht.server.core.round_record import RoundRecord
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.checkpoint import read_checkpoint
from zofedht.server.records.run_folder import RunFolder

CENTRES = np.random.default_rng(0).normal(1.0, 0.3, (5, 4))
SITES = [lambda x, c=c: float(np.sum(np.arange(1.0, 5.0) * (x - c) ** 2)) for c in CENTRES]
OPTIMUM = CENTRES.mean(axis=0)


def search(**keys: Any) -> Any:
    return run(SITES, x0=np.zeros(4), **({"algorithm": "cma-es", "budget": 5000} | keys))


def test_it_finds_the_optimum_of_the_mean() -> None:
    found = search()
    np.testing.assert_allclose(found.x, OPTIMUM, atol=1e-5)
    assert found.success
    assert 5000 <= found.nfev < 5000 + 100  # it starts no round once they are spent
    assert found.nit == len(found.records) > 100  # the budget alone ends it
    assert {row["replies"] for row in found.records} >= {2, 5}  # the spread of the sites says how many
    assert found.nfev == sum(row["replies"] * row["points"] for row in found.records)


def test_rounds_end_it_too() -> None:
    assert search(rounds=7).nit == 7
    assert RunConfig(algorithm="cma-es").rounds == 1000


def test_bounds_and_scale_are_kept() -> None:
    asked = []

    def site(x: Vector) -> float:
        asked.append(x)
        return float(np.sum(((x - [2.0, 30.0]) / [1.0, 60.0]) ** 2))

    found = run([site] * 3, x0=[0.5, 50.0], bounds=[(0.0, 1.0), (20.0, 80.0)], algorithm="cma-es", budget=1500)
    np.testing.assert_allclose(found.x, [1.0, 30.0], rtol=1e-4)
    assert np.all((np.array(asked) >= [0.0, 20.0]) & (np.array(asked) <= [1.0, 80.0]))


@pytest.mark.parametrize("killed", [1, 3, 5])
@pytest.mark.parametrize("algorithm", ["cma-es", "lbfgs", "auto"])
def test_a_resumed_search_equals_an_uninterrupted_one(algorithm: str, killed: int, tmp_path: Path) -> None:
    keys = searches(algorithm=algorithm, batch_size=0 if algorithm == "auto" else 3)
    whole = run_in_process(keys, quadratics())
    resumed = killed_and_resumed(RunFolder(tmp_path), keys, killed)
    assert resumed.state.x.tobytes() == whole.state.x.tobytes()
    assert resumed.state.search is not None
    assert resumed.state.search.evolution.distribution.covariance.tobytes() == (
        whole.state.search.evolution.distribution.covariance.tobytes()
    )


def test_candidates_of_a_client_share_their_samples() -> None:
    asked: list[tuple[bytes, bytes]] = []

    class Watched(QuadraticObjective):
        def value(self, x: Vector, batch: Indices | slice) -> float:
            asked.append((x.tobytes(), np.arange(30)[batch].tobytes()))
            return super().value(x, batch)

    one = Watched(np.random.default_rng(1).standard_normal((30, 3)))
    rows: list[RoundRecord] = []
    run_in_process(
        searches(num_clients=1, rounds=2, evaluate_every=0), [one], observers=[lambda _, row: rows.append(row)]
    )
    candidates = rows[1].points
    before = 1 + rows[0].points  # the start, and the first generation
    generation = asked[before : before + candidates]
    assert len({x for x, _ in generation}) == candidates
    assert len({batch for _, batch in generation}) == 1
    first = asked[1 : 1 + rows[0].points]  # generation 0 is asked twice, on other samples
    assert rows[0].points == 2 * candidates
    assert len({batch for _, batch in first}) == 2
    assert len({x for x, _ in first}) == candidates
    assert all(len(set(np.frombuffer(batch, dtype=int))) == 3 for _, batch in generation)
    assert rows[1].evaluations == 3 * (rows[0].points + candidates)


def test_a_batch_beyond_the_shard_is_the_whole_shard() -> None:
    assert run_in_process(searches(batch_size=64), quadratics()).state.x.tobytes() == (
        run_in_process(searches(batch_size=0), quadratics()).state.x.tobytes()
    )


class Torn(Objective):
    """A quadratic that fails for some of its evaluations."""

    dim = 4

    def __init__(self, seed: int, share: float, how: Callable[[], float]) -> None:
        self.rng, self.share, self.how = np.random.default_rng(seed), share, how
        self.centre = CENTRES[seed]
        self.left = 1  # at the start it works

    def value(self, x: Vector, batch: Indices | slice) -> float:
        self.left -= 1
        if self.left < 0 and self.rng.random() < self.share:
            return self.how()
        return float(np.sum((x - self.centre) ** 2))


def broken() -> float:
    raise TimeoutError("no reading")


@pytest.mark.parametrize("how", [broken, lambda: np.nan])
@pytest.mark.parametrize("on_error", ["drop-slot", "skip-step"])
def test_lost_answers_are_filled(how: Callable[[], float], on_error: str) -> None:
    found = run(
        [Torn(seed, 0.2, how) for seed in range(5)],
        x0=np.zeros(4),
        algorithm="cma-es",
        rounds=60,
        on_error=on_error,
        max_retries=9,
    )
    assert np.linalg.norm(found.x - OPTIMUM) < 0.2 * np.linalg.norm(OPTIMUM)
    assert found.lost["slots"] == 0
    assert 0.1 < found.lost["steps"] / found.lost["of_steps"] < 0.3
    assert "values were lost" in found.message
    assert f"lost: {found.lost['steps']:,} of {found.lost['of_steps']:,} values; most often" in str(found)
    assert found.records[5]["skipped"][0]["cause"] == ("raised" if how is broken else "not-finite")


def test_on_error_stop_stops() -> None:
    found = run([Torn(0, 1.0, broken)], x0=np.zeros(4), algorithm="cma-es", rounds=9, on_error="stop")
    assert not found.success
    assert "no reading" in found.message
    assert found.nit == 0


def test_a_candidate_that_nobody_can_evaluate_ranks_last() -> None:
    def edge(x: Vector) -> float:
        if x[0] > 0.5:
            raise ValueError("beyond the edge")
        return float(np.sum((x - 1.0) ** 2))

    found = run([edge] * 3, x0=np.zeros(2), algorithm="cma-es", budget=1500)
    np.testing.assert_allclose(found.x, [0.5, 1.0], atol=1e-3)


STEPS = {"local_steps": 50, "radius": 0.1, "memory": 3, "clients_per_round": 2, "privacy": "local", "step_size": 2.0}


@pytest.mark.parametrize(("key", "value"), STEPS.items())
def test_keys_of_steps_are_refused(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"{dashed(key)} must not be set for algorithm cma-es, .*, got {value!r}"):
        searches(**{key: value})


def test_it_is_for_few_parameters() -> None:
    with pytest.raises(ConfigError, match="cma-es is for at most 200"):
        run(np.sum, x0=np.zeros(201), algorithm="cma-es", rounds=1)


def test_a_loss_beyond_numbers_counts_as_lost() -> None:
    found = run(
        [lambda x: float(np.sum(x * x)) if x[0] > -1.0 else 1e300] * 2, x0=[1.0, 1.0], algorithm="cma-es", rounds=40
    )
    assert found.fun < 1e-3


def test_a_long_search_stays_within_a_message() -> None:
    rows: list[RoundRecord] = []
    flat = run_in_process(
        searches(num_clients=1, rounds=0, budget=60_000, evaluate_every=0),
        [QuadraticObjective(np.zeros((1, 2)))],
        observers=[lambda _, row: rows.append(row)],
    )
    assert flat.state.search is not None
    assert flat.state.search.evolution.restarts > 7
    assert max(row.points for row in rows) <= MOST_POINTS


def test_noise_is_told_apart_from_the_level_of_a_minibatch() -> None:
    """Samples that shift all candidates alike are no noise; the fields are finite and differ from round to round."""
    state = run_in_process(searches(rounds=30), quadratics()).state
    assert state.search is not None
    watch = state.search.evolution.watch
    assert watch.noise is not None
    assert 0.0 < watch.noise < np.inf
    assert dataclasses.replace(state, round=0).search is state.search


def rosenbrock(x: Vector) -> float:
    return float(np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2))


def test_lbfgs_ends_where_no_step_leads_lower(tmp_path: Path) -> None:
    found = run([rosenbrock] * 3, x0=np.zeros(4), algorithm="lbfgs", budget=9000, out=tmp_path)
    np.testing.assert_allclose(found.x, 1.0, atol=1e-4)
    assert 3 * 5 * found.nit < found.nfev < 3 * 9 * found.nit < 3000  # central differences at the end
    assert found.message == f"no step gains any more; L-BFGS-B took {found.nit} gradients"
    told = load_run(tmp_path).summary["search"]
    assert (told["over"], told["doing"], told["gradients"]) == (True, "lbfgs", found.nit)


def test_auto_says_what_it_saw_and_did(tmp_path: Path) -> None:
    found = run([rosenbrock] * 3, x0=np.zeros(4), algorithm="auto", budget=5000, out=tmp_path)
    assert found.fun < 1e-10
    changes = [(change["before"], change["after"]) for row in found.records for change in row["interventions"]]
    assert changes == [("look", "lbfgs"), ("lbfgs", "cma-es")]
    assert [row["method"] for row in found.records[:3]] == ["look", "look", "lbfgs"]
    told = load_run(tmp_path).summary["search"]
    assert (told["quiet"], told["smooth"], told["why"], told["method"]) == (True, True, "", "auto")
    assert "equal when asked twice; smooth, as far as 14 evaluations of a site tell; L-BFGS-B took" in found.message


NOISE = np.random.default_rng(3)


@pytest.mark.parametrize(
    ("site", "why"),
    [
        (lambda x: float(np.sum(x * x)) + 0.1 * float(NOISE.standard_normal()), "noise"),
        (lambda x: float(np.sum(np.floor(4.0 * np.abs(x + 0.1)))), "flat"),
        (lambda x: float(np.sum(np.abs(x - 1.0004) ** 0.5)), "rough"),
    ],
)
def test_auto_searches_where_slopes_mislead(site: Callable[[Vector], float], why: str, tmp_path: Path) -> None:
    found = run([site] * 3, x0=np.ones(3), algorithm="auto", budget=900, out=tmp_path)
    assert load_run(tmp_path).summary["search"]["why"] == why
    assert {row["method"] for row in found.records} == {"look", "cma-es"}
    assert found.success


def test_auto_does_not_look_where_that_costs_too_much() -> None:
    assert {row["method"] for row in run(SITES, x0=np.zeros(4), algorithm="auto", budget=300).records} == {"cma-es"}


def test_whole_numbers_are_searched_and_have_no_slopes() -> None:
    def site(teeth: int, valve: float) -> float:
        return (teeth - 12) ** 2 / 10.0 + (valve - 0.25) ** 2

    parameters = {"teeth": Integer(8, 40), "valve": Real(0, 1)}
    found = run([site] * 2, parameters=parameters, algorithm="auto", budget=1500)
    assert found.settings["teeth"] == 12
    assert found.settings["valve"] == pytest.approx(0.25, abs=1e-3)
    with pytest.raises(ConfigError, match="must not be lbfgs where parameters are integers"):
        run([site] * 2, parameters=parameters, algorithm="lbfgs", budget=1500)


def test_a_search_without_any_answer_ends_in_time() -> None:
    def shut(x: Vector) -> float:
        if np.any(x):
            raise RuntimeError("the plant is shut")
        return 1.0

    found = run(shut, x0=np.zeros(3), algorithm="cma-es", max_retries=2)
    assert not found.success
    assert found.nit == 2
    assert "the plant is shut" in found.message
    np.testing.assert_array_equal(found.x, 0.0)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, "auto"),
        ({"local_steps": 5}, "zofedht"),
        ({"algorithm": "zofedavg-sgd"}, "zofedavg-sgd"),
        ({"n": 51}, "zofedht"),
    ],
)
def test_few_parameters_are_searched_unless_steps_are_wanted(
    keys: dict[str, Any], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Python as well as for an objective that a config names."""
    n = keys.pop("n", 3)
    (tmp_path / f"bowl_of_{n}.py").write_text(BOWL.format(n=n))
    monkeypatch.syspath_prepend(tmp_path)
    states = [run_in_process(RunConfig().replace(objective=f"bowl_of_{n}:Bowl", rounds=2, num_clients=2, **keys)).state]
    run([lambda x: float(x @ x)] * 2, x0=np.ones(n), rounds=2, out=tmp_path / "run", **keys)
    states.append(read_checkpoint(max((tmp_path / "run" / "checkpoints").iterdir()))[0])
    for state in states:
        assert (state.search is not None) == (expected == "auto")
        assert state.search is None or state.search.method == "auto"


BOWL = """
import numpy as np
from zofedht import Objective

class Bowl(Objective):
    dim = {n}
    def __init__(self, shard):
        pass
    def value(self, x, batch):
        return float(np.sum((x - 1.0) ** 2))
"""


def test_what_was_not_said_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bowl_to_tell.py").write_text(BOWL.format(n=3))
    monkeypatch.syspath_prepend(tmp_path)
    rows: list[RoundRecord] = []
    config = RunConfig().replace(objective="bowl_to_tell:Bowl", rounds=4, num_clients=2)
    run_in_process(config, observers=[lambda _, row: rows.append(row)])
    assert rows[0].interventions[0] == {
        "what": "algorithm",
        "before": "zofedht",
        "after": "auto",
        "why": "there are 3 parameters, and no key of local steps is set (zofedht takes steps)",
    }

"""RunConfig: all problems at once, each sentence naming key, rule, value and way out."""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zofedht.common.algorithms import ALGORITHMS
from zofedht.common.config.contradictions import KEYS_OF_STEPS
from zofedht.common.config.derived_keys import START_WEIGHT
from zofedht.common.config.run_config import FREE_KEYS, RunConfig, dashed
from zofedht.common.errors import ConfigError

_DEFAULTS = RunConfig().to_mapping()


def _problems(**keys: Any) -> tuple[str, ...]:
    """Return the problems of a mapping given by underscored names."""
    with pytest.raises(ConfigError) as caught:
        RunConfig.from_mapping({dashed(name): value for name, value in keys.items()})
    return caught.value.problems


def test_the_defaults_are_a_valid_config() -> None:
    assert RunConfig.from_mapping({}) == RunConfig.from_mapping(_DEFAULTS) == RunConfig()


def test_flowers_table_in_pyproject_equals_the_defaults() -> None:
    text = (Path(__file__).resolve().parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)["tool"]["flwr"]["app"]["config"]
    defaults = {dashed(field.name): field.default for field in dataclasses.fields(RunConfig)}
    assert RunConfig.from_mapping(defaults) == RunConfig()
    assert list(table) == list(defaults)
    for key, value in defaults.items():
        assert table[key] == value, key
        assert type(table[key]) is type(value), f"{key}: flwr refuses an override of another type"


def test_all_problems_are_told_at_once() -> None:
    problems = _problems(
        subspace_wieght=0.5, rounds="many", radius=-1.0, partition="sortd", clients_per_round=2, min_replies=3
    )
    assert problems == (
        "unknown key 'subspace-wieght'; did you mean 'subspace-weight'?",
        "rounds must be a whole number or default, got 'many'",
        "radius must be greater than 0, got -1.0",
        "partition must be one of iid, sorted, sorted-binary, thirds, dirichlet, got 'sortd' (did you mean 'sorted'?)",
        "min-replies must be at most clients-per-round = 2, got 3",
    )


def test_one_sentence_lists_all_problems() -> None:
    with pytest.raises(ConfigError, match=r"^the run config has a problem: memory must be at least 1, got 0$"):
        RunConfig.from_mapping({"memory": 0})
    with pytest.raises(ConfigError, match=r"^the run config has problems: .*memory.*; .*seed"):
        RunConfig.from_mapping({"memory": 0, "seed": "x"})


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("aplha", None),
        ("step_size", "step-size"),
        ("local-step", "local-steps"),
        ("client-per-round", "clients-per-round"),
    ],
)
def test_an_unknown_key_comes_with_the_nearest_name(key: str, meant: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        RunConfig.from_mapping({key: 1})
    hint = f"did you mean {meant!r}?" if meant else "docs/config.md lists every key"
    assert caught.value.problems == (f"unknown key {key!r}; {hint}",)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(RunConfig)])
def test_every_key_refuses_a_value_of_another_type(name: str) -> None:
    keys = ("local_steps", "rounds", "slopes_per_step", "warm_up", "memory", "refresh", "evaluate_every")
    whole = dict.fromkeys(keys, " or default")
    names = (
        "radius cone_angle guide_decay guide_floor server_rate server_momentum server_decay server_floor batch_growth"
    )
    parts = dict.fromkeys(names.split(), " or default")
    words = ({"step_size": " or auto or default", "subspace_weight": " or auto or default"} | parts | whole).get(
        name, ""
    )
    default = 1 if name in whole else 1.0 if words else getattr(RunConfig, name)
    wanted, wrong = {
        bool: ("true or false", (1, 0.0, "true", None)),
        int: ("a whole number", (True, 1.5, "1", None, math.inf, math.nan, [1])),
        float: ("a finite number", (True, "1.0", None, math.inf, math.nan, 10**400)),
        str: ("a text", (True, 1, 1.0, None, ["iid"], {})),
    }[type(default)]
    if name == "parameters":  # a table, or its JSON
        wanted = "a table with at least one row, such as valve = {lower = 0, upper = 1}, or its JSON"
    for value in wrong:
        assert _problems(**{name: value}) == (f"{dashed(name)} must be {wanted}{words}, got {value!r}",)


def test_whole_floats_and_integers_stand_for_each_other() -> None:
    config = RunConfig.from_mapping({"rounds": 20.0, "step-size": 2})
    assert (config.rounds, config.step_size) == (20, 2.0)
    assert (type(config.rounds), type(config.step_size)) == (int, float)


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("subspace_weight", 1.4, "must be in [0, 1], got 1.4 (0 ignores the trajectory)"),
        ("subspace_weight", -0.1, "must be in [0, 1], got -0.1 (0 ignores the trajectory)"),
        ("seed", -1, "must be in [0, 9223372036854775807], got -1"),
        ("seed", 2**63, "must be in [0, 9223372036854775807], got 9223372036854775808"),
        ("train_rows", -1, "must be at least 0, got -1"),
        ("l2", -0.5, "must be at least 0.0, got -0.5"),
        ("hidden_units", 0, "must be at least 1, got 0"),
        ("dirichlet_alpha", 0.0, "must be greater than 0, got 0.0"),
        ("memory", 0, "must be at least 1, got 0"),
        ("radius", 0.0, "must be greater than 0, got 0.0"),
        ("step_size", -1.0, "must be greater than 0, got -1.0"),
        ("local_steps", 0, "must be at least 1, got 0"),
        ("batch_size", -1, "must be at least 0, got -1"),
        ("num_clients", 0, "must be at least 1, got 0"),
        ("rounds", -1, "must be at least 0, got -1"),
        ("budget", -1, "must be at least 0, got -1"),
        ("min_replies", 0, "must be at least 1, got 0"),
        ("max_retries", -1, "must be at least 0, got -1"),
        ("round_timeout", 0.0, "must be greater than 0, got 0.0"),
        ("evaluate_every", -1, "must be at least 0, got -1"),
        ("checkpoint_every", 0, "must be at least 1, got 0"),
        ("algorithm", "x", f"must be one of default, {', '.join(ALGORITHMS)}, got 'x'"),
        ("covariance", "tracy", "must be one of trace, paper, got 'tracy' (did you mean 'trace'?)"),
        ("slope", "both", "must be one of default, central, forward, three-point, gradient, surrogate, got 'both'"),
        ("init", "one", "must be one of auto, zeros, ones, random, got 'one' (did you mean 'ones'?)"),
    ],
)
def test_an_error_names_the_rule_of_a_key(name: str, value: Any, rule: str) -> None:
    assert _problems(**{name: value}) == (f"{dashed(name)} {rule}",)


@pytest.mark.parametrize(
    ("name", "value"),
    [("model", "x"), ("sampling", "x"), ("weighting", "x"), ("step_schedule", "x"), ("partition", "x")],
)
def test_an_unlike_name_gets_the_choices_alone(name: str, value: str) -> None:
    (problem,) = _problems(**{name: value})
    assert problem.startswith(f"{dashed(name)} must be one of {getattr(RunConfig, name)}, ")
    assert problem.endswith(f", got {value!r}")


@pytest.mark.parametrize(("name", "value"), [("positive_labels", "5-,9"), ("preprocess", "bias,whiten")])
def test_lists_in_texts_are_read_when_the_config_is(name: str, value: str) -> None:
    (problem,) = _problems(**{name: value})
    assert problem.startswith(f"{dashed(name)} cannot be read: ")
    assert value in problem or value.split(",")[-1] in problem


def test_borders_of_ranges_are_allowed() -> None:
    for weight in (0.0, 1.0):
        assert RunConfig.from_mapping({"subspace-weight": weight}).subspace_weight == weight
    assert RunConfig.from_mapping({"seed": 2**63 - 1}).seed == 2**63 - 1


def test_more_slots_than_clients_contradict_drawing_without_replacement() -> None:
    keys = {"num-clients": 4, "clients-per-round": 5}
    assert RunConfig.from_mapping(keys).clients_per_round == 5
    with pytest.raises(
        ConfigError, match=r"at most num-clients = 4 when drawn without replacement, got 5 .*lifts this"
    ):
        RunConfig.from_mapping(keys | {"sampling": "without-replacement"})
    RunConfig.from_mapping(keys | {"sampling": "without-replacement", "clients-per-round": 4})


def test_a_run_without_end_is_refused() -> None:
    assert _problems(rounds=0) == (
        "rounds must be at least 1 when there is no budget, got 0 (or set budget to a number of evaluations)",
    )
    assert RunConfig.from_mapping({"rounds": 0, "budget": 1}).budget == 1


def test_a_memory_beyond_n_is_refused() -> None:
    config = RunConfig(memory=8)
    config.check_dimension(8)
    with pytest.raises(ConfigError, match="memory must be at most n = 7, the number of parameters, got 8"):
        config.check_dimension(7)
    RunConfig(memory=8, algorithm="zofedavg-sgd").check_dimension(7)


def test_a_fitted_config_has_at_most_n_moves() -> None:
    config = RunConfig(memory=8)
    assert config.fitted(7) == config.replace(memory=7)
    assert config.fitted(8) is config
    isotropic = config.replace(algorithm="zofedavg-sgd")
    assert isotropic.fitted(7) is isotropic


@pytest.mark.parametrize(
    ("algorithm", "weight", "batch"), [("zofedht", 0.4, 32), ("zofedavg-sgd", 0.0, 32), ("zofedavg-gd", 0.0, 0)]
)
def test_the_algorithms_row_decides_weight_and_batch(algorithm: str, weight: float, batch: int) -> None:
    config = RunConfig(algorithm=algorithm, subspace_weight=0.4, batch_size=32)
    assert (config.weight, config.batch) == (weight, batch)


def test_step_sizes_follow_the_schedule() -> None:
    assert [RunConfig(step_size=6.0, step_schedule="inverse-sqrt").step(r) for r in (0, 3, 8)] == [6.0, 3.0, 2.0]
    assert [RunConfig(step_size=6.0, step_schedule="constant").step(r) for r in (0, 3, 8)] == [6.0] * 3


def test_a_linear_step_ends_near_zero() -> None:
    config = RunConfig(step_size=6.0, step_schedule="linear", rounds=24)
    steps = [config.step(r, 10**9) for r in range(24)]  # without a budget evaluations are nothing to it
    assert steps[0] == 6.0
    assert steps[-1] == pytest.approx(6.0 / 24, rel=1e-12)
    assert [before - after for before, after in pairwise(steps)] == pytest.approx([6.0 / 24] * 23)


def test_without_rounds_a_linear_step_falls_by_the_budget() -> None:
    config = RunConfig(step_size=6.0, step_schedule="linear", rounds=0, budget=1000)
    assert [config.step(r, spent) for r, spent in ((0, 0), (7, 250), (900, 750))] == [6.0, 4.5, 1.5]
    assert config.step(950, 999) > 0.0


@pytest.mark.parametrize(("round_", "evaluations", "share"), [(5, 100, 0.5), (5, 700, 0.7), (5, 500, 0.5), (0, 0, 0.0)])
def test_progress_is_that_of_what_ends_first(round_: int, evaluations: int, share: float) -> None:
    config = RunConfig(rounds=10, budget=1000)
    assert config.progress(round_, evaluations) == share
    assert config.replace(budget=0).progress(round_, evaluations) == round_ / 10
    assert config.replace(rounds=0).progress(round_, evaluations) == evaluations / 1000
    linear = config.replace(step_schedule="linear", step_size=2.0)
    assert linear.step(round_, evaluations) == 2.0 * (1.0 - share)


def test_the_schedule_is_linear_unless_another_is_named() -> None:
    assert {RunConfig(step_size=size).step_schedule for size in (6.0, "auto")} == {"linear"}


def test_the_step_rises_quadratically_during_warm_up() -> None:
    config = RunConfig(step_size=6.0, step_schedule="constant", warm_up=4)
    assert [config.step(r) for r in range(6)] == [6.0 / 16, 6.0 / 4, 6.0 * 9 / 16, 6.0, 6.0, 6.0]
    linear = config.replace(step_schedule="linear", rounds=10)
    assert [linear.step(r) for r in (0, 1, 9)] == pytest.approx([6.0 / 16, 6.0 / 4 * 0.9, 0.6])
    (found,) = _problems(step_size="auto", warm_up=3)
    assert found.startswith("warm-up must be 0 when step-size is auto")


def test_step_size_and_weight_may_be_auto() -> None:
    config = RunConfig.from_mapping({"step-size": "auto", "subspace-weight": "auto"})
    assert (config.step_size, config.subspace_weight) == ("auto", "auto")
    assert (config.step_is_auto, config.weight_is_auto, config.weight) == (True, True, START_WEIGHT)
    assert not config.replace(algorithm="zofedavg-sgd").weight_is_auto  # it has no weight to steer
    with pytest.raises(ValueError, match="step-size is auto"):
        config.step(0)
    assert _problems(step_size="fast") == ("step-size must be a finite number or auto or default, got 'fast'",)
    assert _problems(radius="auto") == ("radius must be a finite number or default, got 'auto'",)


def test_own_objectives_get_a_measured_step_size() -> None:
    own = {"objective": "valve:make"}
    assert RunConfig().first_step == RunConfig.from_mapping({"step-size": "default"}).first_step == 1.0
    for config in (RunConfig(**own), RunConfig.from_mapping(own | {"step-size": "default"})):
        assert config.step_is_auto
        assert RunConfig.from_mapping(config.to_mapping()).step_is_auto
    assert RunConfig.from_mapping(own | {"step-size": 1}).first_step == 1.0
    (found,) = _problems(objective="valve:make", on_error="stop")
    assert found.endswith("or give step-size as a number)")


def test_a_config_keeps_what_was_said() -> None:
    assert RunConfig().step_size == RunConfig(objective="a:b").step_size == "default"
    assert RunConfig().replace(objective="a:b") == RunConfig(objective="a:b")
    assert RunConfig(objective="a:b").replace(objective="").first_step == 1.0


def test_evaluate_every_holds_for_black_boxes() -> None:
    assert RunConfig(evaluate_every=3, objective="a:b").evaluate_every == 3
    assert RunConfig(objective="a:b").evaluate_every == 10
    assert RunConfig().evaluate_every == 1


@pytest.mark.parametrize(("clients", "slots", "steps"), [(20, 5, 50), (20, 2, 1), (1000, 5, 1), (1, 1, 1)])
def test_full_evaluations_cost_a_tenth_at_most(clients: int, slots: int, steps: int) -> None:
    config = RunConfig(objective="a:b", num_clients=clients, clients_per_round=slots, local_steps=steps)
    of_rounds = config.evaluate_every * slots * config.step_spec(step_size=0.0).evaluations(1)
    assert clients <= 0.1 * of_rounds


@pytest.mark.parametrize(("keys", "rows"), [({}, True), ({"dataset": "clients"}, False), ({"objective": "a:b"}, False)])
def test_server_has_rows_unless_clients_hold_them(keys: dict[str, str], rows: bool) -> None:
    assert RunConfig(**keys).server_has_rows is rows


def test_rounds_or_budget_end_a_run() -> None:
    config = RunConfig(rounds=10, budget=1000)
    assert [config.is_over(*at) for at in ((9, 999), (10, 0), (0, 1000))] == [False, True, True]
    assert not config.replace(budget=0).is_over(9, 10**9)
    assert not config.replace(rounds=0).is_over(10**9, 999)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"step_size": "auto", "on_error": "stop"}, "on-error must not be 'stop' when step-size is auto"),
        ({"subspace_weight": "auto", "clients_per_round": 1}, "clients-per-round must be at least 2 when"),
        ({"subspace_weight": "auto", "covariance": "paper"}, "covariance must be 'trace' when subspace-weight is auto"),
    ],
)
def test_auto_is_refused_where_it_could_not_work(keys: dict[str, Any], problem: str) -> None:
    (found,) = _problems(**keys)
    assert found.startswith(problem)


def test_replace_checks_like_from_mapping() -> None:
    assert RunConfig().replace(local_steps=7, step_size=2).step_size == 2.0
    with pytest.raises(ConfigError, match="local-steps must be at least 1"):
        RunConfig().replace(local_steps=0)


def test_task_names_the_objective_and_not_the_algorithm() -> None:
    task = RunConfig().task
    assert set(json.loads(task)) < set(_DEFAULTS)
    for change in ({"algorithm": "zofedavg-gd"}, {"rounds": 3}, {"step_size": 9.0}, {"out": "x"}):
        assert RunConfig().replace(**change).task == task
    for change in ({"model": "mlp"}, {"seed": 1}, {"num_clients": 5}, {"l2": 0.1}, {"objective": "a:b"}):
        assert RunConfig().replace(**change).task != task


def test_free_keys_are_keys() -> None:
    assert set(_DEFAULTS) > FREE_KEYS


@pytest.mark.parametrize(
    ("key", "given", "value"),
    [
        ("seed", np.arange(3)[1], 1),
        ("rounds", np.int64(20), 20),
        ("rounds", np.uint8(20), 20),
        ("rounds", np.float64(20.0), 20),
        ("rounds", np.array(20), 20),
        ("radius", np.float64(1e-3), 1e-3),
        ("radius", np.int32(1), 1.0),
        ("step-size", np.float32(0.5), 0.5),
        ("radius", np.longdouble(0.5), 0.5),
        ("step-size", np.str_("auto"), "auto"),
        ("mlp-bias", np.bool_(True), True),
        ("dataset", Path("rows.csv"), "rows.csv"),
        ("model", np.str_("mlp"), "mlp"),
    ],
)
def test_numpys_scalars_and_paths_are_values(key: str, given: object, value: object) -> None:
    config = RunConfig.from_mapping({key: given})
    assert config.to_mapping()[key] == value
    assert type(config.to_mapping()[key]) is type(value)
    assert json.loads(json.dumps(config.to_mapping()))[key] == value


@pytest.mark.parametrize("given", [np.bool_(True), np.float64("nan"), np.array([1, 2]), np.float64(1.5)])
def test_numpys_other_values_are_no_whole_numbers(given: object) -> None:
    assert "rounds must be a whole number" in _problems(rounds=given)[0]


def test_a_part_of_a_config_is_not_checked_across_keys() -> None:
    """What a client is told says nothing of the step size, and so local-steps = 1 is no contradiction there."""
    whole = RunConfig.from_mapping({"objective": "bowl:Bowl", "local-steps": 1, "step-size": 0.1})
    for told in (whole.task, whole.preparation):
        part = RunConfig.of_part(json.loads(told))
        assert part.objective == "bowl:Bowl"
    assert RunConfig.of_part(json.loads(whole.preparation)).local_steps == 1
    with pytest.raises(ConfigError, match="local-steps"):
        RunConfig.of_part({"local-steps": 0})


def test_the_keys_of_steps_are_keys() -> None:
    assert set(KEYS_OF_STEPS) <= set(RunConfig().to_mapping())
    assert RunConfig().keys_of_steps == []
    assert RunConfig(memory=3, rounds=7).keys_of_steps == ["memory"]

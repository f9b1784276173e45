"""Malformed arguments of the public names: one sentence with the thing, the rule, the value and the way out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from zofedht import (
    Choice,
    Fleet,
    Objective,
    Optimizer,
    Real,
    RunConfig,
    ZOFedClassifier,
    ZofedhtError,
    ZOFedRegressor,
    check,
    load_run,
    run,
    work,
)

QUICK: dict[str, Any] = {"rounds": 1, "local_steps": 1}
ROWS = np.repeat([[0.0], [1.0]], 10, axis=0)
LABELS = np.repeat([0, 1], 10)

MODULE = """
    from zofedht import Objective

    class Good(Objective):
        dim = 2
        def value(self, x, batch):
            return float(x @ x)

    def of_class(shard):
        return Good

    def of_function(shard):
        return lambda valve, pause: valve + pause

    def plain(x):
        return float(x @ x)

    def named(valve, pause):
        return float(valve + pause)
    """


class Good(Objective):
    dim = 2

    def value(self, x: Any, batch: Any) -> float:
        return float(x @ x)


def plain(x: Any) -> float:
    return float(x @ x)


def named(valve: float, pause: float) -> float:
    return valve + pause


def local(call: Callable[[Fleet], Any] = lambda fleet: None, **options: Any) -> Any:
    with Fleet.local([plain, plain], **({"x0": [0.0, 0.0]} | options)) as fleet:
        return call(fleet)


def told(call: Callable[[], Any]) -> str:
    with pytest.raises(ZofedhtError) as error:
        call()
    return str(error.value)


RUNS: dict[str, tuple[Callable[[], Any], str]] = {
    "a class": (lambda: run(Good), "objective must be an Objective and not its class, got Good; give Good(...)"),
    "no start": (lambda: run(plain), "x0, the point to start from, must be given"),
    "settings without parameters": (
        lambda: run(plain, {"a": 1.0}),
        "got {'a': 1.0}; values by name need parameters={name: Real(lower, upper), ...}",
    ),
    "names without parameters": (lambda: run(named, [0.0, 0.0]), "one of named parameters needs parameters={name: "),
    "bounds of text": (lambda: run(plain, [0.0, 0.0], bounds="01"), "bounds must be pairs (lower, upper) or"),
    "bounds by name": (lambda: run(plain, [0.0, 0.0], bounds={"a": (0, 1)}), "got {'a': (0, 1)}"),
    "a listed choice": (lambda: Choice(["a", "b"]), "got 1 (Choice('a', 'b'), without a list)"),
    "pairs as parameters": (
        lambda: run(named, parameters={"valve": (0, 1)}),
        "must map names to Real, Integer or Choice",
    ),
    "an unchecked config": (lambda: run(plain, [0.0, 0.0], config=RunConfig(rounds="x")), "rounds must be a whole"),
    "a config's path": (
        lambda: run(plain, [0.0, 0.0], config="run.toml"),
        "config must be a RunConfig, got 'run.toml'",
    ),
    "check of a class": (lambda: check(Good), "objective must be an Objective and not its class"),
    "a folder of nothing": (lambda: load_run(None), "load_run must get the folder of a run, got None"),
    "work without a task": (lambda: work(3, plain), "work must get a task of Optimizer.ask(), got 3"),
    "no start to ask from": (lambda: Optimizer(RunConfig()), "x0 must be a point to start from, got None"),
    "parameters in a list": (lambda: Optimizer(parameters=["a"]), "parameters must map names to Real"),
}

FLEETS: dict[str, tuple[Callable[[], Any], str]] = {
    "a class": (lambda: Fleet.local([Good]), "site site-0 must be an Objective and not its class, got Good"),
    "no threads": (lambda: local(threads=0), "threads must be a whole number of at least 1, got 0"),
    "threads in words": (lambda: local(threads="2"), "threads must be a whole number of at least 1, got '2'"),
    "a seed in words": (lambda: local(seed="x"), "seed must be a whole number of at least 0, got 'x'"),
    "one site as a text": (
        lambda: local(lambda fleet: fleet.table([[0, 0]], "site-0")),
        "sites must be a list of some of site-0, site-1, got 'site-0'",
    ),
    "a number of sites": (lambda: local(lambda fleet: fleet.table([[0, 0]], 3)), "sites must be a list of some of"),
    "a map of nothing": (lambda: local(lambda fleet: fleet.map(3, [1])), "map must get a function and a list"),
    "a map over a number": (lambda: local(lambda fleet: fleet.map(fleet, 3)), "map must get a function and a list"),
    **{
        f"a wrong {name}": (lambda name=name, value=value: Fleet("127.0.0.1:0", insecure=True, **{name: value}), rule)
        for name, value, rule in (
            ("timeout", "x", "timeout must be seconds of at least 0, got 'x'"),
            ("rejoin", None, "rejoin must be seconds of at least 0, got None"),
            ("health_address", 7, "health_address must be HOST:PORT on this machine, got 7"),
            ("refuse", 7, "refuse must be names, serial numbers, or a file of these, got 7"),
            ("report", 3, "report must be a function of one text, got 3"),
            ("seed", "a", "seed must be a whole number of at least 0, got 'a'"),
            ("min_clients", 0, "min_clients must be a whole number of at least 1, got 0"),
        )
    },
}

ESTIMATORS: dict[str, tuple[Any, str]] = {
    "a list of models": (ZOFedClassifier(["mlp"]), "model must be one of logistic, "),
    "clients in words": (ZOFedClassifier(num_clients="3"), "num_clients must be a whole number of at least 1, got '3'"),
    "half an intercept": (ZOFedClassifier(fit_intercept="no"), "fit_intercept must be True or False, got 'no'"),
    "a search": (ZOFedClassifier(algorithm="cma-es"), "algorithm must take local steps in an estimator, got 'cma-es'"),
    "a list of losses": (
        ZOFedRegressor(["squared"]),
        "loss must be one of squared, absolute, quantile, got ['squared']",
    ),
    "a quantile in words": (
        ZOFedRegressor("quantile", quantile="a"),
        "quantile must be greater than 0 and less than 1",
    ),
}


@pytest.mark.parametrize("what", RUNS)
def test_a_run_names_what_is_wrong(what: str) -> None:
    call, sentence = RUNS[what]
    assert sentence in told(call)


@pytest.mark.parametrize("what", FLEETS)
def test_a_fleet_names_what_is_wrong(what: str) -> None:
    call, sentence = FLEETS[what]
    assert sentence in told(call)


@pytest.mark.parametrize("what", ESTIMATORS)
def test_an_estimator_names_what_is_wrong(what: str) -> None:
    estimator, sentence = ESTIMATORS[what]
    assert sentence in told(lambda: estimator.fit(ROWS, LABELS))


def test_a_quantile_of_numpy_is_one() -> None:
    ZOFedRegressor("quantile", quantile=np.float32(0.5), **QUICK).fit(ROWS, LABELS)


@pytest.mark.parametrize(
    ("factory", "way_out"),
    [
        ("of_class", "what the factory odd_module:of_class returns must be an Objective and not its class, got Good;"),
        ("of_function", "got function; a factory takes a Shard or nothing and returns an Objective"),
        ("plain", "'Shard' and 'Shard' (odd_module.py, line 16, in plain); a factory takes a Shard or nothing"),
        ("named", "a function of named parameters stands in its place with the config's `parameters`"),
    ],
)
def test_a_wrong_factory_is_told_what_one_is(
    factory: str, way_out: str, write_module: Callable[[str, str], None]
) -> None:
    write_module("odd_module", MODULE)
    text = told(lambda: run(f"odd_module:{factory}", **QUICK))
    assert way_out in text


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("valve", r"no JSON: .* \(in TOML it is a table \[parameters\]\)"),
        ({"valve": {"lower": 0, "upper": 1}, "radius": 0.1}, r"got 0.1 \(a key of the run stands above the table\)"),
        ({"valve": {"lower": 0, "uper": 1}}, "parameter 'valve': unknown key 'uper'; did you mean 'upper'"),
        ({"valve": {"options": ["a"]}}, "parameter 'valve': Choice must have 2 to 100 options, got 1"),
        ({"valve": {"lower": 1, "upper": 0}}, r"parameter 'valve': Real must have lower < upper, got \(1, 0\)"),
    ],
)
def test_rows_of_a_table_are_named(rows: Any, sentence: str) -> None:
    text = told(lambda: RunConfig.from_mapping({"objective": "a:b", "parameters": rows}))
    assert re.search(sentence, text), text


def test_numbers_of_named_parameters_are_bounds() -> None:
    assert "Real must have numbers for bounds, got 'a'" in told(lambda: Real("a", 1))  # type: ignore[arg-type]

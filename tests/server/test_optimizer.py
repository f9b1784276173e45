"""Ask and tell: the same x as a run's, for every row, over bytes, with a pause in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import quadratics, searches, small
from zofedht import (
    CheckpointError,
    Choice,
    ConfigError,
    Integer,
    MessageError,
    ObjectiveError,
    Optimizer,
    Real,
    Reply,
    RoundError,
    RunConfig,
    Task,
    run,
    work,
)
from zofedht.common.algorithms import ALGORITHMS
from zofedht.common.objective.base import Objective
from zofedht.common.typing import Indices, Vector
from zofedht.server.inprocess import run_in_process

OBJECTIVES = quadratics()
START = np.zeros(12)
NAMES = [str(index) for index in range(4)]


def config_of(name: str) -> RunConfig:
    if ALGORITHMS[name].asks_points:
        return searches(algorithm=name, rounds=6)
    keys = {"num-clients": 4, "clients-per-round": 3, "rounds": 6, "batch-size": 3, "step-size": 0.01, "seed": 11}
    everybody = {"clients-per-round": 4} if name == "fedzen" else {}
    return RunConfig.from_mapping(keys | {"algorithm": name} | everybody)


def over_bytes(task: Task, objectives: Any = OBJECTIVES) -> Reply:
    """Do a task as another process would."""
    there = Task.from_bytes(task.to_bytes())
    return Reply.from_bytes(work(there, objectives[int(there.client)]).to_bytes())


def play(optimizer: Optimizer, rounds: int = 100, objectives: Any = OBJECTIVES) -> Optimizer:
    end = optimizer.round + rounds
    while optimizer.round < end and (tasks := optimizer.ask()):
        optimizer.tell([over_bytes(task, objectives) for task in reversed(tasks)])
    return optimizer


@pytest.mark.parametrize("name", [name for name, row in ALGORITHMS.items() if "gradient" not in row.defaults.values()])
def test_every_row_ends_in_the_x_of_a_run(name: str, tmp_path: Path) -> None:
    config = config_of(name)
    first = play(Optimizer(config, START, clients=4), 2)
    first.save(tmp_path / "state")
    second = play(Optimizer.load(tmp_path / "state", clients=NAMES))
    assert second.finished
    assert second.ask() == []
    whole = run_in_process(first.config, OBJECTIVES).state
    assert second.x.tobytes() == whole.user_x.tobytes()
    assert second.state.totals.evaluations == whole.totals.evaluations


@pytest.mark.parametrize(
    "keys", [{"uplink": "slopes"}, {"uplink": "slopes", "directions": "shared", "downlink": "slopes"}]
)
def test_slopes_are_told_too(keys: dict[str, Any]) -> None:
    config = small(**keys)
    assert play(Optimizer(config, START, clients=4)).x.tobytes() == run_in_process(config, OBJECTIVES).state.x.tobytes()


class Bounded(Objective):
    """Breaks outside of its bounds."""

    dim = 2
    bounds = ((0.0, 1.0), (None, 80.0))
    scale = (1.0, 60.0)

    def __init__(self, at: float) -> None:
        self.at = np.array([at, 50.0])

    def value(self, x: Vector, batch: Indices | slice) -> float:
        assert 0.0 <= x[0] <= 1.0
        assert x[1] <= 80.0
        return float(np.sum(((x - self.at) / self.scale) ** 2))


@pytest.mark.parametrize(
    "keys", [{"algorithm": "cma-es", "rounds": 60}, {"step_size": 0.2, "rounds": 30, "local_steps": 20}]
)
def test_bounds_and_scale_are_those_of_the_clients(keys: dict[str, Any]) -> None:
    sites = [Bounded(0.4), Bounded(0.6)]
    declared = {"bounds": Bounded.bounds, "scale": Bounded.scale}
    found = play(Optimizer(x0=[0.2, 10.0], clients=2, seed=3, **declared, **keys), objectives=sites)
    np.testing.assert_allclose(found.x, [0.5, 50.0], rtol=0.02)
    functions = [lambda x, site=site: site.value(x, slice(None)) for site in sites]
    again = play(Optimizer(x0=[0.2, 10.0], clients=2, seed=3, **declared, **keys), objectives=functions)
    assert again.x.tobytes() == found.x.tobytes()


def test_few_parameters_are_searched_and_values_are_enough() -> None:
    optimizer = Optimizer(x0=[0.0, 0.0], clients=["north", "south"], bounds=(-5.0, 5.0), scale=2.0, budget=300, seed=1)
    asked = 0
    while tasks := optimizer.ask():
        for task in tasks:
            assert task.points is not None
            asked += len(task.points)
            at = {"north": 1.0, "south": 3.0}[task.client]
            optimizer.tell([task.reply([float(np.sum((x - at) ** 2)) for x in task.points])])
    np.testing.assert_allclose(optimizer.x, 2.0, atol=1e-5)
    assert optimizer.config.algorithm == "auto"
    assert optimizer.state.totals.evaluations == asked


def test_lost_values_and_lost_clients_are_borne() -> None:
    optimizer = Optimizer(x0=np.zeros(3), clients=4, algorithm="cma-es", rounds=60, seed=2)
    rng = np.random.default_rng(1)
    while tasks := optimizer.ask():
        gone = {task.client for task in tasks[1:] if rng.random() < 0.2}
        for task in tasks:
            if task.client not in gone:
                values = [None if rng.random() < 0.1 else float(np.sum((x - 1.0) ** 2)) for x in task.points]  # type: ignore[union-attr]
                optimizer.tell([task.reply(values)], lost=sorted(gone))
    assert np.linalg.norm(optimizer.x - 1.0) < 1e-2


def test_a_round_that_nobody_answers_fails_at_last() -> None:
    optimizer = Optimizer(small(max_retries=1), START, clients=4)
    for attempt in range(2):
        names = [task.client for task in optimizer.ask()]
        if attempt == 0:
            optimizer.tell([], lost=names)
            assert optimizer.round == 0
        else:
            with pytest.raises(RoundError, match="no reply will be told"):
                optimizer.tell([], lost=names)


def test_a_config_without_a_step_size_finds_it() -> None:
    """As ``run`` with the same config: the step size of built-in models would diverge here."""
    config = RunConfig(algorithm="zofedht", rounds=6, seed=1)

    def far(x: Vector) -> float:
        return float(np.sum((x - 1.0) ** 2))

    optimizer = Optimizer(config, [0.0, 0.0], clients=2)
    while tasks := optimizer.ask():
        optimizer.tell([work(task, far) for task in tasks])
    assert optimizer.config.step_size == "auto"
    assert np.array_equal(optimizer.x, run([far, far], [0.0, 0.0], config=config, return_x="last").x)


def test_asking_twice_gives_what_is_open() -> None:
    optimizer = Optimizer(small(sampling="without-replacement"), START, clients=4)
    tasks = optimizer.ask()
    assert [task.client for task in optimizer.ask()] == [task.client for task in tasks]
    optimizer.tell([over_bytes(tasks[0])])
    assert [task.client for task in optimizer.ask()] == [task.client for task in tasks[1:]]
    with pytest.raises(MessageError, match="must answer an open task"):
        optimizer.tell([over_bytes(tasks[0])])
    assert optimizer.round == 0


def test_on_error_stop_is_raised() -> None:
    def broken(x: Vector) -> float:
        raise TimeoutError("the plant is offline")

    optimizer = Optimizer(x0=np.zeros(2), algorithm="cma-es", on_error="stop", rounds=3)
    with pytest.raises(ObjectiveError, match="the plant is offline"):
        optimizer.tell([work(task, broken) for task in optimizer.ask()])


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="x0 must be a point"):
        Optimizer()
    for clients in (0, [], ["a", "a"], "ab"):
        with pytest.raises(ConfigError, match="clients must be a number of at least 1, or different names"):
            Optimizer(x0=[0.0], clients=clients)
    keys: Any = {"uplink": "slopes", "directions": "shared", "secure_aggregation": True, "step_size": 0.1}
    with pytest.raises(ConfigError, match="secure-aggregation must be false for Optimizer"):
        Optimizer(x0=np.zeros(3), clients=4, **keys)
    with pytest.raises(ConfigError, match="unknown key 'raduis'"):
        Optimizer(x0=[0.0], raduis=1.0)
    (tmp_path / "state").write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        Optimizer.load(tmp_path / "state")
    steps = Optimizer(small(), START, clients=4).ask()[0]
    with pytest.raises(MessageError, match="asks for local steps"):
        steps.reply([1.0])
    points = Optimizer(x0=[0.0, 0.0], algorithm="cma-es", rounds=1).ask()[0]
    with pytest.raises(MessageError, match="values must be 12 numbers"):
        points.reply([1.0])


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"scalars": {}, "arrays": [["object", ""]], "more": {}}', b"\xff"]
)
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    for kind in (Task, Reply):
        with pytest.raises(MessageError):
            kind.from_bytes(data)


def test_a_replys_bytes_hold_no_text_of_an_exception():
    """The text of the user's exception may hold rows or paths; only its type and place leave the process."""

    def broken(x: np.ndarray) -> float:
        raise ValueError("hunter2 in /vault/rows.csv")

    optimizer = Optimizer(x0=[0.0, 0.0], clients=["a", "b"], seed=1, budget=400)
    reply = work(optimizer.ask()[0], broken)
    assert "hunter2 in /vault/rows.csv" in reply.update.reason
    assert b"hunter2" not in reply.to_bytes()
    assert "the objective raised ValueError (test_optimizer.py" in Reply.from_bytes(reply.to_bytes()).update.reason


PARAMETERS = {"valve": Real(0, 1), "pause": Real(1e-3, 10, log=True), "teeth": Integer(8, 40), "mode": Choice("a", "b")}


def machine(valve: float, pause: float, teeth: int, mode: str) -> float:
    return (valve - 0.3) ** 2 + np.log10(pause / 0.02) ** 2 + 0.01 * (teeth - 13) ** 2 + 0.3 * (mode == "a")


def test_named_parameters_are_asked_as_values_by_name(tmp_path: Path) -> None:
    keys: dict[str, Any] = {"algorithm": "cma-es", "budget": 1200, "seed": 5}
    optimizer = Optimizer(clients=["one"], parameters=PARAMETERS, **keys)
    assert optimizer.settings["teeth"] == 24
    while tasks := optimizer.ask():
        there = Task.from_bytes(tasks[0].to_bytes())
        assert there.settings is not None
        optimizer.tell([there.reply([machine(**one) for one in there.settings])])
        if optimizer.round == 3:
            optimizer.save(tmp_path / "state")
            optimizer = Optimizer.load(tmp_path / "state", clients=["one"])
    found = optimizer.settings
    assert (found["teeth"], found["mode"]) == (13, "b")
    assert found["pause"] == pytest.approx(0.02, rel=1e-3)
    assert run(machine, parameters=PARAMETERS, evaluate_every=0, **keys).last.tobytes() == optimizer.x.tobytes()


def test_named_parameters_take_local_steps_too() -> None:
    space = {"valve": Real(0, 1), "pause": Real(1e-3, 10, log=True)}
    start = {"valve": 0.9, "pause": 1.0}
    keys: dict[str, Any] = {"algorithm": "zofedavg-sgd", "rounds": 5, "step_size": 0.05, "seed": 5}

    def site(valve: float, pause: float) -> float:
        return (valve - 0.3) ** 2 + np.log10(pause / 0.02) ** 2

    optimizer = Optimizer(None, start, clients=2, parameters=space, **keys)
    assert optimizer.settings == pytest.approx(start)
    play(optimizer, objectives=[site, site])
    assert optimizer.x.tobytes() == run([site] * 2, start, parameters=space, **keys).last.tobytes()


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"parameters": {"a": 3}}, "parameters must map names to Real, Integer or Choice"),
        ({"parameters": PARAMETERS, "bounds": (0, 1)}, "bounds and parameters exclude each other"),
        ({"parameters": PARAMETERS, "x0": {"valv": 0.2}}, "valv"),
        ({"parameters": PARAMETERS, "algorithm": "lbfgs"}, "algorithm must not be lbfgs"),
        ({"config": "run.toml", "x0": [1.0]}, "config must be a RunConfig, got 'run.toml'"),
    ],
)
def test_wrong_parameters_are_refused_in_a_sentence(keys: dict[str, Any], reason: str) -> None:
    with pytest.raises((ConfigError, ObjectiveError), match=reason):
        Optimizer(**keys)


def test_a_task_refuses_the_names_of_another_problem() -> None:
    task = Optimizer(x0=[0.0, 0.0]).ask()[0]
    other = Task(task.broadcast, task.units, '{"valve": {"kind": "real"}}').to_bytes()
    with pytest.raises(MessageError, match="named must be"):
        Task.from_bytes(other)


def asked(count: int = 2) -> tuple[Optimizer, list[Task]]:
    optimizer = Optimizer(x0=[0.0, 0.0], clients=count, budget=90, algorithm="cma-es")
    return optimizer, optimizer.ask()


@pytest.mark.parametrize(
    ("clients", "shown"), [(0, "0"), (-2, "-2"), (2.5, "2.5"), (None, "None"), ("ab", "'ab'"), (["a", "a"], "'a', 'a'")]
)
def test_clients_are_a_number_or_different_names(clients: Any, shown: str) -> None:
    with pytest.raises(ConfigError, match=f"clients must be a number of at least 1, or different names, got .*{shown}"):
        Optimizer(x0=[0.0], clients=clients, budget=9)


def test_another_number_of_clients_is_refused() -> None:
    with pytest.raises(ConfigError, match="num_clients must be 2, the number of objectives or clients, got 5"):
        Optimizer(x0=[0.0], clients=2, num_clients=5)


def test_what_is_no_reply_is_refused_and_nothing_is_heard() -> None:
    optimizer, tasks = asked()
    reply = tasks[0].reply([1.0] * tasks[0].broadcast.answers)
    for replies, reason in (
        ([3], "replies must be a list of Reply"),
        (reply, "replies must be a list of Reply"),
        ([reply, reply], "must answer each task once, got two for slot 0"),
    ):
        with pytest.raises(MessageError, match=reason):
            optimizer.tell(replies)  # type: ignore[arg-type]
    for lost in ("0", ["north"], 3):
        with pytest.raises(ConfigError, match="lost must be a list of names of clients"):
            optimizer.tell([], lost=lost)  # type: ignore[arg-type]
    assert len(optimizer.ask()) == 2
    for values in (3.0, ["a"] * 6, [1.0]):
        with pytest.raises(MessageError, match="values must be"):
            tasks[0].reply(values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"x0": [0.0], "clients": 10**18}, "clients must be at most 1000000, got 1000000000000000000"),
        ({"x0": np.broadcast_to(0.0, (10**7,)), "memory": 10_000, "algorithm": "zofedht"}, "lower one of them"),
    ],
)
def test_sizes_are_held_against_memory(sizes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Optimizer(**sizes)


def test_a_state_is_loaded_for_as_many_clients(tmp_path: Path) -> None:
    asked()[0].save(tmp_path / "state")
    with pytest.raises(ConfigError, match="clients must be the 2 of the saved state, got 3"):
        Optimizer.load(tmp_path / "state", clients=3)

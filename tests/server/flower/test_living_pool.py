"""A worker of a simulation that dies or hangs is replaced where there is place; one whose app raises lives on."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

ray = pytest.importorskip("ray", reason="the extra `sim` is not installed")

from flwr.server.superlink.fleet.vce.backend import raybackend  # noqa: E402
from flwr.simulation.ray_transport import ray_actor  # noqa: E402

from zofedht.server.flower.living_pool import living_workers  # noqa: E402
from zofedht.server.flower.proxies import FIRST_ANSWER  # noqa: E402

JOB = ("app", "message", "0", "context")


class _Raised(ray.exceptions.RayTaskError):
    def __init__(self) -> None:
        """What a worker's app raised; Ray makes it of a traceback that we do not need."""


@dataclass(frozen=True)
class _Worker:
    number: int

    @property
    def __ray_ready__(self) -> Any:  # Ray's name
        return SimpleNamespace(remote=lambda: self.number)


class _Machines:
    """A pool of workers, on machines that come and go, and what became of the workers."""

    def __init__(self, patch: pytest.MonkeyPatch, place: int) -> None:
        self.place = place  # for so many workers, as Ray knows
        self.begin = True  # whether new workers find a machine
        self.made, self.killed = 0, list[_Worker]()
        self.fails: Exception | None = None
        patch.setattr(ray, "get", self._get)
        patch.setattr(ray, "wait", lambda signs, **_: (signs if self.begin else [], []))
        patch.setattr(ray, "kill", self.killed.append)
        patch.setattr(ray_actor, "pool_size_from_resources", self._places)
        worker: Any = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=self._make))
        self.pool: Any = ray_actor.BasicActorPool(worker, {"num_cpus": 1}, {})
        self.pool.add_actors_to_pool(place)
        self.waited: list[float] = []
        self._take_over(patch)

    def _take_over(self, patch: pytest.MonkeyPatch) -> None:
        """Let a first message of Flower's meet the pool."""
        patch.setattr(raybackend.RayBackend, "process_message", lambda *_: None)
        backend: Any = SimpleNamespace(pool=self.pool)
        with living_workers(7.0):
            raybackend.RayBackend.process_message(backend, JOB, "context")
        assert type(self.pool) is not ray_actor.BasicActorPool

    @property
    def free(self) -> list[int]:
        return [worker.number for worker in self.pool.pool]

    def _get(self, future: Any, timeout: float) -> Any:
        self.waited.append(timeout)
        if self.fails is not None:
            raise self.fails
        return "id", "answer", "context"

    def _make(self) -> _Worker:
        self.made += 1
        return _Worker(self.made)

    def _places(self, _: Any) -> int:
        if not self.place:
            raise ValueError("ActorPool is empty")
        return self.place

    def message(self, fails: Exception | None = None) -> Any:
        """Do as Flower does with a message."""
        self.fails = fails
        future = self.pool.submit(lambda actor, *_: f"future of {actor}", JOB)
        try:
            return self.pool.fetch_result_and_return_actor_to_pool(future)
        except Exception as error:
            self.pool.add_actor_back_to_pool(future)
            return error


@pytest.mark.parametrize("fails", [None, _Raised()])
def test_a_worker_that_answers_or_raises_lives_on(monkeypatch: pytest.MonkeyPatch, fails: Exception | None):
    machines = _Machines(monkeypatch, place=1)
    assert machines.message(fails) == (fails or ("answer", "context"))
    assert machines.free == [1]
    assert not machines.killed


@pytest.mark.parametrize(
    "fails",
    [ray.exceptions.GetTimeoutError(), ray.exceptions.ActorDiedError(), ray.exceptions.OutOfMemoryError("memory")],
)
def test_a_worker_that_dies_or_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch, fails: Exception):
    machines = _Machines(monkeypatch, place=1)
    assert machines.message(fails) is fails
    assert machines.killed == [_Worker(1)]
    assert machines.message() == ("answer", "context")
    assert machines.free == [2]


def test_a_lost_machine_gets_no_worker_and_a_new_one_does(monkeypatch: pytest.MonkeyPatch):
    machines = _Machines(monkeypatch, place=2)
    machines.place = 1
    machines.message(ray.exceptions.ActorDiedError())
    assert machines.message() == ("answer", "context")
    assert (machines.free, machines.made) == ([1], 2)
    machines.place = 0
    machines.message(ray.exceptions.ActorDiedError())
    assert machines.free == []
    machines.place = 1
    assert machines.message() == ("answer", "context")
    assert machines.free == [3]


def test_no_message_waits_for_a_worker_without_a_machine(monkeypatch: pytest.MonkeyPatch):
    """Ray may tell of a lost worker before it knows that the machine is lost: the next one then begins never."""
    machines = _Machines(monkeypatch, place=2)
    machines.begin = False
    machines.message(ray.exceptions.ActorDiedError())
    assert [machines.message() for _ in range(3)] == [("answer", "context")] * 3
    assert machines.free == [1]
    machines.place = 1  # now Ray knows
    machines.message()
    assert machines.killed == [_Worker(2), _Worker(3)]


def test_a_message_waits_for_a_free_worker(monkeypatch: pytest.MonkeyPatch):
    machines = _Machines(monkeypatch, place=1)
    first = machines.pool.submit(lambda actor, *_: actor, JOB)
    second: list[Any] = []
    waiting = threading.Thread(target=lambda: second.append(machines.message()))
    waiting.start()
    machines.pool.add_actor_back_to_pool(first)
    waiting.join()
    assert second == [("answer", "context")]
    assert machines.made == 1


def test_without_a_worker_a_message_fails_in_time(monkeypatch: pytest.MonkeyPatch):
    machines = _Machines(monkeypatch, place=1)
    machines.pool.longest, machines.place = 0.0, 0
    machines.pool.pool.clear()
    with pytest.raises(TimeoutError, match="no worker was free for 0 s"):
        machines.message()


def test_a_worker_has_time_to_start_once(monkeypatch: pytest.MonkeyPatch):
    """It loads the app and the user's code before its first answer; a message of round-timeout may be shorter."""
    machines = _Machines(monkeypatch, place=1)
    for fails in (None, None, ray.exceptions.ActorDiedError(), None, None):
        machines.message(fails)
    assert machines.waited == [FIRST_ANSWER, 7.0, 7.0, FIRST_ANSWER, 7.0]


def test_flower_prints_no_traceback_for_a_dead_worker(caplog: pytest.LogCaptureFixture):
    def log(module: str) -> None:
        logging.getLogger("flwr").handle(
            logging.LogRecord("flwr", logging.ERROR, f"/{module}.py", 1, module, None, None)
        )

    with caplog.at_level(logging.ERROR, logger="flwr"):
        with living_workers(7.0):
            log("vce_api")
            log("server")
        log("raybackend")
    assert [record.getMessage() for record in caplog.records] == ["server", "raybackend"]


def test_flowers_own_way_is_back_afterwards():
    before = raybackend.RayBackend.process_message
    with living_workers(7.0):
        assert raybackend.RayBackend.process_message is not before
    assert raybackend.RayBackend.process_message is before

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

from tests.helpers import small  # noqa: E402
from zofedht.server.flower import living_pool  # noqa: E402
from zofedht.server.flower.living_pool import living_workers  # noqa: E402

CONFIG = small(round_timeout=7.0, objective="valve:make")
JOB = ("app", "message", "0", "context")


class _Raised(ray.exceptions.RayTaskError):
    def __init__(self) -> None:
        """What a worker's app raised; Ray makes it of a traceback that we do not need."""


@dataclass(frozen=True)
class _Worker:
    number: int

    @property
    def __ray_ready__(self) -> Any:  # Ray's name
        return SimpleNamespace(remote=lambda: f"{self.number} runs")

    @property
    def __ray_call__(self) -> Any:  # Ray's name
        return SimpleNamespace(remote=lambda act, objective: f"{self.number} has {objective}")


class _Machines:
    """A pool of workers, on machines that come and go, and what became of the workers."""

    def __init__(self, patch: pytest.MonkeyPatch, place: int) -> None:
        self.place = place  # for so many workers, as Ray knows
        self.begin = True  # whether new workers find a machine
        self.imports = True  # whether they get to the end of the user's imports
        self.hangs = False
        self.over = threading.Event()
        self.now = 0.0  # seconds
        self.made, self.killed = 0, list[_Worker]()
        self.fails: Exception | None = None
        patch.setattr(ray, "get", self._get)
        patch.setattr(ray, "wait", self._wait)
        patch.setattr(living_pool, "time", SimpleNamespace(monotonic=lambda: self.now))
        patch.setattr(ray, "kill", self.killed.append)
        patch.setattr(ray_actor, "pool_size_from_resources", self._places)
        worker: Any = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=self._make))
        self.pool: Any = ray_actor.BasicActorPool(worker, {"num_cpus": 1}, {})
        self.pool.add_actors_to_pool(place)
        self._take_over(patch)

    def _take_over(self, patch: pytest.MonkeyPatch) -> None:
        """Let a first message of Flower's meet the pool."""
        patch.setattr(raybackend.RayBackend, "process_message", lambda *_: None)
        backend: Any = SimpleNamespace(pool=self.pool)
        with living_workers(CONFIG, self.over):
            raybackend.RayBackend.process_message(backend, JOB, "context")
        self.over.clear()
        assert type(self.pool) is not ray_actor.BasicActorPool

    @property
    def free(self) -> list[int]:
        return [worker.number for worker in self.pool.pool]

    def _wait(self, signs: list[Any], timeout: float, num_returns: int = 1) -> tuple[list[Any], list[Any]]:
        def done(sign: str) -> bool:
            return not self.hangs if "future" in sign else self.imports if "has" in sign else self.begin

        self.now += timeout
        return [sign for sign in signs if done(sign)], []

    def _get(self, future: Any) -> Any:
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
    machines.message()
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
    machines.message()
    machines.pool.longest, machines.place = -1.0, 0
    machines.pool.pool.clear()
    with pytest.raises(TimeoutError, match="no worker was free for 0 s"):
        machines.message()


def test_a_message_that_hangs_has_round_timeout(monkeypatch: pytest.MonkeyPatch):
    """It is the first of its worker: its start is not in that time."""
    machines = _Machines(monkeypatch, place=1)
    machines.hangs = True
    assert isinstance(machines.message(), ray.exceptions.GetTimeoutError)
    assert machines.now == 7.0
    assert machines.killed == [_Worker(1)]


def test_an_import_that_hangs_ends_in_round_timeout(monkeypatch: pytest.MonkeyPatch):
    """A worker gets a message that it never reads, and is replaced."""
    machines = _Machines(monkeypatch, place=1)
    machines.imports, machines.hangs = False, True
    monkeypatch.setattr(living_pool, "_IMPORT_SECONDS", -1.0)
    assert isinstance(machines.message(), ray.exceptions.GetTimeoutError)


def test_the_end_of_the_server_ends_a_message(monkeypatch: pytest.MonkeyPatch):
    machines = _Machines(monkeypatch, place=1)
    machines.hangs = True
    machines.over.set()
    assert isinstance(machines.message(), ray.exceptions.GetTimeoutError)
    assert machines.now == 0.0


def test_flower_prints_no_traceback_for_a_dead_worker(caplog: pytest.LogCaptureFixture):
    def log(module: str) -> None:
        logging.getLogger("flwr").handle(
            logging.LogRecord("flwr", logging.ERROR, f"/{module}.py", 1, module, None, None)
        )

    with caplog.at_level(logging.ERROR, logger="flwr"):
        with living_workers(CONFIG):
            log("vce_api")
            log("server")
        log("raybackend")
    assert [record.getMessage() for record in caplog.records] == ["server", "raybackend"]


def test_flowers_own_way_is_back_afterwards():
    before = raybackend.RayBackend.process_message
    with living_workers(CONFIG):
        assert raybackend.RayBackend.process_message is not before
    assert raybackend.RayBackend.process_message is before

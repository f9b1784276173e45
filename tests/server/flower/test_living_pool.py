"""A worker of a simulation that dies or hangs is replaced; one whose app raises lives on."""

from __future__ import annotations

from typing import Any

import pytest

ray = pytest.importorskip("ray", reason="the extra `sim` is not installed")

from flwr.server.superlink.fleet.vce.backend import raybackend  # noqa: E402

from zofedht.server.flower.living_pool import living_workers  # noqa: E402


class _Raised(ray.exceptions.RayTaskError):
    def __init__(self) -> None:
        """What a worker's app raised; Ray makes it of a traceback that we do not need."""


def _pool(monkeypatch: pytest.MonkeyPatch, fails: Exception | None, killed: list[str]) -> Any:
    """Return a pool at work on a message, whose answer is the failure."""

    def get(future: str, timeout: float) -> Any:
        assert timeout == 7.0
        if fails is not None:
            raise fails
        return "id", "answer", "context"

    monkeypatch.setattr(ray, "get", get)
    monkeypatch.setattr(ray, "kill", killed.append)
    with living_workers(7.0):
        pool: Any = object.__new__(raybackend.BasicActorPool)
    pool.pool, pool._future_to_actor, pool.create_actor_fn = [], {"future": "worker"}, lambda: "new worker"
    return pool


def _answered(pool: Any) -> Any:
    """Do as Flower does with a message."""
    try:
        return pool.fetch_result_and_return_actor_to_pool("future")
    except Exception as error:
        pool.add_actor_back_to_pool("future")
        return error


@pytest.mark.parametrize(
    ("fails", "workers"),
    [
        (None, ["worker"]),
        (_Raised(), ["worker"]),
        (ray.exceptions.GetTimeoutError(), ["new worker"]),
        (ray.exceptions.ActorDiedError(), ["new worker"]),
        (ray.exceptions.OutOfMemoryError("memory"), ["new worker"]),
    ],
)
def test_a_worker_that_cannot_answer_is_replaced(
    monkeypatch: pytest.MonkeyPatch, fails: Exception | None, workers: list[str]
):
    killed: list[str] = []
    pool = _pool(monkeypatch, fails, killed)
    assert _answered(pool) == (fails or ("answer", "context"))
    assert pool.pool == workers
    assert killed == (["worker"] if workers == ["new worker"] else [])


def test_flowers_own_pool_is_back_afterwards():
    before = raybackend.BasicActorPool
    with living_workers(7.0):
        assert raybackend.BasicActorPool is not before
    assert raybackend.BasicActorPool is before

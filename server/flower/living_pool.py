"""Ray's workers under a simulation: a worker that dies or hangs is replaced, and says so in one sentence.

A worker gets its first message when its process has begun and has imported the user's code: round-timeout counts from
there. Flower puts a dead worker back into its pool, where every later message meets it, and waits without end for one
that hangs. Where a machine of a cluster is lost, there is no place for a new worker: the pool shrinks, and grows when a
machine joins. Ray tells each death on the terminal, in pages where memory runs out. ``flwr run .`` may make the pool
before it asks for our app, so the pool is taken over at its first message, which is ours. This module, ``simulation``
and ``ray_cluster`` alone use private names of Flower and Ray.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import ray
from flwr.server.superlink.fleet.vce.backend import raybackend
from flwr.simulation.ray_transport import ray_actor

from zofedht.client.flower.app import get_ready
from zofedht.common.config.run_config import RunConfig
from zofedht.server.flower.proxies import FIRST_ANSWER

__all__ = ["living_workers"]

_LOOK_SECONDS = 0.1  # between looks at workers that start, while none is free
_END_SECONDS = 1.0  # after the end of the run until a message that nobody waits for is given up
_IMPORT_SECONDS = 60.0  # of the user's code; then round-timeout counts


class _LivingPool(ray_actor.BasicActorPool):
    """Replaces workers, as many as the machines that are left can hold."""

    longest = 300.0  # seconds of one message
    objective = ""  # module:factory of the user's code
    over = threading.Event()  # the server has ended
    _changed: threading.Condition  # guards what follows; Flower calls from several threads
    _at_work: dict[Any, Any]  # worker by the future of its message
    _starting: dict[Any, Any]  # workers by what says that they run: no message may wait for a machine
    _importing: dict[Any, tuple[Any, float]]  # workers by what says that they have the user's code, and until when

    @classmethod
    def take_over(cls, pool: Any) -> None:
        """Let a pool of Flower's that has had no message yet be one of these."""
        pool.__class__ = cls
        pool._changed, pool._at_work = threading.Condition(), pool._future_to_actor
        pool._starting = {worker.__ray_ready__.remote(): worker for worker in pool.pool}
        pool._importing = {}
        pool.pool.clear()

    def submit(self, actor_fn: Any, job: tuple[Any, Any, str, Any]) -> Any:
        """Give the job to a worker, once one is free. Raises TimeoutError where none is in time."""
        began = time.monotonic()
        with self._changed:
            if self._starting or self._importing:
                self._renew()
            while not self.pool:
                start = FIRST_ANSWER if self._starting or self._importing else 0.0
                if self.over.is_set() or time.monotonic() - began >= max(self.longest, start):
                    raise TimeoutError(f"no worker was free for {time.monotonic() - began:.0f} s")
                self._changed.wait(_LOOK_SECONDS)
                self._renew()
            return super().submit(actor_fn, job)

    def fetch_result_and_return_actor_to_pool(self, future: Any) -> tuple[Any, Any]:
        """Return the answer. Raises what the worker raised, or Ray's error where it died or hangs."""
        try:
            self._wait(future)
            _, answer, context = ray.get(future)
        except ray.exceptions.RayTaskError:
            raise  # of the app: the worker lives
        except (ray.exceptions.RayError, ray.exceptions.GetTimeoutError):
            with self._changed:
                ray.kill(self._at_work.pop(future))
                self._renew()
            raise
        self.add_actor_back_to_pool(future)
        return answer, context

    def _wait(self, future: Any) -> None:
        """Wait for the answer. Raises GetTimeoutError where it is late, or the server has ended."""
        end = time.monotonic() + self.longest
        while (left := end - time.monotonic()) > 0.0 and not self.over.is_set():
            if ray.wait([future], timeout=min(left, _END_SECONDS))[0]:
                return
        raise ray.exceptions.GetTimeoutError(f"no answer within {self.longest:g} s")

    def add_actor_back_to_pool(self, future: Any) -> None:
        """Put the worker of a message back, unless it is gone: Flower asks for this after every failure."""
        with self._changed:
            if future in self._at_work:
                super().add_actor_back_to_pool(future)
            self._changed.notify()

    def _renew(self) -> None:
        """Take in the workers that have started, and start or stop some, so that all fit on the machines."""
        for sign in _done(self._starting):
            worker = self._starting.pop(sign)
            until = time.monotonic() + _IMPORT_SECONDS
            self._importing[worker.__ray_call__.remote(get_ready, self.objective)] = worker, until
        done, now = _done(self._importing), time.monotonic()
        for sign in [sign for sign, (_, until) in self._importing.items() if sign in done or now > until]:
            self.pool.append(self._importing.pop(sign)[0])
        try:
            place = ray_actor.pool_size_from_resources(self.client_resources)
        except ValueError:  # of Flower: no place for any
            place = 0
        missing = place - len(self.pool) - len(self._at_work) - len(self._starting) - len(self._importing)
        make: Any = self.create_actor_fn
        for _ in range(missing):
            worker = make()
            self._starting[worker.__ray_ready__.remote()] = worker
        for _ in range(min(-missing, len(self._starting))):
            ray.kill(self._starting.popitem()[1])


def _done(signs: Iterable[Any]) -> list[Any]:
    listed = list(signs)
    return list(ray.wait(listed, num_returns=len(listed), timeout=0)[0])


@contextmanager
def living_workers(
    config: RunConfig, over: threading.Event | None = None, before_end: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Let Flower's simulation replace workers that die, or that work for more than round-timeout on a message.

    ``over`` is set where the server has ended, and at the end of the block; ``before_end`` is called before Flower ends
    the workers.
    """
    over = over or threading.Event()
    own = {"longest": config.round_timeout, "objective": config.objective, "over": over}
    kind: Any = type("LivingPool", (_LivingPool,), own)
    process, guard = raybackend.RayBackend.process_message, threading.Lock()
    end = raybackend.RayBackend.terminate

    def process_message(backend: Any, message: Any, context: Any) -> Any:
        with guard:
            if type(backend.pool) is ray_actor.BasicActorPool:
                kind.take_over(backend.pool)
        return process(backend, message, context)

    def terminate(backend: Any) -> None:
        before_end()
        end(backend)

    def prints(record: logging.LogRecord) -> bool:
        return record.module not in ("vce_api", "raybackend")  # a traceback for each failure, which is in the history

    flower = logging.getLogger("flwr")
    flower.addFilter(prints)
    with (
        patch.object(raybackend.RayBackend, "process_message", process_message),
        patch.object(raybackend.RayBackend, "terminate", terminate),
        patch("ray._private.worker.print_to_stdstream", lambda *_, **__: None),
        patch("ray._private.utils.set_sigterm_handler", lambda _: None),  # ours ends the run like an interrupt
    ):
        try:
            yield
        finally:
            over.set()
            flower.removeFilter(prints)

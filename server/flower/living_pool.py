"""Ray's workers under a simulation: a worker that dies or hangs is replaced, and says so in one sentence.

Flower puts a dead worker back into its pool, where every later message meets it, and waits without end for one that
hangs. Where a machine of a cluster is lost, there is no place for a new worker: the pool shrinks, and grows when a
machine joins. Ray tells each death on the terminal, in pages where memory runs out. ``flwr run .`` may make the pool
before it asks for our app, so the pool is taken over at its first message, which is ours. This module, ``simulation``
and ``ray_cluster`` alone use private names of Flower and Ray.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import ray
from flwr.server.superlink.fleet.vce.backend import raybackend
from flwr.simulation.ray_transport import ray_actor

from zofedht.server.flower.proxies import FIRST_ANSWER

__all__ = ["living_workers"]

_LOOK_SECONDS = 0.1  # between looks at workers that start, while none is free


class _LivingPool(ray_actor.BasicActorPool):
    """Replaces workers, as many as the machines that are left can hold."""

    longest = 300.0  # seconds of one message
    _changed: threading.Condition  # guards what follows; Flower calls from several threads
    _at_work: dict[Any, Any]  # worker by the future of its message
    _starting: dict[Any, Any]  # workers by what says that they run: no message may wait for a machine
    _known: set[Any]  # workers that have answered

    @classmethod
    def take_over(cls, pool: Any) -> None:
        """Let a pool of Flower's that has had no message yet be one of these."""
        pool.__class__ = cls
        pool._changed, pool._at_work = threading.Condition(), pool._future_to_actor
        pool._starting, pool._known = {}, set()

    def submit(self, actor_fn: Any, job: tuple[Any, Any, str, Any]) -> Any:
        """Give the job to a worker, once one is free. Raises TimeoutError where none is in time."""
        deadline = time.monotonic() + (self.longest if self._known else max(self.longest, FIRST_ANSWER))
        with self._changed:
            if self._starting:
                self._renew()
            while not self.pool:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"no worker was free for {self.longest:g} s")
                self._changed.wait(_LOOK_SECONDS)
                self._renew()
            return super().submit(actor_fn, job)

    def fetch_result_and_return_actor_to_pool(self, future: Any) -> tuple[Any, Any]:
        """Return the answer. Raises what the worker raised, or Ray's error where it died or hangs."""
        worker = self._at_work[future]
        seconds = self.longest if worker in self._known else max(self.longest, FIRST_ANSWER)
        try:
            _, answer, context = ray.get(future, timeout=seconds)
        except ray.exceptions.RayTaskError:
            self._known.add(worker)
            raise  # of the app: the worker lives
        except (ray.exceptions.RayError, ray.exceptions.GetTimeoutError):
            with self._changed:
                ray.kill(self._at_work.pop(future))
                self._renew()
            raise
        self._known.add(worker)
        self.add_actor_back_to_pool(future)
        return answer, context

    def add_actor_back_to_pool(self, future: Any) -> None:
        """Put the worker of a message back, unless it is gone: Flower asks for this after every failure."""
        with self._changed:
            if future in self._at_work:
                super().add_actor_back_to_pool(future)
            self._changed.notify()

    def _renew(self) -> None:
        """Take in the workers that have started, and start or stop some, so that all fit on the machines."""
        begun, _ = ray.wait(list(self._starting), num_returns=len(self._starting), timeout=0)
        for sign in begun:
            self.pool.append(self._starting.pop(sign))
        try:
            place = ray_actor.pool_size_from_resources(self.client_resources)
        except ValueError:  # of Flower: no place for any
            place = 0
        missing = place - len(self.pool) - len(self._at_work) - len(self._starting)
        make: Any = self.create_actor_fn
        for _ in range(missing):
            worker = make()
            self._starting[worker.__ray_ready__.remote()] = worker
        for _ in range(min(-missing, len(self._starting))):
            ray.kill(self._starting.popitem()[1])


@contextmanager
def living_workers(longest: float, before_end: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Let Flower's simulation replace workers that die, or that work for more than so many seconds on a message.

    ``before_end`` is called before Flower ends the workers.
    """
    kind: Any = type("LivingPool", (_LivingPool,), {"longest": longest})
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
            flower.removeFilter(prints)

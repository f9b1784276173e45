"""Ray's workers under a simulation: a worker that dies or hangs is replaced, and says so in one sentence.

Flower puts a dead worker back into its pool, where every later message meets it, and waits without end for one that
hangs. Ray tells each death on the terminal, in pages where memory runs out. This module,
``simulation`` and ``ray_cluster`` alone use private names of Flower and Ray.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import ray
from flwr.server.superlink.fleet.vce.backend import raybackend
from flwr.simulation.ray_transport.ray_actor import BasicActorPool

__all__ = ["living_workers"]


class _LivingPool(BasicActorPool):
    """Replaces workers."""

    longest = 300.0  # seconds of one message

    def fetch_result_and_return_actor_to_pool(self, future: Any) -> tuple[Any, Any]:
        """Return the answer. Raises what the worker raised, or Ray's error where it died or hangs."""
        try:
            _, answer, context = ray.get(future, timeout=self.longest)
        except ray.exceptions.RayTaskError:
            raise  # of the app: the worker lives
        except (ray.exceptions.RayError, ray.exceptions.GetTimeoutError):
            # Whoever called puts the worker of this message back: a new one in its place.
            dead: Any = self._future_to_actor[future]
            make: Any = self.create_actor_fn
            ray.kill(dead)
            self._future_to_actor[future] = make()
            raise
        self.add_actor_back_to_pool(future)
        return answer, context


@contextmanager
def living_workers(longest: float) -> Iterator[None]:
    """Let Flower's simulation replace workers that die, or that work for more than so many seconds on a message."""
    pool = type("LivingPool", (_LivingPool,), {"longest": longest})
    with (
        patch.object(raybackend, "BasicActorPool", pool),
        patch("ray._private.worker.print_to_stdstream", lambda *_, **__: None),  # each failure is in the history
    ):
        yield

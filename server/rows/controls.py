"""What the server estimates of each client's gradient, and what it makes of the estimates. Pure.

With g the mean of c v over the steps of a slot, from its move, h_i the estimate of client i, and h their mean over all
clients:

control    h_i <- h_i + sum_k (c_k - v_k.h_i) v_k / (n + K q): what the slopes say beyond the estimate. Client i takes
           v.(h_i - h) off each slope, so that its steps lead where the mean of all clients' gradients points.
tracking   h_i <- b h_i + (1-b) g, and x <- x - eta K q mean of h_i over the clients that were seen.

The server draws the directions of a slot again to have sum (v_k.u) v_k; nothing more is sent up.

Sources: Karimireddy et al. 2020, eq. 3 to 5 (SCAFFOLD, with slopes in the place of gradients), Su et al. 2026 (ZO-MGT,
whose network is a star here: each tracker is then the mean of all momenta).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.machine.blas import one_thread
from zofedht.common.replay import projected
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.aggregation.replays import draws_alike

__all__ = ["Control", "corrections", "learnt_controls", "mean_control", "tracked_move"]


@dataclass(frozen=True)
class Control:
    """The estimate of a client's gradient, h_i: (n,)."""

    client: str
    estimate: Vector


def mean_control(controls: Sequence[Control], clients: int, dimension: int) -> Vector:
    """Return the mean of the estimates over so many clients, (n,); that of a client not seen yet is 0."""
    total = np.zeros(dimension)
    for control in controls:
        total += control.estimate
    return total / clients  # what SCAFFOLD's eq. 5 keeps


def corrections(controls: Sequence[Control], config: RunConfig, dimension: int) -> Callable[[str], dict[str, Any]]:
    """Return the function from a client's name to its ``control`` h_i - h, (n,), or to nothing to take off slopes."""
    if config.correction != "control" or not controls:
        return lambda client: {}
    mean = mean_control(controls, config.num_clients, dimension)  # once for all slots of a round
    held = {control.client: control.estimate for control in controls}
    return lambda client: {"control": held[client] - mean if client in held else -mean}


def learnt_controls(
    controls: tuple[Control, ...],
    updates: Sequence[Update],
    asked: Mapping[int, Broadcast],
    basis: Matrix | None,
    config: RunConfig,
) -> tuple[Control, ...]:
    """Return the estimates after a round, by name of the client; ``updates`` have their moves, in slot order.

    Of a client with several slots the mean counts. What overflows is not learnt.
    """
    held = {control.client: control.estimate for control in controls}
    found: dict[str, list[Vector]] = {}
    with np.errstate(over="ignore", invalid="ignore"), one_thread():
        for update in updates:
            if update.move is None or not draws_alike(update):
                continue
            broadcast = asked[update.slot]
            before = held.get(update.client, np.zeros(broadcast.dimension))
            found.setdefault(update.client, []).append(_estimate(before, update.move, broadcast, basis, config))
    for client, estimates in found.items():
        mean = np.mean(estimates, axis=0)
        if np.all(np.isfinite(mean)):
            held[client] = mean
    return tuple(Control(client, held[client]) for client in sorted(held))


def _estimate(before: Vector, move: Vector, asked: Broadcast, basis: Matrix | None, config: RunConfig) -> Vector:
    """Return h_i after a slot, from h_i before it."""
    spec = asked.spec
    total = -move / spec.step_size  # sum of (c - v.a) v
    if config.server_step == "tracking":
        kept = config.server_momentum
        return np.asarray(kept * before + (1.0 - kept) * total / spec.slopes)
    beyond = before if asked.control is None else before - asked.control  # c - v.h_i = (c - v.a) - v.(h_i - a)
    if np.any(beyond):
        total = total - projected(asked, basis, beyond)
    return np.asarray(before + total / (asked.dimension + spec.slopes))  # in the place of SCAFFOLD's eq. 4


def tracked_move(controls: Sequence[Control], asked: Broadcast) -> Vector:
    """Return the move along the mean of all momenta, (n,), as long as the steps of a slot."""
    return -asked.spec.step_size * asked.spec.slopes * mean_control(controls, len(controls), asked.dimension)

"""What the server keeps of each client's surrogate, and what it sends each of them. Pure.

A client keeps nothing between rounds, so its last ``memory`` values of F lie here: they are sent to it and come back
with the values of its slot. Their features' weights u_i are made here, too. A client is sent the mean of all u less its
own: what the others know beyond it, in as many numbers however many others there are.

Source: Shu et al. 2023 (FZooS), where clients keep the values and send u_i.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.machine.blas import one_thread
from zofedht.common.surrogate import feature_weights
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.messages import Broadcast, Update

__all__ = ["Seen", "learnt_surrogates", "of_each"]


@dataclass(frozen=True)
class Seen:
    """What a client has seen of its F."""

    client: str
    queries: Matrix  # points, and F in the last column: (m, n + 1), the newest last
    weights: Vector  # u_i: (FEATURES,)


def learnt_surrogates(
    held: tuple[Seen, ...], updates: Sequence[Update], asked: Mapping[int, Broadcast], config: RunConfig
) -> tuple[Seen, ...]:
    """Return what is known after a round, by name of the client; ``updates`` are in slot order.

    What overflows is not learnt.
    """
    known = {seen.client: seen for seen in held}
    told: dict[str, list[Matrix]] = {}
    for update in updates:
        if update.queries is not None and asked[update.slot].spec.queries:
            told.setdefault(update.client, []).append(update.queries)
    for client, rows in told.items():
        before = [known[client].queries] if client in known else []
        queries = np.vstack([*before, *rows])[-config.memory :]
        with np.errstate(over="ignore", invalid="ignore"), one_thread():
            weights = feature_weights(queries[:, :-1], queries[:, -1], config.radius, config.seed)
        if np.all(np.isfinite(weights)):
            known[client] = Seen(client, queries, weights)
    return tuple(known[client] for client in sorted(known))


def of_each(held: Sequence[Seen]) -> Callable[[str], dict[str, Any]]:
    """Return the function from a client's name to what it is sent: nothing where it was not seen yet."""
    if not held:
        return lambda client: {}
    mean = np.mean([seen.weights for seen in held], axis=0)  # once for all slots of a round
    known = {seen.client: {"queries": seen.queries, "surplus": mean - seen.weights} for seen in held}
    return lambda client: known.get(client, {})

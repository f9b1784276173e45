"""The Flower ClientApp: ``flwr run .`` starts it on every node.

A simulation makes a new NumPyClient for each message, in any process. So the process keeps data, objectives and bases.
"""

from __future__ import annotations

import functools
from contextlib import suppress

from flwr.app import Context
from flwr.client import Client
from flwr.clientapp import ClientApp

from zofedht.client.flower.numpy_client import ZofedhtClient
from zofedht.client.privacy.secret_file import secret_of_environment
from zofedht.client.steps.worker import BasisStore, no_secret
from zofedht.client.tensors.worker import PlaceWorker
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.base import Objective
from zofedht.common.objective.loading import factory_of
from zofedht.common.privacy.private_draws import simulated_secret
from zofedht.common.shards import in_place_maker, objective_of
from zofedht.common.wire.clients import Question
from zofedht.common.wire.messages import Broadcast

__all__ = ["app", "client_fn", "get_ready"]

_BASES = BasisStore()


def client_fn(context: Context) -> Client:
    """Return the client of this process, whichever node asks."""

    def objective(question: Question) -> Objective:
        return objective_of(question.task, question.shard_index)

    return ZofedhtClient(objective, _BASES, secret_of=_secret_of, place_of=_place_of).to_client()


def get_ready(worker: object, objective: str) -> None:
    """Import the user's code before the first message to a worker of a simulation, which says what fails then."""
    with suppress(ObjectiveError):
        if objective:
            factory_of(objective)


@functools.lru_cache(maxsize=1)
def _place_of(task: str) -> PlaceWorker | None:
    """Return what works on parameters in place, which this process keeps; None where the run has none."""
    config = RunConfig.of_task(task)
    if not config.in_place:
        return None
    make = in_place_maker(config)
    return PlaceWorker(lambda question: make(question.shard_index))


def _secret_of(broadcast: Broadcast) -> bytes:
    """Return a client's secret: from the file that ZOFEDHT_PRIVACY_KEY names, or a simulated one for the server's rows.

    Raises DataError where a black box, whose rows the server may lack, has no such file.
    """
    secret = secret_of_environment(broadcast.client)
    if secret is not None:
        return secret
    if RunConfig.of_task(broadcast.task).server_has_rows:
        return simulated_secret(broadcast.address.seed, broadcast.client)
    return no_secret(broadcast)


app = ClientApp(client_fn)

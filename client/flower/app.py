"""The Flower ClientApp: ``flwr run .`` starts it on every node.

A simulation makes a new NumPyClient for each message, in any process. So the process keeps data, objectives and bases.
"""

from __future__ import annotations

from flwr.app import Context
from flwr.client import Client
from flwr.clientapp import ClientApp

from zofedht.client.flower.numpy_client import ZofedhtClient
from zofedht.client.steps.worker import BasisStore
from zofedht.common.shards import objective_of

__all__ = ["app", "client_fn"]

_BASES = BasisStore()


def client_fn(context: Context) -> Client:
    """Return the client of this process, whichever node asks."""
    return ZofedhtClient(lambda question: objective_of(question.task, question.shard_index), _BASES).to_client()


app = ClientApp(client_fn)

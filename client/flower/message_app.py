"""A ClientApp of one's own that takes zeroth-order steps: ``train`` and ``evaluate`` for Flower's Message API.

A function under ``@app.train()`` returns ``train(message, context, loss_of_this_node(context))``.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable
from typing import Any, cast

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict

from zofedht.client.flower.numpy_client import ZofedhtClient
from zofedht.client.privacy.secret_file import secret_of_environment
from zofedht.client.steps.worker import BasisStore, no_secret
from zofedht.common.errors import MessageError, ZofedhtError
from zofedht.common.objective.base import Objective
from zofedht.common.objective.function import FunctionObjective
from zofedht.common.objective.loading import checked_objective
from zofedht.common.objective.points import full_evaluation
from zofedht.common.objective.scaling import in_search_units, units_of
from zofedht.common.typing import Indices, Vector
from zofedht.common.wire.codec import Config, encode_no_metrics
from zofedht.common.wire.messages import Broadcast
from zofedht.common.wire.records import ARRAYS, METRICS, OURS, PARTITION, STARTS, flattened, shaped

__all__ = ["evaluate", "train"]

_log = logging.getLogger(__name__)

_BASES = BasisStore()

Target = Objective | Callable[..., float]


def train(message: Message, context: Context, objective: Target, *, samples: int | None = None) -> Message:
    """Answer a training message of ``ZOFedHT``: the local steps of this node.

    Parameters
    ----------
    message : Message
    context : Context
        Its node config's ``partition-id``, where there is one, is this client's name.
    objective : function or Objective
        What is minimised on this node's own rows. A function gets the list of the model's arrays in float64, as
        ``ArrayRecord.to_numpy_ndarrays`` gives them, and returns a float. An Objective gets all of their numbers as one
        vector x, (n,).
    samples : int, optional
        The number of samples of a function f(arrays, batch), of which ``batch`` names some; None for f(arrays).

    Returns
    -------
    Message
        The reply: a move, or slopes, and the metrics ``train_loss``, ``evaluations`` and ``num-examples``.

    Raises
    ------
    MessageError
        When the message is from another strategy.
    """
    asked = message.content.config_records.get(OURS)
    if asked is None:
        raise MessageError(
            "this training message is from another strategy; train of zofedht.flower needs the strategy ZOFedHT"
        )
    like = message.content.array_records[ARRAYS].to_numpy_ndarrays()
    made = functools.cache(lambda: in_search_units(_objective(objective, like, samples)))  # once for all slots
    client = ZofedhtClient(lambda _: made(), _BASES, error_text=_told, secret_of=_secret)
    config = cast(Config, dict(asked))
    if config.get(STARTS):
        about = {PARTITION: int(context.node_config.get(PARTITION, -1)), "examples": len(made())}
        return _reply(message, client.get_parameters(config), about, {})
    x = flattened(like).astype(str(config.get("dtype", "float64")))
    moves, examples, told = client.fit([x] if x.size else [], config)
    return _reply(message, moves, told, {"num-examples": examples, **_numbers(told)})


def evaluate(message: Message, context: Context, objective: Target, *, samples: int | None = None) -> Message:
    """Answer an evaluation message: the metrics of the arrays on all rows of this node.

    Parameters
    ----------
    message, context, objective, samples
        As those of ``train``.

    Returns
    -------
    Message
        The reply: what ``evaluate`` of the Objective returns, or ``loss``, and ``num-examples``.
    """
    like = message.content.array_records[ARRAYS].to_numpy_ndarrays()
    try:
        made = in_search_units(_objective(objective, like, samples))
        units, x = units_of(made), flattened(like)
        metrics = full_evaluation(made, x if units is None else units.to_search(x))
    except ZofedhtError as error:
        return _reply(message, [], encode_no_metrics(error.cause, _told(error)), {"num-examples": 0})
    return _reply(message, [], {}, {"num-examples": len(made), **metrics})


def _objective(target: Target, like: list[Any], samples: int | None) -> Objective:
    """Return a function of arrays as one of a vector, and an Objective as it is."""
    if isinstance(target, Objective) or not callable(target):
        return checked_objective(target, "the objective of this ClientApp")
    function = target
    if samples is None:

        def value(x: Vector) -> float:
            return function(shaped(x, like))

        return FunctionObjective(value, flattened(like))

    def value_of_batch(x: Vector, batch: Indices | slice) -> float:
        return function(shaped(x, like), batch)

    return FunctionObjective(value_of_batch, flattened(like), samples)


def _told(error: ZofedhtError) -> str:
    """Return what the server may know of an error; the node's own log has all of it."""
    if str(error) != error.public_text:
        _log.warning("%s", error)
    return error.public_text


def _numbers(told: dict[str, Any]) -> dict[str, float | int]:
    """Return what Flower's users look at in an answer: of one slot, or of the first of several."""
    loss, evaluations = (told.get(key, told.get(f"0:{key}")) for key in ("loss", "evaluations"))
    return {"train_loss": math.nan if loss is None else loss, "evaluations": evaluations or 0}


def _reply(message: Message, arrays: list[Any], told: dict[str, Any], metrics: dict[str, Any]) -> Message:
    content = RecordDict({ARRAYS: ArrayRecord(arrays), OURS: ConfigRecord(told)})
    content[METRICS] = MetricRecord(metrics)
    return Message(content=content, reply_to=message)


def _secret(broadcast: Broadcast) -> bytes:
    secret = secret_of_environment(broadcast.client)
    return no_secret(broadcast) if secret is None else secret

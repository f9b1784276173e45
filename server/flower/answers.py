"""What a client's answer says: Flower's own errors, and ours, become the same kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future

from flwr.common import Code, EvaluateRes, FitRes, GetParametersRes, Scalar, Status

from zofedht.common.errors import MessageError, RoundError, ZofedhtError
from zofedht.common.plain_text import printable
from zofedht.common.wire.bundle import unbundled
from zofedht.common.wire.codec import decode_metrics, decode_state_digest
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.common.wire.start import decode_start, decode_tensors
from zofedht.server.evaluation.evaluate import Answer, Answered
from zofedht.server.evaluation.start import Start
from zofedht.server.flower.proxies import plainly
from zofedht.server.flower.strategy import client_replies

__all__ = ["answers_of", "check_status", "place_of", "start_of", "updates_of"]


def updates_of(broadcasts: Sequence[Broadcast], result: FitRes) -> list[Update]:
    """Return the answers to the slots of a message.

    Raises RoundError where the client answers with an error, MessageError where the answer has no Update for each
    slot, or one for another slot or in another name than was asked.
    """
    check_status(result.status)
    updates = client_replies(result, len(broadcasts))
    for update, broadcast in zip(updates, broadcasts, strict=True):
        if (update.slot, update.client) != (broadcast.slot, broadcast.client):
            raise MessageError(
                f"answered for slot {update.slot} of client {update.client[:64]!r},"
                f" asked was slot {broadcast.slot} of client {broadcast.client!r}"
            )
    return updates


def answers_of(names: Sequence[str], future: Future[EvaluateRes]) -> dict[str, Answer]:
    """Return the evaluations of the clients that a message asked, or the errors in their place."""
    try:
        result = future.result()
        check_status(result.status)
        told = [result.metrics] if len(names) == 1 else [part.scalars for part in unbundled(result.metrics, [])]
        if len(told) != len(names):
            raise MessageError(f"answered for {len(told)} clients, asked were {len(names)}")
    except Exception as error:  # Flower's reader raises what it meets
        failure = error if isinstance(error, ZofedhtError) else ConnectionError(printable(plainly(error)))
        return dict.fromkeys(names, failure)
    samples = iter([max(0, result.num_examples)])  # of the whole group: counted for the first that has an answer
    return {name: _metrics(metrics, samples) for name, metrics in zip(names, told, strict=True)}


def start_of(result: GetParametersRes) -> Start:
    """Return a client's start. Raises RoundError for an error, MessageError for something else."""
    check_status(result.status)
    told = decode_start(result.parameters.tensors)
    return Start(told.start.shape[0], told.start, told.units, told.space)


def place_of(result: GetParametersRes) -> Start:
    """Return a client's start in place. Raises RoundError for an error, MessageError for something else."""
    check_status(result.status)
    tensors = decode_tensors(result.parameters.tensors)
    return Start(tensors.dimension, tensors=tensors)


def check_status(status: Status) -> None:
    """Raise RoundError where the client answers with an error."""
    if status.code != Code.OK:
        raise RoundError(printable(status.message) or "the client answered with an error", cause="refused")


def _metrics(told: Mapping[str, Scalar], samples: Iterator[int]) -> Answer:
    try:
        return Answered(decode_metrics(told), next(samples, 0), decode_state_digest(told))
    except ZofedhtError as error:
        return error

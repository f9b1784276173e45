"""What a client's answer says: Flower's own errors, and ours, become the same kinds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Any

from flwr.common import Code, EvaluateRes, FitRes, GetParametersIns, GetParametersRes, Scalar, Status
from flwr.server.client_proxy import ClientProxy

from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import Cause, MessageError, RoundError, ZofedhtError, cause_of
from zofedht.common.plain_text import printable
from zofedht.common.wire.bundle import unbundled
from zofedht.common.wire.clients import Member
from zofedht.common.wire.codec import decode_metrics, decode_state_digest
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.common.wire.start import decode_start, decode_tensors
from zofedht.server.core.selection import in_turn
from zofedht.server.evaluation.evaluate import Answer, Answered
from zofedht.server.evaluation.start import Start, agreed
from zofedht.server.flower.proxies import plainly
from zofedht.server.flower.strategy import client_replies, question

__all__ = ["agreed_start", "answers_of", "check_status", "updates_of"]

_log = logging.getLogger(__name__)

_MOST_REASON = 1_000  # characters of why a run cannot begin, with the way out


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


def _start_of(result: GetParametersRes) -> Start:
    """Return a client's start. Raises RoundError for an error, MessageError for something else."""
    check_status(result.status)
    told = decode_start(result.parameters.tensors)
    return Start(told.start.shape[0], told.start, told.units, told.space)


def _place_of(result: GetParametersRes) -> Start:
    """Return a client's start in place. Raises RoundError for an error, MessageError for something else."""
    check_status(result.status)
    tensors = decode_tensors(result.parameters.tensors)
    return Start(tensors.dimension, tensors=tensors)


def agreed_start(
    config: RunConfig, homes: Mapping[Member, ClientProxy], pool: Executor, dimension: int, seconds: float
) -> Start:
    """Return the start that clients say: one tells for all where they have one model, else all are asked.

    ``dimension`` is n where it is known; ``seconds`` is how long one may take. Raises RoundError when nobody says it,
    ObjectiveError where two differ in n or in their units.
    """

    def ask(proxy: ClientProxy, member: Member) -> Start:
        ins = GetParametersIns(config=question(config, member, dimension))
        result = proxy.get_parameters(ins, timeout=seconds, group_id=0)
        return _place_of(result) if config.in_place else _start_of(result)

    complaints: dict[tuple[Cause, str], list[str]] = {}
    starts: dict[str, Start] = {}
    waiting = in_turn(list(homes))
    while waiting and not starts:
        several = len(waiting) if config.objective else 1
        now, waiting = waiting[:several], waiting[several:]
        asked = {member.name: _soon(pool, ask, homes[member], member) for member in now}
        for name, future in asked.items():
            if error := future.exception():  # whatever this one did, the others may do better
                why = cause_of(error), printable(plainly(error), _MOST_REASON)
                complaints.setdefault(why, []).append(name)
            else:
                starts[name] = future.result()
    told = [f"{_clients(who)} could not say the starting point: {why}" for (_, why), who in complaints.items()]
    if not starts:
        raise RoundError("; ".join(told))
    for sentence, ((cause, reason), who) in zip(told, complaints.items(), strict=True):
        facts = {"event": "refused", "clients": who, "cause": cause, "reason": reason, "by": "client"}
        _log.warning("%s", sentence, extra={"facts": facts})
    return agreed(starts)


def _soon(pool: Executor, ask: Callable[[ClientProxy, Member], Start], *asked: Any) -> Future[Start]:
    """Return a client's start to come; where no thread is left, ask at once."""
    try:
        return pool.submit(ask, *asked)
    except RuntimeError:  # no thread (pids); what is asked twice is answered twice
        here: Future[Start] = Future()
        try:
            here.set_result(ask(*asked))
        except Exception as error:
            here.set_exception(error)
        return here


def _clients(names: Sequence[str]) -> str:
    return f"client{'s' if len(names) > 1 else ''} {', '.join(names)}"


def check_status(status: Status) -> None:
    """Raise RoundError where the client answers with an error."""
    if status.code != Code.OK:
        raise RoundError(printable(status.message) or "the client answered with an error", cause="refused")


def _metrics(told: Mapping[str, Scalar], samples: Iterator[int]) -> Answer:
    try:
        return Answered(decode_metrics(told), next(samples, 0), decode_state_digest(told))
    except ZofedhtError as error:
        return error

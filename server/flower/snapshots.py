"""Clients that come late to a run in place, or come back, get another client's parameters where the trail is long.

The server holds no parameters: it asks clients for the digest of theirs at the end of the trail, takes what most of
them hold from one of them, in parts, into a nameless file, and gives it to the newcomer. Whoever cannot be served in
time follows the trail, which leads to the same bits.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import partial
from typing import IO, Any, TypeVar

import numpy as np
from flwr.common import EvaluateIns, EvaluateRes
from flwr.common import ndarrays_to_parameters as pack
from flwr.server.client_proxy import ClientProxy
from numpy.typing import NDArray

from zofedht.common.config.run_config import RunConfig
from zofedht.common.plain_text import printable
from zofedht.common.tensors.agreement import Tensors
from zofedht.common.tensors.blocks import bytes_of_text
from zofedht.common.tensors.trail import begins
from zofedht.common.typing import Vector
from zofedht.common.wire.arrays import vector_digest
from zofedht.common.wire.clients import Member, Question
from zofedht.common.wire.codec import Config, check_metrics, decode_state_digest, encode
from zofedht.common.wire.snapshots import PART_BYTES, decode_held, decode_part
from zofedht.server.flower.answers import check_status
from zofedht.server.flower.proxies import evaluate_later, plainly

__all__ = ["Snapshots"]

_log = logging.getLogger(__name__)

_ASKED = 5  # clients that say what the parameters are; more than half of them must agree

_T = TypeVar("_T")
_Homes = Mapping[Member, ClientProxy]


class _Snapshot:
    """The parameters at the end of a trail, in a file that is gone with the process."""

    def __init__(self, trail: Vector, digest: str, size: int) -> None:
        self.trail, self.digest, self.size = trail, digest, size
        self.file: IO[bytes] = tempfile.TemporaryFile(prefix="zofedht-")  # noqa: SIM115  it lives as long as we do
        weakref.finalize(self, self.file.close)


class Snapshots:
    """Brings to the end of the trail who comes, or comes back after a time; each is looked at when it does."""

    def __init__(self, config: RunConfig, pool: Executor) -> None:
        """``pool``: threads for proxies that need one."""
        self._config, self._pool = config, pool
        # A guide is made of the whole trail, which is followed then.
        self._after = config.snapshot_after if config.in_place and not config.weight else 0
        self._there: set[str] = set()
        self._latest: _Snapshot | None = None

    def bring(self, homes: _Homes, tensors: Tensors | None, trail: Vector) -> None:
        """Give the parameters at the end of the trail to those who were not there before and lack too much of it.

        All of it takes at most round-timeout. Nodes that keep nothing between messages are left alone.
        """
        if not self._after or tensors is None:
            return
        new = [member for member, proxy in homes.items() if member.keeps_x and proxy.cid not in self._there]
        self._there = {proxy.cid for proxy in homes.values()}
        if not new or len(trail) <= self._after:
            return
        asking = _Asking(self._config, homes, self._pool)
        held = asking.all(new, "held", [trail], decode_held)
        lacking = [member for member, length in held.items() if length < len(trail) - self._after]
        if lacking and self._recent(trail) is None:
            others = [member for member in homes if member.keeps_x and member not in lacking]
            self._latest = _taken(asking, others[:_ASKED], tensors, trail)
        if self._latest is not None:
            for member in lacking:
                _give(asking, member, self._latest)

    def _recent(self, trail: Vector) -> _Snapshot | None:
        """Return the latest snapshot where little of the trail is left from there."""
        found = self._latest
        near = found is not None and len(trail) - len(found.trail) <= self._after and begins(found.trail, trail)
        return found if near else None


def _taken(asking: _Asking, members: Sequence[Member], tensors: Tensors, trail: Vector) -> _Snapshot | None:
    """Return the parameters that most of these clients hold; None where nobody can give them."""
    digests = asking.all(members, "copy", [trail], decode_state_digest)
    for digest in set(digests.values()):
        agree = [member for member in digests if digests[member] == digest]
        if digest and 2 * len(agree) > len(digests):
            found = (_fetched(asking, member, digest, tensors, trail) for member in agree)
            return next((one for one in found if one is not None), None)
    if digests:
        _log.warning("clients do not agree on the parameters, and nobody is sent them: who joins follows the trail")
    return None


def _fetched(asking: _Asking, member: Member, digest: str, tensors: Tensors, trail: Vector) -> _Snapshot | None:
    """Return one client's parameters, where they have the digest."""
    made = _Snapshot(trail, digest, bytes_of_text(tensors.blocks))
    state = hashlib.blake2b(tensors.blocks.encode(), digest_size=16)  # as InPlaceObjective.state_digest
    while (done := made.file.tell()) < made.size:
        read = partial(decode_part, left=made.size - done)
        part = asking.one(member, "take", [], read, start=done, digest=vector_digest(trail))
        if part is None:
            return None
        made.file.write(part)
        state.update(part)
    if state.hexdigest() != digest:
        _log.warning("client %s sent other parameters than those whose digest it told", member.name)
        return None
    return made


def _give(asking: _Asking, member: Member, snapshot: _Snapshot) -> None:
    began = time.monotonic()
    snapshot.file.seek(0)
    for start in range(0, snapshot.size, PART_BYTES):
        arrays: list[NDArray[Any]] = [] if start else [snapshot.trail]
        arrays.append(np.frombuffer(snapshot.file.read(PART_BYTES), np.uint8))
        if asking.one(member, "give", arrays, bool, start=start, digest=snapshot.digest) is None:
            return
    facts = {"event": "snapshot", "client": member.name, "bytes": snapshot.size, "trail": len(snapshot.trail)}
    seconds, lengths = time.monotonic() - began, len(snapshot.trail)
    text = f"{member.name} got the parameters, {snapshot.size:,} bytes in {seconds:.1f} s, for {lengths:,} step lengths"
    _log.info("%s", text, extra={"facts": facts})


class _Asking:
    """Asks clients about parameters, for round-timeout in all."""

    def __init__(self, config: RunConfig, homes: _Homes, pool: Executor) -> None:
        self._config, self._homes, self._pool = config, homes, pool
        self._deadline = time.monotonic() + config.round_timeout

    def all(
        self, members: Sequence[Member], verb: str, arrays: Sequence[NDArray[Any]], read: Callable[[Config], _T]
    ) -> dict[Member, _T]:
        """Return the answers of those who can answer."""
        asked = {member: self._asked(member, verb, arrays) for member in members}
        told = {member: self._answer(member, future, read) for member, future in asked.items()}
        return {member: answer for member, answer in told.items() if answer is not None}

    def one(
        self, member: Member, verb: str, arrays: Sequence[NDArray[Any]], read: Callable[[Config], _T], **where: Any
    ) -> _T | None:
        """Return what a client answers; None where it cannot."""
        return self._answer(member, self._asked(member, verb, arrays, **where), read)

    def _asked(self, member: Member, verb: str, arrays: Sequence[NDArray[Any]], **where: Any) -> Future[EvaluateRes]:
        question = Question(member.name, member.shard_index, self._config.seed, self._config.task, snapshot=verb)
        ins = EvaluateIns(pack(list(arrays)), encode(replace(question, **where)).scalars)
        return evaluate_later(self._homes[member], ins, self._deadline, self._pool)

    def _answer(self, member: Member, future: Future[EvaluateRes], read: Callable[[Config], _T]) -> _T | None:
        try:
            result = future.result()
            check_status(result.status)
            check_metrics(result.metrics)
            return read(result.metrics)
        except Exception as error:  # a lost client, or whatever it sends: the trail leads to the same bits
            _log.warning("no snapshot of the parameters with client %s: %s", member.name, printable(plainly(error)))
            return None

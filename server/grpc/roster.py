"""The connected clients by name, as a Flower ClientManager."""

from __future__ import annotations

import logging
import threading
import time
from bisect import insort
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heapreplace

from flwr.common import ReconnectIns, serde
from flwr.proto.transport_pb2 import ServerMessage
from flwr.server.client_manager import SimpleClientManager
from flwr.server.client_proxy import ClientProxy

from zofedht.common.errors import DataError
from zofedht.common.wire.clients import OWN_ROWS, Hello, Member
from zofedht.server.admission.refusal import other_draws
from zofedht.server.admission.votes import Votes
from zofedht.server.core.selection import as_people_sort
from zofedht.server.delivery.traffic import Traffic
from zofedht.server.grpc.resident_proxy import ResidentProxy

__all__ = ["Roster"]

_log = logging.getLogger(__name__)


class Roster(SimpleClientManager):
    """Admits each name once, deals shards, and lists the connected clients in the order of selection.

    Who joins and who leaves is logged, with its facts, or told to ``report``.
    """

    def __init__(self, report: Callable[[str], None] | None = None) -> None:
        super().__init__()
        self.traffic = Traffic()  # of the rounds, without introductions and evaluations
        self._names: dict[str, ResidentProxy] = {}
        self._order: list[str] = []  # the names as people sort them
        self._lock = threading.Lock()
        self._votes = Votes()
        self._report = report
        self.on_admit: Callable[[Hello], None] = lambda hello: None  # hears of each admitted client
        self.on_join: Callable[[str], None] = lambda name: None
        self.on_leave: Callable[[str, str], None] = lambda name, why: None  # with the client's fault, if any
        self.last_change = time.monotonic()
        self._sizes: Sequence[int] = ()  # rows of the shards to deal; none until the run begins
        self._dealt: dict[str, int] = {}
        self._remember: Callable[[Mapping[str, int]], None] = lambda dealt: None

    def admit(self, proxy: ResidentProxy) -> str | None:
        """Register an admitted client, or return why its name is taken.

        A process that comes back over a new connection replaces its old connection, which may seem alive.
        """
        with self._lock:
            present = self._names.get(proxy.hello.name)
            if (
                present is not None
                and present.hello.instance != proxy.hello.instance
                and not present.conversation.closed
            ):
                return f"a client named {proxy.hello.name!r} is connected already; give every client its own --name"
            if present is not None:
                present.conversation.close("it came back over a new connection")
                self.unregister(present)
            if self._sizes and self._give(proxy, self._emptiest()):
                self._keep()
            if present is None:
                insort(self._order, proxy.hello.name, key=as_people_sort)
            self._names[proxy.hello.name] = proxy
            self.register(proxy)
            self.last_change = time.monotonic()
        rows = (
            f"{proxy.hello.examples} row{'' if proxy.hello.examples == 1 else 's'}, n ="
            f" {proxy.hello.dimension or 'not known yet'}"
            if proxy.hello.examples
            else "waits for its shard"
        )
        self._note(self.on_join, proxy.hello.name)
        self.on_admit(proxy.hello)
        facts = {"event": "joined", "client": proxy.hello.name, "rows": proxy.hello.examples or None}
        connected = len(self._names)
        self._tell(f"joined: {proxy.hello.name} ({rows}), {connected} connected", facts | {"connected": connected})
        if other := other_draws(proxy.hello):
            self._tell(f"{proxy.hello.name}: {other}", {"client": proxy.hello.name})
        return None

    def leave(self, proxy: ResidentProxy) -> None:
        """Remove a client whose stream has ended."""
        proxy.conversation.close()
        with self._lock:
            if self._names.get(proxy.hello.name) is not proxy:
                return  # it came back over a new connection
            del self._names[proxy.hello.name]
            self._order.remove(proxy.hello.name)
            self.unregister(proxy)
            self.last_change = time.monotonic()
        self._note(self.on_leave, proxy.hello.name, proxy.conversation.complaint)
        why = f" ({proxy.conversation.complaint})" if proxy.conversation.complaint else ""
        facts = {"event": "left", "client": proxy.hello.name, "reason": proxy.conversation.complaint}
        connected = len(self._names)
        self._tell(f"left: {proxy.hello.name}{why}, {connected} connected", facts | {"connected": connected})

    def _tell(self, text: str, facts: Mapping[str, object]) -> None:
        if self._report is None:
            _log.info("%s", text, extra={"facts": facts})
        else:
            self._report(text)

    def _note(self, note: Callable[..., None], *words: str) -> None:
        try:
            note(*words)
        except DataError as error:  # a full disk: the round will end the run, if it must end
            _log.warning("%s", error)

    def connected(self) -> dict[str, ResidentProxy]:
        """Return the connected clients by name, in natural order."""
        with self._lock:
            ordered = [(name, self._names[name]) for name in self._order]
        return {name: proxy for name, proxy in ordered if not proxy.conversation.closed}

    def present(self) -> int:
        """Return how many clients are connected."""
        with self._lock:
            return sum(not proxy.conversation.closed for proxy in self._names.values())

    def deal(
        self, sizes: Sequence[int], kept: Mapping[str, int], remember: Callable[[Mapping[str, int]], None]
    ) -> None:
        """Deal a shard, of so many rows each, to each client without one, now and when it joins.

        A name keeps its shard for ever. A new name gets the shard that the fewest connected clients hold.
        ``kept`` are the shards of an earlier part of the run; ``remember`` gets all shards after each change.
        """
        with self._lock:
            self._dealt, self._sizes, self._remember = dict(kept), sizes, remember
            waiting = [self._names[name] for name in self._order]
            emptiest = self._emptiest()
            changed = [self._give(proxy, emptiest) for proxy in waiting]
            if any(changed):
                self._keep()

    def _emptiest(self) -> list[tuple[int, int]]:
        """Return a heap of how many connected clients hold each shard, and its index.

        They hold their old one even before they are dealt it.
        """
        held = Counter(self._dealt.get(other.hello.name, other.shard_index) for other in self._names.values())
        heap = [(held[index], index) for index in range(len(self._sizes))]
        heapify(heap)
        return heap

    def _give(self, proxy: ResidentProxy, emptiest: list[tuple[int, int]]) -> bool:
        """Deal the client its shard; return whether its name had none."""
        proxy.member = None
        if not self._sizes or proxy.hello.source != "partition" or proxy.hello.shard_index != OWN_ROWS:
            return False
        name = proxy.hello.name
        new = name not in self._dealt
        if new:
            count, self._dealt[name] = emptiest[0]
            heapreplace(emptiest, (count + 1, self._dealt[name]))
        proxy.shard_index = self._dealt[name]
        return new

    def _keep(self) -> None:
        try:
            self._remember(self._dealt)
        except DataError as error:  # a full disk: the next change is another chance
            _log.warning("the shards of the clients cannot be kept: %s", error)

    def members(self) -> dict[Member, ClientProxy]:
        """Return the clients that can be drawn now and their connections; a client with a late answer cannot."""
        ready = (proxy for proxy in self.connected().values() if proxy.conversation.ready)
        return {proxy.member or self._member(proxy): proxy for proxy in ready}

    def _member(self, proxy: ResidentProxy) -> Member:
        samples, other = self._samples(proxy), other_draws(proxy.hello)
        proxy.member = Member(proxy.hello.name, proxy.shard_index, proxy.cid, True, samples, other)
        return proxy.member

    def _samples(self, proxy: ResidentProxy) -> int:
        """Return the rows of a client's shard: the server's own count of what it deals, else the introduction's."""
        return self._sizes[proxy.shard_index] if self._sizes else proxy.hello.examples

    def dismiss(self) -> None:
        """Tell all clients that the run is over; a busy client reads it later."""
        last = ServerMessage(reconnect_ins=serde.reconnect_ins_to_proto(ReconnectIns(seconds=None))).SerializeToString()
        for proxy in self.connected().values():
            proxy.conversation.dismiss(last)

    def dismiss_revoked(self, refuses: Callable[[str, str], bool]) -> None:
        """End the streams of clients whose name or certificate is refused now; they learn why when they come back."""
        for name, proxy in self.connected().items():
            if refuses(name, proxy.serial):
                proxy.conversation.close("the server's operator refuses it")

    def outvotes(self, hello: Hello) -> bool:
        """End the streams of clients that this one and more others contradict; return whether there are any."""
        joined = self.connected()
        against = self._votes.outvoted(hello, {name: proxy.hello for name, proxy in joined.items()})
        for name in against:
            conversation = joined[name].conversation
            conversation.complaint = "more clients say otherwise about the run than say what it says"
            conversation.close(conversation.complaint)
        return bool(against)

    def hang_up(self) -> None:
        """End all streams without a last message: the clients will try to come back."""
        for proxy in self.connected().values():
            proxy.conversation.close("the server is going down")

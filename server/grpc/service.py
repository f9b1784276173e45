"""The clients of a run that serves them: what they must bring, what they settle, and how many are waited for."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from flwr.common import GetPropertiesIns

from zofedht.common.choices import AUTO
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ZofedhtError
from zofedht.common.objective.agreement import MOST_UNITS_BYTES, units_as_bytes
from zofedht.common.objective.names import names_as_text
from zofedht.common.rules import MOST
from zofedht.common.shards import check_count, shard_sizes
from zofedht.common.tensors.agreement import Tensors
from zofedht.common.wire.clients import OWN_ROWS, Hello, Question
from zofedht.common.wire.codec import encode
from zofedht.common.wire.snapshots import PART_BYTES
from zofedht.server.admission.refusal import Expected
from zofedht.server.admission.revoked import Revoked
from zofedht.server.admission.settled_rules import labels_of, settle_rules
from zofedht.server.core.state import ServerState
from zofedht.server.evaluation.evaluate import central_evaluator
from zofedht.server.grpc.roster import Roster
from zofedht.server.records.run_folder import RunFolder

__all__ = ["Service"]

_ROOM_FOR_TEXT = 2**20
_HEADERS = 2**16  # bytes of a reply around the numbers of its vectors
_REMINDER_SECONDS = 30.0


class _Settled(NamedTuple):
    """Properties that all clients share, once they are known."""

    dimension: int = 0
    units: bytes | None = None
    names: str | None = None  # of the parameters
    by: str = ""  # a joined client with these properties
    tensors: Tensors | None = None  # of parameters in place


class Service:
    """What a run expects of its clients, and settles by what they say, while they come and go."""

    def __init__(
        self,
        config: RunConfig,
        state: ServerState | None,
        count: int,
        report: Callable[[str], None],
        limit: int,
        *,
        count_given: bool = False,
    ) -> None:
        self.roster = Roster()
        self._config = config
        self._count, self._count_given = count, count_given
        self._report = report
        self._limit = limit  # bytes of any reply
        self._revoked = Revoked()
        self._vectors = 4 if config.objective else 1  # a black box may send its scale and bounds
        central = central_evaluator(config)
        self._settled = _Settled()
        if central is not None:
            self._settled = _Settled(central.dim)
        elif state is not None:
            names = None if state.space is None else names_as_text(state.space.labels)
            held = state.tensors
            dimension = state.x.shape[0] if held is None else held.dimension
            units = units_as_bytes(state.units, MOST_UNITS_BYTES)
            self._settled = _Settled(dimension, units, names, tensors=held)
        self._begun = state is not None
        self._labels: frozenset[int] | None = None
        self._sources: dict[str, str] = {}

    def revoke(self, revoked: Revoked) -> None:
        """Refuse these clients, and read their file again when the process is sent SIGHUP."""
        self._revoked = revoked
        revoked.follow_hangups(lambda: self.roster.dismiss_revoked(revoked.refuses))

    def most_bytes(self) -> int:
        """Return the longest accepted reply: room for x and some text, or the limit until n is known."""
        if self._config.in_place:
            part = PART_BYTES if self._config.snapshot_after else 0
            return min(self._limit, 8 * self._config.step_spec(step_size=0.0).slopes + part + _ROOM_FOR_TEXT)
        needed = 8 * self._vectors * self._settled.dimension + _ROOM_FOR_TEXT
        return min(self._limit, needed) if self._settled.dimension else self._limit

    def hello(self) -> GetPropertiesIns:
        """The question that asks a client for its introduction."""
        config = self._config
        question = Question("", OWN_ROWS, config.seed, config.preparation, self.expected().dimension)
        return GetPropertiesIns(encode(question).scalars)

    def expected(self) -> Expected:
        """What a client must bring now; the connected clients decide what the server does not know."""
        hellos = [proxy.hello for proxy in self.roster.connected().values()]
        named = next((hello for hello in hellos if hello.source == "data" and hello.names), None)
        told = (
            _Settled(
                hello.dimension,
                hello.units,
                hello.names if self._config.objective else None,
                hello.name,
                Tensors.of_text(hello.tensors) if hello.tensors else None,
            )
            for hello in hellos
            if hello.dimension
        )
        settled = self._settled if self._settled.dimension else next(told, self._settled)
        if self._begun:
            self._settled = settled
        return Expected(
            dimension=settled.dimension,
            shard_count=self._count or next((hello.shard_count for hello in hellos if hello.shard_count), 0),
            clients_hold_data=self._clients_hold_data,
            black_box=bool(self._config.objective),
            count_given=self._count_given,
            units=settled.units,
            names=settled.names,
            first=settled.by,
            revoked=self._revoked.refuses,
            in_place=self._config.in_place,
            tensors=settled.tensors,
            most_dimension=MOST if self._config.in_place else max(0, self._limit - _HEADERS) // (8 * self._vectors),
            miscounts=self._miscounts,
            columns="" if self._begun or named is None else named.names,  # later the run's features name them
            columns_of="" if named is None else named.name,
            labels=self._labels,
            sources=self._sources,
        )

    def _miscounts(self, count: int) -> str:
        """Return why the run cannot have so many clients, or an empty text."""
        try:
            check_count(self._config, count)
        except ZofedhtError as error:
            return str(error)
        return ""

    def begun(self) -> bool:
        """Return whether the run has begun: then its first clients have settled what all must bring."""
        return self._begun

    @property
    def _clients_hold_data(self) -> bool:
        return not self._config.server_has_rows

    def wait(self, clients: int, settle: float) -> None:
        """Wait without a limit until so many clients are connected and no client has joined for ``settle`` seconds.

        A resumed run goes on with all its clients, or with the connected clients after ``settle`` seconds.
        """
        reminded = -math.inf
        while True:
            present = self.roster.present()
            quiet = time.monotonic() - self.roster.last_change
            if present >= clients and (quiet >= settle or self._begun):
                return
            if self._begun and present and 0.0 < settle <= quiet:
                return
            if time.monotonic() - reminded > _REMINDER_SECONDS:
                reminded = time.monotonic()
                self._report(f"waiting for clients: {present} of {clients} connected")
            time.sleep(0.05)

    def see_off(self, linger: float) -> None:
        """Tell late clients that the run is over, for ``linger`` seconds."""
        end = time.monotonic() + linger
        while time.monotonic() < end:
            time.sleep(0.1)
            self.roster.dismiss()

    def begin(self, folder: RunFolder) -> RunConfig:
        """Fix num-clients and, if only the clients know it, n; begin the result folder."""
        expected, present = self.expected(), self.roster.present()
        if expected.black_box:  # no shards of one data set: all connected clients count
            self._count = self._count or max(expected.shard_count, present, 1)
        else:
            self._count = expected.shard_count or max(present, 1)
        self._settled = _Settled(expected.dimension, expected.units, expected.names, expected.first, expected.tensors)
        self._begun = True
        self._config = self._config.replace(num_clients=self._count)
        self._settle([proxy.hello for proxy in self.roster.connected().values()])
        folder.begin(self._config, "grpc")
        return self._config

    def know_sources(self, sources: Mapping[str, str]) -> None:
        """Refuse clients whose data or objective is not that of before."""
        self._sources = dict(sources)

    def keep_visits(self, folder: RunFolder) -> None:
        """Keep when clients come and go."""
        folder.clients.listening()
        self.roster.on_join, self.roster.on_leave = folder.clients.joined, folder.clients.left

    def keep_sources(self, folder: RunFolder) -> None:
        """Keep the digests of what clients are made from, now and when they join."""

        def keep(*hellos: Hello) -> None:
            known = {hello.name: hello.source_digest for hello in hellos if hello.source_digest}
            self._sources |= known
            folder.about.remember_sources(known)

        self.roster.on_admit = keep
        keep(*(proxy.hello for proxy in self.roster.connected().values()))

    def _settle(self, clients: Sequence[Hello]) -> None:
        """Settle what the clients' files were to decide, and tell it."""
        guessed = self._config.positive_labels == AUTO
        self._config, notes = settle_rules(self._config, clients)
        for note in notes:
            self._report(note)
        seen = [labels_of(hello) for hello in clients if hello.source == "data"]
        if guessed and seen:
            self._labels = frozenset[int]().union(*(labels or () for labels in seen))

    def deal(self, folder: RunFolder) -> None:
        """Deal shards to clients without one, now and when they join; names keep their shard."""
        if not self._clients_hold_data:
            self.roster.deal(shard_sizes(self._config), folder.about.dealt_shards(), folder.about.remember_shards)

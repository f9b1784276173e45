"""The run behind ``zofedht-server serve``: over resident clients that join by gRPC."""

from __future__ import annotations

import gc
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from flwr.common import GetPropertiesIns

from zofedht.common.choices import AUTO
from zofedht.common.config.run_config import RunConfig
from zofedht.common.config.texts import load_toml
from zofedht.common.errors import ConfigError, ZofedhtError
from zofedht.common.objective.agreement import MOST_UNITS_BYTES, units_as_bytes
from zofedht.common.objective.names import names_as_text
from zofedht.common.rules import MOST
from zofedht.common.shards import check_count, shard_sizes, source_digest, with_standard_columns
from zofedht.common.tensors.agreement import Tensors
from zofedht.common.tls import TlsFiles
from zofedht.common.wire.codec import encode
from zofedht.common.wire.messages import OWN_ROWS, Hello, Question
from zofedht.common.wire.snapshots import PART_BYTES
from zofedht.server.admission.refusal import Expected, RefusalsTold
from zofedht.server.admission.revoked import Revoked
from zofedht.server.admission.settled_rules import labels_of, settle_rules
from zofedht.server.admission.votes import Votes
from zofedht.server.conduct import Result
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.state import ServerState
from zofedht.server.evaluation.evaluate import central_evaluator
from zofedht.server.flower.round_loop import FlowerRounds
from zofedht.server.grpc.descriptors import check_threads
from zofedht.server.grpc.health import serve_health
from zofedht.server.grpc.roster import Roster
from zofedht.server.grpc.transport import JoinService, start_grpc_server
from zofedht.server.records.run_folder import RunFolder

__all__ = ["ServeOptions", "serve"]

_log = logging.getLogger(__name__)

_FAREWELL_SECONDS = 2.0  # for the last message, which a stopped client never reads
_ROOM_FOR_TEXT = 2**20
_HEADERS = 2**16  # bytes of a reply around the numbers of its vectors
_REMINDER_SECONDS = 30.0
_SETTLED_KEYS = ("positive-labels", "features", "svmlight-indices", "standardize-by")


@dataclass(frozen=True)
class ServeOptions:
    """The command line without the run config."""

    address: str
    out: Path
    min_clients: int = 1
    settle: float = 0.0  # seconds without a new client before the begin of a run without num-clients
    tls: TlsFiles | None = None
    resume: bool = False
    max_message_bytes: int = 256 * 2**20
    health_address: str = ""
    revoked: Revoked = field(default_factory=Revoked)  # clients that may not join; its file is read again on SIGHUP
    data_changed: bool = False  # a resumed run goes on with other data or objectives
    linger: float = 0.0  # seconds after the run in which late clients learn that it is over


def serve(
    options: ServeOptions,
    keys: Mapping[str, Any],
    *,
    report: Callable[[str], None],
    listening: Callable[[int], None],
    over: Callable[[dict[str, Any], RunFolder], None] = lambda summary, folder: None,
) -> dict[str, Any]:
    """Listen, wait for clients, run to the end, dismiss the clients and return the summary of the run.

    The clients of an interrupted run are not dismissed: they come back when it is resumed.

    Parameters
    ----------
    options : ServeOptions
    keys : mapping
        Keys of the run config. Without num-clients it is the number of joined clients at the begin of the run.
    report : callable
        Gets each line of the log.
    listening : callable
        Gets the port.
    over : callable
        Gets the summary and the folder before late clients are waited for.

    Raises
    ------
    ZofedhtError
    """
    with RunFolder(options.out) as folder:  # before the wait for clients: nobody else may take it
        config, state = RunConfig.from_mapping(keys), None
        if options.resume and folder.exists():
            config, state, _ = folder.reopen(_changes(folder, config, keys))
            report(f"continuing {folder.path} after round {state.round}")
            folder.check_source(source_digest(config) if config.server_has_rows else "", changed=options.data_changed)
        else:
            if options.resume and not keys:
                raise ConfigError(
                    [
                        f"{folder.path} holds no run to continue, and neither --config nor --set says which run should"
                        " begin there; give one of them, or the folder of a run as --out"
                    ]
                )
            folder.claim()
            config = with_standard_columns(config)
            if config.in_place and not config.objective:
                raise ConfigError(["in-place needs objective = module:factory, the name of what clients bring"])
            if options.resume:
                report(f"{folder.path} holds no run to continue; a new one begins there")
        count = config.num_clients if state is not None or "num-clients" in keys else 0
        check_threads()
        health = serve_health(options.health_address) if options.health_address else None
        service = _Service(config, state, count, report, options.max_message_bytes, count_given="num-clients" in keys)
        service.revoke(options.revoked)
        service.keep_visits(folder)
        if state is not None and not options.data_changed:
            service.know_sources(folder.sources())
        join = JoinService(
            service.roster,
            service.hello,
            service.expected,
            service.most_bytes,
            refused=RefusalsTold(),
            outvotes=service.outvotes,
        )
        server, port = start_grpc_server(options.address, join, tls=options.tls)
        listening(port)
        try:
            summary = _finished(config, folder, state)
            if summary is None:
                service.wait(options.min_clients, options.settle if state is not None or count == 0 else 0.0)
                if state is None:
                    config = service.begin(folder)
                if config.server_has_rows:
                    folder.remember_source(source_digest(config))
                service.keep_sources(folder)
                service.deal(folder)
                summary = _run(config, service, folder, state).summary
            service.roster.dismiss()
            over(summary, folder)
            service.see_off(options.linger)
        finally:
            service.roster.hang_up()
            server.stop(_FAREWELL_SECONDS)
            if health is not None:
                health.stop(grace=None)
    return summary


def _changes(folder: RunFolder, config: RunConfig, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that differ from the run's: a service restarts with the same command line.

    What was left to the clients' files is no change: the run has settled it.
    """
    if not folder.config_file.exists():
        return {}  # nothing can go on there, as ``reopen`` says
    written = load_toml(folder.config_file)
    given, kept = config.to_mapping(), RunConfig.from_mapping(written).to_mapping()
    settled = {key for key in _SETTLED_KEYS if given[key] == AUTO and key in written}
    return {key: given[key] for key in keys if given[key] != kept[key] and key not in settled}


class _Settled(NamedTuple):
    """Properties that all clients share, once they are known."""

    dimension: int = 0
    units: bytes | None = None
    names: str | None = None  # of the parameters
    by: str = ""  # a joined client with these properties
    tensors: Tensors | None = None  # of parameters in place


class _Service:
    """The state of the join service while clients come and go."""

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
        self._votes = Votes()

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

    def outvotes(self, hello: Hello) -> bool:
        """Let joined clients go that contradict this one and are fewer than those that say what it says."""
        if self._begun:
            return False
        return self.roster.outvoted(self._votes.outvoted(hello, self.roster.connected()))

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
            folder.remember_sources(known)

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
            self.roster.deal(shard_sizes(self._config), folder.dealt_shards(), folder.remember_shards)


def _finished(config: RunConfig, folder: RunFolder, state: ServerState | None) -> dict[str, Any] | None:
    """Return the summary of a resumed run without remaining rounds, or None."""
    if state is None or not Coordinator(config, state).finished or not folder.summary_file.exists():
        return None
    return folder.summary()


def _run(config: RunConfig, service: _Service, folder: RunFolder, state: ServerState | None) -> Result:
    results: list[Result] = []
    rounds = FlowerRounds(
        config,
        service.roster,
        folder=folder,
        state=state,
        on_result=results.append,
        homes=service.roster.members,
        patience=float("inf"),
        dimension=service.expected().dimension,
        traffic=service.roster.traffic,
    )
    gc.freeze()  # what is there now stays to the end: a tenth of a round of 200 slots went into looking at it again
    rounds.fit(config.rounds, config.round_timeout)
    return results[0]

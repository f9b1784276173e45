"""``zofedht-server serve``: a run over resident clients that join by gRPC."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flwr.common import GetPropertiesIns, ReconnectIns

from common.config import CLIENTS_HOLD_DATA, RunConfig
from common.messages import OWN_ROWS, Question
from common.tls import TlsFiles
from common.wire import encode_question
from server.admission import Expected
from server.conduct import Result
from server.conversation import LostClient
from server.evaluation import central_evaluator
from server.grpc_transport import JoinService, start_grpc_server
from server.health import serve_health
from server.roster import ResidentProxy, Roster
from server.round_loop import FlowerRounds
from server.rounds import ServerState
from server.run_folder import RunFolder

__all__ = ["ServeOptions", "serve"]

_FAREWELL_SECONDS = 5.0
_REMINDER_SECONDS = 30.0


@dataclass(frozen=True)
class ServeOptions:
    """What the command line says besides the run config."""

    address: str
    out: Path
    min_clients: int = 1
    settle: float = 0.0  # seconds without a new client before a run begins whose num-clients was not given
    tls: TlsFiles | None = None
    resume: bool = False
    max_message_bytes: int = 256 * 2**20
    health_address: str = ""


def serve(
    options: ServeOptions, keys: Mapping[str, Any], *, report: Callable[[str], None], listening: Callable[[int], None]
) -> tuple[Result, RunFolder]:
    """Listen, wait for clients, run to the end and send the clients home.

    ``keys`` are run config keys; without num-clients it becomes the number of clients that have joined when
    the run begins. ``listening`` hears the port. Raises ZofedhtError.
    """
    folder = RunFolder(options.out)
    config, state, engine = RunConfig.from_mapping(keys), None, "grpc"
    if options.resume and folder.exists():
        config, state, engine = folder.reopen({key: value for key, value in keys.items() if key in FREE_SERVE_KEYS})
        report(f"continuing {folder.path} at round {state.round}")
    else:
        folder.refuse_old()
    count = config.num_clients if state is not None or "num-clients" in keys else 0
    service = _Service(config, state, count, report)
    server, port = start_grpc_server(
        options.address, JoinService(service.roster, service.hello, service.expected),
        tls=options.tls, max_message_bytes=options.max_message_bytes,
    )  # fmt: skip
    health = serve_health(options.health_address) if options.health_address else None
    listening(port)
    try:
        service.wait(options.min_clients, options.settle if count == 0 else 0.0)
        if state is None:
            config = service.begin(folder, engine)
        service.deal(folder)
        result = _run(config, service.roster, folder, state)
    finally:
        _send_home(service.roster)
        server.stop(grace=1.0).wait(2.0)
        if health is not None:
            health.stop(grace=None)
    return result, folder


FREE_SERVE_KEYS = frozenset({"rounds", "budget", "evaluate-every", "checkpoint-every", "round-timeout", "max-retries"})


class _Service:
    """What the join service must know while clients come and go."""

    def __init__(self, config: RunConfig, state: ServerState | None, count: int, report: Callable[[str], None]) -> None:
        self.roster = Roster(report)
        self._config = config
        self._count = count
        self._report = report
        central = central_evaluator(config)
        self._dimension = central.dim if central else 0 if state is None else state.x.shape[0]

    def hello(self) -> GetPropertiesIns:
        """What a client is told when it introduces itself."""
        config = self._config
        question = Question("", OWN_ROWS, config.seed, config.task, self._dimension)
        return GetPropertiesIns(encode_question(question))

    def expected(self) -> Expected:
        """What a client must bring now; the first one settles n where the server has no data."""
        if not self._dimension:
            known = (proxy.hello.dimension for proxy in self.roster.connected().values())
            self._dimension = next((dimension for dimension in known if dimension), 0)
        return Expected(
            dimension=self._dimension,
            partitions=self._count,
            clients_hold_data=bool(self._config.objective) or self._config.dataset == CLIENTS_HOLD_DATA,
            black_box=bool(self._config.objective),
        )

    def wait(self, clients: int, settle: float) -> None:
        """Wait, for as long as it takes, until so many clients are connected and nobody has come for a while."""
        reminded = time.monotonic()
        while True:
            present = len(self.roster.connected())
            quiet = time.monotonic() - self.roster.last_change
            if present >= clients and quiet >= settle:
                return
            if time.monotonic() - reminded > _REMINDER_SECONDS:
                reminded = time.monotonic()
                self._report(f"waiting for clients: {present} of {clients} connected")
            time.sleep(0.05)

    def begin(self, folder: RunFolder, engine: str) -> RunConfig:
        """Settle num-clients, and begin the result folder."""
        if not self._count:
            present = self.roster.connected().values()
            self._count = max([len(present), *(proxy.hello.partitions for proxy in present)])
        self._config = self._config.replace(num_clients=self._count)
        folder.begin(self._config, engine)
        return self._config

    def deal(self, folder: RunFolder) -> None:
        """Give partitions to those that brought none, now and whenever one joins; names keep theirs for ever."""
        if self._config.objective or self._config.dataset == CLIENTS_HOLD_DATA:
            return
        self.roster.deal(self._count, folder.partitions(), folder.remember_partitions)


def _run(config: RunConfig, roster: Roster, folder: RunFolder, state: ServerState | None) -> Result:
    results: list[Result] = []
    rounds = FlowerRounds(
        config,
        roster,
        folder=folder,
        state=state,
        on_result=results.append,
        homes=roster.members,
        patience=float("inf"),
    )
    rounds.fit(config.rounds, config.round_timeout)
    return results[0]


def _send_home(roster: Roster) -> None:
    def farewell(proxy: ResidentProxy) -> None:
        try:
            proxy.reconnect(ReconnectIns(seconds=None), _FAREWELL_SECONDS, None)
        except LostClient:
            return  # a client that is gone needs no farewell
        finally:
            proxy.conversation.close()

    present = list(roster.connected().values())
    with ThreadPoolExecutor(max_workers=max(1, len(present))) as pool:
        list(pool.map(farewell, present))

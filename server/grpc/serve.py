"""The run behind ``zofedht-server serve``: over resident clients that join by gRPC."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zofedht.common.choices import AUTO
from zofedht.common.config.run_config import RunConfig
from zofedht.common.config.texts import load_toml
from zofedht.common.errors import ConfigError
from zofedht.common.shards import source_digest, with_standard_columns
from zofedht.common.tls import TlsFiles
from zofedht.server.admission.refusal import RefusalsTold
from zofedht.server.admission.revoked import Revoked
from zofedht.server.conduct import Result
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.state import ServerState
from zofedht.server.flower.round_loop import FlowerRounds
from zofedht.server.grpc.descriptors import check_threads
from zofedht.server.grpc.listener import Door
from zofedht.server.grpc.service import Service
from zofedht.server.grpc.transport import JoinService
from zofedht.server.records.run_folder import RunFolder

__all__ = ["ServeOptions", "serve"]

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
            folder.about.check_source(
                source_digest(config) if config.server_has_rows else "", changed=options.data_changed
            )
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
        service = Service(config, state, count, report, options.max_message_bytes, count_given="num-clients" in keys)
        service.revoke(options.revoked)
        service.keep_visits(folder)
        if state is not None and not options.data_changed:
            service.know_sources(folder.about.sources())
        join = JoinService(
            service.roster,
            service.hello,
            service.expected,
            service.most_bytes,
            refused=RefusalsTold(),
            begun=service.begun,
        )
        door = Door(options.address, join, service.roster, tls=options.tls, health_address=options.health_address)
        listening(door.port)
        try:
            summary = _finished(config, folder, state)
            if summary is None:
                service.wait(options.min_clients, options.settle if state is not None or count == 0 else 0.0)
                if state is None:
                    config = service.begin(folder)
                if config.server_has_rows:
                    folder.about.remember_source(source_digest(config))
                service.keep_sources(folder)
                service.deal(folder)
                summary = _run(config, service, folder, state).summary
            service.roster.dismiss()
            over(summary, folder)
            service.see_off(options.linger)
        finally:
            door.close()
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


def _finished(config: RunConfig, folder: RunFolder, state: ServerState | None) -> dict[str, Any] | None:
    """Return the summary of a resumed run without remaining rounds, or None."""
    if state is None or not Coordinator(config, state).finished or not folder.summary_file.exists():
        return None
    return folder.summary()


def _run(config: RunConfig, service: Service, folder: RunFolder, state: ServerState | None) -> Result:
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

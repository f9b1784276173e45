"""Flower's simulation, started from our command: the only module that touches its internals.

``flwr.simulation.run_simulation`` prints a deprecation banner and cannot be told a context;
the function under it does the same work and prints nothing.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from flwr.app import Context
from flwr.compat.server import ServerAppComponents
from flwr.server.client_manager import ClientManager, SimpleClientManager
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.serverapp import ServerApp
from flwr.simulation.run_simulation import _run_simulation
from flwr.supercore.telemetry import EventType

from zofedht.client.flower.app import app as client_app
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError, RoundError
from zofedht.server.conduct import Result
from zofedht.server.core.state import ServerState
from zofedht.server.flower.app import components
from zofedht.server.flower.ray_cluster import QUIET_RAY, RayClusterError, import_ray, join_cluster
from zofedht.server.flower.round_loop import FlowerRounds
from zofedht.server.records.run_folder import RunFolder

__all__ = ["run_simulation"]


def run_simulation(
    config: RunConfig, folder: RunFolder, *, state: ServerState | None = None, nodes: int | None = None
) -> Result:
    """Run on simulated nodes, as many as there are cores unless told, and return the result.

    The cores are those of this machine, or of the Ray cluster that ``ray-address`` names.

    Raises ZofedhtError; MissingExtraError without Ray, ConfigError where no cluster answers.
    """
    ray = import_ray("the simulation engine")
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    logging.getLogger("flwr").setLevel(logging.CRITICAL)  # what fails is in the history, each with one sentence
    from zofedht.server.flower.living_pool import living_workers  # needs Ray

    cores = _cores_of(ray, config.ray_address) if config.ray_address else os.cpu_count() or 1
    results: list[Result] = []
    nodes_of_run, ending = SimpleClientManager(), _Ending()

    def server_fn(context: Context) -> ServerAppComponents:
        server = FlowerRounds(
            config, nodes_of_run, folder=folder, state=state, on_result=results.append,
            around=ending.running, interrupted=ending.interrupted,
        )  # fmt: skip
        return components(server, config)

    def end() -> None:
        ending.wait(nodes_of_run)

    with living_workers(config, ending.over, end), _ended_at_an_interrupt(end):
        _run_simulation(
            num_supernodes=nodes or min(config.num_clients, cores),
            exit_event=EventType.PYTHON_API_RUN_SIMULATION_LEAVE,
            server_app=ServerApp(server_fn=server_fn),
            client_app=client_app,
            backend_config={
                "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
                "init_args": QUIET_RAY | {"address": "local"},  # not the one that RAY_ADDRESS names
            },
        )
    return results[0]


class _Ending:
    """Ends the server's thread before its nodes are gone: what their end loses is no failure of a round."""

    def __init__(self) -> None:
        self.interrupted, self.over = threading.Event(), threading.Event()
        self._running = threading.Lock()  # held by the thread of the server

    @contextmanager
    def running(self) -> Iterator[None]:
        """Be what the server runs in."""
        with self._running:
            try:
                yield
            finally:
                self.over.set()  # workers that still answer keep nobody waiting

    def wait(self, nodes: ClientManager) -> None:
        """Wait until the server has written its last checkpoint. Nothing is left to do after a run that is done."""
        self.interrupted.set()
        for proxy in nodes.all().values():
            if isinstance(proxy, GridClientProxy):  # each message has a thread, which Python waits for at its end
                proxy.grid.pull_messages = _nothing_comes  # type: ignore[method-assign]
        with self._running:
            pass


def _nothing_comes(message_ids: object) -> NoReturn:
    raise RoundError("the run was interrupted")


@contextmanager
def _ended_at_an_interrupt(end: Callable[[], None]) -> Iterator[None]:
    """Keep the last whole round where the simulation is interrupted, or cannot be kept up. Raises RoundError then."""
    try:
        yield
    except KeyboardInterrupt:
        end()  # Flower may have had no worker to end yet
        raise
    except RuntimeError as error:  # of Flower, around what Ray has raised
        end()
        first: BaseException = error
        while first.__cause__ is not None:
            first = first.__cause__
        reason = str(first).partition("\n")[0] or type(first).__name__
        raise RoundError(
            f"Flower's simulation cannot be run: {reason}; try again, or take --engine in-process"
        ) from error


def _cores_of(ray: Any, address: str) -> int:
    """Join a Ray cluster, which Flower then finds, and return its cores. Raises ConfigError."""
    try:
        join_cluster(ray, address)
    except RayClusterError as error:
        raise ConfigError([f"ray-address must be that of a Ray cluster, got {address!r}: {error}"]) from error
    return int(ray.cluster_resources().get("CPU", 1))

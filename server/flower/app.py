"""The Flower ServerApp: ``flwr run .`` starts it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from flwr.app import Context
from flwr.compat.server import ServerAppComponents
from flwr.server import ServerConfig
from flwr.server.client_manager import SimpleClientManager
from flwr.serverapp import ServerApp

from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError
from zofedht.common.shards import with_standard_columns
from zofedht.server.conduct import Result
from zofedht.server.flower.round_loop import FlowerRounds
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.records.way_on import naming_the_way_on
from zofedht.server.terminal.summary import summary_text

__all__ = ["app", "components", "server_fn"]

_SIMULATION = "flwr.simulation.run_simulation"
"""The module that runs this app in one process with Ray's driver."""


def server_fn(context: Context) -> ServerAppComponents:
    """Check the run config, begin the result folder and return the server.

    The app runs from a copy that Flower made, so results go to the run config's ``out``, else below
    the environment variable ZOFEDHT_OUT, else below ``~/zofedht-runs``; never beside the module.

    Raises ConfigError or DataError.
    """
    config = with_standard_columns(RunConfig.from_mapping(context.run_config))
    if config.ray_address:
        raise ConfigError(
            [
                f"ray-address must be empty under Flower's own commands, got {config.ray_address!r}: they start Ray"
                " before they read the run config (`zofedht-server run --engine simulation` joins a cluster)"
            ]
        )
    home = Path(os.environ.get("ZOFEDHT_OUT") or Path.home() / "zofedht-runs")
    folder = RunFolder(Path(config.out).expanduser() if config.out else home / str(context.run_id))
    folder.begin(config, "simulation")

    def show(result: Result) -> None:
        print(summary_text(result.summary, folder), flush=True)

    print(f"results go to {folder.path}", flush=True)
    around = partial(_around, config, folder)
    return components(FlowerRounds(config, SimpleClientManager(), folder=folder, on_result=show, around=around), config)


@contextmanager
def _around(config: RunConfig, folder: RunFolder) -> Iterator[None]:
    """Name the way on where the run fails, replace the simulation's dead workers, and give the folder back."""
    with ExitStack() as stack:
        stack.callback(folder.give_back)
        stack.enter_context(naming_the_way_on(folder))
        if _SIMULATION in sys.modules:  # else nodes are processes of their own
            from zofedht.server.flower.living_pool import living_workers  # needs Ray

            stack.enter_context(living_workers(config))
        yield


def components(server: FlowerRounds, config: RunConfig) -> ServerAppComponents:
    """Return what a ServerApp needs to run this server."""
    flower = ServerConfig(num_rounds=max(1, config.rounds), round_timeout=config.round_timeout)
    return ServerAppComponents(server=server, config=flower)


app = ServerApp(server_fn=server_fn)

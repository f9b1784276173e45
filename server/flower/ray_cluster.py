"""Ray, quiet, and an existing cluster of it, which a simulation or a study joins once something answers at its address.

Ray itself waits for half a minute where nothing listens, and for ever where the file that it keeps of the last cluster
names one that has ended. So the port is tried first.
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
from typing import Any

from zofedht.common.errors import MissingExtraError

__all__ = ["QUIET_RAY", "RayClusterError", "import_ray", "join_cluster"]

QUIET_RAY: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
_QUIET_ENVIRONMENT = {
    "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1",  # it prints raw lines at SIGTERM, and aborts
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}
_CONNECT_SECONDS = 10.0


class RayClusterError(Exception):
    """No cluster can be joined; the text says why."""


def import_ray(who: str) -> Any:
    """Return Ray's module. Raises MissingExtraError, which says that ``who`` needs it."""
    for name, value in _QUIET_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise MissingExtraError(f"{who} needs Ray; install it with `pip install 'zofedht[sim]'`") from error


def join_cluster(ray: Any, address: str) -> None:
    """Connect this process to the cluster at HOST:PORT, or with ``auto`` to the one of RAY_ADDRESS or of this machine.

    The cluster's workers look for modules at the same places as this process. A process that is in a cluster stays.

    Raises RayClusterError where no cluster answers.
    """
    if ray.is_initialized():
        return
    services: Any = importlib.import_module("ray._private.services")
    try:
        found = str(services.canonicalize_bootstrap_address(address))
        host, _, port = found.rpartition(":")
        if not host or not port.isdecimal():
            raise ValueError(f"an address is auto or HOST:PORT, not {address!r}")
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
        path = {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}}
        ray.init(address=found, runtime_env=path, **QUIET_RAY)
    except (OSError, ValueError, RuntimeError) as error:
        silent = isinstance(error, OSError) and (error.errno or isinstance(error, TimeoutError))
        reason = f"nothing answers at {found}, {error}" if silent else str(error).splitlines()[0]
        raise RayClusterError(reason) from error

"""Which function runs each ``zofedht-server`` command."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from zofedht.server.commands.comparing import compare, plan
from zofedht.server.commands.running import resume, run, serve_clients
from zofedht.server.commands.showing import completion, export_x, list_keys, make_certs, plot, report, watch_folder

__all__ = ["ACTIONS"]

ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "run": run,
    "serve": serve_clients,
    "resume": resume,
    "compare": compare,
    "watch": watch_folder,
    "plot": plot,
    "plan": plan,
    "report": report,
    "export": export_x,
    "keys": list_keys,
    "completion": completion,
    "make-certs": make_certs,
}
"""By the name of the command: what runs it and returns its exit code."""

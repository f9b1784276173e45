"""The server's side, and what Python code starts with: ``from server import run, load_run, ZOFedClassifier``.

Importing it settles what Ray prints, since Ray reads this as soon as it starts; the names below are loaded when
they are first asked for.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from server.classifier import ZOFedClassifier
    from server.finished_run import FinishedRun, load_run
    from server.one_call import run

__all__ = ["FinishedRun", "ZOFedClassifier", "load_run", "run"]

# Ray announces a coming change of a GPU setting with a FutureWarning unless told that we know.
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

_HOMES = {
    "FinishedRun": "server.finished_run",
    "ZOFedClassifier": "server.classifier",
    "load_run": "server.finished_run",
    "run": "server.one_call",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'server' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_HOMES[name]), name)

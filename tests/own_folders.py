"""A user's folder whose names are those of this repository's folders: server.py, common/ and client/."""

from __future__ import annotations

from pathlib import Path

__all__ = ["OPTIMUM", "own_folders"]

OPTIMUM = 3.0
"""Where the loss of ``MODULE:make`` is lowest, in both parameters."""

_FILES = {
    "server.py": "START = 1.0\n",
    "common/__init__.py": "",
    "common/days.py": f"DAYS = [{OPTIMUM - 1.0}, {OPTIMUM}, {OPTIMUM + 1.0}]\n",
    "client/__init__.py": "NAME = 'plant'\n",
}
_VALVE = """
import numpy as np
import server
from client import NAME
from common.days import DAYS
from zofedht import Objective

class Valve(Objective):
    dim = 2
    def __len__(self):
        return len(DAYS)
    def initial(self, rng):
        return [server.START] * 2
    def value(self, x, batch):
        return float(np.mean(np.square(x - np.array(DAYS)[batch, None])))

def make():
    return Valve()
"""


def own_folders(folder: Path, module: str = "valve") -> Path:
    """Write the folder and ``module``.py, which imports what lies in it; return the folder."""
    for name, text in (_FILES | {f"{module}.py": _VALVE}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder

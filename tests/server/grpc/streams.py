"""A command whose standard streams are of no use: main([how, module, arguments of its main]).

``closed`` closes them before the command begins; ``left`` gives it pipes whose reader goes after the first line.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """Run the module's ``main`` and return its exit code."""
    how, module, *rest = argv
    if how == "closed":
        sys.stdin = sys.stdout = sys.stderr = None  # type: ignore[assignment]  # as Python does
        for number in range(3):
            os.close(number)
    else:
        _left(1)
        _left(2)
    code: int = importlib.import_module(module).main(rest)
    sys.stdout = sys.stderr = None  # type: ignore[assignment]  # multiprocessing would flush them, and fail
    return code


def _left(number: int) -> None:
    """Put a pipe in the place of a stream; its reader copies one line to where the stream went before."""
    reader, writer = os.pipe()
    before = os.dup(number)
    os.dup2(writer, number)
    os.close(writer)

    def copy() -> None:
        with os.fdopen(reader, "rb", buffering=0) as pipe:
            os.write(before, pipe.readline())

    threading.Thread(target=copy, daemon=True).start()

"""A server whose gRPC loop dies: main([how, file, module, arguments of its main]), once the file exists.

``raised`` raises an exception in the loop's thread, ``stopped`` ends its loop.
"""

from __future__ import annotations

import ctypes
import importlib
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.waiting import until
from zofedht.server.grpc.event_loop import event_loop

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """Run the module's ``main`` and return its exit code."""
    how, file, module, *rest = argv

    def kill() -> None:
        until(Path(file).exists, "leave to kill the loop")
        loop = event_loop()
        if how == "raised":
            (thread,) = [one for one in threading.enumerate() if one.name == "grpc"]
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(MemoryError))
        else:
            loop.call_soon_threadsafe(loop.stop)

    threading.Thread(target=kill, daemon=True).start()
    code: int = importlib.import_module(module).main(rest)
    return code

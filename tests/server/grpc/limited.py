"""A command with a lower limit of open files: main([limit, module, arguments of its main])."""

from __future__ import annotations

import importlib
import resource
from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """Run the module's ``main`` and return its exit code."""
    limit, module, *rest = argv
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(limit) // 2, int(limit)))
    code: int = importlib.import_module(module).main(rest)
    return code

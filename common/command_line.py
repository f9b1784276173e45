"""How both commands meet an error: one sentence on standard error, exit code 2, no traceback."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

from common.errors import ConfigError, ZofedhtError

__all__ = ["guarded"]

INTERRUPTED = 130


def guarded(program: str, action: Callable[[], int]) -> int:
    """Run the action and return the exit code: its own, 2 for a user's error, 130 for an interrupt."""
    warnings.showwarning = lambda message, *rest: print(f"{program}: warning: {message}", file=sys.stderr)
    try:
        return action()
    except ConfigError as error:
        for problem in error.problems:
            print(f"{program}: error: {problem}", file=sys.stderr)
    except ZofedhtError as error:
        print(f"{program}: error: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"{program}: interrupted; what was finished is kept", file=sys.stderr)
        return INTERRUPTED
    return 2

"""Which inner loops run: NumPy's, or compiled ones of the optional extra ``fast``.

Both take the same steps; sums may be added in another order, so the last bits of x can differ.
"""

from __future__ import annotations

import functools
import importlib.util

from zofedht.common.errors import ConfigError

__all__ = ["runs_compiled"]


@functools.cache
def _is_installed() -> bool:
    return importlib.util.find_spec("numba") is not None


def runs_compiled(kernel: str) -> bool:
    """Return whether compiled loops are to be used: ``auto`` takes them where numba is installed.

    Raises ConfigError when ``compiled`` is asked for where it is not.
    """
    if kernel == "compiled" and not _is_installed():
        raise ConfigError(
            [
                "kernel = compiled needs numba, which is not installed here"
                " (pip install 'zofedht[fast]', or kernel = auto or numpy)"
            ]
        )
    return kernel != "numpy" and _is_installed()

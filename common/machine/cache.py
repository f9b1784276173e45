"""The folder in which the user's large data sets and the compiled loops are kept."""

from __future__ import annotations

import os
from pathlib import Path

from zofedht.common.errors import DataError

__all__ = ["data_folder"]


def data_folder(data_dir: str) -> Path:
    """Return the folder of the large sets: ``data_dir``, or the user's cache if that is empty."""
    try:
        if data_dir:
            return Path(data_dir).expanduser()
        cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
        # The XDG rule: a relative path counts as unset.
        return (cache if cache.is_absolute() else Path("~/.cache").expanduser()) / "zofedht"
    except RuntimeError as error:
        raise DataError(f"the data folder needs a home directory, got '{error}'; set data-dir") from error

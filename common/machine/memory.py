"""Sizes are held against the memory that is free before anything is allocated: a typing error is one sentence then."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

__all__ = ["free_bytes", "lacking", "least_bytes"]

_MEMINFO = Path("/proc/meminfo")
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_SMALL = 2**24  # bytes that are not worth a look
_UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"))


def free_bytes() -> int | None:
    """Return the bytes that this process may still allocate, swap included; None where the system does not say."""
    known = []
    with suppress(OSError, ValueError, IndexError):
        lines = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        known.append(1024 * sum(int(lines[key].split()[0]) for key in ("MemAvailable", "SwapFree") if key in lines))
    for limit in _LIMITS:
        with suppress(OSError, ValueError):
            known.append(int(Path(limit).read_text()))
    return min(known, default=None)


def least_bytes(dimension: int) -> int:
    """Return the bytes of a step on n parameters, at the least: x, w, v and a move."""
    return 4 * 8 * dimension


def lacking(needed: int, what: str) -> str:
    """Return the first half of a sentence where ``what`` needs more bytes than are free, or an empty text."""
    there = free_bytes() if needed > _SMALL else None
    if there is None or needed <= there:
        return ""
    return f"{what} take at least {_text(needed)} of memory, and {_text(there)} are free"


def _text(size: int) -> str:
    unit, name = next((entry for entry in _UNITS if size >= entry[0]), _UNITS[-1])
    return f"{size / unit:,.1f} {name}"

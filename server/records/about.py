"""run.json: what a run was made by and from, besides its config."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from zofedht.common.errors import CheckpointError, DataError
from zofedht.common.machine.files import read_json, replace_file
from zofedht.common.machine.versions import version_of

__all__ = ["AboutRun", "as_json"]


class AboutRun:
    """The file. A run can finish without it: what cannot be read there was never said."""

    def __init__(self, file: Path, folder: Path) -> None:
        """``folder`` is that of the run as people have typed it."""
        self.file, self._folder = file, folder
        self._writing = threading.Lock()  # shards are dealt during the run

    def begin(self, engine: str, *, maximize: bool, objective: str) -> None:
        """Write the file anew."""
        versions = {"zofedht": version_of("zofedht"), "flwr": version_of("flwr"), "numpy": np.__version__}
        about = {"engine": engine, "maximize": maximize, "objective": objective}
        replace_file(self.file, as_json(about | versions))

    def read(self) -> dict[str, Any]:
        """Return all that the file says."""
        try:
            return read_json(self.file)
        except DataError:
            return {}

    def add(self, **entries: Any) -> None:
        """Say more, or something else."""
        with self._writing:
            replace_file(self.file, as_json(self.read() | entries))

    @property
    def engine(self) -> str:
        """The engine of the run. All give the same numbers; the default needs nothing else."""
        return str(self.read().get("engine", "in-process"))

    @property
    def sign(self) -> float:
        """What turns a minimised loss into the user's value: -1 where the run maximises."""
        return -1.0 if self.read().get("maximize") else 1.0

    def dealt_shards(self) -> dict[str, int]:
        """Return the dealt shard of each client, as remembered."""
        kept = self.read().get("shards", {})
        return {str(name): int(index) for name, index in kept.items()} if isinstance(kept, dict) else {}

    def remember_shards(self, shards: Mapping[str, int]) -> None:
        """Keep the dealt shard of each client: a resumed run deals the same."""
        self.add(shards=dict(shards))

    def sources(self) -> dict[str, str]:
        """Return the digest of what each client's objective was made from; under "" that of the server's own."""
        kept = self.read().get("sources", {})
        return {str(name): str(found) for name, found in kept.items()} if isinstance(kept, dict) else {}

    def remember_source(self, digest: str, name: str = "") -> None:
        """Keep a digest of the data and the objective that the run goes on with."""
        self.remember_sources({name: digest})

    def remember_sources(self, digests: Mapping[str, str]) -> None:
        """Keep such digests by the names of clients; empty ones are left out."""
        kept = self.sources()
        following = kept | {name: digest for name, digest in digests.items() if digest}
        if following != kept:
            self.add(sources=following)

    def check_source(self, digest: str, *, changed: bool) -> None:
        """Keep the digest of this process's data or objective.

        Raises CheckpointError where the run was made from another one, unless that is known to have ``changed``.
        """
        kept = self.sources().get("", "")
        if kept and digest and kept != digest and not changed:
            raise CheckpointError(
                f"the data or the objective is not what {self._folder} was made from: its digest was {kept}, now it is"
                f" {digest}; resume with what it was made from, or go on with --data-changed"
            )
        self.remember_source(digest)


def as_json(value: Mapping[str, Any]) -> bytes:
    """Return the bytes of a JSON file, with null in the place of NaN and inf."""
    return (json.dumps(_finite(value), indent=2, allow_nan=False) + "\n").encode()


def _finite(value: Any) -> Any:
    """Return a tree of mappings with None in place of NaN and inf, which JSON lacks."""
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value

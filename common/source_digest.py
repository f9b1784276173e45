"""Digests of what a run was made from: rows, files and code. A resumed run must go on with the same."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from zofedht.common.typing import is_sparse

__all__ = ["digest_of", "with_imports"]

_CHUNK = 2**20
_MOST_FILES = 200  # whose text tells whether an objective is the same


def digest_of(*parts: Any) -> str:
    """Return 32 hexadecimal digits that depend on each part: an array, a sparse matrix, bytes, or a file's content."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, Path):
            with part.open("rb") as file:
                while chunk := file.read(_CHUNK):
                    found.update(chunk)
            continue
        pieces = [part.data, part.indices, part.indptr] if is_sparse(part) else [part]
        for piece in pieces:
            if isinstance(piece, bytes):
                found.update(b"bytes%d:" % len(piece) + piece)
                continue
            array = np.ascontiguousarray(piece)
            found.update(f"{array.dtype.str}{array.shape}:".encode())
            found.update(array.reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def with_imports(file: Path, module: list[str]) -> set[Path]:
    """Return a module's file and those of the same root that it imports; of an installed package its own alone."""
    package = module if file.name == "__init__.py" else module[:-1]
    root, found, waiting = file.parents[len(package)], set[Path](), [(file, package)]
    installed = "site-packages" in root.parts
    while waiting and len(found) < _MOST_FILES:
        here, package = waiting.pop()
        if here in found:
            continue
        found.add(here)
        for name in _imported(here, package):
            if name[0] == "zofedht" or (installed and name[0] != module[0]):
                continue
            inits = [(root.joinpath(*name[:size], "__init__.py"), name[:size]) for size in range(1, len(name) + 1)]
            waiting += [
                one for one in ((root.joinpath(*name).with_suffix(".py"), name[:-1]), *inits) if one[0].is_file()
            ]
    return found


def _imported(file: Path, package: list[str]) -> Iterator[list[str]]:
    """Yield the names of modules in the import statements of a file; some are names within a module."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            yield from ([*base, alias.name] for alias in node.names if alias.name != "*")
            if base:
                yield base

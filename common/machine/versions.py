"""Versions of this package and of its dependencies, read without importing them."""

from __future__ import annotations

import platform

import zofedht

__all__ = ["version_of", "version_text"]


def version_of(package: str) -> str:
    """Return the version of a package, or ``not installed``."""
    if package == "zofedht":
        return zofedht.__version__
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def version_text(program: str) -> str:
    """Return the line of ``--version``."""
    return f"{program} {version_of('zofedht')} (flwr {version_of('flwr')}, Python {platform.python_version()})"

"""The files of mutual TLS, and the rule for going without it."""

from __future__ import annotations

import ipaddress
import os
import warnings
from dataclasses import dataclass
from pathlib import Path

from zofedht.common.errors import ConfigError, DataError

__all__ = ["TlsFiles", "check_loopback", "check_plain_text", "read_tls"]


@dataclass(frozen=True)
class TlsFiles:
    """PEM texts: certificate of the authority, certificate and key of this side."""

    authority: bytes
    certificate: bytes
    key: bytes


def read_tls(folder: Path, side: str) -> TlsFiles:
    """Read ca.crt, ``side``.crt and ``side``.key of a folder; ``side`` is server or client.

    Raises DataError with the name of the missing file.
    """
    texts = []
    key = folder / f"{side}.key"
    if os.name == "posix" and key.exists() and key.stat().st_mode & 0o077:
        warnings.warn(f"others than its owner may read or change {key}; `chmod 600` keeps it private", stacklevel=2)
    for name in ("ca.crt", f"{side}.crt", f"{side}.key"):
        try:
            texts.append((folder / name).read_bytes())
        except OSError as error:
            raise DataError(
                f"--tls-dir {folder} must hold ca.crt, {side}.crt and {side}.key; {name} cannot be read"
                f" ({error.strerror}); `zofedht-server make-certs` makes them"
            ) from error
    return TlsFiles(*texts)


def check_plain_text(address: str, insecure: bool, tls_dir: Path | None) -> None:
    """Raise ConfigError unless either --tls-dir or --insecure is given."""
    if tls_dir is not None and insecure:
        raise ConfigError(["--insecure and --tls-dir exclude each other; leave one out"])
    if tls_dir is None and not insecure:
        where = "" if is_loopback(address) else ", which leaves this machine"
        raise ConfigError(
            [
                f"--tls-dir DIR is needed for {address}{where}; `zofedht-server make-certs` makes the certificates"
                " (--insecure sends all messages as plain text that anybody may read and change)"
            ]
        )


def check_loopback(option: str, address: str) -> None:
    """Raise ConfigError unless HOST:PORT, the value of ``option``, stays on this machine."""
    if not is_loopback(address):
        raise ConfigError([f"{option} must be a loopback address such as 127.0.0.1:8081, got {address}"])


def is_loopback(address: str) -> bool:
    """Return whether HOST:PORT is a loopback address."""
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

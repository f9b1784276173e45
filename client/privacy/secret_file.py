"""The secret that a device draws its noise from: a file that never leaves the device."""

from __future__ import annotations

import hmac
import os
from contextlib import suppress
from pathlib import Path

from zofedht.common.errors import DataError
from zofedht.common.privacy.private_draws import SECRET_BYTES

__all__ = ["secret_of_environment", "secret_of_file"]


def secret_of_environment(client: str) -> bytes | None:
    """Return the secret of a client from the file that ZOFEDHT_PRIVACY_KEY names, or None where it names none.

    Raises DataError as ``secret_of_file``.
    """
    path = os.environ.get("ZOFEDHT_PRIVACY_KEY")
    return secret_of_file(Path(path), client) if path else None


def secret_of_file(path: Path, client: str) -> bytes:
    """Return the secret of a client from a file of 32 bytes, which is made at its first use.

    Several clients on one device have one file and different secrets. Whoever reads the file can subtract the noise
    from all that was sent; who deletes it has noise drawn anew for questions that were answered before.

    Raises
    ------
    DataError
        The file cannot be made or read, has another size, or others than its owner may read it.
    """
    if not path.exists():
        _make(path)
    try:
        secret, mode = path.read_bytes(), path.stat().st_mode
    except OSError as error:
        raise DataError(f"the privacy key {path} cannot be read ({error.strerror})") from error
    if mode & 0o077:
        raise DataError(f"the privacy key {path} must be readable by its owner alone; chmod 600 it")
    if len(secret) != SECRET_BYTES:
        raise DataError(f"the privacy key {path} must hold {SECRET_BYTES} bytes, got {len(secret)}; name another file")
    return hmac.digest(secret, client.encode(), "sha256")


def _make(path: Path) -> None:
    """Make the file whole or not at all: another client of this device may make it at the same time."""
    scratch = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        scratch.touch(mode=0o600)
        scratch.write_bytes(os.urandom(SECRET_BYTES))
        with suppress(FileExistsError):
            path.hardlink_to(scratch)
        scratch.unlink()
    except OSError as error:
        raise DataError(f"the privacy key {path} cannot be made ({error.strerror}); name another file") from error

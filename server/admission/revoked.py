"""Clients that may not join although they could: names, and serial numbers of certificates."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from zofedht.common.errors import DataError

__all__ = ["Revoked", "serial_of"]

_log = logging.getLogger(__name__)


class Revoked:
    """Names and serial numbers of the command line and of a file.

    A serial number is written as ``openssl x509 -serial`` prints it, in hexadecimal. The file holds one entry a line;
    what follows a # is a comment.

    Parameters
    ----------
    listed : sequence of str
        Entries of the command line.
    file : Path, optional
        The file, which ``read_again`` reads.

    Raises
    ------
    DataError
        The file cannot be read.
    """

    def __init__(self, listed: Sequence[str] = (), file: Path | None = None) -> None:
        self._listed = frozenset(listed)
        self.file = file
        self._entries = self._read()

    def refuses(self, name: str, serial: str) -> bool:
        """Return whether a client of this name, or with a certificate of this serial number, may not join."""
        return name in self._entries or (bool(serial) and serial in map(_as_serial, self._entries))

    def read_again(self) -> None:
        """Read the file again. Raises DataError when it cannot be read; the entries are then those of before."""
        self._entries = self._read()

    def follow_hangups(self, then: Callable[[], None] = lambda: None) -> None:
        """Read the file again, and call ``then``, whenever the process is sent SIGHUP; without a file do nothing."""
        if self.file is not None and hasattr(signal, "SIGHUP"):
            # In a thread of its own: the signal may come while this one holds a lock that ``then`` needs.
            signal.signal(signal.SIGHUP, lambda *_: threading.Thread(target=self._hung_up, args=[then]).start())

    def _hung_up(self, then: Callable[[], None]) -> None:
        try:
            self.read_again()
        except DataError as error:
            _log.warning("%s; the clients that were refused before are refused", error)
            return
        _log.info("%s was read again", self.file)
        then()

    def add(self, entries: Sequence[str]) -> None:
        """Refuse more, and read the file again. Raises DataError as ``read_again``."""
        self._listed |= frozenset(entries)
        self.read_again()

    def _read(self) -> frozenset[str]:
        if self.file is None:
            return self._listed
        try:
            lines = self.file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"--refuse-file {self.file} cannot be read ({error})") from error
        entries = (line.partition("#")[0].strip() for line in lines)
        return self._listed | {entry for entry in entries if entry}


def serial_of(certificate: bytes) -> str:
    """Return the serial number of a certificate in PEM, in lower-case hexadecimal; empty without a certificate."""
    from cryptography import x509

    return f"{x509.load_pem_x509_certificate(certificate).serial_number:x}" if certificate else ""


def _as_serial(entry: str) -> str:
    return entry.lower().removeprefix("serial=").removeprefix("0x").replace(":", "").lstrip("0")

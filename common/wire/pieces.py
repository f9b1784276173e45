"""A client's messages in pieces of at most 64 kB, the first of which says how long the message is.

gRPC has one limit for all messages of a server, and reads a whole message before anybody can refuse it. In pieces a
stranger's message costs one piece, and the limit of each client is what the server knows to be enough for it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from zofedht.common.errors import MessageError

__all__ = ["MOST_OF_A_PIECE", "Assembly", "TooLongError", "pieces_of"]

MOST_OF_A_PIECE = 64 * 1024
"""Bytes of a piece."""

_LENGTH = struct.Struct("<Q")


def pieces_of(message: bytes) -> Iterator[bytes]:
    """Yield a message in pieces: its length in eight bytes, then itself.

    Examples
    --------
    >>> [len(piece) for piece in pieces_of(bytes(100_000))]
    [65536, 34472]
    """
    first = MOST_OF_A_PIECE - _LENGTH.size
    yield _LENGTH.pack(len(message)) + message[:first]
    for start in range(first, len(message), MOST_OF_A_PIECE):
        yield message[start : start + MOST_OF_A_PIECE]


class TooLongError(MessageError):
    """A message is longer than it may be; to send it again would not help."""


class Assembly:
    """Puts messages together again; what it holds is what has come, whatever the length claims.

    Parameters
    ----------
    most_bytes : callable
        Returns the length of the longest accepted message; asked at each message's first piece.
    """

    def __init__(self, most_bytes: Callable[[], int]) -> None:
        self.most_bytes = most_bytes
        self._length = 0
        self._held: bytearray | None = None  # of a message whose first piece has come

    def take(self, piece: bytes) -> bytes | None:
        """Return the message that this piece completes, or None.

        Raises
        ------
        MessageError
            The message is longer than accepted, or the piece is none.
        """
        if self._held is None:
            self._begin(piece)
            piece = piece[_LENGTH.size :]
        elif not piece:
            raise MessageError("its message holds an empty piece")
        assert self._held is not None
        self._held += piece
        if len(self._held) > self._length:
            raise MessageError(f"its message must have the {self._length} bytes that it announced, got more")
        if len(self._held) < self._length:
            return None
        message, self._held = bytes(self._held), None
        return message

    def _begin(self, piece: bytes) -> None:
        if len(piece) < _LENGTH.size:
            raise MessageError(f"its message must begin with its length in {_LENGTH.size} bytes, got {len(piece)}")
        (self._length,) = _LENGTH.unpack_from(piece)
        if self._length > (most := self.most_bytes()):
            raise TooLongError(f"its message must have at most {most} bytes, got {self._length}")
        self._held = bytearray()

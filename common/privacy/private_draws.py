"""Random numbers that only the holder of a secret can draw: noise, and which rows are in a batch.

The public streams (``random.streams``) are no use here: whoever knows seed, round and slot could subtract the noise.
Draws are named by the secret and by the question that they answer. The same question is answered with the same
numbers, so an answer that is asked for twice tells nothing new, and a resumed run equals an uninterrupted one. Another
question, be it for the same slot, gets independent numbers: no difference of two answers is free of noise.

HMAC-SHA256 makes a key of secret and question, SHAKE-256 makes the bytes of a key.
"""

from __future__ import annotations

import hashlib
import hmac
import math

import numpy as np

from zofedht.common.typing import Indices, Vector

__all__ = ["SECRET_BYTES", "PrivateDraws", "simulated_secret"]

SECRET_BYTES = 32
_GRAIN = 2.0**-40  # of a standard deviation


class PrivateDraws:
    """The draws of one answer.

    Parameters
    ----------
    secret : bytes
        Known to nobody else.
    question : bytes
        What is answered, in parts: whatever the answer depends on but the rows.
    """

    def __init__(self, secret: bytes, *question: bytes) -> None:
        framed = b"".join(len(part).to_bytes(8, "little") + part for part in question)
        self._key = hmac.digest(secret, framed, "sha256")

    def batch(self, step: int, rows: int, rate: float) -> Indices | slice:
        """Return the rows of a step's batch: each is in it with probability ``rate``, on its own draw."""
        if rate >= 1.0:
            return slice(None)
        drawn = np.frombuffer(self._bytes(b"batch", step, 4 * rows), dtype="<u4")
        return np.flatnonzero(drawn < math.floor(rate * 2.0**32))

    def noised(self, step: int, numbers: Vector, deviation: float) -> Vector:
        """Return the numbers with Gaussian noise of this standard deviation.

        Numbers and noise are multiples of one power of two, 2^-40 deviations or less. So the last bits of a sum, which
        floating point fills unevenly, tell nothing (Mironov, "On significance of the least significant bits for
        differential privacy", 2012). The noise depends on the numbers, too: should the rows have changed since the
        question was answered before, the difference of both answers has noise.
        """
        from scipy.special import ndtri

        grain = 2.0 ** math.floor(math.log2(deviation)) * _GRAIN
        rounded = np.rint(numbers / grain) * grain
        drawn = np.frombuffer(self._bytes(rounded.astype("<f8").tobytes(), step, 8 * rounded.size), dtype="<u8")
        normal: Vector = ndtri(((drawn >> np.uint64(11)) + 0.5) * 2.0**-53)
        noised: Vector = rounded + np.rint(deviation * normal / grain) * grain
        return noised

    def _bytes(self, purpose: bytes, step: int, count: int) -> bytes:
        stream = hashlib.shake_256(self._key)
        stream.update(step.to_bytes(8, "little") + purpose)
        return stream.digest(count)


def simulated_secret(seed: int, client: str) -> bytes:
    """Return the secret of a client in a simulation, whose one process plays both sides: there is nobody to hide from.

    It follows from the seed, so that all engines end in the same x. It protects nothing.
    """
    return hashlib.sha256(f"simulated secret of client {client} in runs of seed {seed}".encode()).digest()

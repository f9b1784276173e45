"""What server and client say to each other: Broadcast down, Update up. Pure values."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

import numpy as np

from zofedht.common.errors import Cause
from zofedht.common.typing import Matrix, Vector

__all__ = [
    "MISSING",
    "NO_BASIS",
    "OWN_ROWS",
    "PROTOCOL",
    "Broadcast",
    "Hello",
    "Member",
    "Question",
    "Status",
    "TrailStep",
    "Update",
    "basis_digest",
    "rounded",
    "vector_digest",
]

NO_BASIS = -1
"""The basis version of a round whose directions are isotropic."""

Status = Literal["ok", "basis-missing", "x-missing", "failed", "stopped"]
"""stopped: an evaluation failed and on-error is stop."""

MISSING: tuple[Status, ...] = ("basis-missing", "x-missing")
"""What a client answers that has lost what the work needs; it is then sent that, within the round."""


def basis_digest(basis: Matrix | None) -> str:
    """Return the sha256 of Q's little-endian float64 bytes, row by row; empty without a basis."""
    if basis is None:
        return ""
    return hashlib.sha256(np.ascontiguousarray(basis, dtype="<f8").tobytes()).hexdigest()


def rounded(array: Matrix, dtype: str) -> Matrix:
    """Return the numbers as they arrive when they are sent as this type; float64 all the same.

    What is too large for the type becomes infinite.
    """
    if dtype == "float64":
        return array
    with np.errstate(over="ignore"):
        return array.astype(dtype).astype(np.float64)


def vector_digest(x: Vector) -> str:
    """Return a short digest of x's little-endian float64 bytes, quick enough for every round."""
    return hashlib.blake2b(np.ascontiguousarray(x, dtype="<f8").tobytes(), digest_size=16).hexdigest()


PROTOCOL = 1
"""Raised when the messages change so that released clients and servers cannot understand each other."""

OWN_ROWS = -1
"""The partition of a client that brings its own rows, or has not been dealt any yet."""


@dataclass(frozen=True)
class Member:
    """A logical client that can be drawn: its name, its share of the data, and what keeps its basis."""

    name: str
    partition: int = OWN_ROWS  # share of the server's data set
    host: str = ""  # the client itself, its connection, or a simulated node
    keeps_x: bool = True  # whether its process lives on between rounds
    moves_only: str = ""  # why its slopes cannot be taken, where its directions are not the server's


@dataclass(frozen=True)
class TrailStep:
    """What moved x in one round whose directions all slots shared: x <- x - sum_k l_k v_k."""

    weight: float  # alpha
    gain: float  # s
    version: int  # of Q
    lengths: Vector  # mean over slots of eta c_k: (K,)


@dataclass(frozen=True)
class Broadcast:
    """One slot of work for one client: what lines 4 and 7 of Algorithm 1 broadcast for its lines 10-18."""

    round: int  # r, 0-based
    slot: int  # position in the round, 0..M-1
    client: str  # name of the logical client
    partition: int  # its share of the data set
    x: Vector  # x_r: (n,)
    seed: int
    step_size: float  # eta_r
    radius: float  # mu
    local_steps: int  # K
    batch_size: int  # b; 0: the whole shard
    slope: str  # central | forward
    weight: float = 0.0  # alpha
    gain: float = 1.0  # s
    version: int = NO_BASIS  # refresh round of Q
    digest: str = ""  # of Q
    rank: int = 0  # tau', columns of Q
    basis: Matrix | None = None  # Q: (n, tau'), only to those who do not hold it
    task: str = ""  # what the client builds its objective from, as JSON
    on_error: str = "drop-slot"  # what a failing evaluation costs: drop-slot | skip-step | stop
    units: str = ""  # digest of the scale and bounds that x is searched in, where the objective has some
    probe: str = "gaussian"  # law of the isotropic part
    kernel: str = "auto"  # auto | numpy | compiled
    uplink: str = "move"  # move | slopes: what the client is to send
    x_digest: str = ""  # of x, where the client is to keep it
    memory: int = 0  # tau, where it is then to make Q by itself
    trail: tuple[TrailStep, ...] | None = None  # from the x that it keeps to this one; x is then empty
    size: int = 0  # n, where x is empty
    dtype: str = "float64"  # of x, Q and the move on the wire; x and Q hold numbers of this type
    direction_slot: int | None = None  # whose directions all slots share, where they do

    @property
    def address(self) -> int:
        """The slot that names the directions: its own unless they are shared."""
        return self.slot if self.direction_slot is None else self.direction_slot

    @property
    def dimension(self) -> int:
        """n, the number of parameters."""
        return int(self.x.shape[0])

    @property
    def needs_basis(self) -> bool:
        """Whether the client must hold Q to do this work."""
        return self.version != NO_BASIS


@dataclass(frozen=True)
class Question:
    """Asks a client for its starting point, or for an evaluation of x on its whole shard."""

    client: str
    partition: int
    seed: int
    task: str
    dimension: int = 0  # n, where the server knows it
    units: str = ""  # digest of the scale and bounds of the x that is to be evaluated, where it has some


@dataclass(frozen=True)
class Hello:
    """How a client introduces itself when it joins over the network."""

    name: str
    instance: str  # of the process: the same one may come back over a new connection
    source: str  # partition | data | objective: what its objective is made from
    partition: int  # OWN_ROWS: waits to be dealt one
    partitions: int  # of how many; 0 with ``partition`` = OWN_ROWS
    examples: int  # rows of the shard; 0 while it waits
    dimension: int  # n; 0 while it waits
    protocol: int
    version: str  # of the package
    draws: str  # digest of directions that everybody can draw
    units: bytes = b""  # scale and bounds, where its objective has some, or their digest where they are long
    names: str = ""  # of the parameters, a line each, where its objective has some, or their digest


@dataclass(frozen=True)
class Update:
    """The answer to one slot."""

    round: int
    slot: int
    client: str
    status: Status = "ok"
    cause: Cause | None = None  # why it failed, or why its first skipped step did,
    step: int | None = None  # in which local step that was
    reason: str = ""  # and the same as a sentence, for people
    move: Vector | None = None  # w_K - x_r: (n,)
    slopes: Vector | None = None  # c_1..c_K, in the place of the move: (K,)
    dtype: str = "float64"  # that the move was rounded to
    draws: str = ""  # digest of directions that everybody can draw, where a move is sent
    sketch: Vector | None = None  # sums of the move that go with the slopes: (PARTS,)
    examples: int = 0  # rows of the shard
    evaluations: int = 0  # single-sample evaluations that the algorithm asked for
    loss: float = float("nan")  # mean loss of all probes of the slot, which its own steps lower
    start_loss: float = float("nan")  # loss of the first probe: that at x_r, up to the radius
    skipped: int = 0  # steps whose evaluation failed under on-error = skip-step: their slope is 0

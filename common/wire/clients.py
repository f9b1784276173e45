"""Clients as the server knows them: who can be drawn, how one introduces itself, and what it is asked beside steps."""

from __future__ import annotations

from dataclasses import dataclass

from zofedht.common.errors import MessageError
from zofedht.common.objective.agreement import DIGEST_BYTES
from zofedht.common.rules import at_least, digest, labels_seen, one_of
from zofedht.common.tensors.agreement import Tensors
from zofedht.common.typing import Vector
from zofedht.common.wire.fields import wired
from zofedht.common.wire.snapshots import SNAPSHOT_VERBS

__all__ = ["OWN_ROWS", "PROTOCOL", "Hello", "Member", "Question"]

PROTOCOL = 1
"""Raised when the messages change so that released clients and servers cannot understand each other."""

OWN_ROWS = -1
"""The shard of a client that brings its own rows, or has not been dealt any yet."""


@dataclass(frozen=True)
class Member:
    """A logical client that can be drawn: its name, its share of the data, and what keeps its basis."""

    name: str
    shard_index: int = OWN_ROWS  # of the server's data set
    host: str = ""  # the client itself, its connection, or a simulated node
    keeps_x: bool = True  # whether its process lives on between rounds
    samples: int = 0  # of its shard, where the server knows it
    moves_only: str = ""  # why its slopes cannot be taken, where its directions are not the server's


@dataclass(frozen=True)
class Question:
    """Asks a client for its starting point, for an evaluation of x on its whole shard, or about parameters in place."""

    client: str
    shard_index: int = wired(at_least(OWN_ROWS))
    seed: int = wired(at_least(0, 2**63 - 1))
    task: str = wired()
    dimension: int = wired(at_least(0), default=0, sent=True)  # n, where the server knows it
    units: str = ""  # digest of the scale and bounds of the x that is to be evaluated, where it has some
    snapshot: str = wired(one_of(SNAPSHOT_VERBS), default="")  # what is asked of parameters in place, if anything is
    start: int = wired(at_least(0, 2**62), default=0)  # the first byte of the part that is asked for or given
    digest: str = wired(digest(), default="")  # of the trail that the part is at the end of, or of what all parts give


@dataclass(frozen=True)
class Hello:
    """How a client introduces itself when it joins over the network."""

    name: str
    instance: str  # of the process: the same one may come back over a new connection
    source: str = wired(one_of(("partition", "data", "objective")))  # what its objective is made from
    shard_index: int = wired(at_least(OWN_ROWS))  # OWN_ROWS: waits to be dealt one
    shard_count: int = wired(at_least(0, 10**6))  # of how many; 0 with ``shard_index`` = OWN_ROWS
    examples: int = wired(at_least(0))  # rows of the shard; 0 while it waits
    dimension: int = wired(at_least(0))  # n; 0 while it waits
    protocol: int = wired(at_least(0))
    version: str = wired()  # of the package
    draw_digest: str = wired()  # digest of directions that everybody can draw
    units: bytes = b""  # scale and bounds, where its objective has some, or their digest where they are long
    names: str = ""  # of the parameters, or of its rows' columns, a line each, where it has some, or their digest
    label: str = ""  # the name of the column that its rows' labels are from, where it has one
    labels: str = wired(labels_seen(), default="")  # the different labels of its own rows, as "0,1"; never counts
    least_index: int = wired(at_least(-1), default=-1)  # that an svmlight file of its own writes; -1: no such file
    most_index: int = wired(at_least(-1), default=-1)
    column_sums: Vector | None = wired(shape=lambda _: (-1,), default=None)  # means, then squares: (2 columns,)
    source_digest: str = wired(digest(), default="")  # of its rows and its objective's code; empty while it waits
    tensors: str = ""  # of parameters in place: what all clients must agree on, as JSON

    def check(self) -> None:
        """Raise MessageError unless the share is one of so many, and the units are those of so many parameters."""
        if self.shard_index >= self.shard_count if self.shard_index != OWN_ROWS else self.shard_count:
            raise MessageError(f"a partition must be I of N > I, or none, got {self.shard_index} of {self.shard_count}")
        if self.tensors and Tensors.of_text(self.tensors).dimension != self.dimension:
            raise MessageError(f"the tensors of a client must have its {self.dimension} parameters")
        if len(self.units) not in (0, DIGEST_BYTES, 24 * self.dimension):
            raise MessageError(
                f"units must hold scale and both bounds of {self.dimension} parameters, or a digest, got"
                f" {len(self.units)} bytes"
            )

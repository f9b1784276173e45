"""What server and client say to each other: Broadcast down, Update up. Pure values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from zofedht.common.choices import WIRE_DTYPES, parse_shapes
from zofedht.common.config.step_spec import StepSpec
from zofedht.common.errors import CAUSES, Cause, MessageError
from zofedht.common.objective.stiff import MOST_STIFF
from zofedht.common.privacy.masking import STAGES, slots_of
from zofedht.common.random.streams import Address
from zofedht.common.rules import MOST_DRAWN, at_least, between, one_of
from zofedht.common.surrogate import FEATURES
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.clients import OWN_ROWS
from zofedht.common.wire.fields import wired

__all__ = [
    "MISSING",
    "MOST_POINTS",
    "NO_BASIS",
    "Broadcast",
    "Status",
    "TrailStep",
    "Update",
]

NO_BASIS = -1
"""The basis version of a round whose directions are isotropic."""

Status = Literal["ok", "basis-missing", "x-missing", "failed", "stopped"]
"""stopped: an evaluation failed and on-error is stop."""

MISSING: tuple[Status, ...] = ("basis-missing", "x-missing")
"""What a client answers that has lost what the work needs; it is then sent that, within the round."""


MOST_POINTS = 1024
"""Points of one message."""


@dataclass(frozen=True)
class TrailStep:
    """What moved x in one round whose directions all slots shared: x <- x - sum_k l_k v_k."""

    subspace_weight: float = wired(between(0.0, 1.0))  # alpha
    subspace_gain: float = wired(at_least(0.0, math.inf))  # s
    shrink: float = wired(between(0.0, 1.0))  # f
    basis_version: int = wired(at_least(NO_BASIS))  # of Q
    lengths: Vector = wired()  # mean over slots of eta c_k: (K,)

    @property
    def size(self) -> int:
        """Its bytes on the wire."""
        return 8 * (4 + len(self.lengths))


@dataclass(frozen=True, kw_only=True)
class Broadcast:
    """One slot of work for one client: what lines 4 and 7 of Algorithm 1 broadcast for its lines 10-18."""

    address: Address  # seed, round and slot
    spec: StepSpec  # how the steps are taken
    client: str  # name of the logical client
    shard_index: int = wired(at_least(OWN_ROWS))  # of the data set
    stage: str = wired(one_of(STAGES), default="")  # of secure aggregation; all but "masked" ask for no steps
    payload: bytes = b""  # what the stage needs
    task: str = wired(default="", sent=True)  # what the client builds its objective from, as JSON
    units: str = ""  # digest of the scale and bounds that x is searched in, where the objective has some
    dtype: str = wired(one_of(WIRE_DTYPES), default="float64")  # of x, Q and the move; x and Q hold such numbers
    x: Vector = wired(layout="array", dtype="", default_factory=lambda: np.empty(0))  # x_r: (n,)
    x_digest: str = ""  # of x, where the client is to keep it
    memory: int = wired(at_least(0, 10**4), default=0)  # tau, where it is then to make Q by itself,
    refresh: int = wired(at_least(0, 10**4), default=0)  # every so many rounds
    # From the x that it keeps to this one, of which only the size is sent.
    trail: tuple[TrailStep, ...] | None = wired(shape=lambda it: (-1, 4 + it["spec"].lengths), default=None)
    sums: Vector | None = wired(shape=lambda it: (it["spec"].pool_size,), default=None)  # of a pool, which lead from x
    origin_digest: str = ""  # of the x from which the sums lead to this one, and which is not sent where it is held
    size: int = wired(at_least(0), key="dimension", default=0)  # n, where x is empty
    # An earlier x, with which x is compared on the samples of the first step: (n,)
    anchor: Vector | None = wired(shape=lambda it: (it["size"] or it["x"].shape[0],), default=None)
    # Where F is to be evaluated, in the place of steps: (points, n), in the units of x,
    points: Matrix | None = wired(shape=lambda it: (-1, it["size"] or max(1, it["x"].shape[0])), default=None)
    repeats: int = wired(between(1, 2), default=1)  # how often, each time on samples of its own
    # from w to where slopes are measured again: (n,)
    shift: Vector | None = wired(shape=lambda it: (it["size"] or it["x"].shape[0],), default=None)
    # a = h_i - h, of which each slope c along v becomes c - v.a: (n,)
    control: Vector | None = wired(shape=lambda it: (it["size"] or it["x"].shape[0],), default=None)
    # What the client saw of F before, which its surrogate is fitted to: points, with F in the last column,
    queries: Matrix | None = wired(shape=lambda it: (-1, 1 + (it["size"] or it["x"].shape[0])), default=None)
    surplus: Vector | None = wired(shape=lambda it: (FEATURES,), default=None)  # and what the others know beyond it
    basis_version: int = wired(at_least(NO_BASIS), default=NO_BASIS, sent=True)  # refresh round of Q
    basis_digest: str = ""  # of Q
    basis_rank: int = wired(at_least(0), default=0)  # tau', columns of Q
    # Q: (n, tau'), only to those who do not hold it
    basis: Matrix | None = wired(
        shape=lambda it: (
            it["spec"].pool_size if it["spec"].law == "weighted-pool" else it["size"] or it["x"].shape[0],
            it["basis_rank"],
        ),
        dtype="",
        default=None,
    )

    @property
    def round(self) -> int:
        """r, 0-based."""
        return self.address.round

    @property
    def slot(self) -> int:
        """The position in the round, 0..M-1."""
        return self.address.slot

    @property
    def dimension(self) -> int:
        """n, the number of parameters."""
        return int(self.x.shape[0])

    @property
    def needs_basis(self) -> bool:
        """Whether the client must hold Q to do this work."""
        return self.basis_version != NO_BASIS

    @property
    def asks_steps(self) -> bool:
        """Whether the client is to take steps, and not only its part in an agreement on masks."""
        return self.stage in ("", "masked")

    @property
    def answers(self) -> int:
        """The values of F that are asked for."""
        return 0 if self.points is None else len(self.points) * self.repeats

    def evaluations(self, shard: int) -> int:
        """Return the evaluations on single samples that are asked for, of a shard of so many."""
        if self.points is None:
            return self.spec.evaluations(shard)
        return self.answers * self.spec.samples_of_points(shard)

    def check(self) -> None:
        """Raise MessageError unless the fields fit together."""
        if self.spec.in_place and (self.stage or self.spec.privacy != "none" or self.spec.secure_aggregation):
            raise MessageError("slopes in place have no noise and no mask, which the message asks for")
        if not self.asks_steps:
            return
        if self.points is not None:
            if self.x.size == 0:
                raise MessageError("a broadcast must hold x beside the points")
            if self.stage or self.spec.privacy != "none":
                raise MessageError("values of F at points have no noise and no mask, which the message asks for")
            if not 1 <= len(self.points) <= MOST_POINTS or not np.all(np.isfinite(self.points)):
                raise MessageError(f"points must be 1 to {MOST_POINTS} vectors of finite numbers")
            if self.spec.slopes != self.answers:  # by which a device's owner bounds a slot
                raise MessageError(f"local-steps must be the {self.answers} values asked for, got {self.spec.slopes}")
            return
        if self.spec.in_place:
            self._check_in_place()
            return
        led = self.trail is not None or (self.sums is not None and self.size > 0)
        if led == (self.size == 0) or led == (self.x.size > 0):
            raise MessageError("a broadcast must hold x, or the dimension and a trail or sums in the place of x")
        if (self.sums is not None) != bool(self.origin_digest) or (self.trail is not None and self.sums is not None):
            raise MessageError("sums must come with an origin-digest, and without a trail")
        if bool(self.memory) != bool(self.refresh):
            raise MessageError(f"memory must come with refresh, got {self.memory} and {self.refresh}")
        if self.needs_basis != bool(self.basis_digest):
            raise MessageError("basis-digest must come with a basis-version, and with nothing else")
        if self.spec.slopes > MOST_DRAWN:
            raise MessageError(f"a slot may have at most {MOST_DRAWN} slopes, got {self.spec.slopes}")
        if sum(rows * columns for rows, columns in parse_shapes(self.spec.blocks)) > (self.size or self.x.size):
            raise MessageError(f"blocks must have at most as many parameters as x, got {self.spec.blocks!r}")
        if self.spec.shifted != (self.shift is not None):
            raise MessageError("a shift must come where steps are shifted, and nowhere else")
        if self.queries is not None and not (self.spec.queries and 0 < len(self.queries) <= self.spec.kept_queries):
            raise MessageError(f"queries must be 1 to {self.spec.kept_queries}, where slopes are those of a surrogate")
        drawn = self.spec.local_steps * self.spec.batch_size
        if drawn > MOST_DRAWN:
            raise MessageError(f"local-steps times batch-size must be at most {MOST_DRAWN}, got {drawn}")

    def _check_in_place(self) -> None:
        """Raise MessageError unless the message holds the whole trail, or its end, and nothing of the size of x."""
        lengths = self.spec.lengths
        if self.address.directions.slot >= self.spec.slots:
            raise MessageError(f"a slot in place must be one of {self.spec.slots}, got {self.address.directions.slot}")
        if (self.x.size or (self.size if self.trail is not None else 0)) != self.round * lengths:
            raise MessageError(f"a trail in place must have {lengths} step lengths for each of {self.round} rounds")
        vectors = ("anchor", "control", "shift", "basis", "sums", "queries", "surplus")
        odd = [name for name in vectors if getattr(self, name) is not None]
        if odd or self.needs_basis:
            raise MessageError(f"a broadcast in place must hold no vectors, got {', '.join(odd) or 'a basis'}")


@dataclass(frozen=True)
class Update:
    """The answer to one slot."""

    round: int = wired(at_least(0))
    slot: int = wired(at_least(0))
    client: str = wired()
    status: Status = wired(one_of(get_args(Status)), default="ok", sent=True)
    cause: Cause | None = wired(one_of(CAUSES), default=None)  # why it failed, or why its first skipped step did,
    step: int | None = wired(at_least(0), default=None)  # in which local step that was
    reason: str = wired(default="", sent=True)  # and the same as a sentence, for people
    move: Vector | None = wired(layout="array", dtype="", default=None)  # w_K - x_r: (n,)
    values: Vector | None = wired(shape=lambda _: (-1,), default=None)  # of F at the points, NaN where it failed
    slopes: Vector | None = wired(shape=lambda _: (-1,), default=None)  # c_1..c_K, in the place of the move: (K,)
    dtype: str = wired(one_of(WIRE_DTYPES), default="float64")  # that the move was rounded to
    draw_digest: str = ""  # digest of directions that everybody can draw, where a move is sent
    sketch: Vector | None = wired(shape=lambda _: (-1,), default=None)  # of the move, with the slopes: (SKETCH_SUMS,)
    curvatures: Vector | None = wired(shape=lambda _: (-1,), default=None)  # v'Hv, where slopes take three points: (K,)
    changes: Vector | None = wired(shape=lambda _: (-1,), default=None)  # of slopes along a shift: (K,)
    # F where a slot that fits a surrogate asked it, in the last column: (queries, n + 1)
    queries: Matrix | None = wired(
        shape=lambda it: (-1, 1 + (0 if it["move"] is None else it["move"].size)), default=None
    )
    examples: int = wired(layout="apart", default=0)  # rows of the shard
    evaluations: int = wired(at_least(0, 2**63 - 1), default=0, sent=True)  # that the algorithm asked for
    loss: float = wired(default=math.nan, sent=True)  # mean loss of all probes of the slot, which its steps lower
    start_loss: float = wired(default=math.nan, sent=True)  # of the first probe: that at x_r, up to the radius
    # the objective's stiff directions at x_r, where they were asked for and there are any: (n, directions)
    stiff: Matrix | None = wired(shape=lambda it: (-1, max(1, it["stiff_rank"])), default=None)
    stiff_rank: int = wired(at_least(0, MOST_STIFF), default=0)  # how many
    squares: float = wired(default=0.0)  # sum of c^2 over the measured steps
    bent: float = wired(default=0.0)  # sum of s^2 h over the same steps, h being the curvature along v
    lengths: float = wired(default=0.0)  # sum of s^2, s = eta c or the radius
    gap: float = wired(default=0.0)  # F(x_r) - F(anchor)
    stage: str = wired(one_of(STAGES), default="")  # of secure aggregation
    payload: bytes = b""  # what is told in this stage, in the place of a move or slopes
    accused: Vector | None = wired(shape=lambda _: (-1,), default=None)  # slots whose sealed shares cannot be opened
    in_place: bool = wired(between(0, 1), default=False)  # then slopes come without a sketch of a move
    skipped: int = wired(at_least(0), default=0)  # steps or values that failed; the slope of such a step is 0

    def check(self) -> None:
        """Raise MessageError unless a slot that is done has a move, slopes or values, and no other has any."""
        if self.accused is not None and (self.stage or self.status != "failed" or not slots_of(self.accused)):
            raise MessageError("accused slots must come with an answer that failed, and with no stage")
        held = [name for name in ("move", "slopes", "sketch", "values") if getattr(self, name) is not None]
        if self.stage and (held or self.status != "ok" or not self.payload):
            raise MessageError(f"a stage of secure aggregation must be answered by its payload alone, got {held}")
        if self.stage:
            return
        done = [["slopes"]] if self.in_place else [["move"], ["slopes", "sketch"], ["values"]]
        if held not in (done if self.status == "ok" else [[]]):
            got = " and ".join(held) or "none of these"
            raise MessageError(f"an answer must hold a move, slopes and a sketch, or values, where it is ok, got {got}")

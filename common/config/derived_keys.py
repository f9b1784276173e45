"""What follows from several keys: the algorithm's row, the step size of a round, the end of a run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zofedht.common.algorithms import ALGORITHMS, Algorithm
from zofedht.common.choices import AUTO, CLIENTS_HOLD_DATA, UNSAID
from zofedht.common.config.step_spec import StepSpec
from zofedht.common.keys.keys import Keys

__all__ = ["START_WEIGHT", "DerivedKeys"]

START_WEIGHT = 0.3
"""What subspace-weight = auto starts from, and never exceeds."""

_ROUNDS_BETWEEN = 10

_PAPER_STEP = 1.0
"""The first step size of a built-in model, unless given: the paper's."""

_FEW_ANSWERS = 12
"""Of a round that asks for evaluations: 6 candidates of 3 parameters at 2 clients."""


@dataclass(frozen=True)
class DerivedKeys(Keys):
    """Properties of the settled keys."""

    @property
    def row(self) -> Algorithm:
        """The algorithm's row of the table."""
        return ALGORITHMS[self.algorithm]

    @property
    def row_defaults(self) -> Mapping[str, Any]:
        """The values that the algorithm's row gives to keys which nobody set."""
        return {**self.row.defaults, **(self.row.own if self.objective else {})}

    @property
    def asks_points(self) -> bool:
        """Whether slots evaluate F at points, in the place of local steps."""
        return self.algorithm in ALGORITHMS and self.row.asks_points

    @property
    def most_slots(self) -> int:
        """The slots of a round, at most: all clients where the algorithm says how many it needs."""
        return self.num_clients if self.asks_points else self.clients_per_round

    @property
    def weight(self) -> float:
        """The weight alpha that the algorithm really uses, or starts from: 0 for the isotropic rows."""
        if not self.row.follows_trajectory:
            return 0.0
        return START_WEIGHT if isinstance(self.subspace_weight, str) else self.subspace_weight

    @property
    def tolerated(self) -> int:
        """How many slots of a round may be false: as ``tolerate`` says, or three in ten."""
        return self.tolerate or 3 * self.most_slots // 10

    @property
    def unmasking(self) -> int:
        """How many clients must stay until a sum is unmasked: as ``share-threshold`` says, or two thirds."""
        return self.share_threshold or max(2, -(-2 * self.clients_per_round // 3))

    @property
    def clients_tell_losses(self) -> bool:
        """Whether a client may be asked for its loss: under local privacy and secure aggregation nothing hides it."""
        return self.privacy != "local" and not self.secure_aggregation

    @property
    def weight_is_auto(self) -> bool:
        """Whether the run steers the weight."""
        return self.row.follows_trajectory and self.subspace_weight == AUTO

    @property
    def step_is_auto(self) -> bool:
        """Whether the run measures its step size: unless it is given, for somebody else's function.

        Nobody knows the scale of such a function.
        """
        return self.step_size == AUTO or (self.step_size == UNSAID and bool(self.objective) and not self.asks_points)

    @property
    def first_step(self) -> float:
        """eta_0, the step size of the first round, where it is a number. Raises ValueError where step-size is auto."""
        if self.step_is_auto:
            raise ValueError("step-size is auto: the step of a round depends on the rounds before it")
        return _PAPER_STEP if isinstance(self.step_size, str) else self.step_size

    @property
    def batch(self) -> int:
        """The minibatch that the algorithm really uses: 0 (the whole shard) for the full-batch rows."""
        return 0 if self.row.data == "shard" else self.batch_size

    def progress(self, round_: int, evaluations: int) -> float:
        """Return the part of the run that is over before 0-based round r, with so many evaluations spent until then.

        The larger of the parts of rounds and budget, where both are set: the first to be used up ends the run. It is
        in [0, 1) in every round that is run, since a run ends as soon as either is used up.
        """
        of_rounds = round_ / self.rounds if self.rounds else 0.0
        of_budget = evaluations / self.budget if self.budget else 0.0
        return max(of_rounds, of_budget)

    def step(self, round_: int, evaluations: int = 0) -> float:
        """Return eta_r, the step size of 0-based round r, where step-size is a number.

        ``evaluations`` are those that the run has spent before the round; only the linear schedule looks at them.

        Raises ValueError where step-size is auto.
        """
        step = self.first_step * min(1.0, (round_ + 1) / max(1, self.warm_up_rounds)) ** 2
        match self.step_schedule:
            case "inverse-sqrt":
                return step / math.sqrt(round_ + 1)
            case "linear":
                return step * (1.0 - self.progress(round_, evaluations))
            case _:
                return step

    def step_spec(self, **of_the_round: float | str) -> StepSpec:
        """Return how steps are taken; a round adds ``step_size`` and, with a guide, how directions follow it."""
        mine, wanted = ({field.name for field in dataclasses.fields(kind)} for kind in (Keys, StepSpec))
        follow_from_others = {
            "batch_size": self.batch,
            "law": self.row.law,
            "blocks": "" if self.blocks == AUTO else self.blocks,
            "side_rounds": self.refresh if self.row.low_rank or self.row.law == "subset" else 1,
            "slots": self.clients_per_round if self.in_place and self.directions == "per-slot" else 1,
            "kept_queries": self.memory if self.slope == "surrogate" else 1,
            "subspace_weight": 0.0,
            "shrink": 1.0,
        }
        return StepSpec(**{name: getattr(self, name) for name in mine & wanted} | follow_from_others | of_the_round)

    def blocks_of(self, dimension: int) -> str:
        """Return the shapes of the matrices that x begins with, where directions of low rank need them."""
        if self.blocks != AUTO:
            return self.blocks
        last = 2 * self.hidden_units + 1 if self.mlp_bias else self.hidden_units
        inner = (dimension - last) // self.hidden_units
        return f"{inner}x{self.hidden_units}" if self.model == "mlp" and not self.objective and inner > 0 else ""

    @property
    def warm_up_rounds(self) -> int:
        """The rounds of the warm-up: as ``warm-up`` says, else the algorithm's part of the rounds.

        Where only a budget ends the run, its rounds are those that it pays for with minibatches; with whole shards
        nobody knows them, and there is no warm-up.
        """
        if not isinstance(self.warm_up, str):
            return self.warm_up
        return math.ceil(self.row.warm_up * self.expected_rounds)

    @property
    def expected_rounds(self) -> int:
        """The rounds that the run will have, by ``rounds`` and by what the budget pays for; 0: nobody knows."""
        of_round = self.step_spec(step_size=0.0).evaluations(self.batch) * self.clients_per_round
        paid = math.ceil(self.budget / of_round) if of_round else 0
        return min((count for count in (self.rounds, paid) if count), default=0)

    @property
    def affordable_every(self) -> int:
        """Rounds between full evaluations of somebody else's objective, unless they are given.

        Ten, or more where full evaluations of an F without samples would cost more than a tenth of the rounds.
        """
        of_round = max(1, self.clients_per_round * self.step_spec(step_size=0.0).evaluations(1))
        if self.asks_points:
            of_round = _FEW_ANSWERS
        return max(_ROUNDS_BETWEEN, math.ceil(_ROUNDS_BETWEEN * self.num_clients / of_round))

    @property
    def may_return_best(self) -> bool:
        """Whether the best x may be returned.

        Which one it is tells something of losses that privacy is to hide, and a false client's loss may decide it.
        """
        return self.privacy == "none" and not self.secure_aggregation and not self.aggregates_robustly

    @property
    def aggregates_robustly(self) -> bool:
        """Whether what a false client says is to do no harm; points are then asked of all sites."""
        return self.aggregation != "mean"

    @property
    def keeps_best(self) -> bool:
        """Whether the run keeps its best x and returns it."""
        return self.return_x == "best"

    @property
    def server_has_rows(self) -> bool:
        """Whether the server itself can evaluate x: it has the data set and builds the model."""
        return not (self.objective or self.in_place) and self.dataset != CLIENTS_HOLD_DATA

    @property
    def returns_last(self) -> bool:
        """Whether a run returns the last x unless it is told otherwise: in place, another x is a long way back."""
        return self.server_has_rows or self.in_place

    def is_spent(self, evaluations: int) -> bool:
        """Whether so many evaluations use up the budget; never where there is none."""
        return self.budget > 0 and evaluations >= self.budget

    def is_over(self, round_: int, evaluations: int) -> bool:
        """Whether a run ends before 0-based round r, with so many evaluations spent until then."""
        return self.is_spent(evaluations) or (self.rounds > 0 and round_ >= self.rounds)

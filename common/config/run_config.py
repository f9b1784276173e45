"""The run config: all keys, checked in one place, and what follows from several of them.

The same keys serve ``--set``, ``--config FILE.toml``, ``flwr run . --run-config`` and Python. A key
is the field's name with dashes. ``RunConfig.from_mapping`` reports all problems at once.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zofedht.common.algorithms import ALGORITHMS, Algorithm
from zofedht.common.choices import AUTO, CLIENTS_HOLD_DATA, UNSAID, parse_shapes
from zofedht.common.config.checking import checked
from zofedht.common.config.contradictions import KEYS_OF_STEPS, contradictions
from zofedht.common.config.keys import Keys, Scalar, dashed
from zofedht.common.config.step_spec import StepSpec
from zofedht.common.errors import ConfigError
from zofedht.common.space.space import Space

__all__ = ["FREE_KEYS", "START_WEIGHT", "RunConfig", "Scalar", "dashed"]

START_WEIGHT = 0.3
"""What subspace-weight = auto starts from, and never exceeds."""

_ROUNDS_BETWEEN = 10

_PAPER_STEP = 1.0
"""The first step size of a built-in model, unless given: the paper's."""


_FEW_PARAMETERS = 50
"""Up to which evaluations are the default for an objective of one's own."""

_FEW_ANSWERS = 12
"""Of a round that asks for evaluations: 6 candidates of 3 parameters at 2 clients."""

_FIELDS = dataclasses.fields(Keys)
_DEFAULTS = {dashed(field.name): field.default for field in _FIELDS}

_TASK_KEYS = (
    "dataset", "data-dir", "train-rows", "positive-labels", "label-column", "features", "csv-header",
    "svmlight-indices", "preprocess", "standardize-by", "partition", "dirichlet-alpha", "model",
    "hidden-units", "mlp-bias", "l2", "objective", "parameters", "num-clients", "seed",
)  # fmt: skip

_STEP_KEYS = ("algorithm", "probe", "radius", "slope", "slopes-per-step", "local-steps", "batch-size", "kernel")

FREE_KEYS = frozenset(
    {
        "rounds",
        "budget",
        "evaluate-every",
        "return-x",
        "checkpoint-every",
        "out",
        "round-timeout",
        "max-retries",
        "on-error",
        "data-dir",
        "downlink",
    }
)
"""Keys that may change when a run is resumed: they enter no number of the rounds that were run.

Rounds and budget enter those to come where the step schedule is linear: with more of them it is longer.
"""


@dataclass(frozen=True)
class RunConfig(Keys):
    """All that defines a run. Frozen: two runs with equal configs end in the same x, bit for bit.

    ``to_mapping`` tells what was said, ``default`` included, and ``replace`` changes that. The fields hold what
    follows: for ``default`` the value of the algorithm's row, else that of the key.
    """

    def __post_init__(self) -> None:
        """Give each key that was left to the algorithm its value."""
        object.__setattr__(self, "_said", {dashed(field.name): getattr(self, field.name) for field in _FIELDS})
        defaults = self.row.defaults if self.algorithm in ALGORITHMS else {}
        for field in _FIELDS:
            otherwise = field.metadata["otherwise"]
            if otherwise is not None and getattr(self, field.name) == UNSAID:
                value = otherwise(self) if callable(otherwise) else otherwise
                object.__setattr__(self, field.name, defaults.get(field.name, value))

    def to_mapping(self) -> dict[str, Scalar]:
        """Return all keys as they were said, dashed, in the order of the table."""
        said: dict[str, Scalar] = self.__dict__["_said"]
        return dict(said)

    def settled(self) -> dict[str, Scalar]:
        """Return all keys as the run takes them, dashed, in the order of the table."""
        return {dashed(field.name): getattr(self, field.name) for field in _FIELDS}

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> RunConfig:
        """Check a mapping of dashed keys and return the config.

        Raises ConfigError with one sentence for every unknown key, wrong type, value out of range and
        contradiction between keys.
        """
        values, problems = checked(mapping)
        config = cls(**values)  # type: ignore[arg-type]
        problems += contradictions(config)
        if problems:
            raise ConfigError([problem.sentence for problem in problems])
        return config

    @classmethod
    def of_part(cls, mapping: Mapping[str, Any]) -> RunConfig:
        """Return the config of some of a run's keys, as a client is told them.

        Rules between keys were checked where the config was made. A part does not know the other side of such a rule.
        Raises ConfigError for an unknown key, a wrong type and a value out of range.
        """
        values, problems = checked(mapping)
        if problems:
            raise ConfigError([problem.sentence for problem in problems])
        return cls(**values)  # type: ignore[arg-type]

    def replace(self, **changes: Any) -> RunConfig:
        """Return a checked copy with some fields (underscored names) changed."""
        return self.from_mapping(self.to_mapping() | {dashed(name): value for name, value in changes.items()})

    def fitted(self, dimension: int, space: Space | None = None) -> RunConfig:
        """Return the config with at most n moves and n directions in a frame, and a radius that reaches whole values.

        An algorithm that was not said is auto for a few parameters of somebody's own objective.
        More moves or directions are never independent, and slopes within the cell of an integer are 0. Raises
        ConfigError where the radius was given and is too small for an integer or a choice.
        """
        if self.objective and self.may_search(dimension):
            return self.replace(algorithm=AUTO)
        changes: dict[str, Any] = {}
        if self.row.follows_trajectory and self.memory > dimension:
            changes["memory"] = dimension
        name, least = ("", 0.0) if space is None or self.asks_points else space.least_radius
        if self.radius < least:
            if self.to_mapping()["radius"] != UNSAID:
                raise ConfigError(
                    [
                        f"radius must be at least {least:.4g}, half a step of {name!r}, got {self.radius:g}: slopes"
                        " within a step are 0 (algorithm = cma-es needs no radius)"
                    ]
                )
            changes["radius"] = least
        if self.probe == "frame" and self.slopes_per_step > dimension:
            changes["slopes_per_step"] = dimension
        return self.replace(**changes) if changes else self

    def check_dimension(self, dimension: int) -> None:
        """Raise ConfigError where the algorithm is for fewer parameters, or the config was not fitted to them."""
        if 0 < self.row.most_parameters < dimension:
            raise ConfigError(
                [
                    f"algorithm must be for n = {dimension:,} parameters, and {self.algorithm} is for at most"
                    f" {self.row.most_parameters} (zofedht is for any number)"
                ]
            )
        if dimension < (size := sum(rows * columns for rows, columns in parse_shapes(self.blocks))):
            raise ConfigError([f"blocks must have at most n = {dimension} parameters, got {size} in {self.blocks!r}"])
        if self.probe == "frame" and self.slopes_per_step > dimension:
            raise ConfigError(
                [f"slopes-per-step must be at most n = {dimension} for a frame, got {self.slopes_per_step}"]
            )
        if self.row.follows_trajectory and self.memory > dimension:
            raise ConfigError([f"memory must be at most n = {dimension}, the number of parameters, got {self.memory}"])

    @property
    def row(self) -> Algorithm:
        """The algorithm's row of the table."""
        return ALGORITHMS[self.algorithm]

    @property
    def asks_points(self) -> bool:
        """Whether slots evaluate F at points, in the place of local steps."""
        return self.algorithm in ALGORITHMS and self.row.asks_points

    @property
    def keys_of_steps(self) -> list[str]:
        """The keys of local steps that were set."""
        return [key for key in KEYS_OF_STEPS if self.to_mapping()[key] != _DEFAULTS[key]]

    def may_search(self, dimension: int) -> bool:
        """Whether an objective of somebody's own with n parameters is searched by evaluations: nothing else is said."""
        unsaid = self.to_mapping()["algorithm"] == UNSAID
        return unsaid and dimension <= _FEW_PARAMETERS and not self.keys_of_steps

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
        return self.tolerate or 3 * self.clients_per_round // 10

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
            "side_rounds": self.refresh if self.row.low_rank else 1,
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
        """Whether the best x may be returned: which one it is tells something of losses that privacy is to hide."""
        return self.privacy == "none" and not self.secure_aggregation

    @property
    def keeps_best(self) -> bool:
        """Whether the run keeps its best x and returns it."""
        return self.return_x == "best"

    @property
    def server_has_rows(self) -> bool:
        """Whether the server itself can evaluate x: it has the data set and builds the model."""
        return not self.objective and self.dataset != CLIENTS_HOLD_DATA

    def is_spent(self, evaluations: int) -> bool:
        """Whether so many evaluations use up the budget; never where there is none."""
        return self.budget > 0 and evaluations >= self.budget

    def is_over(self, round_: int, evaluations: int) -> bool:
        """Whether a run ends before 0-based round r, with so many evaluations spent until then."""
        return self.is_spent(evaluations) or (self.rounds > 0 and round_ >= self.rounds)

    @functools.cached_property
    def task(self) -> str:
        """What a client needs to build its objective, as JSON with sorted keys."""
        return self._told(_TASK_KEYS)

    @functools.cached_property
    def preparation(self) -> str:
        """What a client needs to be ready for its first slot: the task and the kind of the steps, as JSON."""
        return self._told(_TASK_KEYS + _STEP_KEYS)

    def _told(self, keys: Sequence[str]) -> str:
        everything = self.to_mapping()
        return json.dumps({key: everything[key] for key in keys}, sort_keys=True)

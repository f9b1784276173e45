"""The run config: all keys, checked in one place, and what follows from several of them.

The same keys serve ``--set``, ``--config FILE.toml``, ``flwr run . --run-config`` and Python. A key
is the field's name with dashes. ``RunConfig.from_mapping`` reports all problems at once.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zofedht.common.algorithms import ALGORITHMS
from zofedht.common.choices import AUTO, UNSAID, parse_shapes
from zofedht.common.config.checking import checked
from zofedht.common.config.contradictions import KEYS_OF_STEPS, RULES_OF_VALUES, contradictions
from zofedht.common.config.derived_keys import DerivedKeys
from zofedht.common.errors import ConfigError, MessageError
from zofedht.common.keys.keys import Keys, Scalar, dashed
from zofedht.common.space.space import Space

__all__ = ["FREE_KEYS", "RunConfig", "Scalar", "dashed"]

_FEW_PARAMETERS = 50
"""Up to which evaluations are the default for an objective of one's own."""

_FIELDS = dataclasses.fields(Keys)
_DEFAULTS = {dashed(field.name): field.default for field in _FIELDS}

_TASK_KEYS = (
    "dataset", "data-dir", "train-rows", "positive-labels", "label-column", "features", "csv-header",
    "svmlight-indices", "preprocess", "standardize-by", "partition", "dirichlet-alpha", "model",
    "hidden-units", "mlp-bias", "l2", "objective", "parameters", "in-place", "num-clients", "seed",
)  # fmt: skip

_STEP_KEYS = ("algorithm", "probe", "radius", "slope", "slopes-per-step", "local-steps", "batch-size", "kernel")

_PLACE_KEYS = (
    "directions", "clients-per-round", "refresh", "rank", "pool-size", "subset-share", "subspace-weight", "covariance",
    "memory", "shrink", "warm-up",
)  # fmt: skip
"""What else says which directions a trail in place is along."""

FREE_KEYS = frozenset(
    {
        "rounds",
        "budget",
        "evaluate-every",
        "return-x",
        "checkpoint-every",
        "out",
        "round-timeout",
        "ray-address",
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
class RunConfig(DerivedKeys):
    """All that defines a run. Frozen: two runs with equal configs end in the same x, bit for bit.

    ``to_mapping`` tells what was said, ``default`` included, and ``replace`` changes that. The fields hold what
    follows: for ``default`` the value of the algorithm's row, else that of the key.
    """

    def __post_init__(self) -> None:
        """Give each key that was left to the algorithm its value."""
        object.__setattr__(self, "_said", {dashed(field.name): getattr(self, field.name) for field in _FIELDS})
        defaults = self.row_defaults if self.algorithm in ALGORITHMS else {}
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

    @classmethod
    @functools.lru_cache(maxsize=1)  # each question of a run brings the same task
    def of_task(cls, task: str) -> RunConfig:
        """Return the config of a ``task``. Raises MessageError for another text, and ConfigError as ``of_part``."""
        try:
            return cls.of_part(json.loads(task))
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise MessageError(f"the task that came with a question is not a config: {error}") from error

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
    def keys_of_steps(self) -> list[str]:
        """The keys of local steps that were set."""
        return [key for key in KEYS_OF_STEPS if self.to_mapping()[key] != _DEFAULTS[key]]

    def may_search(self, dimension: int) -> bool:
        """Whether an objective of somebody's own with n parameters is searched by evaluations: nothing else is said."""
        unsaid = self.to_mapping()["algorithm"] == UNSAID and not self.in_place
        asks = unsaid and dimension <= _FEW_PARAMETERS and not self.keys_of_steps
        return asks and self.aggregation in RULES_OF_VALUES

    @functools.cached_property
    def task(self) -> str:
        """What a client needs to build its objective, as JSON with sorted keys."""
        return self._told(_TASK_KEYS + _STEP_KEYS + _PLACE_KEYS if self.in_place else _TASK_KEYS)

    @functools.cached_property
    def preparation(self) -> str:
        """What a client needs to be ready for its first slot: the task and the kind of the steps, as JSON."""
        return self._told(_TASK_KEYS + _STEP_KEYS + (_PLACE_KEYS if self.in_place else ()))

    def _told(self, keys: Sequence[str]) -> str:
        everything = self.to_mapping()
        return json.dumps({key: everything[key] for key in keys}, sort_keys=True)

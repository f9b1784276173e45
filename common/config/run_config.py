"""The run config: every key with its default, unit, symbol and rule, checked in one place.

The same keys serve ``--set``, ``--config FILE.toml``, ``flwr run . --run-config`` and Python. A key
is the field's name with dashes. ``RunConfig.from_mapping`` reports all problems at once.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zofedht.common.algorithms import ALGORITHMS, UPLINKS, Algorithm
from zofedht.common.config.rules import (
    AUTO,
    UNSAID,
    AutoOr,
    Rule,
    at_least,
    auto_or,
    between,
    labels,
    one_of,
    positive,
    preprocessing,
)
from zofedht.common.data.partition import PARTITIONS
from zofedht.common.directions.probes import PROBES
from zofedht.common.errors import ConfigError
from zofedht.common.models.table import MODELS
from zofedht.common.random.kernels import KERNELS
from zofedht.common.wire.messages import ON_ERROR, WIRE_DTYPES

__all__ = ["CLIENTS_HOLD_DATA", "FREE_KEYS", "LEAST_LOCAL_STEPS", "START_WEIGHT", "RunConfig", "Scalar", "dashed"]

Scalar = str | int | float | bool

START_WEIGHT = 0.3
"""What subspace-weight = auto starts from, and never exceeds."""

PAPER_STEP = 1.0
"""The first step size of a built-in model, unless given: the paper's."""

LEAST_LOCAL_STEPS = 5
"""Of fewer local steps, the mean loss of a slot says next to nothing about where they lead: too few for auto."""


def _key(default: Any, meaning: str, *, symbol: str = "-", unit: str = "-", rule: Rule | None = None) -> Any:
    """A config field; the metadata feeds the checks, the table of docs/config.md and pyproject.toml's test."""
    return dataclasses.field(
        default=default, metadata={"meaning": meaning, "symbol": symbol, "unit": unit, "rule": rule}
    )


@dataclass(frozen=True)
class RunConfig:
    """All that defines a run. Frozen: two runs with equal configs end in the same x, bit for bit."""

    # data
    dataset: str = _key(
        "digits",
        "data set by name (digits, mnist, fashion-mnist, rcv1), or a file's path; clients: their own rows (serve)",
    )
    data_dir: str = _key("", "folder of the large sets; empty: the user's cache folder", unit="path")
    train_rows: int = _key(0, "random subset of the training rows; 0: all", unit="rows", rule=at_least(0))
    positive_labels: str = _key(
        "auto", "labels of class 1, such as `5-9` or `1,3`; auto: 5-9, or the larger of two", rule=labels()
    )
    preprocess: str = _key(
        "bias,unit-norm",
        "steps in order: bias (a column of ones), unit-norm (rows), or none",
        rule=preprocessing(),
    )
    partition: str = _key("iid", "how rows are dealt to clients", rule=one_of(PARTITIONS))
    dirichlet_alpha: float = _key(0.5, "concentration of the dirichlet partition", rule=positive())
    # objective
    model: str = _key("logistic", "built-in objective", rule=one_of(MODELS))
    hidden_units: int = _key(50, "width of the mlp's hidden layer", unit="units", rule=at_least(1))
    mlp_bias: bool = _key(False, "whether both layers of the mlp have biases")
    l2: float = _key(0.0, "adds l2/2 |w|^2 to a built-in objective", rule=at_least(0.0))
    objective: str = _key("", "your own objective as `module:factory`; replaces dataset and model")
    # algorithm
    algorithm: str = _key("zofedht", "row of the algorithm table", rule=one_of(ALGORITHMS))
    covariance: str = _key(
        "trace",
        "s of the trajectory part: trace (n/tau') or paper (1)",
        symbol="s",
        rule=one_of(("trace", "paper")),
    )
    subspace_weight: float | str = _key(
        0.3,
        "weight of the trajectory part; auto: .3 as long as clients agree along the trajectory, else less",
        symbol="alpha",
        rule=auto_or(between(0.0, 1.0, "0 ignores the trajectory")),
    )
    memory: int = _key(
        5,
        "trajectory length and refresh period; at most n, the number of parameters, is used",
        symbol="tau",
        unit="rounds",
        rule=at_least(1),
    )
    slope: str = _key("central", "two-point slope", symbol="c", rule=one_of(("central", "forward")))
    probe: str = _key(
        "gaussian",
        "law of a direction's parts: gaussian (the paper's), rademacher (signs) or sphere",
        symbol="v1, v2",
        rule=one_of(PROBES),
    )
    radius: float = _key(1e-4, "smoothing radius", symbol="mu", rule=positive())
    step_size: float | str = _key(
        UNSAID,
        "first step size; auto: measured in the first rounds; default: auto for your own objective, else 1",
        symbol="eta_0",
        rule=auto_or(positive(), UNSAID),
    )
    step_schedule: str = _key(
        AUTO,
        "eta_0/sqrt(r+1), eta_0 (1-p) with p the part of the rounds or the budget that is over, or constant; auto:"
        " linear where step-size is auto, else inverse-sqrt",
        symbol="eta_r",
        rule=one_of((AUTO, "inverse-sqrt", "linear", "constant")),
    )
    local_steps: int = _key(50, "steps of a slot", symbol="K", unit="steps", rule=at_least(1))
    batch_size: int = _key(
        64,
        "samples of a step, drawn with replacement; 0: the whole shard",
        symbol="b",
        unit="samples",
        rule=at_least(0),
    )
    init: str = _key(
        "auto",
        "start: zeros, ones, random (normal, sd 1/sqrt(n)); auto: the objective's own, which the mlp has, else zeros",
        symbol="x_0",
        rule=one_of(("auto", "zeros", "ones", "random")),
    )
    # clients and rounds
    num_clients: int = _key(20, "logical clients", symbol="N", unit="clients", rule=at_least(1))
    clients_per_round: int = _key(5, "slots of a round", symbol="M", unit="slots", rule=at_least(1))
    sampling: str = _key(
        "with-replacement",
        "how a round's clients are drawn",
        symbol="W_r",
        rule=one_of(("with-replacement", "without-replacement")),
    )
    weighting: str = _key("uniform", "weights of the mean over slots", rule=one_of(("uniform", "examples")))
    rounds: int = _key(100, "rounds to run; 0: until the budget is spent", symbol="R", unit="rounds", rule=at_least(0))
    budget: int = _key(
        0,
        "starts no round once this many evaluations are spent; 0: no limit",
        unit="evaluations",
        rule=at_least(0),
    )
    seed: int = _key(0, "names every random stream of the run", rule=between(0, 2**63 - 1))
    kernel: str = _key(
        "auto",
        "loops of a local step: numpy, compiled (extra `fast`), or auto: compiled where it is installed",
        rule=one_of(KERNELS),
    )
    # wire
    uplink: str = _key(
        "move",
        "what a client sends: its move (n numbers), or its slopes (K numbers), which the server replays",
        rule=one_of(UPLINKS),
    )
    directions: str = _key(
        "per-slot",
        "whose directions a slot takes: its own, or the same in all slots of a round",
        symbol="v_k",
        rule=one_of(("per-slot", "shared")),
    )
    downlink: str = _key(
        "x",
        "what a client is sent: x, or the mean slopes since the x that it holds (needs shared directions, slopes up)",
        rule=one_of(("x", "slopes")),
    )
    wire_dtype: str = _key(
        "float64",
        "type in which x, Q and moves are sent; float32 halves them and rounds them",
        rule=one_of(WIRE_DTYPES),
    )
    # robustness
    on_error: str = _key(
        "drop-slot",
        "what an evaluation that fails costs: its slot, its step (slope 0, w stays), or the run",
        rule=one_of(ON_ERROR),
    )
    min_replies: int = _key(1, "usable replies that a round needs", unit="replies", rule=at_least(1))
    max_retries: int = _key(3, "times that a failed round is tried again", unit="times", rule=at_least(0))
    round_timeout: float = _key(300.0, "longest wait for the replies of a round", unit="seconds", rule=positive())
    # output
    evaluate_every: int = _key(
        1,
        "rounds between full evaluations; 0, and for your own objective: only first and last",
        unit="rounds",
        rule=at_least(0),
    )
    checkpoint_every: int = _key(
        10, "rounds between checkpoints; the last round always has one", unit="rounds", rule=at_least(1)
    )
    out: str = _key("", "result folder of `flwr run .` (the commands take --out)", unit="path")

    def __post_init__(self) -> None:
        if self.step_size == UNSAID:  # nobody knows the scale of somebody else's function
            object.__setattr__(self, "step_size", AUTO if self.objective else PAPER_STEP)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> RunConfig:
        """Check a mapping of dashed keys and return the config.

        Raises ConfigError with one sentence for every unknown key, wrong type, value out of range and
        contradiction between keys.
        """
        fields = {dashed(field.name): field for field in dataclasses.fields(cls)}
        problems: list[str] = []
        values: dict[str, Any] = {}
        for key, value in mapping.items():
            if key not in fields:
                problems.append(_unknown(key, fields))
                continue
            field = fields[key]
            rule: Rule | None = field.metadata["rule"]
            try:
                if isinstance(rule, AutoOr):
                    values[field.name] = value if value in rule.words else _typed(key, value, 0.0)
                else:
                    values[field.name] = _typed(key, value, getattr(cls, field.name))
            except ValueError as error:
                or_words = "".join(f" or {word}" for word in rule.words) if isinstance(rule, AutoOr) else ""
                problems.append(str(error).replace(", got", f"{or_words}, got", 1))
                continue
            complaint = rule(values[field.name]) if rule else None
            if complaint:
                problems.append(f"{key} {complaint}")
        bad = {name for name in values if any(p.startswith(dashed(name) + " ") for p in problems)}
        config = cls(**{name: value for name, value in values.items() if name not in bad})
        problems.extend(config._contradictions())
        if problems:
            raise ConfigError(problems)
        return config

    def _contradictions(self) -> list[str]:
        found = []
        if self.sampling == "without-replacement" and self.clients_per_round > self.num_clients:
            found.append(
                f"clients-per-round must be at most num-clients = {self.num_clients} when drawn without replacement,"
                f' got {self.clients_per_round} (sampling = "with-replacement" lifts this)'
            )
        if self.downlink == "slopes" and (self.uplink, self.directions) != ("slopes", "shared"):
            found.append(
                "downlink must be x unless uplink is slopes and directions are shared, got 'slopes' with uplink ="
                f" {self.uplink} and directions = {self.directions}: only then mean slopes tell where x went"
            )
        if self.downlink == "slopes" and self.wire_dtype != "float64":
            found.append(
                f"wire-dtype must be float64 where downlink is slopes, got {self.wire_dtype!r}: a client then keeps the"
                " server's x to the last bit, and is sent it once"
            )
        if self.uplink not in self.row.uplinks:
            found.append(f"uplink must be {' or '.join(self.row.uplinks)} with {self.algorithm}, got {self.uplink!r}")
        if self.min_replies > self.clients_per_round:
            found.append(
                f"min-replies must be at most clients-per-round = {self.clients_per_round}, got {self.min_replies}"
            )
        if self.rounds == 0 and self.budget == 0:
            found.append(
                "rounds must be at least 1 when there is no budget, got 0 (or set budget to a number of evaluations)"
            )
        return found + self._contradictions_of_auto()

    def _contradictions_of_auto(self) -> list[str]:
        found = []
        if self.step_is_auto and self.local_steps < LEAST_LOCAL_STEPS:
            found.append(
                f"local-steps must be at least {LEAST_LOCAL_STEPS} when step-size is auto, which sees how a slot's loss"
                f" falls, got {self.local_steps} (or give step-size as a number)"
            )
        if self.step_is_auto and self.on_error == "stop":
            found.append(
                "on-error must not be 'stop' when step-size is auto, which tries steps that are too long, got 'stop'"
                ' ("drop-slot" leaves them out; or give step-size as a number)'
            )
        if self.weight_is_auto and self.clients_per_round < 2:
            found.append(
                "clients-per-round must be at least 2 when subspace-weight is auto, which compares clients, got"
                f" {self.clients_per_round} (or give subspace-weight as a number)"
            )
        if self.weight_is_auto and self.covariance != "trace":
            found.append(
                f"covariance must be 'trace' when subspace-weight is auto, got {self.covariance!r} (without the scale"
                " n/tau' there is nothing to steer; or give subspace-weight as a number)"
            )
        return found

    def fitted(self, dimension: int) -> RunConfig:
        """Return the config with a trajectory of at most n moves: more are never independent."""
        if not self.row.follows_trajectory or self.memory <= dimension:
            return self
        return self.replace(memory=dimension)

    def check_dimension(self, dimension: int) -> None:
        """Raise ConfigError when the trajectory is longer than there are parameters: the config was not fitted."""
        if self.row.follows_trajectory and self.memory > dimension:
            raise ConfigError([f"memory must be at most n = {dimension}, the number of parameters, got {self.memory}"])

    @property
    def row(self) -> Algorithm:
        """The algorithm's row of the table."""
        return ALGORITHMS[self.algorithm]

    @property
    def weight(self) -> float:
        """The weight alpha that the algorithm really uses, or starts from: 0 for the isotropic rows."""
        if not self.row.follows_trajectory:
            return 0.0
        return START_WEIGHT if isinstance(self.subspace_weight, str) else self.subspace_weight

    @property
    def weight_is_auto(self) -> bool:
        """Whether the run steers the weight."""
        return self.row.follows_trajectory and self.subspace_weight == AUTO

    @property
    def step_is_auto(self) -> bool:
        """Whether the run measures its step size."""
        return self.step_size == AUTO

    @property
    def batch(self) -> int:
        """The minibatch that the algorithm really uses: 0 (the whole shard) for the full-batch rows."""
        return 0 if self.row.data == "shard" else self.batch_size

    @property
    def schedule(self) -> str:
        """The step schedule that the run really uses: inverse-sqrt, linear or constant."""
        if self.step_schedule != AUTO:
            return self.step_schedule
        return "linear" if self.step_is_auto else "inverse-sqrt"

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
        if isinstance(self.step_size, str):
            raise ValueError("step-size is auto: the step of a round depends on the rounds before it")
        match self.schedule:
            case "inverse-sqrt":
                return self.step_size / math.sqrt(round_ + 1)
            case "linear":
                return self.step_size * (1.0 - self.progress(round_, evaluations))
            case _:
                return self.step_size

    def to_mapping(self) -> dict[str, Scalar]:
        """Return all keys, dashed, in the order of the table."""
        return {dashed(field.name): getattr(self, field.name) for field in dataclasses.fields(self)}

    def replace(self, **changes: Any) -> RunConfig:
        """Return a checked copy with some fields (underscored names) changed."""
        return self.from_mapping(self.to_mapping() | {dashed(name): value for name, value in changes.items()})

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


_TASK_KEYS = (
    "dataset", "data-dir", "train-rows", "positive-labels", "preprocess", "partition", "dirichlet-alpha", "model",
    "hidden-units", "mlp-bias", "l2", "objective", "num-clients", "seed",
)  # fmt: skip

_STEP_KEYS = ("algorithm", "probe", "radius", "slope", "local-steps", "batch-size", "kernel")

FREE_KEYS = frozenset(
    {
        "rounds",
        "budget",
        "evaluate-every",
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


CLIENTS_HOLD_DATA = "clients"
"""The value of ``dataset`` under which the server has no rows."""


def dashed(name: str) -> str:
    """Return the key of a field's name."""
    return name.replace("_", "-")


def _unknown(key: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(key.replace("_", "-"), known, n=1, cutoff=0.5)
    return f"unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else "; docs/config.md lists every key")


def _typed(key: str, value: Any, default: Scalar) -> Scalar:
    """Return the value in the type of the key's default; raise ValueError naming key, type and value."""
    match default:
        case bool():
            if isinstance(value, bool):
                return value
            wanted = "true or false"
        case int():
            if isinstance(value, int) and not isinstance(value, bool):
                return value
            if isinstance(value, float) and value.is_integer():
                return int(value)
            wanted = "a whole number"
        case float():
            if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max:
                return float(value)
            wanted = "a finite number"
        case _:
            if isinstance(value, str):
                return value
            wanted = "a text"
    raise ValueError(f"{key} must be {wanted}, got {value!r}")

"""Every key of the run config with its default, meaning, unit, symbol and rule."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from zofedht.common.algorithms import ALGORITHMS
from zofedht.common.choices import (
    AGGREGATIONS,
    CORRECTIONS,
    COVARIANCES,
    CSV_HEADERS,
    DIRECTIONS,
    DOWNLINKS,
    INITS,
    KERNELS,
    MODELS,
    ON_ERROR,
    PARTITIONS,
    PRIVACIES,
    PROBE_LAWS,
    RETURNED,
    SAMPLINGS,
    SERVER_STEPS,
    SLOPE_SCALES,
    SLOPES,
    STEP_SCHEDULES,
    SVMLIGHT_INDICES,
    UNSAID,
    UPLINKS,
    WEIGHTINGS,
    WIRE_DTYPES,
)
from zofedht.common.rules import (
    Rule,
    at_least,
    auto_or,
    between,
    columns,
    default_or,
    labels,
    one_of,
    positive,
    preprocessing,
    shapes,
    space_rows,
    words_of,
)

__all__ = ["Keys", "Scalar", "dashed", "kind_of"]

_MOVING = ("mean", "momentum", "tracking", "newton", "quasi-newton")
"""Server steps whose length is that of the moves, or follows from how F bends."""

Scalar = str | int | float | bool


def _key(
    default: Any,
    meaning: str,
    *,
    symbol: str = "-",
    unit: str = "-",
    rule: Rule | None = None,
    kind: type | None = None,
    otherwise: Any = None,
) -> Any:
    """A config field; ``kind`` is the type of its numbers where the default is a word.

    ``otherwise`` is the value of a key that nobody gives, neither the user nor the algorithm's row; it may be a
    function of the config.

    The metadata feeds the checks, the table of docs/config.md and pyproject.toml's test.
    """
    return dataclasses.field(
        default=default,
        metadata={
            "meaning": meaning,
            "symbol": symbol,
            "unit": unit,
            "rule": rule,
            "kind": kind,
            "otherwise": otherwise,
        },
    )


@dataclass(frozen=True)
class Keys:
    """The keys; ``RunConfig`` gives those that are left to the algorithm their value."""

    # data
    dataset: str = _key(
        "digits",
        "data set by name (digits, mnist, fashion-mnist, rcv1), a file's path, or clients: all have their own rows",
    )
    data_dir: str = _key("", "folder of the large sets; empty: the user's cache folder", unit="path")
    train_rows: int = _key(0, "random subset of the training rows; 0: all", unit="rows", rule=at_least(0))
    positive_labels: str = _key(
        "auto", "labels of class 1, such as `5-9` or `1,3`; auto: 5-9, or the larger of two", rule=labels()
    )
    label_column: str = _key(
        "auto",
        "column of a table that holds the labels, a name or a number from 1; auto: label, target, y, or the last",
    )
    features: str = _key(
        "auto", "columns of a table in their order, as `heat,flow`, or how many there are; auto: all but the label"
    )
    csv_header: str = _key(
        "auto",
        "whether the first line of a table names its columns; auto: where that is certain",
        rule=one_of(CSV_HEADERS),
    )
    svmlight_indices: str = _key(
        "auto",
        "first index of svmlight files; auto: from 0 where a file of the run has a 0",
        rule=one_of(SVMLIGHT_INDICES),
    )
    preprocess: str = _key(
        "bias,unit-norm",
        "transforms in order: standardize (columns), bias (a column of ones), unit-norm (rows), or none",
        rule=preprocessing(),
    )
    standardize_by: str = _key(
        "auto",
        "mean:deviation of each column that standardize takes, as `14.1:3.5,0:1`; auto: those of all training rows",
        rule=columns(),
    )
    partition: str = _key("iid", "how rows are dealt to clients", rule=one_of(PARTITIONS))
    dirichlet_alpha: float = _key(0.5, "concentration of the dirichlet partition", rule=positive())
    # objective
    model: str = _key("logistic", "built-in objective", rule=one_of(MODELS))
    hidden_units: int = _key(50, "width of the mlp's hidden layer", unit="units", rule=at_least(1, 10**6))
    mlp_bias: bool = _key(False, "whether both layers of the mlp have biases")
    l2: float = _key(0.0, "adds l2/2 |w|^2 to a built-in objective", rule=at_least(0.0, math.inf))
    objective: str = _key("", "your own objective as `module:factory`; replaces dataset and model")
    parameters: str = _key(
        "",
        "named parameters of your objective: a table of ranges by name, or the same as JSON; empty: what the objective"
        " declares",
        rule=space_rows(),
    )
    # algorithm
    algorithm: str = _key(
        UNSAID,
        "row of the algorithm table; default: zofedht, but auto for an objective of your own with at most 50"
        " parameters, unless a key of local steps is set",
        rule=one_of((UNSAID, *ALGORITHMS)),
        otherwise="zofedht",
    )
    covariance: str = _key(
        "trace",
        "gain s of the subspace: trace (n/tau') or paper (1)",
        symbol="s",
        rule=one_of(COVARIANCES),
    )
    subspace_weight: float | str = _key(
        UNSAID,
        "weight of the subspace; auto: .3 while clients agree along the trajectory, else less; default: the"
        " algorithm's, else .3",
        symbol="alpha",
        rule=auto_or(between(0.0, 1.0, "0 ignores the trajectory"), UNSAID),
        otherwise=0.3,
    )
    shrink: float = _key(
        0.1,
        "factor of directions along the stiff ones that objectives name (zofed-shrink); 1 shrinks nothing",
        symbol="f",
        rule=between(0.0, 1.0),
    )
    memory: int = _key(
        UNSAID,
        "moves in the trajectory; at most n, the number of parameters, is used; default: the algorithm's, else 5",
        symbol="tau",
        unit="rounds",
        rule=default_or(at_least(1, 10**4)),
        kind=int,
        otherwise=5,
    )
    refresh: int = _key(
        UNSAID,
        "rounds between refreshes of the basis; default: as many as the moves in the trajectory",
        unit="rounds",
        rule=default_or(at_least(1, 10**4)),
        kind=int,
        otherwise=lambda config: config.memory,
    )
    cone_angle: float = _key(
        UNSAID,
        "angle between directions and the smoothed moves (conmezo); pi/2 ignores the moves; default: the algorithm's,"
        " else 1.35",
        unit="radians",
        rule=default_or(between(0.0, math.pi / 2)),
        kind=float,
        otherwise=1.35,
    )
    guide_decay: float = _key(
        UNSAID,
        "part of what a learnt guide remembers that a step (conmezo) or a round (hiso) keeps; default: the algorithm's,"
        " else .99",
        rule=default_or(between(0.0, 0.9999)),
        kind=float,
        otherwise=0.99,
    )
    guide_floor: float = _key(
        UNSAID,
        "least scale of the diagonal (hiso), which begins at 1; default: the algorithm's, else .1",
        rule=default_or(positive()),
        kind=float,
        otherwise=0.1,
    )
    pool_size: int = _key(
        1024,
        "candidate directions of a pool (fedkseed)",
        symbol="S",
        unit="directions",
        rule=at_least(1, 2**20),
    )
    subset_share: float = _key(
        0.1,
        "part of the parameters that directions change (meerkat): those that moved farthest in the first rounds",
        rule=between(0.0, 1.0),
    )
    blocks: str = _key(
        "auto",
        "shapes of the matrices that x begins with, as `784x50,50x10`, for directions of low rank (lozo, subzero);"
        " auto: that of the network's inner weights, else none",
        rule=shapes(),
    )
    rank: int = _key(2, "rank of directions within a block (lozo, subzero)", symbol="r", rule=at_least(1, 10**4))
    slope: str = _key(
        UNSAID,
        "ends of a probe: w + mu v and w - mu v (central), w + mu v and w (forward), or all three, which also give v'Hv"
        " (three-point); gradient: no probe, but the gradient of a built-in model; default: the algorithm's, else"
        " central",
        symbol="c",
        rule=one_of((UNSAID, *SLOPES)),
        otherwise="central",
    )
    slopes_per_step: int = _key(
        UNSAID,
        "slopes of a step, all at the same w and on the same samples; w moves by their sum; default: the algorithm's,"
        " else 1",
        symbol="q",
        unit="slopes",
        rule=default_or(at_least(1, 10**4)),
        kind=int,
        otherwise=1,
    )
    slope_scale: str = _key(
        UNSAID,
        "what the slopes of a step are divided by: nothing, or their standard deviation (spread), so that a step's"
        " length is about eta sqrt(q n); default: the algorithm's, else none",
        rule=one_of((UNSAID, *SLOPE_SCALES)),
        otherwise="none",
    )
    correction: str = _key(
        UNSAID,
        "what is taken off each slope: nothing, or control: v.(h_i - h), h_i the server's estimate of the client's"
        " gradient and h the mean of all, or anchor: the slope at x_r on the same samples, while each step also repeats"
        " that on the whole shard; default: the algorithm's, else none",
        symbol="a",
        rule=one_of((UNSAID, *CORRECTIONS)),
        otherwise="none",
    )
    probe: str = _key(
        UNSAID,
        "law of both parts of a direction: gaussian (the paper's), rademacher (signs), sphere, or frame: a sphere's,"
        " orthogonal within a step; default: the algorithm's, else gaussian",
        symbol="v1, v2",
        rule=one_of((UNSAID, *PROBE_LAWS)),
        otherwise="gaussian",
    )
    radius: float = _key(
        UNSAID,
        "smoothing radius; default: the algorithm's, else 1e-4",
        symbol="mu",
        rule=default_or(positive()),
        kind=float,
        otherwise=1e-4,
    )
    step_size: float | str = _key(
        UNSAID,
        "first step size; auto: measured in the first rounds; default: auto for your own objective, else 1",
        symbol="eta_0",
        rule=auto_or(positive(), UNSAID),
    )
    step_schedule: str = _key(
        "linear",
        "linear: eta_0 (1-p), p the part of the rounds or the budget that is over; inverse-sqrt: eta_0/sqrt(r+1), the"
        " paper's; constant: eta_0",
        symbol="eta_r",
        rule=one_of(STEP_SCHEDULES),
    )
    warm_up: int | str = _key(
        UNSAID,
        "first rounds, in which the step size rises to that of the schedule: times ((r+1)/warm-up)^2; default: the"
        " algorithm's, 0, or 9% of the rounds for zofed-shrink",
        unit="rounds",
        rule=default_or(at_least(0)),
        kind=int,
    )
    local_steps: int = _key(
        UNSAID,
        "steps of a slot; default: the algorithm's, else 50",
        symbol="K",
        unit="steps",
        rule=default_or(at_least(1, 10**7)),
        kind=int,
        otherwise=50,
    )
    batch_size: int = _key(
        64,
        "samples of a step, drawn with replacement, or of a client's round (cma-es), without; 0: the whole shard",
        symbol="b",
        unit="samples",
        rule=at_least(0),
    )
    init: str = _key(
        "auto",
        "start: zeros, ones, random (normal, sd 1/sqrt(n)); auto: the objective's own start if it has one, else zeros",
        symbol="x_0",
        rule=one_of(INITS),
    )
    # clients and rounds
    num_clients: int = _key(20, "clients", symbol="N", unit="clients", rule=at_least(1, 10**6))
    clients_per_round: int = _key(5, "slots of a round", symbol="M", unit="slots", rule=at_least(1, 10**6))
    sampling: str = _key(
        UNSAID,
        "how a round's clients are drawn; default: the algorithm's, else with-replacement",
        symbol="W_r",
        rule=one_of((UNSAID, *SAMPLINGS)),
        otherwise="with-replacement",
    )
    weighting: str = _key(
        "uniform", "slot weights of the mean: all equal, or the samples of the client's shard", rule=one_of(WEIGHTINGS)
    )
    aggregation: str = _key(
        "mean",
        "how the moves of a round become one; all but the mean bear some false moves",
        rule=one_of(AGGREGATIONS),
    )
    tolerate: int = _key(
        0,
        "false slots of a round that trimmed-mean, krum and multi-krum bear; 0: three in ten",
        symbol="f",
        unit="slots",
        rule=at_least(0),
    )
    server_step: str = _key(
        UNSAID,
        "what x makes of the mean of the moves: the mean itself, one with memory of the rounds before, tracking, with"
        " memory of each client's moves, or newton and quasi-newton, which learn how F bends; default: the algorithm's,"
        " else mean",
        rule=one_of((UNSAID, *SERVER_STEPS)),
        otherwise="mean",
    )
    server_rate: float = _key(
        UNSAID,
        "factor of the server step; default: the algorithm's, else .01 for adam, yogi, adagrad and refined-adam, which"
        " move each parameter by about so much a round, and 1 for the others",
        rule=default_or(positive()),
        kind=float,
        otherwise=lambda config: 1.0 if config.server_step in _MOVING else 0.01,
    )
    server_momentum: float = _key(
        UNSAID,
        "part of the mean of earlier moves that a server step keeps, by client for tracking; default: the algorithm's,"
        " else .9",
        rule=default_or(between(0.0, 0.9999)),
        kind=float,
        otherwise=0.9,
    )
    server_decay: float = _key(
        UNSAID,
        "part of the squares of earlier moves that adam and yogi keep; default: the algorithm's, else .99",
        rule=default_or(between(0.0, 0.9999)),
        kind=float,
        otherwise=0.99,
    )
    server_floor: float = _key(
        UNSAID,
        "added to the root of these squares by adam, yogi and adagrad; default: the algorithm's, else .001",
        rule=default_or(at_least(0.0)),
        kind=float,
        otherwise=1e-3,
    )
    batch_growth: float = _key(
        UNSAID,
        "batches double after a round whose mean move varies over its slots by more than so much of its length; 0: they"
        " do not grow; default: the algorithm's, else 0",
        symbol="theta",
        rule=default_or(at_least(0.0)),
        kind=float,
        otherwise=0.0,
    )
    rounds: int = _key(
        UNSAID,
        "rounds to run; 0: until the budget is spent; default: 100; for cma-es, lbfgs and auto 1000, or 0 with a"
        " budget",
        symbol="R",
        unit="rounds",
        rule=default_or(at_least(0)),
        kind=int,
        otherwise=lambda config: (0 if config.budget else 1000) if config.asks_points else 100,
    )
    budget: int = _key(
        0,
        "starts no round once this many evaluations are spent; 0: no limit",
        unit="evaluations",
        rule=at_least(0, 2**63 - 1),
    )
    seed: int = _key(0, "part of every address: another seed gives other random numbers", rule=between(0, 2**63 - 1))
    kernel: str = _key(
        "auto",
        "loops of a local step: numpy, compiled (extra `fast`), or auto: compiled where it is installed",
        rule=one_of(KERNELS),
    )
    # wire
    uplink: str = _key(
        UNSAID,
        "what a client sends: its move (n numbers), or its slopes (K numbers), which the server replays; default: the"
        " algorithm's, else move",
        rule=one_of((UNSAID, *UPLINKS)),
        otherwise="move",
    )
    directions: str = _key(
        UNSAID,
        "each slot draws its own directions, or all slots of a round share them; default: the algorithm's, else"
        " per-slot",
        symbol="v_k",
        rule=one_of((UNSAID, *DIRECTIONS)),
        otherwise="per-slot",
    )
    downlink: str = _key(
        UNSAID,
        "what a client is sent: x, or slopes: the trail from the x that it holds (needs shared directions and slopes"
        " up), or the sums of a pool; default: the algorithm's, else x",
        rule=one_of((UNSAID, *DOWNLINKS)),
        otherwise="x",
    )
    wire_dtype: str = _key(
        "float64",
        "type in which x, Q and moves are sent; float32 halves them and rounds them",
        rule=one_of(WIRE_DTYPES),
    )
    # privacy
    privacy: str = _key(
        "none",
        "who adds noise to the slopes: nobody, each client (local), or the server to the mean of a round (central)",
        rule=one_of(PRIVACIES),
    )
    clip: float = _key(
        1.0,
        "largest slope of one sample, or of a batch where F has no values of samples",
        symbol="C",
        rule=positive(),
    )
    noise_multiplier: float = _key(
        1.0,
        "standard deviation of the noise, in units of what one row (local) or one client (central) can change",
        symbol="z",
        rule=positive(),
    )
    epsilon: float = _key(
        0.0,
        "privacy loss that ends the run before it is exceeded; 0: only told",
        symbol="epsilon",
        rule=at_least(0.0, math.inf),
    )
    delta: float = _key(
        1e-5, "probability with which the privacy loss may exceed epsilon", symbol="delta", rule=between(1e-300, 0.5)
    )
    least_samples: int = _key(
        0,
        "fewest samples of a shard that may answer; the accountant takes batch-size of so many as the sampling rate; 0:"
        " any shard, and no sampling is counted",
        unit="samples",
        rule=at_least(0),
    )
    secure_aggregation: bool = _key(
        False,
        "whether the server sees only the sum of a round's slopes, by masks that the clients agree on",
        rule=between(0, 1),
    )
    share_threshold: int = _key(
        0,
        "clients of a round that must stay until its sum is unmasked; fewer cannot unmask another; 0: two thirds",
        unit="slots",
        rule=at_least(0),
    )
    slope_range: float = _key(
        1000.0, "largest slope under secure aggregation; slopes are rounded to 2^-40 of it", rule=positive()
    )
    # robustness
    on_error: str = _key(
        "drop-slot",
        "what a failed evaluation costs: its slot, its step (slope 0, w stays), or the run; for cma-es, lbfgs"
        " and auto drop-slot and skip-step both cost its answer",
        rule=one_of(ON_ERROR),
    )
    min_replies: int = _key(1, "usable replies that a round needs", unit="replies", rule=at_least(1))
    max_retries: int = _key(3, "times that a failed round is tried again", unit="times", rule=at_least(0))
    round_timeout: float = _key(300.0, "longest wait for the replies of a round", unit="seconds", rule=positive())
    # output
    evaluate_every: int = _key(
        UNSAID,
        "rounds between full evaluations, whose best x is kept; 0: only of the first and the last x; default: 1, for"
        " your own objective 10, or more where clients are many and rounds short",
        unit="rounds",
        rule=default_or(at_least(0)),
        kind=int,
        otherwise=lambda config: config.affordable_every if config.objective else 1,
    )
    return_x: str = _key(
        UNSAID,
        "x that a run returns: the best that was evaluated in full, or that of the last round; default: best, but last"
        " for a built-in model on the server's rows, and with privacy or secure-aggregation",
        rule=one_of((UNSAID, *RETURNED)),
        otherwise=lambda config: "best" if config.may_return_best and not config.server_has_rows else "last",
    )
    checkpoint_every: int = _key(
        10, "rounds between checkpoints; the last round always has one", unit="rounds", rule=at_least(1)
    )
    out: str = _key("", "result folder of `flwr run .` (the commands take --out)", unit="path")


def kind_of(key: str) -> type | None:
    """Return the type of a key's values: bool, int, float, or str; None for an unknown key."""
    fields = {dashed(field.name): field for field in dataclasses.fields(Keys)}
    if key not in fields:
        return None
    field = fields[key]
    kind: type = field.metadata["kind"] or (float if words_of(field.metadata["rule"]) else type(field.default))
    return kind


def dashed(name: str) -> str:
    """Return the key of a field's name."""
    return name.replace("_", "-")

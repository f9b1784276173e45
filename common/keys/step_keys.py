"""Keys that say how a client steps: the algorithm, its directions, slopes and step sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from zofedht.common.algorithms import ALGORITHMS
from zofedht.common.choices import (
    CORRECTIONS,
    COVARIANCES,
    INITS,
    PROBE_LAWS,
    SLOPE_SCALES,
    SLOPES,
    STEP_SCHEDULES,
    UNSAID,
)
from zofedht.common.keys.declaration import key
from zofedht.common.rules import at_least, auto_or, between, default_or, one_of, positive, shapes

__all__ = ["StepKeys"]


@dataclass(frozen=True)
class StepKeys:
    """The algorithm and the local steps."""

    algorithm: str = key(
        UNSAID,
        "row of the algorithm table; default: zofedht, but auto for an objective of your own with at most 50"
        " parameters, unless a key of local steps is set, and zofedavg-sgd for an objective in place",
        rule=one_of((UNSAID, *ALGORITHMS)),
        otherwise=lambda config: "zofedavg-sgd" if config.in_place else "zofedht",
    )
    covariance: str = key(
        "trace",
        "gain s of the subspace: trace (n/tau') or paper (1)",
        symbol="s",
        rule=one_of(COVARIANCES),
    )
    subspace_weight: float | str = key(
        UNSAID,
        "weight of the subspace; auto: .3 while clients agree along the trajectory, else less; default: the"
        " algorithm's, else .3",
        symbol="alpha",
        rule=auto_or(between(0.0, 1.0, "0 ignores the trajectory"), UNSAID),
        otherwise=0.3,
    )
    shrink: float = key(
        0.1,
        "factor of directions along the stiff ones that objectives name (zofed-shrink); 1 shrinks nothing",
        symbol="f",
        rule=between(0.0, 1.0),
    )
    memory: int = key(
        UNSAID,
        "moves in the trajectory, at most n, the number of parameters; with fzoos, values of F that a surrogate is"
        " fitted to; default: the algorithm's, else 5",
        symbol="tau",
        unit="rounds",
        rule=default_or(at_least(1, 10**4)),
        kind=int,
        otherwise=5,
    )
    refresh: int = key(
        UNSAID,
        "rounds between refreshes of the basis; default: as many as the moves in the trajectory",
        unit="rounds",
        rule=default_or(at_least(1, 10**4)),
        kind=int,
        otherwise=lambda config: config.memory,
    )
    cone_angle: float = key(
        UNSAID,
        "angle between directions and the smoothed moves (conmezo); pi/2 ignores the moves; default: the algorithm's,"
        " else 1.35",
        unit="radians",
        rule=default_or(between(0.0, math.pi / 2)),
        kind=float,
        otherwise=1.35,
    )
    guide_decay: float = key(
        UNSAID,
        "part of what a learnt guide remembers that a step (conmezo) or a round (hiso) keeps; default: the algorithm's,"
        " else .99",
        rule=default_or(between(0.0, 0.9999)),
        kind=float,
        otherwise=0.99,
    )
    guide_floor: float = key(
        UNSAID,
        "least scale of the diagonal (hiso), which begins at 1; default: the algorithm's, else .1",
        rule=default_or(positive()),
        kind=float,
        otherwise=0.1,
    )
    pool_size: int = key(
        1024,
        "candidate directions of a pool (fedkseed)",
        symbol="S",
        unit="directions",
        rule=at_least(1, 2**20),
    )
    subset_share: float = key(
        0.1,
        "part of the parameters that directions change (meerkat): those that moved farthest in the first rounds",
        rule=between(0.0, 1.0),
    )
    blocks: str = key(
        "auto",
        "shapes of the matrices that x begins with, as `784x50,50x10`, for directions of low rank (lozo, subzero);"
        " auto: that of the network's inner weights, else none",
        rule=shapes(),
    )
    rank: int = key(2, "rank of directions within a block (lozo, subzero)", symbol="r", rule=at_least(1, 10**4))
    slope: str = key(
        UNSAID,
        "ends of a probe: w + mu v and w - mu v (central), w + mu v and w (forward), or all three, which also give v'Hv"
        " (three-point); gradient: no probe, but the gradient of a built-in model; surrogate: that of a surrogate of F"
        " (fzoos); default: the algorithm's, else central",
        symbol="c",
        rule=one_of((UNSAID, *SLOPES)),
        otherwise="central",
    )
    slopes_per_step: int = key(
        UNSAID,
        "slopes of a step, all at the same w and on the same samples, w moves by their sum; with fzoos, points around w"
        " at which F is asked; default: the algorithm's, else 1",
        symbol="q",
        unit="slopes",
        rule=default_or(at_least(1, 10**4)),
        kind=int,
        otherwise=1,
    )
    slope_scale: str = key(
        UNSAID,
        "what the slopes of a step are divided by: nothing, or their standard deviation (spread), so that a step's"
        " length is about eta sqrt(q n); default: the algorithm's, else none",
        rule=one_of((UNSAID, *SLOPE_SCALES)),
        otherwise="none",
    )
    correction: str = key(
        UNSAID,
        "what is taken off each slope: nothing, or control: v.(h_i - h), h_i the server's estimate of the client's"
        " gradient and h the mean of all, or svrg: the slope at x_r on the same samples, while each step also repeats"
        " that on the whole shard; default: the algorithm's, else none",
        symbol="a",
        rule=one_of((UNSAID, *CORRECTIONS)),
        otherwise="none",
    )
    probe: str = key(
        UNSAID,
        "law of both parts of a direction: gaussian (the paper's), rademacher (signs), sphere, or frame: a sphere's,"
        " orthogonal within a step; default: the algorithm's, else gaussian",
        symbol="v1, v2",
        rule=one_of((UNSAID, *PROBE_LAWS)),
        otherwise="gaussian",
    )
    radius: float = key(
        UNSAID,
        "smoothing radius; default: the algorithm's, else 1e-4",
        symbol="mu",
        rule=default_or(positive()),
        kind=float,
        otherwise=1e-4,
    )
    step_size: float | str = key(
        UNSAID,
        "first step size; auto: measured in the first rounds; default: auto for your own objective, else 1",
        symbol="eta_0",
        rule=auto_or(positive(), UNSAID),
    )
    step_schedule: str = key(
        "linear",
        "linear: eta_0 (1-p), p the part of the rounds or the budget that is over; inverse-sqrt: eta_0/sqrt(r+1), the"
        " paper's; constant: eta_0",
        symbol="eta_r",
        rule=one_of(STEP_SCHEDULES),
    )
    warm_up: int | str = key(
        UNSAID,
        "first rounds, in which the step size rises to that of the schedule: times ((r+1)/warm-up)^2; default: the"
        " algorithm's, 0, or 9% of the rounds for zofed-shrink",
        unit="rounds",
        rule=default_or(at_least(0)),
        kind=int,
    )
    local_steps: int = key(
        UNSAID,
        "steps of a slot; default: the algorithm's, else 50",
        symbol="K",
        unit="steps",
        rule=default_or(at_least(1, 10**7)),
        kind=int,
        otherwise=50,
    )
    batch_size: int = key(
        64,
        "samples of a step, drawn with replacement, or of a client's round (cma-es), without; 0: the whole shard",
        symbol="b",
        unit="samples",
        rule=at_least(0),
    )
    init: str = key(
        "auto",
        "start: zeros, ones, random (normal, sd 1/sqrt(n)); auto: the objective's own start if it has one, else zeros",
        symbol="x_0",
        rule=one_of(INITS),
    )

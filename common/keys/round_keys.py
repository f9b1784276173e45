"""Keys that say how a round goes: its clients, the mean of their moves, and how many rounds there are."""

from __future__ import annotations

from dataclasses import dataclass

from zofedht.common.choices import AGGREGATIONS, KERNELS, SAMPLINGS, SERVER_STEPS, UNSAID, WEIGHTINGS
from zofedht.common.keys.declaration import key
from zofedht.common.rules import at_least, between, default_or, one_of, positive

__all__ = ["RoundKeys"]

_MOVING = ("mean", "momentum", "tracking", "newton", "quasi-newton")
"""Server steps whose length is that of the moves, or follows from how F bends."""


@dataclass(frozen=True)
class RoundKeys:
    """Clients and rounds."""

    num_clients: int = key(20, "clients", symbol="N", unit="clients", rule=at_least(1, 10**6))
    clients_per_round: int = key(5, "slots of a round", symbol="M", unit="slots", rule=at_least(1, 10**6))
    sampling: str = key(
        UNSAID,
        "how a round's clients are drawn; default: the algorithm's, else with-replacement",
        symbol="W_r",
        rule=one_of((UNSAID, *SAMPLINGS)),
        otherwise="with-replacement",
    )
    weighting: str = key(
        "uniform", "slot weights of the mean: all equal, or the samples of the client's shard", rule=one_of(WEIGHTINGS)
    )
    aggregation: str = key(
        "mean",
        "how the moves of a round become one, or the values of F at a point (trimmed-mean, median); all but the mean"
        " bear some false clients",
        rule=one_of(AGGREGATIONS),
    )
    tolerate: int = key(
        0,
        "false slots of a round that trimmed-mean, krum and multi-krum bear; 0: three in ten",
        symbol="f",
        unit="slots",
        rule=at_least(0),
    )
    server_step: str = key(
        UNSAID,
        "what x makes of the mean of the moves: the mean itself, one with memory of the rounds before, tracking, with"
        " memory of each client's moves, or newton and quasi-newton, which learn how F bends; default: the algorithm's,"
        " else mean",
        rule=one_of((UNSAID, *SERVER_STEPS)),
        otherwise="mean",
    )
    server_rate: float = key(
        UNSAID,
        "factor of the server step; default: the algorithm's, else .01 for adam, yogi, adagrad and refined-adam, which"
        " move each parameter by about so much a round, and 1 for the others",
        rule=default_or(positive()),
        kind=float,
        otherwise=lambda config: 1.0 if config.server_step in _MOVING else 0.01,
    )
    server_momentum: float = key(
        UNSAID,
        "part of the mean of earlier moves that a server step keeps, by client for tracking; default: the algorithm's,"
        " else .9",
        rule=default_or(between(0.0, 0.9999)),
        kind=float,
        otherwise=0.9,
    )
    server_decay: float = key(
        UNSAID,
        "part of the squares of earlier moves that adam and yogi keep; default: the algorithm's, else .99",
        rule=default_or(between(0.0, 0.9999)),
        kind=float,
        otherwise=0.99,
    )
    server_floor: float = key(
        UNSAID,
        "added to the root of these squares by adam, yogi and adagrad; default: the algorithm's, else .001",
        rule=default_or(at_least(0.0)),
        kind=float,
        otherwise=1e-3,
    )
    batch_growth: float = key(
        UNSAID,
        "batches double after a round whose mean move varies over its slots by more than so much of its length; 0: they"
        " do not grow; default: the algorithm's, else 0",
        symbol="theta",
        rule=default_or(at_least(0.0)),
        kind=float,
        otherwise=0.0,
    )
    rounds: int = key(
        UNSAID,
        "rounds to run; 0: until the budget is spent; default: 100; for cma-es, lbfgs and auto 1000, or 0 with a"
        " budget",
        symbol="R",
        unit="rounds",
        rule=default_or(at_least(0)),
        kind=int,
        otherwise=lambda config: (0 if config.budget else 1000) if config.asks_points else 100,
    )
    budget: int = key(
        0,
        "starts no round once this many evaluations are spent; 0: no limit",
        unit="evaluations",
        rule=at_least(0, 2**63 - 1),
    )
    seed: int = key(0, "part of every address: another seed gives other random numbers", rule=between(0, 2**63 - 1))
    kernel: str = key(
        "auto",
        "loops of a local step: numpy, compiled (extra `fast`), or auto: compiled where it is installed",
        rule=one_of(KERNELS),
    )

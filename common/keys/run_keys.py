"""Keys that say what failures cost, and what a run writes."""

from __future__ import annotations

from dataclasses import dataclass

from zofedht.common.choices import ON_ERROR, RETURNED, UNSAID
from zofedht.common.keys.declaration import key
from zofedht.common.rules import at_least, cluster, default_or, one_of, positive

__all__ = ["RunKeys"]


@dataclass(frozen=True)
class RunKeys:
    """Robustness and output."""

    on_error: str = key(
        "drop-slot",
        "what a failed evaluation costs: its slot, its step (slope 0, w stays), or the run; for cma-es, lbfgs"
        " and auto drop-slot and skip-step both cost its answer",
        rule=one_of(ON_ERROR),
    )
    min_replies: int = key(1, "usable replies that a round needs", unit="replies", rule=at_least(1))
    max_retries: int = key(3, "times that a failed round is tried again", unit="times", rule=at_least(0))
    round_timeout: float = key(300.0, "longest wait for the replies of a round", unit="seconds", rule=positive())
    ray_address: str = key(
        "",
        "address of a Ray cluster that the simulation joins, auto or HOST:PORT; empty: a Ray of its own",
        unit="address",
        rule=cluster(),
    )
    evaluate_every: int = key(
        UNSAID,
        "rounds between full evaluations, whose best x is kept; 0: only of the first and the last x; default: 1, for"
        " your own objective 10, or more where clients are many and rounds short",
        unit="rounds",
        rule=default_or(at_least(0)),
        kind=int,
        otherwise=lambda config: config.affordable_every if config.objective else 1,
    )
    return_x: str = key(
        UNSAID,
        "x that a run returns: the best that was evaluated in full, or that of the last round; default: best, but last"
        " for a built-in model on the server's rows, in place, with privacy or secure-aggregation, and with another"
        " aggregation than mean",
        rule=one_of((UNSAID, *RETURNED)),
        otherwise=lambda config: "best" if config.may_return_best and not config.returns_last else "last",
    )
    checkpoint_every: int = key(
        10, "rounds between checkpoints; the last round always has one", unit="rounds", rule=at_least(1)
    )
    out: str = key("", "result folder of `flwr run .` (the commands take --out)", unit="path")

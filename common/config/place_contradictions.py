"""Values of run config keys that do not go with parameters in place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from zofedht.common.choices import PLACE_LAWS, PLACE_PROBES
from zofedht.common.config.checking import Problem, other_values
from zofedht.common.keys.keys import Scalar

if TYPE_CHECKING:
    from zofedht.common.config.run_config import RunConfig

__all__ = ["of_place"]


def of_place(config: RunConfig) -> Iterator[Problem]:
    """Yield a problem for each key that needs x or a direction as a whole, which nobody has in place."""
    if config.asks_points or config.row.law not in PLACE_LAWS:
        yield Problem(
            "algorithm",
            "algorithm must have directions that are drawn block by block where in-place is true, since nobody holds x"
            f" as one vector, got {config.algorithm!r} (zofedavg-sgd, zofedht, zofed-shrink, guided-es, mezo,"
            " decomfl, fzoo, fedkseed, lozo, subzero and meerkat have)",
        )
    if config.row.follows_trajectory and isinstance(config.subspace_weight, str):
        yield Problem(
            "subspace-weight",
            f"subspace-weight must be a number where in-place is true, got {config.subspace_weight!r}: its rule looks"
            " at moves, which the server does not have",
        )
    if config.row.shrinks and config.shrink < 1.0 and isinstance(config.warm_up, str):
        yield Problem(
            "warm-up",
            f"warm-up must be a number of rounds with {config.algorithm} where in-place is true, got"
            f" {config.warm_up!r}: directions shrink after it, in the same round whatever rounds is changed to (9% of"
            " the rounds is usual)",
        )
    if config.directions == "per-slot" and config.aggregates_robustly:
        yield Problem(
            "aggregation",
            "aggregation must be mean where in-place is true and directions are per-slot, got"
            f" {config.aggregation!r}: it compares moves, which nobody has (directions = shared compares slopes)",
        )
    if config.probe not in PLACE_PROBES:
        yield Problem(
            "probe",
            f"probe must be {' or '.join(PLACE_PROBES)} where in-place is true, got {config.probe!r}: v is drawn block"
            " by block, and its length is known to no block",
        )
    if config.slope not in ("central", "forward"):
        yield Problem("slope", f"slope must be central or forward where in-place is true, got {config.slope!r}")
    if isinstance(config.step_size, str):
        yield Problem(
            "step-size",
            f"step-size must be a number where in-place is true, got {config.step_size!r}: the server cannot go back to"
            " an earlier x",
        )
    if config.privacy == "local":
        yield Problem(
            "privacy",
            "privacy must be none or central where in-place is true, got 'local': F has no values of single samples"
            " there",
        )
    wanted: dict[str, tuple[Scalar, str]] = {
        "uplink": ("slopes", "a move is as large as the parameters"),
        "downlink": ("slopes", "the server has no x to send"),
        "server-step": ("mean", "its memory is as large as the parameters"),
        "correction": ("none", "its correction is as large as the parameters"),
        "batch-growth": (0.0, "it compares moves, which nobody has"),
        "secure-aggregation": (False, "its masks need another stage"),
        "init": ("auto", "clients begin with the parameters that they hold"),
        "parameters": ("", "named parameters are few"),
        "blocks": ("auto", "the objective's blocks say which parameters are matrices"),
    }
    yield from other_values(config, "where in-place is true", wanted)

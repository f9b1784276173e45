"""Values of run config keys that do not go together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from zofedht.common.choices import AUTO, CLIENTS_HOLD_DATA, parse_transforms
from zofedht.common.config.checking import Problem
from zofedht.common.config.place_contradictions import of_place
from zofedht.common.config.privacy_contradictions import of_privacy, of_secure_aggregation
from zofedht.common.config.step_contradictions import (
    of_aggregation,
    of_auto_steps,
    of_auto_weight,
    of_corrections,
    of_curvature,
    of_slopes,
    of_surrogates,
)
from zofedht.common.rules import MOST_DRAWN

if TYPE_CHECKING:
    from zofedht.common.config.run_config import RunConfig

__all__ = ["KEYS_OF_STEPS", "RULES_OF_VALUES", "contradictions"]

KEYS_OF_STEPS = (
    "covariance", "subspace-weight", "shrink", "memory", "refresh", "cone-angle", "guide-decay", "guide-floor", "slope",
    "slopes-per-step", "slope-scale", "probe", "radius", "step-size", "step-schedule", "warm-up", "local-steps",
    "clients-per-round", "batch-growth", "sampling", "weighting", "server-step",
    "server-rate", "server-momentum", "server-decay", "server-floor", "kernel", "uplink", "directions", "downlink",
    "wire-dtype", "pool-size", "correction", "privacy", "epsilon", "least-samples", "secure-aggregation",
    "share-threshold", "subset-share", "blocks", "rank",
)  # fmt: skip
"""Keys that say how local steps are taken, sent and averaged."""

RULES_OF_VALUES = ("mean", "trimmed-mean", "median")
"""Values of ``aggregation`` for algorithms that ask for values of F."""


def contradictions(config: RunConfig) -> Iterator[Problem]:
    """Yield a problem for each rule between keys that the config breaks."""
    if config.parameters and not config.objective:
        yield Problem(
            "parameters",
            "parameters must be those of an objective of your own, got some for a built-in model; set objective to"
            " module:function",
        )
    if config.rounds == 0 and config.budget == 0:
        yield Problem(
            "rounds",
            "rounds must be at least 1 when there is no budget, got 0 (or set budget to a number of evaluations)",
        )
    yield from _of_columns(config)
    if config.in_place:
        yield from of_place(config)
        if config.asks_points:
            return
    if config.return_x == "best" and not config.may_return_best:
        yield Problem(
            "return-x",
            "return-x must be last with privacy, secure-aggregation or another aggregation than mean, got 'best':"
            " losses are hidden then, or false clients bend them",
        )
    if config.asks_points:
        yield from _of_points(config)
        return
    if config.sampling == "without-replacement" and config.clients_per_round > config.num_clients:
        yield Problem(
            "clients-per-round",
            f"clients-per-round must be at most num-clients = {config.num_clients} when drawn without replacement,"
            f' got {config.clients_per_round} (sampling = "with-replacement" lifts this)',
        )
    yield from _of_messages(config)
    if config.min_replies > config.clients_per_round:
        yield Problem(
            "min-replies",
            f"min-replies must be at most clients-per-round = {config.clients_per_round}, got {config.min_replies}",
        )
    spec = config.step_spec(step_size=0.0)
    if spec.local_steps * spec.batch_size > MOST_DRAWN:
        yield Problem(
            "batch-size",
            f"batch-size times local-steps must be at most {MOST_DRAWN:,} samples of a slot, got {spec.batch_size:,} x"
            f" {spec.local_steps:,} (batch-size = 0 takes the whole shard in each step)",
        )
    yield from of_slopes(config)
    yield from of_surrogates(config)
    yield from of_curvature(config)
    yield from of_corrections(config)
    if config.aggregates_robustly:
        yield from of_aggregation(config)
    yield from of_privacy(config)
    if config.secure_aggregation:
        yield from of_secure_aggregation(config)
    if config.step_is_auto:
        yield from of_auto_steps(config)
    if config.weight_is_auto:
        yield from of_auto_weight(config)


def _of_messages(config: RunConfig) -> Iterator[Problem]:
    """Yield a problem for each key of messages that cannot say what the others need."""
    follows = (config.uplink, config.directions) == ("slopes", "shared") or config.in_place
    if config.downlink == "slopes" and not follows and not config.row.pools:
        yield Problem(
            "downlink",
            "downlink must be x unless uplink is slopes and directions are shared, got 'slopes' with uplink ="
            f" {config.uplink} and directions = {config.directions}: only then mean slopes tell where x went",
        )
    if config.downlink == "slopes" and config.wire_dtype != "float64":
        yield Problem(
            "wire-dtype",
            f"wire-dtype must be float64 where downlink is slopes, got {config.wire_dtype!r}: a client then keeps the"
            " server's x to the last bit, and is sent it once",
        )
    if config.downlink == "slopes" and (config.server_step, config.server_rate) != ("mean", 1.0):
        yield Problem(
            "server-step",
            "server-step must be mean, with server-rate = 1, where downlink is slopes, got"
            f" {config.server_step} with {config.server_rate:g}: clients follow x by the mean slopes of each round"
            " alone (downlink = x sends x itself)",
        )
    if config.row.pools and (config.server_step, config.server_rate) != ("mean", 1.0):
        yield Problem(
            "server-step",
            f"server-step must be mean, with server-rate = 1, with {config.algorithm}, got {config.server_step} with"
            f" {config.server_rate:g}: x is what the sums of the pool make of it",
        )
    if config.uplink not in config.row.uplinks:
        allowed = " or ".join(config.row.uplinks)
        yield Problem("uplink", f"uplink must be {allowed} with {config.algorithm}, got {config.uplink!r}")


def _of_points(config: RunConfig) -> Iterator[Problem]:
    """Yield a problem for each key that was set and is about steps, which the algorithm takes none of."""
    for key in config.keys_of_steps:
        yield Problem(
            key,
            f"{key} must not be set for algorithm {config.algorithm}, which asks clients for evaluations and for no"
            f" steps, got {config.to_mapping()[key]!r} (leave it out, or choose another algorithm)",
        )

    if config.aggregation not in RULES_OF_VALUES:
        yield Problem(
            "aggregation",
            f"aggregation must be {', '.join(RULES_OF_VALUES)} for algorithm {config.algorithm}, got"
            f" {config.aggregation!r}: the other rules compare moves, and clients tell values of F here",
        )
    elif config.aggregation == "trimmed-mean" and config.num_clients < 2 * config.tolerated + 1:
        yield Problem(
            "tolerate",
            f"tolerate must be less than half of num-clients = {config.num_clients} for trimmed-mean, got"
            f" {config.tolerated} (median needs no such number)",
        )


def _of_columns(config: RunConfig) -> Iterator[Problem]:
    standardized = "standardize" in parse_transforms(config.preprocess)
    if config.standardize_by != AUTO and not standardized:
        yield Problem(
            "standardize-by", "standardize-by must be auto unless preprocess has standardize, which takes what it says"
        )
    by_clients = standardized and config.dataset == CLIENTS_HOLD_DATA and config.standardize_by == AUTO
    if by_clients and not config.objective and (config.privacy != "none" or config.secure_aggregation):
        hiding = "secure-aggregation" if config.secure_aggregation else f"privacy = {config.privacy}"
        yield Problem(
            "standardize-by",
            f"standardize-by must be given under {hiding} where clients have their own rows: the sums of columns that"
            " clients tell for auto hold no noise and no mask",
        )

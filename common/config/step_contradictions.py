"""Values of keys that say how steps are taken and averaged, and that do not go together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from zofedht.common.config.checking import Problem, other_values
from zofedht.common.keys.keys import Scalar

if TYPE_CHECKING:
    from zofedht.common.config.run_config import RunConfig

__all__ = [
    "of_aggregation",
    "of_auto_steps",
    "of_auto_weight",
    "of_corrections",
    "of_curvature",
    "of_slopes",
    "of_surrogates",
]


def of_slopes(config: RunConfig) -> Iterator[Problem]:
    """Yield problems of the slopes of a step, and of gradients in their place."""
    if config.slope_scale == "spread" and config.slopes_per_step < 2:
        yield Problem(
            "slopes-per-step",
            f"slopes-per-step must be at least 2 where slope-scale is spread, got {config.slopes_per_step}: one slope"
            " has no standard deviation",
        )
    if config.slope == "gradient":
        wanted: dict[str, tuple[Scalar, str]] = {
            "slopes-per-step": (1, "a step has one gradient"),
            "slope-scale": ("none", "a step has one gradient"),
            "uplink": ("move", "no slopes lead to where gradients led"),
            "privacy": ("none", "noise is added to slopes"),
        }
        yield from other_values(config, "where slope is gradient", wanted)
        if config.objective:
            yield Problem(
                "slope",
                "slope must be central or forward for an objective of your own, got 'gradient': only built-in models"
                " have gradients (any algorithm but fedavg takes slopes)",
            )
        if config.row.law != "isotropic":
            yield Problem(
                "slope",
                f"slope must be central or forward with {config.algorithm}, which shapes directions, got 'gradient'",
            )


def of_surrogates(config: RunConfig) -> Iterator[Problem]:
    """Yield problems of steps along surrogates, which no slopes tell."""
    if (config.slope == "surrogate") != (config.algorithm == "fzoos"):
        yield Problem(
            "slope",
            f"slope must be surrogate with fzoos and with no other algorithm, got {config.slope!r} with"
            f" {config.algorithm}",
        )
    if config.algorithm != "fzoos":
        return
    wanted: dict[str, tuple[Scalar, str]] = {
        "slope-scale": ("none", "a step has no slopes"),
        "correction": ("none", "the surrogates of the others correct a step"),
        "privacy": ("none", "values of F hold no noise"),
        "secure-aggregation": (False, "values of F are not masked"),
        "aggregation": ("mean", "false values of F would stay in the surrogates"),
        "batch-growth": (0.0, "steps take whole shards"),
        "on-error": ("drop-slot" if config.on_error == "skip-step" else config.on_error, "steps are not skipped"),
    }
    yield from other_values(config, "with fzoos", wanted)
    if config.server_step in ("tracking", "newton", "quasi-newton"):
        yield Problem("server-step", f"server-step must not be {config.server_step} with fzoos: it learns from slopes")
    if config.step_is_auto:
        yield Problem("step-size", "step-size must be a number with fzoos, since auto learns from slopes")


def of_curvature(config: RunConfig) -> Iterator[Problem]:
    """Yield problems of what learns how F bends, and of batches that grow."""
    if config.server_step in ("newton", "quasi-newton"):
        shared: dict[str, tuple[Scalar, str]] = {
            "directions": ("shared", "only along shared directions has the mean of slopes a gradient"),
            "local-steps": (1, "all slopes of a round must be at x"),
            "aggregation": ("mean", "H is learnt from the mean over the slots"),
            "privacy": ("none", "curvatures hold no noise"),
            "secure-aggregation": (False, "curvatures are not masked"),
        }
        yield from other_values(config, f"where server-step is {config.server_step}", shared)
        if config.server_step == "newton" and config.clients_per_round < config.num_clients:
            yield Problem(
                "clients-per-round",
                f"clients-per-round must be num-clients = {config.num_clients} where server-step is newton, got"
                f" {config.clients_per_round}: the inverse of H enlarges what clients differ by",
            )
        if config.server_step == "newton" and config.slope != "three-point":
            yield Problem("slope", f"slope must be three-point where server-step is newton, got {config.slope!r}")
    if config.slope == "three-point" and (config.privacy != "none" or config.secure_aggregation):
        yield Problem("slope", "slope must not be three-point with privacy or secure-aggregation: v'Hv holds no noise")
    if config.slope == "three-point" and (config.correction == "svrg" or config.slope_scale != "none"):
        yield Problem("slope", "slope must not be three-point where correction is svrg or slope-scale is spread")
    if config.batch_growth and (config.privacy != "none" or config.secure_aggregation or config.batch == 0):
        yield Problem(
            "batch-growth",
            f"batch-growth must be 0 with whole shards, privacy or secure-aggregation, got {config.batch_growth:g}: it"
            " compares the slots' moves, and grows batches",
        )


def of_corrections(config: RunConfig) -> Iterator[Problem]:
    """Yield problems of what is taken off slopes, and of what the server learns from single clients."""
    if config.correction != "none" and config.slope == "gradient":
        yield Problem("correction", f"correction must be none where slope is gradient, got {config.correction!r}")
    if config.correction == "svrg":
        along: dict[str, tuple[Scalar, str]] = {
            "slope-scale": ("none", "a scale of its own would keep slopes at x_r and at w from cancelling"),
            "privacy": ("none", "a slope on the whole shard is in every step"),
            "secure-aggregation": (False, "a slope that counts K times is out of range"),
            "on-error": ("drop-slot" if config.on_error == "skip-step" else config.on_error, "steps are not skipped"),
        }
        yield from other_values(config, "where correction is svrg", along)
    if config.correction == "control" or config.server_step == "tracking":
        which = "where the server learns from the moves of each client"
        each: dict[str, tuple[Scalar, str]] = {
            "privacy": ("none", "moves without noise tell about rows"),
            "secure-aggregation": (False, "it is not told what one client's move is"),
            "aggregation": ("mean", "a false move would stay in the estimates"),
        }
        yield from other_values(config, which, each)


def of_aggregation(config: RunConfig) -> Iterator[Problem]:
    """Yield problems of a rule that bears false moves."""
    rule, slots, tolerated = config.aggregation, config.clients_per_round, config.tolerated
    if config.weighting != "uniform":
        yield Problem(
            "weighting",
            f"weighting must be uniform when aggregation is {rule}, which knows no weights, got {config.weighting!r}",
        )
    if config.step_is_auto:
        yield Problem(
            "aggregation",
            f"aggregation must be mean when step-size is auto, whose sums a false slot can bend, got {rule!r} (or give"
            " step-size as a number; algorithm = cma-es and auto bear median and trimmed-mean)",
        )
    least = {"trimmed-mean": 2 * tolerated + 1, "krum": 2 * tolerated + 3, "multi-krum": 2 * tolerated + 3}.get(rule, 1)
    if slots < least:
        yield Problem(
            "clients-per-round",
            f"clients-per-round must be at least {least} for {rule} to bear {tolerated} false slots, got {slots}"
            " (median and centered-clipping need no such number)",
        )


def of_auto_steps(config: RunConfig) -> Iterator[Problem]:
    """Yield problems of step-size = auto."""
    for key, value in (("slope-scale", config.slope_scale), ("correction", config.correction)):
        if value != "none":
            yield Problem(
                "step-size",
                f"step-size must be a number when {key} is {value}, since auto learns from slopes as they are",
            )
    if (config.server_step, config.server_rate) != ("mean", 1.0):
        yield Problem(
            "step-size",
            f"step-size must be a number when server-step is {config.server_step} with server-rate ="
            f" {config.server_rate:g}, since auto learns from where the mean of the moves leads (or leave both keys at"
            " their defaults)",
        )
    if not isinstance(config.warm_up, str) and config.warm_up:
        yield Problem(
            "warm-up",
            f"warm-up must be 0 when step-size is auto, which begins with short steps by itself, got {config.warm_up}",
        )
    if config.on_error == "stop":
        yield Problem(
            "on-error",
            "on-error must not be 'stop' when step-size is auto, which tries steps that are too long, got 'stop'"
            ' ("drop-slot" leaves them out; or give step-size as a number)',
        )


def of_auto_weight(config: RunConfig) -> Iterator[Problem]:
    """Yield problems of subspace-weight = auto."""
    if config.row.law != "trajectory":
        yield Problem(
            "subspace-weight",
            f"subspace-weight must be a number with {config.algorithm}, got 'auto': its rule is for directions that are"
            " stretched",
        )
    if config.clients_per_round < 2:
        yield Problem(
            "clients-per-round",
            "clients-per-round must be at least 2 when subspace-weight is auto, which compares clients, got"
            f" {config.clients_per_round} (or give subspace-weight as a number)",
        )
    if config.covariance != "trace":
        yield Problem(
            "covariance",
            f"covariance must be 'trace' when subspace-weight is auto, got {config.covariance!r} (without the scale"
            " n/tau' there is nothing to steer; or give subspace-weight as a number)",
        )

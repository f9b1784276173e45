"""Values of run config keys that do not go together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from zofedht.common.choices import AUTO, CLIENTS_HOLD_DATA, parse_transforms
from zofedht.common.config.checking import Problem
from zofedht.common.config.keys import Scalar
from zofedht.common.rules import MOST_DRAWN

if TYPE_CHECKING:
    from zofedht.common.config.run_config import RunConfig

__all__ = ["KEYS_OF_STEPS", "contradictions"]

KEYS_OF_STEPS = (
    "covariance", "subspace-weight", "shrink", "memory", "refresh", "cone-angle", "guide-decay", "guide-floor", "slope",
    "slopes-per-step", "slope-scale", "probe", "radius", "step-size", "step-schedule", "warm-up", "local-steps",
    "clients-per-round", "batch-growth", "sampling", "weighting", "aggregation", "tolerate", "server-step",
    "server-rate", "server-momentum", "server-decay", "server-floor", "kernel", "uplink", "directions", "downlink",
    "wire-dtype", "pool-size", "correction", "privacy", "epsilon", "least-samples", "secure-aggregation",
    "share-threshold", "subset-share", "blocks", "rank",
)  # fmt: skip
"""Keys that say how local steps are taken, sent and averaged."""


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
    if config.asks_points:
        yield from _of_points(config)
        return
    if config.sampling == "without-replacement" and config.clients_per_round > config.num_clients:
        yield Problem(
            "clients-per-round",
            f"clients-per-round must be at most num-clients = {config.num_clients} when drawn without replacement,"
            f' got {config.clients_per_round} (sampling = "with-replacement" lifts this)',
        )
    follows = (config.uplink, config.directions) == ("slopes", "shared")
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
        yield from _other_values(config, "where slope is gradient", wanted)
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
    if config.server_step in ("newton", "quasi-newton"):
        shared: dict[str, tuple[Scalar, str]] = {
            "directions": ("shared", "only along shared directions has the mean of slopes a gradient"),
            "local-steps": (1, "all slopes of a round must be at x"),
            "aggregation": ("mean", "H is learnt from the mean over the slots"),
            "privacy": ("none", "curvatures hold no noise"),
        }
        yield from _other_values(config, f"where server-step is {config.server_step}", shared)
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
    if config.slope == "three-point" and (config.correction == "anchor" or config.slope_scale != "none"):
        yield Problem("slope", "slope must not be three-point where correction is anchor or slope-scale is spread")
    if config.batch_growth and (config.privacy != "none" or config.secure_aggregation or config.batch == 0):
        yield Problem(
            "batch-growth",
            f"batch-growth must be 0 with whole shards, privacy or secure-aggregation, got {config.batch_growth:g}: it"
            " compares the slots' moves, and grows batches",
        )
    if config.correction != "none" and config.slope == "gradient":
        yield Problem("correction", f"correction must be none where slope is gradient, got {config.correction!r}")
    if config.correction == "anchor":
        along: dict[str, tuple[Scalar, str]] = {
            "slope-scale": ("none", "a scale of its own would keep slopes at x_r and at w from cancelling"),
            "privacy": ("none", "a slope on the whole shard is in every step"),
            "secure-aggregation": (False, "a slope that counts K times is out of range"),
            "on-error": ("drop-slot" if config.on_error == "skip-step" else config.on_error, "steps are not skipped"),
        }
        yield from _other_values(config, "where correction is anchor", along)
    if config.correction == "control" or config.server_step == "tracking":
        which = "where the server learns from the moves of each client"
        each: dict[str, tuple[Scalar, str]] = {
            "privacy": ("none", "moves without noise tell about rows"),
            "secure-aggregation": (False, "it is not told what one client's move is"),
            "aggregation": ("mean", "a false move would stay in the estimates"),
        }
        yield from _other_values(config, which, each)
    if config.aggregation != "mean":
        yield from _of_aggregation(config)
    if config.return_x == "best" and not config.may_return_best:
        yield Problem(
            "return-x",
            "return-x must be last with privacy or secure-aggregation, got 'best': which x is best tells something of"
            " the losses",
        )
    yield from _of_privacy(config)
    if config.secure_aggregation:
        yield from _of_secure_aggregation(config)
    if config.step_is_auto:
        yield from _of_auto_steps(config)
    if config.weight_is_auto:
        yield from _of_auto_weight(config)


def _of_points(config: RunConfig) -> Iterator[Problem]:
    """Yield a problem for each key that was set and is about steps, which the algorithm takes none of."""
    for key in config.keys_of_steps:
        yield Problem(
            key,
            f"{key} must not be set for algorithm {config.algorithm}, which asks clients for evaluations and for no"
            f" steps, got {config.to_mapping()[key]!r} (leave it out, or choose another algorithm)",
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


def _of_secure_aggregation(config: RunConfig) -> Iterator[Problem]:
    wanted = {
        "uplink": ("slopes", "what is masked is K slopes"),
        "directions": ("shared", "only along shared directions has the sum of slopes a meaning"),
        "sampling": ("without-replacement", "a sum of one client's slots would tell about that client"),
        "aggregation": ("mean", "the other rules look at each slot's slopes"),
        "weighting": ("uniform", "the sum is taken with equal weights"),
    }
    yield from _other_values(config, "under secure-aggregation", wanted)
    if config.step_is_auto:
        yield Problem(
            "step-size",
            "step-size must be a number under secure-aggregation, since auto learns from the losses of each slot",
        )
    if config.weight_is_auto:
        yield Problem(
            "subspace-weight",
            "subspace-weight must be a number under secure-aggregation, since auto compares the clients' slopes",
        )
    if config.on_error == "skip-step":
        yield Problem(
            "on-error",
            "on-error must not be 'skip-step' under secure-aggregation, got 'skip-step': a client would tell beside the"
            " sum how many steps it skipped, and why",
        )
    if config.row.shrinks:
        yield Problem(
            "algorithm",
            f"algorithm must not be {config.algorithm} under secure-aggregation: clients name their stiff directions"
            " unmasked",
        )
    if not config.clients_per_round < 2 * config.unmasking <= 2 * config.clients_per_round or config.unmasking < 2:
        yield Problem(
            "share-threshold",
            f"share-threshold must be at least 2, more than half of clients-per-round ="
            f" {config.clients_per_round} and not more than all, got {config.unmasking}",
        )


def _of_privacy(config: RunConfig) -> Iterator[Problem]:
    if config.privacy == "none":
        if config.epsilon:
            yield Problem(
                "epsilon",
                f"epsilon must be 0 when privacy is none, got {config.epsilon:g} (local and central add noise)",
            )
        return
    which = f"when privacy is {config.privacy}"
    if config.uplink != "slopes":
        yield Problem(
            "uplink",
            f"uplink must be slopes {which}, since noise is added to K slopes and a move would need it in n numbers,"
            f" got {config.uplink!r}",
        )
    if config.sampling != "without-replacement":
        yield Problem(
            "sampling",
            f"sampling must be without-replacement {which}, which counts one slot of a client in a round, got"
            f" {config.sampling!r}",
        )
    if config.slope_scale != "none":
        yield Problem(
            "slope-scale",
            f"slope-scale must be none {which}, got {config.slope_scale!r}: a slope that is divided by others has no"
            " bound on what one row changes",
        )
    if config.row.shrinks:
        yield Problem(
            "algorithm",
            f"algorithm must not be {config.algorithm} {which}: the stiff directions that clients name hold no noise",
        )
    if config.step_is_auto:
        yield Problem(
            "step-size", f"step-size must be a number {which}, since auto learns from losses, which hold no noise"
        )
    if config.on_error != "drop-slot":
        yield Problem(
            "on-error",
            f"on-error must be drop-slot {which}, got {config.on_error!r}: that an evaluation failed tells about the"
            " rows, so its slope counts as 0 and nobody is told",
        )
    if config.privacy == "central":
        yield from _of_central_privacy(config)


def _other_values(config: RunConfig, when: str, wanted: Mapping[str, tuple[Scalar, str]]) -> Iterator[Problem]:
    """Yield a problem for each key whose value is not the wanted one; ``wanted`` has a value and the reason by key."""
    given = config.settled()
    for key, (value, why) in wanted.items():
        if given[key] != value:
            yield Problem(key, f"{key} must be {value} {when}, got {given[key]!r}: {why}")


def _of_central_privacy(config: RunConfig) -> Iterator[Problem]:
    wanted = {
        "directions": (
            "shared",
            "noise is added to the mean of the slopes, and only along shared directions there is one",
        ),
        "aggregation": ("mean", "nobody has bounded what one client changes under another rule"),
        "weighting": ("uniform", "a client must not change the mean by its number of rows"),
    }
    yield from _other_values(config, "when privacy is central", wanted)
    if config.weight_is_auto:
        yield Problem(
            "subspace-weight",
            "subspace-weight must be a number when privacy is central, since auto learns from slopes without noise",
        )
    if config.least_samples:
        yield Problem(
            "least-samples",
            "least-samples must be 0 when privacy is central, which protects clients and not single rows, got"
            f" {config.least_samples}",
        )


def _of_aggregation(config: RunConfig) -> Iterator[Problem]:
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
            " step-size as a number)",
        )
    least = {"trimmed-mean": 2 * tolerated + 1, "krum": 2 * tolerated + 3, "multi-krum": 2 * tolerated + 3}.get(rule, 1)
    if slots < least:
        yield Problem(
            "clients-per-round",
            f"clients-per-round must be at least {least} for {rule} to bear {tolerated} false slots, got {slots}"
            " (median and centered-clipping need no such number)",
        )


def _of_auto_steps(config: RunConfig) -> Iterator[Problem]:
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


def _of_auto_weight(config: RunConfig) -> Iterator[Problem]:
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

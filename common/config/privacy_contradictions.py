"""Values of keys that do not go together with privacy, or with secure aggregation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from zofedht.common.config.checking import Problem, other_values

if TYPE_CHECKING:
    from zofedht.common.config.run_config import RunConfig

__all__ = ["of_privacy", "of_secure_aggregation"]


def of_privacy(config: RunConfig) -> Iterator[Problem]:
    """Yield problems of noise on the slopes."""
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


def _of_central_privacy(config: RunConfig) -> Iterator[Problem]:
    wanted = {
        "directions": (
            "shared",
            "noise is added to the mean of the slopes, and only along shared directions there is one",
        ),
        "aggregation": ("mean", "nobody has bounded what one client changes under another rule"),
        "weighting": ("uniform", "a client must not change the mean by its number of rows"),
    }
    yield from other_values(config, "when privacy is central", wanted)
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


def of_secure_aggregation(config: RunConfig) -> Iterator[Problem]:
    """Yield problems of masks on the slopes."""
    wanted = {
        "uplink": ("slopes", "what is masked is K slopes"),
        "directions": ("shared", "only along shared directions has the sum of slopes a meaning"),
        "sampling": ("without-replacement", "a sum of one client's slots would tell about that client"),
        "aggregation": ("mean", "the other rules look at each slot's slopes"),
        "weighting": ("uniform", "the sum is taken with equal weights"),
    }
    yield from other_values(config, "under secure-aggregation", wanted)
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

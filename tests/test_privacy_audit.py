"""The audit: a curious server guesses from slopes whether one row is in a shard.

The shard has blanks, and the row in question (the canary) or one more blank. The canary's slope is cut in every step,
so the server knows what it adds to each slope: C / b with the sign of the projection. Its best guess, up to the
sampling, is the sum of the slopes in these units. From the errors of many guesses follows an epsilon that the clients
have at least (Jagielski et al. 2020), with Clopper and Pearson's bounds for the errors.

A trial is a slot of four steps, whose epsilon the accountant tells. Batch and noise are drawn anew for each step, by
the same law in a slot of any length, and x stays where it is. So one device takes fifty trials in one long slot.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from tests.helpers import spec
from zofedht.client.steps.worker import Worker
from zofedht.common.config.run_config import RunConfig
from zofedht.common.data.dataset import Dataset
from zofedht.common.directions.law import law_of, slot_directions
from zofedht.common.models.linear import LinearObjective
from zofedht.common.models.losses import LOGISTIC
from zofedht.common.random.streams import Address
from zofedht.common.typing import Vector
from zofedht.common.wire.messages import Broadcast
from zofedht.server.privacy import Account, Exposure

pytest.importorskip("dp_accounting")

_ROWS, _COLUMNS, _CONFIDENCE, _DELTA = 8, 6, 0.999, 1e-3
_STEPS, _TOGETHER = 4, 50  # of a trial; trials of a device
_PILOT, _TRIALS = 500, 1500  # that choose the threshold of the guesses; that are judged by it
_CANARY = np.random.default_rng(4).standard_normal(_COLUMNS) * 1e4


def _shard(canary: Vector) -> LinearObjective:
    features = np.zeros((_ROWS, _COLUMNS))
    features[-1] = canary
    return LinearObjective(Dataset(features, np.ones(_ROWS), np.ones(_ROWS, dtype=np.intp)), LOGISTIC)


def _asked(**keys: Any) -> Broadcast:
    keys = {"privacy": "local", "uplink": "slopes", "step_size": 1e-9, "clip": 0.1} | keys
    keys["local_steps"] = _STEPS * _TOGETHER
    return Broadcast(address=Address(1, 2, 3), spec=spec(**keys), client="5", shard_index=5, x=np.zeros(_COLUMNS))


def _scores(canary: Vector, asked: Broadcast, trials: int, first: int) -> Vector:
    """Return the server's score of each trial: the canary's share of the slopes. ``first`` names the first secret."""
    objective, law = _shard(canary), law_of(asked.spec, _COLUMNS)
    directions = np.concatenate(list(slot_directions(law, asked.spec.local_steps, asked.address)))
    signs = -np.sign(directions @ _CANARY)  # its label is 1: the loss falls along the row
    scores = []
    for secret in range(first, first + trials // _TOGETHER):
        worker = Worker(lambda _: objective, secret_of=lambda _, secret=secret: secret.to_bytes(4, "little"))
        slopes = worker.work(asked).slopes
        assert slopes is not None
        scores.append((slopes * signs).reshape(_TOGETHER, _STEPS).sum(axis=1))
    return np.concatenate(scores)


def _attacked(asked: Broadcast) -> float:
    """Return the epsilon that the guesses prove, with confidence."""
    trials = _PILOT + _TRIALS
    out, inside = _scores(0 * _CANARY, asked, trials, 0), _scores(_CANARY, asked, trials, 10**6)
    candidates = np.quantile(np.concatenate([out, inside]), np.linspace(0.02, 0.98, 49))
    best = max(candidates, key=lambda t: _proven(out[:_PILOT], inside[:_PILOT], t))
    return _proven(out[_PILOT:], inside[_PILOT:], best)  # on trials that did not choose the threshold


def _proven(out: Vector, inside: Vector, threshold: float) -> float:
    """Return the largest epsilon that both errors, each at its upper bound, contradict less of."""
    false_alarms, misses = (_upper(int(np.sum(wrong)), len(wrong)) for wrong in (out > threshold, inside <= threshold))
    found = [(1 - _DELTA - one) / other for one, other in ((false_alarms, misses), (misses, false_alarms))]
    return max(math.log(max(ratio, 1e-300)) for ratio in found)


def _upper(errors: int, trials: int) -> float:
    """Return Clopper and Pearson's upper bound of a probability."""
    return float(beta.ppf(_CONFIDENCE, errors + 1, trials - errors)) if errors < trials else 1.0


def _told(**keys: Any) -> float:
    """Return the epsilon that the accountant tells of one slot."""
    mapping = {"privacy": "local", "uplink": "slopes", "sampling": "without-replacement", "step-size": 1e-9}
    config = RunConfig.from_mapping(
        mapping
        | {"local-steps": _STEPS, "clip": 0.1, "delta": _DELTA}
        | {k.replace("_", "-"): v for k, v in keys.items()}
    )
    return Account(config).epsilon(Exposure((("5", 1),)))


@pytest.mark.parametrize(
    "keys",
    [
        {"batch_size": 0, "noise_multiplier": 2.0},
        {"batch_size": 0, "noise_multiplier": 4.0},
        {"batch_size": 2, "noise_multiplier": 1.0, "least_samples": 8},
    ],
)
def test_a_membership_attack_stays_below_epsilon(keys: dict[str, Any]) -> None:
    """It proves a part of epsilon, so it is an attack."""
    told = _told(**keys)
    assert 0.1 * told < _attacked(_asked(**keys)) < told


def test_without_noise_the_attack_succeeds() -> None:
    keys = {"batch_size": 2, "noise_multiplier": 1e-6}
    out, inside = (_scores(row, _asked(**keys), 200, 0) for row in (0 * _CANARY, _CANARY))
    drawn = 1 - 0.75**_STEPS  # the canary is in one of the four batches
    assert np.mean(out > 0.01) == 0.0
    assert float(np.mean(inside > 0.01)) == pytest.approx(drawn, abs=5 * math.sqrt(drawn * (1 - drawn) / 200))
    assert _attacked(_asked(batch_size=0, noise_multiplier=1e-6)) > 4.5  # the most that so many trials can prove


def test_noise_that_is_too_small_is_found() -> None:
    """A device with a third of the noise that the accountant was told fails the audit."""
    assert _attacked(_asked(batch_size=0, noise_multiplier=2.0 / 3)) > _told(batch_size=0, noise_multiplier=2.0)

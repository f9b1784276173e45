"""Private steps: what one row can change, what is sent, and whom the walk follows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.common.samples import MODEL_CASES, BlackBox, model
from tests.helpers import Breaks, offline, spec
from zofedht.client.steps.worker import Worker
from zofedht.common.data.dataset import Dataset
from zofedht.common.machine.blas import one_thread
from zofedht.common.models.linear import LinearObjective
from zofedht.common.models.losses import LOGISTIC
from zofedht.common.objective.base import Objective
from zofedht.common.random.streams import Address
from zofedht.common.replay import replay, sketch
from zofedht.common.typing import Indices, Vector
from zofedht.common.wire.messages import Broadcast, Update

_LOCAL = {"privacy": "local", "uplink": "slopes", "local_steps": 6, "step_size": 0.5, "clip": 0.2}
_TINY = 1e-9  # a noise multiplier that shows the slopes below the noise


def _asked(dimension: int = 7, **changes: Any) -> Broadcast:
    return Broadcast(
        address=Address(1, 2, 3), spec=spec(**(_LOCAL | changes)), client="5", shard_index=5, x=np.full(dimension, 0.5)
    )


def _update(objective: Objective, secret: bytes = b"mine", **changes: Any) -> Update:
    return Worker(lambda _: objective, secret_of=lambda _: secret).work(_asked(objective.dim, **changes))


def _slopes(objective: Objective, secret: bytes = b"mine", **changes: Any) -> Vector:
    update = _update(objective, secret, **changes)
    assert update.slopes is not None, update.reason
    return update.slopes


@pytest.mark.parametrize(("name", "bias", "l2"), MODEL_CASES)
def test_differences_and_penalty_make_the_difference(name: str, bias: bool, l2: float) -> None:
    objective, rng = model(name, bias=bias, l2=l2), np.random.default_rng(0)
    w, v, batch = rng.standard_normal(objective.dim), rng.standard_normal(objective.dim), np.array([3, 7, 7, 20])
    parts = objective.differences(w, v, 1e-3, -2e-3, batch)
    assert parts is not None
    assert parts.shape == (4,)
    whole = float(np.mean(parts)) + objective.penalty(w, v, 1e-3, -2e-3)
    assert whole == pytest.approx(objective.difference(w, v, 1e-3, -2e-3, batch)[0], rel=1e-9)


def _rows(last: float) -> LinearObjective:
    """Return twelve rows; the last one is scaled by so much, and 0 makes it a blank."""
    features = np.random.default_rng(8).standard_normal((12, 5)) * 0.1
    features[-1] = last * features[0] * 100.0
    labels = np.arange(12) % 2
    return LinearObjective(Dataset(features, labels.astype(np.float64), labels), LOGISTIC)


@pytest.mark.parametrize("together", [1, 3])
def test_one_row_changes_slopes_by_noise_over_z(together: int) -> None:
    """Whatever the row holds: the first step is at one w, and the noise is C sqrt(q) / b times z."""
    keys = {"batch_size": 4, "noise_multiplier": _TINY, "clip": 0.01, "local_steps": 1, "slopes_per_step": together}
    changes = []
    for number in range(40):
        secret = number.to_bytes(2, "little")
        apart = _slopes(_rows(1e3), secret, **keys) - _slopes(_rows(0.0), secret, **keys)
        changes.append(float(np.linalg.norm(apart)))
    most = 0.01 * np.sqrt(together) / 4
    assert max(changes) == pytest.approx(most, rel=1e-6)  # the bound is reached,
    drawn = sum(change > most / 2 for change in changes)
    assert 5 <= drawn <= 25  # in the third of the batches that hold the row


def test_noise_has_z_times_what_a_row_changes() -> None:
    """At z = 2, C = .2, b = 3: slopes without signal spread by 2 * .2 / 3."""
    blank = LinearObjective(Dataset(np.zeros((9, 5)), np.zeros(9), np.zeros(9, dtype=np.intp)), LOGISTIC)
    noise = np.concatenate(
        [_slopes(blank, n.to_bytes(2, "little"), batch_size=3, noise_multiplier=2.0) for n in range(400)]
    )
    deviation = 2.0 * 0.2 / 3
    assert float(np.std(noise)) == pytest.approx(deviation, rel=5 / np.sqrt(2 * len(noise)))


def test_the_walk_follows_the_noised_slopes() -> None:
    """Else what is sent later would depend on the rows without noise."""
    objective = model("logistic", l2=0.3)
    update, asked = _update(objective, noise_multiplier=5.0), _asked(noise_multiplier=5.0)
    assert update.slopes is not None
    assert update.sketch is not None
    with one_thread():
        move = replay(asked, None, asked.spec.step_size * update.slopes).move
    np.testing.assert_allclose(update.sketch, sketch(move), atol=1e-12)


def test_no_loss_leaves_a_private_client() -> None:
    update = _update(model("mlp"), batch_size=8)
    assert np.isnan(update.loss)
    assert np.isnan(update.start_loss)
    assert update.evaluations == 2 * 8 * 6


@pytest.mark.parametrize("how", [offline, lambda: float("nan"), lambda: "text"])
def test_a_failed_evaluation_is_not_told(how: Any) -> None:
    """A failure depends on the rows: it counts as slope 0, under the same noise."""
    heard: list[Exception] = []
    worker = Worker(lambda _: Breaks(4, how), secret_of=lambda _: b"mine", error_text=lambda e: str(heard.append(e)))
    update = worker.work(_asked(3))
    assert (update.status, update.cause, update.step, update.reason, update.skipped) == ("ok", None, None, "", 0)
    assert update.slopes is not None
    assert np.all(update.slopes != 0.0)
    assert len(heard) == 1


class _Steep(BlackBox):
    def value(self, x: Vector, batch: Indices | slice) -> float:
        return 1e6 * super().value(x, batch)


def test_a_black_box_is_cut_as_a_whole() -> None:
    slopes = _slopes(_Steep(model("quadratic")), noise_multiplier=_TINY)
    np.testing.assert_allclose(np.abs(slopes), 0.2, rtol=1e-6)


def test_sampling_is_not_counted_for_a_black_box_without_differences() -> None:
    update = _update(BlackBox(model("quadratic")), least_samples=10, batch_size=2)
    assert update.status == "failed"
    assert "least-samples must be 0 where the objective has no differences()" in update.reason


def test_a_small_shard_refuses() -> None:
    assert "has 40 samples, fewer than least-samples" in _update(model("logistic"), least_samples=41).reason


def test_moves_are_refused() -> None:
    assert "uplink must be slopes where privacy is local" in _update(model("logistic"), uplink="move").reason


def test_stiff_directions_are_refused() -> None:
    assert "stiff directions cannot be told" in _update(model("logistic"), tells_stiff=True).reason


def test_a_client_without_a_secret_refuses() -> None:
    update = Worker(lambda _: model("logistic")).work(_asked())
    assert (update.status, update.slopes) == ("failed", None)
    assert "join with --privacy-key FILE" in update.reason


def test_central_slopes_are_cut_and_have_no_noise() -> None:
    """The trusted server hears losses, too."""
    update = _update(_Steep(model("quadratic")), privacy="central")
    assert update.slopes is not None
    assert set(np.abs(update.slopes)) == {0.2}
    assert np.isfinite(update.loss)

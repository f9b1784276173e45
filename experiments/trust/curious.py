"""A curious server: what it learns of a client's rows from questions that every run asks.

The server knows x, the directions and the samples of every step: they are addressed, and so it draws them itself. At
x = 0 the gradient of the logistic loss of a row a with label y is (1/2 - y) a. A slope is then a linear equation for
the gradients of the rows of its batch: c_k = mean over the batch of g_j . v_k. With as many slopes as the rows hold
numbers, least squares gives every row, and its sign the label.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zofedht.client.steps.worker import Worker
from zofedht.common.config.run_config import RunConfig
from zofedht.common.data.dataset import Dataset
from zofedht.common.directions.law import DirectionLaw, slot_directions
from zofedht.common.models.table import build_model
from zofedht.common.random.streams import Address
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.clients import Member
from zofedht.experiments.report.markdown import table
from zofedht.server.core.ask import ask
from zofedht.server.core.state import initial_state

__all__ = ["Spied", "curious_table", "made_up_rows", "rebuilt_rows", "spy"]

_STEP = 1e-12  # so short that w stays at x: the gradients are those of x in every step
_CLOSE = 1e-3  # relative distance at which a row counts as rebuilt


@dataclass(frozen=True)
class Spied:
    """What a curious server has got.

    gradients: (rows, n), of each row's loss at x = 0. rows: (rows, n), rebuilt. labels: (rows,), 0.0 or 1.0.
    """

    gradients: Matrix

    @property
    def rows(self) -> Matrix:
        return np.asarray(2.0 * np.abs(self.gradients))  # the rows are positive

    @property
    def labels(self) -> Vector:
        return np.asarray(self.gradients.sum(axis=1) < 0.0, dtype=np.float64)


def made_up_rows(rows: int = 8, columns: int = 20, seed: int = 0) -> Dataset:
    """Return rows of positive numbers and norm 1, with labels: a device's secret."""
    rng = np.random.default_rng(seed)
    features = rng.random((rows, columns)) + 0.1
    features /= np.linalg.norm(features, axis=1)[:, None]
    labels = np.arange(rows) % 2
    return Dataset(features, labels.astype(np.float64), labels)


def spy(data: Dataset, batch: int, slopes: int, noise: float = 0.0, seed: int = 0) -> Spied:
    """Ask a client for one slot of steps, and rebuild its rows from the slopes.

    Parameters
    ----------
    data : Dataset
        The client's rows, which the server does not see.
    batch : int
        Samples of a step; 0 for the whole shard.
    slopes : int
        Steps of the slot.
    noise : float
        Standard deviation of noise that the client adds to each slope, in units of their root mean square.
    """
    objective = build_model("logistic", data)
    config = RunConfig(
        algorithm="zofedavg-sgd", num_clients=1, clients_per_round=1, batch_size=batch, local_steps=slopes,
        step_size=_STEP, uplink="slopes", kernel="numpy", seed=seed,
    )  # fmt: skip
    state = initial_state(config, np.zeros(objective.dim))
    [asked] = ask(state, config, [Member("0", 0, "0")])
    update = Worker(lambda broadcast: objective).work(asked)
    assert update.slopes is not None
    measured = update.slopes
    if noise:
        size = noise * float(np.sqrt(np.mean(measured**2)))
        measured = measured + size * np.random.default_rng(seed + 1).standard_normal(slopes)
    return Spied(_rebuilt(measured, len(data.target), objective.dim, batch, seed))


def _rebuilt(slopes: Vector, rows: int, dimension: int, batch: int, seed: int) -> Matrix:
    """Solve for the gradients of all rows: what the server does, with nothing but what it knows."""
    address = Address(seed, 0, 0)
    directions = np.concatenate(list(slot_directions(DirectionLaw(dimension), len(slopes), address, kernel="numpy")))
    shares = np.full((len(slopes), rows), 1.0 / rows)  # of each row in the mean of a step's batch
    if batch:
        drawn = address.stream("minibatch").integers(0, rows, size=(len(slopes), batch), dtype=np.intp)
        shares = np.stack([np.bincount(step, minlength=rows) / batch for step in drawn])
    equations = np.einsum("kj,kn->kjn", shares, directions).reshape(len(slopes), rows * dimension)
    return np.asarray(np.linalg.lstsq(equations, slopes, rcond=None)[0].reshape(rows, dimension))


def rebuilt_rows(data: Dataset, spied: Spied) -> int:
    """Return how many rows were rebuilt to within a thousandth, with the right label."""
    distance = np.linalg.norm(spied.rows - data.features, axis=1) / np.linalg.norm(data.features, axis=1)
    return int(np.sum((distance < _CLOSE) & (spied.labels == data.target)))


def curious_table(seed: int = 0) -> str:
    """Return as Markdown how many of 8 rows of 20 numbers are rebuilt, by batch, number of slopes and noise."""
    data = made_up_rows(seed=seed)
    cases = [
        ("batch of 1", 1, 400, 0.0), ("batch of 4", 4, 400, 0.0), ("batch of 8, drawn with replacement", 8, 400, 0.0),
        ("whole shard", 0, 400, 0.0), ("batch of 1, fewer slopes than the rows hold numbers", 1, 100, 0.0),
        ("batch of 1, noise of a tenth of a slope", 1, 400, 0.1),
    ]  # fmt: skip
    rows = [
        [name, str(slopes), str(rebuilt_rows(data, spy(data, batch, slopes, noise, seed)))]
        for name, batch, slopes, noise in cases
    ]
    return table(["question", "slopes", "rows rebuilt of 8"], rows)

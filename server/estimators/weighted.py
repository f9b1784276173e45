"""The loss of one client's rows, each of which may have a weight."""

from __future__ import annotations

from zofedht.common.data.dataset import Dataset
from zofedht.common.models.linear import LinearObjective
from zofedht.common.models.losses import HINGE, LOGISTIC, SQUARED_HINGE
from zofedht.common.models.mlp import MlpObjective
from zofedht.common.models.table import ModelOptions, build_model
from zofedht.common.models.weighted_losses import WeightedLoss, weighted_target
from zofedht.common.objective.base import Objective
from zofedht.common.typing import Indices, Vector

__all__ = ["loss_of_rows"]

_LINEAR = {"logistic": LOGISTIC, "svm-hinge": HINGE, "svm-squared-hinge": SQUARED_HINGE}


class _WeightedMlp(MlpObjective):
    """A network of weighted rows; a subclass has no loops of its own."""

    def __init__(self, data: Dataset, options: ModelOptions) -> None:
        super().__init__(data, options.hidden_units, options.mlp_bias, options.l2)
        self.loss = WeightedLoss(LOGISTIC)


def loss_of_rows(model: str, data: Dataset, own: Indices, weights: Vector | None, options: ModelOptions) -> Objective:
    """Return the model's loss on the ``own`` rows of the data; ``weights`` are those of all rows."""
    if weights is None:
        return build_model(model, data.take(own), options)
    weighted = Dataset(data.features, weighted_target(data.target, weights), data.labels).take(own)
    if model == "mlp":
        return _WeightedMlp(weighted, options)
    return LinearObjective(weighted, WeightedLoss(_LINEAR[model]), options.l2)

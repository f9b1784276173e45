"""The built-in objectives, by the name that the run config key ``model`` takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zofedht.common.data.dataset import Dataset
from zofedht.common.errors import DataError
from zofedht.common.machine.memory import lacking, least_bytes
from zofedht.common.models.linear import LinearObjective
from zofedht.common.models.losses import HINGE, LOGISTIC, SQUARED_HINGE
from zofedht.common.models.mlp import MlpObjective
from zofedht.common.models.quadratic import QuadraticObjective
from zofedht.common.objective.base import ExactObjective

__all__ = ["BUILDERS", "ModelOptions", "build_model"]


@dataclass(frozen=True)
class ModelOptions:
    """Hidden units and biases of the network, weight of the penalty, and whether rows have norm 1."""

    hidden_units: int = 50
    mlp_bias: bool = False
    l2: float = 0.0
    unit_rows: bool = True


def _mlp(data: Dataset, options: ModelOptions) -> MlpObjective:
    return MlpObjective(data, options.hidden_units, options.mlp_bias, options.l2, unit_rows=options.unit_rows)


BUILDERS: dict[str, Callable[[Dataset, ModelOptions], ExactObjective]] = {
    "logistic": lambda data, options: LinearObjective(data, LOGISTIC, options.l2),
    "svm-hinge": lambda data, options: LinearObjective(data, HINGE, options.l2),
    "svm-squared-hinge": lambda data, options: LinearObjective(data, SQUARED_HINGE, options.l2),
    "mlp": _mlp,
    "quadratic": lambda data, options: QuadraticObjective(data.features, l2=options.l2),
}
"""Builders by name."""


def build_model(name: str, data: Dataset, options: ModelOptions | None = None) -> ExactObjective:
    """Return the built-in objective ``name`` on the rows of ``data``.

    Raises DataError where its parameters do not fit into memory.
    """
    options = options or ModelOptions()
    columns = data.features.shape[1]
    dimension = columns * options.hidden_units if name == "mlp" else columns
    if text := lacking(least_bytes(dimension), f"n = {dimension:,} parameters, of {columns:,} columns,"):
        raise DataError(f"{text}; renumber the columns, or choose a smaller model")
    return BUILDERS[name](data, options)

"""The grid of a study: its cells, and the run config of each cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zofedht.common.algorithms import ALGORITHMS
from zofedht.common.choices import PARTITIONS
from zofedht.common.config.run_config import RunConfig, Scalar, dashed
from zofedht.experiments.study.presets import COMMON, EPOCHS, TRAIN_ROWS, Preset

__all__ = [
    "DATASETS",
    "MODELS",
    "NON_IID",
    "PARTITION_NAMES",
    "SETTINGS",
    "Cell",
    "Grid",
    "Panel",
    "cell_config",
    "full_budget",
    "label",
]

DATASETS = tuple(TRAIN_ROWS)
MODELS = ("logistic", "svm", "mlp", "svm-hinge", "svm-squared-hinge")
NON_IID = "non-iid"
PARTITION_NAMES = ("iid", NON_IID, *(name for name in PARTITIONS if name != "iid"))

SETTINGS = (
    *COMMON, "step-schedule", "dataset", "train-rows", "partition", "model", "init", "algorithm", "covariance",
    "sampling", "batch-size", "step-size", "budget", "seed", "evaluate-every", "subspace-weight",
)  # fmt: skip
"""The keys that a cell's config gives; the others have their defaults."""

_POINTS = 50
"""Full evaluations on a curve."""


def full_budget(dataset: str) -> int:
    """Return the evaluations of a whole run, those of the authors."""
    return EPOCHS * TRAIN_ROWS[dataset]


@dataclass(frozen=True, order=True)
class Panel:
    """One panel of a picture; ``partition`` and ``model`` are run config values, not the paper's words."""

    dataset: str
    model: str
    partition: str

    @property
    def title(self) -> str:
        """The panel in tables."""
        return f"{self.dataset} {self.model} {self.partition}"


@dataclass(frozen=True)
class Cell:
    """One run of the study. ``alpha`` is None for the algorithms without a trajectory."""

    panel: Panel
    algorithm: str
    eta: float
    alpha: float | None
    repeat: int

    @property
    def name(self) -> str:
        """The name of its folder."""
        alpha = "none" if self.alpha is None else label(self.alpha)
        place = f"{self.panel.dataset}-{self.panel.model}-{self.panel.partition}"
        return f"{place}-{self.algorithm}-eta{label(self.eta)}-alpha{alpha}-repeat{self.repeat}"


def label(number: float) -> str:
    """Return a number as names have it: 0.1, 10."""
    return f"{number:g}"


@dataclass(frozen=True)
class Grid:
    """The settings of a study."""

    preset: Preset
    datasets: Sequence[str]
    models: Sequence[str]
    partitions: Sequence[str]
    algorithms: Sequence[str]
    etas: Sequence[float]
    alphas: Sequence[float]
    repeats: int
    rounds: int = 0  # minibatch rounds; every algorithm gets the evaluations that these take
    budget: int = 0  # evaluations; 0 and no rounds: ``epochs`` a training row
    epochs: int = EPOCHS
    train_rows: int = 0  # 0: as TRAIN_ROWS says
    data_dir: str = ""
    first_seed: int = 0

    def panels(self) -> list[Panel]:
        """Return the panels, in an order in which neighbours share their data set."""
        found = [
            Panel(dataset, self._model(model), self.preset.non_iid if partition == NON_IID else partition)
            for dataset in self.datasets
            for partition in self.partitions
            for model in self.models
        ]
        return list(dict.fromkeys(found))

    def _model(self, model: str) -> str:
        return self.preset.svm if model == "svm" else model

    def candidates(self, panel: Panel, algorithm: str) -> list[tuple[float, float | None]]:
        """Return the (eta_0, alpha) among which an algorithm is tuned."""
        alphas: Sequence[float | None] = self.alphas if ALGORITHMS[algorithm].follows_trajectory else [None]
        return [(eta, alpha) for eta in self.etas for alpha in alphas]

    def cells(self, panel: Panel, repeat: int) -> list[Cell]:
        """Return all runs of one panel and repeat: they share one data set and its split."""
        return [
            Cell(panel, algorithm, eta, alpha, repeat)
            for algorithm in self.algorithms
            for eta, alpha in self.candidates(panel, algorithm)
        ]


def cell_config(grid: Grid, cell: Cell) -> RunConfig:
    """Return the checked run config of a cell.

    Raises ConfigError.
    """
    panel, preset = cell.panel, grid.preset
    rows = grid.train_rows or TRAIN_ROWS[panel.dataset]
    batch = preset.batch_size.get(panel.dataset, 64)
    per_round = 2 * batch * int(COMMON["local-steps"]) * int(COMMON["clients-per-round"])
    budget = grid.budget or grid.rounds * per_round or grid.epochs * rows
    if ALGORITHMS[cell.algorithm].data == "shard":  # about as many evaluations, in fewer rounds
        per_round = per_round * rows // (batch * int(COMMON["num-clients"]))
    squared = panel.model == "svm-squared-hinge"
    chosen: dict[str, Scalar] = {
        "dataset": panel.dataset,
        "data-dir": grid.data_dir,
        "train-rows": 0 if panel.dataset in ("digits", "rcv1") and not grid.train_rows else rows,
        "partition": panel.partition,
        "model": panel.model,
        "init": preset.svm_init if squared else "zeros",
        "algorithm": cell.algorithm,
        "step-schedule": preset.schedule,
        "covariance": preset.covariance,
        "sampling": preset.sampling,
        "batch-size": batch,
        "step-size": cell.eta,
        "budget": budget,
        "seed": grid.first_seed + cell.repeat,
        "evaluate-every": max(1, round(budget / per_round / _POINTS)),
    }
    if cell.alpha is not None:
        chosen["subspace-weight"] = cell.alpha
    brought = {dashed(name) for name in ALGORITHMS[cell.algorithm].defaults}  # what makes the method
    return RunConfig.from_mapping({key: value for key, value in COMMON.items() if key not in brought} | chosen)

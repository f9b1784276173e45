"""What the family study compares, and the runs of which it is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zofedht.common.algorithms import ALGORITHMS
from zofedht.common.config.run_config import RunConfig, dashed
from zofedht.experiments.family.methods import STEPS, Method
from zofedht.experiments.study.cell_run import Job
from zofedht.experiments.study.cells import Panel, label
from zofedht.experiments.study.presets import COMMON, EPOCHS, PRESETS, TRAIN_ROWS

__all__ = ["Cell", "FamilyGrid"]

_CURVE_POINTS = 25
"""Full evaluations in a run, at least: what its curve is drawn from. They are not charged."""

_OURS = ("local-steps", "slope", "step-schedule")
"""Keys that the paper's studies fix and a method may bring."""


@dataclass(frozen=True)
class FamilyGrid:
    """What is to be compared."""

    datasets: Sequence[str]
    models: Sequence[str]
    partitions: Sequence[str]
    methods: Sequence[str]
    seeds: int = 3
    epochs: int = EPOCHS  # evaluations for each training row
    data_dir: str = ""
    etas: Sequence[float] = ()  # step sizes to try, in the place of the model's own

    def panels(self) -> list[Panel]:
        """Return the panels, in an order in which neighbours share their data set."""
        return [Panel(d, m, p) for d in self.datasets for p in self.partitions for m in self.models]

    def steps(self, panel: Panel, method: Method) -> tuple[float, ...]:
        """Return the step sizes among which a method is tuned."""
        return tuple(float(f"{method.scale * step:.12g}") for step in self.etas or STEPS[panel.model])

    def config(self, panel: Panel, method: Method, step: float, seed: int) -> RunConfig:
        """Return the checked run config of one run."""
        rows = TRAIN_ROWS[panel.dataset]
        brought = {dashed(name) for name in ALGORITHMS[str(method.keys["algorithm"])].defaults}
        keys = {key: value for key, value in COMMON.items() if key not in brought.union(_OURS)}
        keys |= {
            "dataset": panel.dataset,
            "data-dir": self.data_dir,
            "train-rows": 0 if panel.dataset in ("digits", "rcv1") else rows,
            "model": panel.model,
            "partition": panel.partition,
            "dirichlet-alpha": 0.1,
            "init": "ones" if panel.model == "svm-squared-hinge" else "auto",
            "sampling": PRESETS["authors"].sampling,
            "budget": self.epochs * rows,
            "seed": seed,
        }
        config = RunConfig.from_mapping(keys | dict(method.keys) | {method.tunes: step})
        return config.replace(evaluate_every=max(1, config.expected_rounds // _CURVE_POINTS))


@dataclass(frozen=True)
class Cell:
    """One run of the study."""

    panel: Panel
    method: Method
    step: float
    seed: int

    @property
    def name(self) -> str:
        """The name of its folder."""
        panel = self.panel
        about = f"{panel.dataset}-{panel.model}-{panel.partition}-{self.method.folder}"
        return f"{about}-eta{label(self.step)}-repeat{self.seed}"

    def job(self, grid: FamilyGrid, out: Path) -> Job:
        """Return what is to be run."""
        return Job(self.name, grid.config(self.panel, self.method, self.step, self.seed), out / self.name)

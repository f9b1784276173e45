"""Clients that lie, against every aggregation rule.

All ten clients have a slot in every round, so one liar is one slot in ten. A liar does honest work and changes what it
sends. The table has the final training loss, over the loss of honest clients under the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from zofedht.common.choices import AGGREGATIONS
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import RoundError
from zofedht.common.random.streams import stream
from zofedht.common.typing import Vector
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.experiments.report.markdown import table
from zofedht.server.conduct import conduct
from zofedht.server.inprocess import InProcessEngine

__all__ = ["LIES", "LyingEngine", "Panel", "final_loss", "liars_table"]

_CLIENTS = 10
_ONE_ROUND = 30  # the round of the lie that is told once
_NOISE = 3.0  # length of a noise move, in units of the honest one


def _noise(row: Vector, round_: int, slot: int) -> Vector:
    drawn = stream(0, "check", round_, slot).standard_normal(row.shape[0])
    length = _NOISE * float(np.linalg.norm(row)) / float(np.linalg.norm(drawn))
    return np.asarray(length * drawn)


LIES: dict[str, Callable[[Vector, int, int], Vector]] = {
    "sign flipped": lambda row, round_, slot: -row,
    "x-10": lambda row, round_, slot: -10.0 * row,
    "x-1000": lambda row, round_, slot: -1000.0 * row,
    "x-1000 once": lambda row, round_, slot: -1000.0 * row if round_ == _ONE_ROUND else row,
    "noise": _noise,
}
"""(move or slopes, round, slot) -> what is sent."""


class LyingEngine(InProcessEngine):
    """All clients in this process; the first ``liars`` of them lie."""

    def __init__(self, config: RunConfig, liars: int, lie: str) -> None:
        super().__init__(config)
        self._liars, self._lie = liars, LIES[lie]

    def _carry(self, broadcasts: Sequence[Broadcast]) -> list[Update]:
        return [self._told(update) for update in super()._carry(broadcasts)]

    def _told(self, update: Update) -> Update:
        if int(update.client) >= self._liars:
            return update
        if update.slopes is not None:
            return replace(update, slopes=self._lie(update.slopes, update.round, update.slot))
        assert update.move is not None
        return replace(update, move=self._lie(update.move, update.round, update.slot))


@dataclass(frozen=True)
class Panel:
    """A problem on which the rules are compared."""

    dataset: str = "digits"
    partition: str = "iid"
    step_size: float = 3.0
    rounds: int = 100
    data_dir: str = ""
    algorithm: str = "zofedavg-sgd"
    uplink: str = "move"

    def config(self, aggregation: str, seed: int) -> RunConfig:
        """Return the run's config under one rule."""
        return RunConfig.from_mapping(
            {
                "dataset": self.dataset,
                "data-dir": self.data_dir,
                "partition": self.partition,
                "algorithm": self.algorithm,
                "aggregation": aggregation,
                "step-size": self.step_size,
                "step-schedule": "linear",
                "rounds": self.rounds,
                "num-clients": _CLIENTS,
                "clients-per-round": _CLIENTS,
                "sampling": "without-replacement",
                "uplink": self.uplink,
                "directions": "shared" if self.uplink == "slopes" else "per-slot",
                "evaluate-every": 0,
                "seed": seed,
            }
        )


def final_loss(config: RunConfig, liars: int, lie: str) -> float:
    """Return the final training loss, infinite where the run could not go on."""
    try:
        return conduct(config, LyingEngine(config, liars, lie)).last.metrics["train_loss"]
    except RoundError:
        return float("inf")


def liars_table(
    panel: Panel,
    seeds: int = 3,
    counts: Sequence[int] = (1, 2, 3),
    *,
    report: Callable[[str], None] = lambda text: None,
) -> str:
    """Return the table as Markdown: mean over seeds of the loss, over that of honest clients under the mean.

    ``counts`` are the numbers of liars; ``report`` gets each row when it is measured.
    """
    base = fmean(final_loss(panel.config("mean", seed), 0, "sign flipped") for seed in range(seeds))
    columns = [("honest", 0, "sign flipped"), *((f"{lie}, {n}", n, lie) for lie in LIES for n in counts)]
    about = (
        f"{panel.dataset}, {panel.partition}, {panel.algorithm}, uplink {panel.uplink}: loss over {base:.4f},"
        f" the loss of honest clients under the mean; {seeds} seeds"
    )
    rows = []
    for rule in AGGREGATIONS:
        losses = [
            fmean(final_loss(panel.config(rule, seed), count, lie) for seed in range(seeds))
            for _, count, lie in columns
        ]
        rows.append([rule, *(f"{loss / base:.3g}" for loss in losses)])
        report(" ".join(rows[-1]))
    return f"{about}\n\n{table(['rule', *(name for name, *_ in columns)], rows)}"

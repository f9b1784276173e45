"""What ``run`` returns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from zofedht.common.space.kinds import Settings
from zofedht.common.typing import Vector
from zofedht.server.core.round_record import signed
from zofedht.server.core.state import ServerState
from zofedht.server.evaluation.compare import Comparison
from zofedht.server.evaluation.verdict import Verdict
from zofedht.server.records.run_summary import count_lost
from zofedht.server.results import ShortResult, plain_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["RunResult", "result_of"]


class RunResult(ShortResult):
    """The result of ``run``: a mapping whose keys are attributes, as in scipy.optimize; ``plot()`` draws its losses."""

    x: Vector
    settings: Settings
    last: Vector
    fun: float
    nfev: int
    nfev_full: int
    nit: int
    success: bool
    status: int
    message: str
    ended: str
    history: list[dict[str, str | int | float]]
    records: list[dict[str, Any]]
    metrics: dict[str, float]
    lost: dict[str, Any]
    config: dict[str, Any]
    comparison: Comparison | None
    digest: str

    def plot(self, *, against: str = "evaluations", ax: Any = None) -> Axes:
        """Draw the losses, as ``zofedht.plot`` does."""
        from zofedht.server.records.axes import plot

        return plot(self, against=against, ax=ax)


def result_of(
    state: ServerState,
    history: list[dict[str, Any]],
    verdict: Verdict | None,
    message: str,
    *,
    ended: str,
    sign: float,
    success: bool,
    local_steps: int,
    config: dict[str, Any],
) -> RunResult:
    probed = history[-1]["train_loss"] if history else math.nan
    best = state.best if verdict is None else verdict.chosen
    metrics = {} if verdict is None else verdict.evaluation.metrics
    told = probed if best is None or not best.losses.size else sign * float(best.losses.mean())
    return RunResult(
        x=state.user_x if best is None else state.in_user_units(best.x),
        settings=state.settings if best is None else state.settings_at(best.x),
        last=state.user_x,
        fun=signed(metrics, sign).get("train_loss", told),
        nfev=state.totals.evaluations,
        nfev_full=state.totals.full_evaluations,
        nit=state.round,
        success=success,
        status=0 if success else 1,
        message=message,
        ended=ended,
        history=plain_rows(history),
        records=history,
        metrics=signed(metrics, sign),
        lost=count_lost(history, local_steps),
        config=config,
        comparison=None if verdict is None else verdict.comparison,
        digest="" if state.tensors is None else state.tensors.present,
    )

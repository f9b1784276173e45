"""``callback=`` of ``run`` for trackers of experiments: the numbers of each round go to TensorBoard or to MLflow.

Others use them by ``from zofedht.callbacks import MLflow, TensorBoard``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from zofedht.common.errors import ConfigError, MissingExtraError

__all__ = ["MLflow", "TensorBoard"]

_AXES = ("round", "evaluations")
_SCALARS = (
    "train_loss",
    "train_accuracy",
    "start_loss",
    "step_size",
    "subspace_weight",
    "replies",
    "evaluations",
    "seconds",
)


class TensorBoard:
    """Writes each round as scalars for ``tensorboard --logdir FOLDER``; needs no TensorFlow.

    Parameters
    ----------
    folder : str or Path
        Where the event file goes.
    axis : "round" or "evaluations"
        What a step is: evaluations compare algorithms that pay differently for a round.

    Raises
    ------
    ConfigError
        For another axis.
    MissingExtraError
        Without tensorboard.

    Examples
    --------
    >>> from zofedht import run
    >>> from zofedht.callbacks import TensorBoard
    >>> with TensorBoard("runs/board") as board:                          # doctest: +SKIP
    ...     run(lambda x: float(x @ x), x0=[1.0, 2.0], rounds=50, callback=board)
    """

    def __init__(self, folder: str | Path, *, axis: str = "round") -> None:
        try:
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as error:
            raise MissingExtraError(
                "TensorBoard needs tensorboard; install it with `pip install 'zofedht[tensorboard]'`"
            ) from error
        self._axis = _checked(axis)
        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(str(Path(folder).expanduser()), flush_secs=2)

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Write a round."""
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in _scalars(record).items()]
        step, now = _step(record, self._axis), time.time()
        self._writer.add_event(self._event(wall_time=now, step=step, summary=self._summary(value=values)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Write what is left and close the file."""
        self._writer.close()


class MLflow:
    """Logs each round as metrics of the active run of MLflow; without one, of a run of its own.

    Parameters
    ----------
    parameters : mapping, optional
        Logged as the run's parameters, such as ``{"algorithm": "zofedht", "rounds": 50}``.
    axis : "round" or "evaluations"
        What a step is: evaluations compare algorithms that pay differently for a round.

    Raises
    ------
    ConfigError
        For another axis.
    MissingExtraError
        Without mlflow.

    Examples
    --------
    >>> from zofedht import run
    >>> from zofedht.callbacks import MLflow
    >>> options = {"algorithm": "zofedht", "rounds": 50}
    >>> with MLflow(options) as tracker:                                  # doctest: +SKIP
    ...     run(lambda x: float(x @ x), x0=[1.0, 2.0], callback=tracker, **options)
    """

    def __init__(self, parameters: Mapping[str, Any] | None = None, *, axis: str = "round") -> None:
        try:
            import mlflow
        except ImportError as error:
            raise MissingExtraError("MLflow needs mlflow; install it with `pip install 'zofedht[mlflow]'`") from error
        self._axis = _checked(axis)
        self._mlflow = mlflow
        active = mlflow.active_run()
        self._owns = active is None
        self._run = (active or mlflow.start_run()).info.run_id
        if parameters:
            mlflow.log_params(dict(parameters))

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Log a round."""
        self._mlflow.log_metrics(_scalars(record), step=_step(record, self._axis), run_id=self._run)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self.close("FINISHED" if kind is None else "FAILED")

    def close(self, status: str = "FINISHED") -> None:
        """End the run, unless another one has begun it."""
        if self._owns:
            self._mlflow.end_run(status)


def _scalars(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers of a round."""
    found = {name: record[name] for name in _SCALARS}
    found |= {"bytes": record["bytes_up"] + record["bytes_down"], "lost_slots": len(record["failures"])}
    found["interventions"] = len(record["interventions"])
    return {name: float(value) for name, value in found.items() if value is not None and math.isfinite(value)}


def _step(record: Mapping[str, Any], axis: str) -> int:
    return int(record["evaluations"]) if axis == "evaluations" else int(record["round"]) + 1


def _checked(axis: str) -> str:
    if axis not in _AXES:
        raise ConfigError([f"axis must be {' or '.join(_AXES)}, got {axis!r}"])
    return axis

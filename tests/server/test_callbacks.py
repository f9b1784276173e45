"""What TensorBoard and MLflow get is what the history has."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zofedht import ConfigError, MissingExtraError, run
from zofedht.callbacks import MLflow, TensorBoard
from zofedht.server.callbacks import _scalars

OPTIONS: dict[str, Any] = {"rounds": 5, "seed": 1, "x0": [3.0, 1.0]}


def bowl(x: np.ndarray) -> float:
    return float(x @ x)


@pytest.mark.filterwarnings("default")  # of the readers of these libraries
@pytest.mark.parametrize("axis", ["round", "evaluations"])
def test_tensorboard_reads_every_round(tmp_path: Path, axis: str):
    pytest.importorskip("tensorboard", reason="tensorboard, of the extra `tensorboard`")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with TensorBoard(tmp_path, axis=axis) as board:
        history = run(bowl, callback=board, **OPTIONS).history
    events = EventAccumulator(str(tmp_path)).Reload()
    for name in ("train_loss", "step_size", "evaluations"):
        told = events.Scalars(name)
        assert [event.value for event in told] == pytest.approx([row[name] for row in history], rel=1e-6), name
        assert [event.step for event in told] == [row["round"] + 1 if axis == "round" else row[axis] for row in history]
    assert {"bytes", "lost_slots", "replies"} <= set(events.Tags()["scalars"])


@pytest.mark.filterwarnings("default")
def test_mlflow_keeps_every_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    mlflow = pytest.importorskip("mlflow", reason="mlflow, of the extra `mlflow`")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    try:
        with MLflow({"rounds": 5}) as tracker:
            history = run(bowl, callback=tracker, **OPTIONS).history
        assert mlflow.active_run() is None
        (found,) = mlflow.search_runs(output_format="list")
        assert found.data.params == {"rounds": "5"}
        assert found.info.status == "FINISHED"
        kept = mlflow.MlflowClient().get_metric_history(found.info.run_id, "train_loss")
        assert [one.value for one in kept] == [row["train_loss"] for row in history]
        assert [one.step for one in kept] == [1, 2, 3, 4, 5]
        with mlflow.start_run() as own:  # a run that somebody else began goes on
            run(bowl, callback=MLflow(), **OPTIONS)
            assert mlflow.active_run().info.run_id == own.info.run_id
        assert mlflow.get_run(own.info.run_id).data.metrics["evaluations"] == history[-1]["evaluations"]
    finally:
        mlflow.set_tracking_uri(None)


@pytest.mark.parametrize(("name", "make"), [("tensorboard", lambda: TensorBoard(".")), ("mlflow", MLflow)])
def test_without_the_library_a_sentence_says_so(name: str, make: Any, monkeypatch: pytest.MonkeyPatch):
    for module in (name, f"{name}.compat.proto.event_pb2"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'zofedht\[{name}\]'"):
        make()


def test_another_axis_is_refused(tmp_path: Path):
    pytest.importorskip("tensorboard", reason="tensorboard, of the extra `tensorboard`")
    with pytest.raises(ConfigError, match=r"axis must be round or evaluations, got 'bytes'"):
        TensorBoard(tmp_path, axis="bytes")


def test_numbers_that_are_not_finite_are_left_out():
    told: list[dict[str, float]] = []
    run(bowl, callback=lambda record: told.append(_scalars({**record, "train_loss": math.nan})), **OPTIONS)
    assert len(told) == OPTIONS["rounds"]
    assert all("train_loss" not in scalars and "step_size" in scalars for scalars in told)

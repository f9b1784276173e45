"""F at the points of a search: no steps, and each point on the same samples."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from zofedht.client.not_done import NotDoneError
from zofedht.common.errors import ZofedhtError
from zofedht.common.objective.base import Objective
from zofedht.common.objective.points import Answer, evaluate_points
from zofedht.common.objective.scaling import units_of
from zofedht.common.wire.messages import Broadcast, Update

__all__ = ["point_values"]


def point_values(broadcast: Broadcast, objective: Objective, error_text: Callable[[ZofedhtError], str]) -> Update:
    """Return F at the points, each time on all samples of a batch: candidates are compared on the same samples.

    Raises NotDoneError where an evaluation fails and the run is then to stop.
    """
    assert broadcast.points is not None
    units = units_of(objective)
    points = broadcast.points if units is None else units.to_user(broadcast.points)
    shard, batch = len(objective), broadcast.spec.samples_of_points(len(objective))
    rng = broadcast.address.stream("minibatch")
    answers: list[Answer] = []
    for _ in range(broadcast.repeats):
        samples = slice(None) if batch == shard else rng.choice(shard, size=batch, replace=False)
        answers += evaluate_points(objective, points, samples, error_text=error_text)
    lost = [place for place, answer in enumerate(answers) if answer.cause]
    first = answers[lost[0]] if lost else None
    if first is not None and broadcast.spec.on_error == "stop":
        raise NotDoneError(broadcast, "stopped", first.cause or "raised", first.reason)
    values = np.array([answer.value for answer in answers])
    with np.errstate(over="ignore"):
        loss = float(np.mean(values[~np.isnan(values)])) if len(lost) < len(values) else math.nan
    return Update(
        round=broadcast.round,
        slot=broadcast.slot,
        client=broadcast.client,
        values=values,
        examples=shard,
        evaluations=broadcast.evaluations(shard),
        loss=loss,
        cause=None if first is None else first.cause,
        reason="" if first is None else first.reason,
        skipped=len(lost),
    )

"""``from zofedht import work``: do the task of an ``Optimizer``, wherever it arrived."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from zofedht.client.steps.worker import Worker, no_secret
from zofedht.common.errors import MessageError, ZofedhtError
from zofedht.common.objective.base import Objective
from zofedht.common.objective.function import FunctionObjective
from zofedht.common.objective.loading import checked_objective
from zofedht.common.objective.scaling import in_search_units
from zofedht.common.tasks import Reply, Task

__all__ = ["work"]


def work(task: Task, objective: Objective | Callable[..., float], *, secret: bytes = b"") -> Reply:
    """Return the reply to a task: the local steps on this objective, or its values at the task's points.

    What goes wrong is told in the reply. Its bytes hold the type and the place of an exception, and not its text.

    Parameters
    ----------
    task : Task
    objective : Objective or function
        The client's own. A function takes bounds and scale, or named parameters by keyword, as the task says; an
        Objective must declare the same.
    secret : bytes
        What a client draws its noise from under local privacy, 32 bytes that nobody else knows.

    Examples
    --------
    >>> from zofedht import Optimizer
    >>> optimizer = Optimizer(x0=[0.0, 0.0], clients=["north", "south"], seed=1, budget=400)
    >>> sites = {"north": lambda x: float(np.sum((x - 1.0) ** 2)), "south": lambda x: float(np.sum((x - 3.0) ** 2))}
    >>> while tasks := optimizer.ask():
    ...     optimizer.tell([work(task, sites[task.client]) for task in tasks])
    >>> np.round(optimizer.x, 3)
    array([2., 2.])
    """
    if not isinstance(task, Task):
        raise MessageError(f"work must get a task of Optimizer.ask(), got {task!r}")
    if not isinstance(objective, Objective):
        objective = _of_function(task, objective)
    searched = in_search_units(checked_objective(objective, "the objective"))
    secret_of = (lambda broadcast: secret) if secret else no_secret
    public: dict[str, str] = {}

    def told(error: ZofedhtError) -> str:
        public[str(error)] = error.public_text
        return str(error)

    update = Worker(lambda broadcast: searched, error_text=told, secret_of=secret_of).work(task.broadcast)
    return Reply(update, public.get(update.reason, update.reason))


def _of_function(task: Task, function: Callable[..., float]) -> Objective:
    x, units = task.broadcast.x, task.units
    if task.space is not None:
        return FunctionObjective(function, parameters=dict(task.space.parameters))
    if units is None:
        return FunctionObjective(function, x)
    bounds = [
        (low if np.isfinite(low) else None, high if np.isfinite(high) else None)
        for low, high in zip(units.lower.tolist(), units.upper.tolist(), strict=True)
    ]
    return FunctionObjective(function, units.to_user(x), bounds=bounds, scale=units.scale)

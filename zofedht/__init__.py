"""ZOFedHT: federated optimisation by evaluations alone, on Flower.

The names in ``__all__`` are public; every other module may change. They are loaded when they are first used:

>>> from zofedht import run
>>> result = run(lambda x: float((x - 3.0) @ (x - 3.0)), x0=[0.0, 0.0], rounds=40, seed=1)
>>> result.success
True
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zofedht.client.work import work
    from zofedht.common.checks.finding import Finding
    from zofedht.common.checks.report import CheckReport, check
    from zofedht.common.config.run_config import RunConfig
    from zofedht.common.errors import (
        BudgetError,
        CheckpointError,
        ConfigError,
        DataError,
        FleetError,
        JoinError,
        MessageError,
        MissingExtraError,
        ObjectiveError,
        RoundError,
        ZofedhtError,
    )
    from zofedht.common.objective.base import Objective, Shard
    from zofedht.common.objective.function import FunctionObjective
    from zofedht.common.space.kinds import Choice
    from zofedht.common.space.numbers import Integer, Real
    from zofedht.common.tasks import Reply, Task
    from zofedht.common.tensors.arrays import TensorObjective
    from zofedht.common.tensors.blocks import Block
    from zofedht.common.tensors.objective import InPlaceObjective
    from zofedht.server.estimators.classifier import ZOFedClassifier
    from zofedht.server.estimators.regressor import ZOFedRegressor
    from zofedht.server.fleet.fleet import Fleet
    from zofedht.server.minimise.result import RunResult
    from zofedht.server.minimise.run import run
    from zofedht.server.optimizer import Optimizer
    from zofedht.server.records.axes import plot
    from zofedht.server.records.finished_run import FinishedRun, load_run

__all__ = [
    "Block",
    "BudgetError",
    "CheckReport",
    "CheckpointError",
    "Choice",
    "ConfigError",
    "DataError",
    "Finding",
    "FinishedRun",
    "Fleet",
    "FleetError",
    "FunctionObjective",
    "InPlaceObjective",
    "Integer",
    "JoinError",
    "MessageError",
    "MissingExtraError",
    "Objective",
    "ObjectiveError",
    "Optimizer",
    "Real",
    "Reply",
    "RoundError",
    "RunConfig",
    "RunResult",
    "Shard",
    "Task",
    "TensorObjective",
    "ZOFedClassifier",
    "ZOFedRegressor",
    "ZofedhtError",
    "__version__",
    "check",
    "load_run",
    "plot",
    "run",
    "work",
]

_HOMES = {
    "Block": "common.tensors.blocks",
    "CheckReport": "common.checks.report",
    "Choice": "common.space.kinds",
    "Finding": "common.checks.finding",
    "FinishedRun": "server.records.finished_run",
    "Fleet": "server.fleet.fleet",
    "FunctionObjective": "common.objective.function",
    "InPlaceObjective": "common.tensors.objective",
    "Integer": "common.space.numbers",
    "Objective": "common.objective.base",
    "Optimizer": "server.optimizer",
    "Real": "common.space.numbers",
    "Reply": "common.tasks",
    "RunConfig": "common.config.run_config",
    "RunResult": "server.minimise.result",
    "Shard": "common.objective.base",
    "Task": "common.tasks",
    "TensorObjective": "common.tensors.arrays",
    "ZOFedClassifier": "server.estimators.classifier",
    "ZOFedRegressor": "server.estimators.regressor",
    "check": "common.checks.report",
    "load_run": "server.records.finished_run",
    "plot": "server.records.axes",
    "run": "server.minimise.run",
    "work": "client.work",
}
"""Modules of the public names; the errors are all in ``common.errors``."""

__version__: str

# In a checkout and in a Flower bundle server/, client/ and common/ lie beside this folder, not in it.
_ROOT = Path(__file__).resolve().parent.parent
_IN_SOURCE = (_ROOT / "pyproject.toml").is_file() and (_ROOT / "server").is_dir()
if _IN_SOURCE:
    __path__.append(str(_ROOT))

if not TYPE_CHECKING:  # a type checker is to see the names above and no others

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            return _version()
        if name not in __all__:
            raise AttributeError(f"module 'zofedht' has no attribute {name!r}; it has {', '.join(__all__)}")
        return getattr(importlib.import_module(f"zofedht.{_HOMES.get(name, 'common.errors')}"), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


def _version() -> str:
    if not _IN_SOURCE:
        from importlib import metadata

        return metadata.version("zofedht")
    import tomllib

    # A checkout and a Flower bundle need not be installed, and an editable copy remembers the version of that day.
    with (_ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])

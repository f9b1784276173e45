"""Small runs: a config of few steps, quadratic clients, and a fleet of workers that a test can disturb."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zofedht.client.steps.worker import BasisStore, Worker
from zofedht.common.config.run_config import RunConfig, dashed
from zofedht.common.config.step_spec import StepSpec
from zofedht.common.models.quadratic import QuadraticObjective
from zofedht.common.objective.base import Objective
from zofedht.common.random.streams import Address
from zofedht.common.replay import draw_digest
from zofedht.common.typing import Indices, Vector
from zofedht.common.wire.clients import Member
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.conduct import Result
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.round_record import RoundRecord
from zofedht.server.core.state import ServerState
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import RunFolder

SMALL = {
    "num-clients": 4,
    "clients-per-round": 3,
    "rounds": 7,
    "memory": 2,
    "local-steps": 4,
    "batch-size": 3,
    "step-size": 0.05,
    "checkpoint-every": 2,
    "seed": 11,
}


def small(**changes: Any) -> RunConfig:
    """Return a config of seven short rounds with two refreshes of the basis, with some fields changed."""
    return RunConfig.from_mapping(SMALL | {dashed(name): value for name, value in changes.items()})


def searches(**changes: Any) -> RunConfig:
    """Return a config of twelve generations of evaluations, with some fields changed."""
    keys = {"algorithm": "cma-es", "num-clients": 4, "rounds": 12, "batch-size": 3, "seed": 11, "checkpoint-every": 5}
    return RunConfig.from_mapping(keys | {dashed(name): value for name, value in changes.items()})


def quadratics(clients: int = 4, dimension: int = 12, rows: int = 6) -> list[Objective]:
    """Return one quadratic a client, with different centres and different numbers of rows."""
    rng = np.random.default_rng(5)
    return [QuadraticObjective(rng.standard_normal((rows + client, dimension))) for client in range(clients)]


def states(config: RunConfig, objectives: Sequence[Objective] | None = None) -> list[ServerState]:
    """Return the state after each round of a run on these objectives, or on ``quadratics()``."""
    found: list[ServerState] = []
    run_in_process(config, objectives or quadratics(), observers=[lambda state, record: found.append(state)])
    return found


class KilledError(Exception):
    """Stands for a kill in the middle of a run."""


def kill_after(rounds: int) -> Callable[[ServerState, RoundRecord], None]:
    """Return an observer that ends the run after so many rounds."""

    def observer(state: ServerState, record: RoundRecord) -> None:
        if state.round == rounds:
            raise KilledError

    return observer


def killed_and_resumed(
    folder: RunFolder, config: RunConfig, rounds: int, objectives: Sequence[Objective] | None = None
) -> Result:
    """Run on these objectives, or on ``quadratics()``; kill the run after so many rounds, resume it, return its end."""
    with folder:
        folder.begin(config, "in-process")
        with pytest.raises(KilledError):
            run_in_process(config, objectives or quadratics(), folder=folder, observers=[kill_after(rounds)])
        again, state, _ = folder.reopen({})
        return run_in_process(again, objectives or quadratics(), folder=folder, state=state)


def changed(asked: Broadcast, **changes: Any) -> Broadcast:
    """Return a broadcast with some fields changed, those of its address and of its spec among them."""
    parts = {
        part: {name: changes.pop(name) for name in [f.name for f in fields(getattr(asked, part))] if name in changes}
        for part in ("address", "spec")
    }
    return replace(asked, **{part: replace(getattr(asked, part), **own) for part, own in parts.items()}, **changes)


def spec(**changes: Any) -> StepSpec:
    """Return how two steps of one sample are taken."""
    fields = {
        "step_size": 0.1,
        "radius": 1e-4,
        "local_steps": 2,
        "batch_size": 1,
        "slope": "central",
        "probe": "gaussian",
        "kernel": "auto",
        "uplink": "move",
    }
    return StepSpec(**(fields | changes))  # type: ignore[arg-type]


def broadcast(slot: int = 0, client: str = "0", dimension: int = 3, **changes: Any) -> Broadcast:
    """Return what a slot was asked in round 4."""
    asked = Broadcast(
        address=Address(0, 4, slot), spec=spec(), client=client, shard_index=int(client), x=np.zeros(dimension)
    )
    return changed(asked, **changes)


def reply(asked: Broadcast, move: Sequence[float] | None = (1.0, 2.0, 3.0), **changes: Any) -> Update:
    """Return a usable answer to a broadcast, with some fields changed."""
    examples = changes.get("examples", 1)
    fields = {"round": asked.round, "slot": asked.slot, "client": asked.client, "examples": examples}
    fields["evaluations"] = asked.spec.evaluations(examples)
    moved = None if move is None else np.array(move)
    return Update(**(fields | {"move": moved, "draw_digest": draw_digest(), "loss": 0.5, "start_loss": 0.75} | changes))  # type: ignore[arg-type]


class Breaks(Objective):
    """Fails at evaluation number ``at``, from 0."""

    def __init__(self, at: int, how: Callable[[], Any], dim: int = 3) -> None:
        self._left, self._how = at, how
        self.dim = dim

    def __len__(self) -> int:
        return 5

    def value(self, x: Vector, batch: Indices | slice) -> float:
        self._left -= 1
        return 1.0 if self._left >= 0 else self._how()  # type: ignore[no-any-return]


def offline() -> float:
    raise TimeoutError("the plant is offline")


class Fleet:
    """One worker a client. It keeps every broadcast that was sent, and can lose what a client holds."""

    def __init__(self, objectives: Sequence[Objective]) -> None:
        self._objectives = objectives
        self.members = [Member(str(index), index, str(index)) for index in range(len(objectives))]
        self.names = [member.name for member in self.members]
        self.sent: list[Broadcast] = []
        self._workers = {name: self._worker(name) for name in self.names}

    def forget(self, client: str) -> None:
        """Start the client's process again, without its basis."""
        self._workers[client] = self._worker(client)

    def _worker(self, name: str) -> Worker:
        return Worker(lambda broadcast: self._objectives[broadcast.shard_index], BasisStore())

    def carry(self, broadcasts: Sequence[Broadcast]) -> list[Update]:
        """Let the clients do the work."""
        self.sent += broadcasts
        return [self._workers[b.client].work(b) for b in broadcasts]

    def round(
        self, coordinator: Coordinator, change: Callable[[list[Update]], list[Update]] = lambda updates: updates
    ) -> RoundRecord | None:
        """Carry one attempt at a round; ``change`` is what happens to the replies on their way."""
        updates = self.carry(coordinator.ask(self.members))
        updates += self.carry(coordinator.resend(updates))
        updates += self.carry(coordinator.recheck(updates))
        return coordinator.tell(change(updates))


VALVE = '''
import numpy as np
from zofedht.common.objective.base import Objective
from zofedht.common.space.kinds import Choice, Integer, Real

class Valve(Objective):
    """A quadratic that only says its value; each client has its own centre."""
    dim = 6
    def __init__(self, shard):
        self.days = np.random.default_rng([shard.seed, shard.index]).standard_normal((4, 6))
    def __len__(self):
        return len(self.days)
    def value(self, x, batch):
        return float(np.mean(np.square(x - self.days[batch])))

class Starting(Valve):
    def initial(self, rng):
        return rng.standard_normal(6)

class Breaking(Valve):
    """Works at the start; breaks as soon as x is moved."""
    def value(self, x, batch):
        if np.any(x):
            raise RuntimeError("the valve is shut")
        return super().value(x, batch)

class Diverging(Valve):
    def value(self, x, batch):
        return super().value(x, batch) if not np.any(x) else float("nan")

class Broken(Valve):
    def value(self, x, batch):
        raise RuntimeError("the valve is shut")

class FirstBroken(Valve):
    """Client 0 breaks, the others work."""
    def __init__(self, shard):
        super().__init__(shard)
        self.broken = shard.index == 0
    def value(self, x, batch):
        if self.broken and np.any(x):
            raise RuntimeError("the valve is shut")
        return super().value(x, batch)

class Touchy(Valve):
    """Fails at many points, the same ones for everybody, and nowhere on the whole shard."""
    def value(self, x, batch):
        if not isinstance(batch, slice) and int(abs(x[0]) * 1e7) % 7 == 1:
            raise RuntimeError("the valve sticks")
        return super().value(x, batch)

class Quitting(Valve):
    """A wrapped script that ends the program at many points, the same ones for everybody."""
    def value(self, x, batch):
        if int(abs(x[0]) * 1e7) % 7 == 1:
            raise SystemExit(3)
        return super().value(x, batch)

class Bounded(Valve):
    """Parameters of very different sizes, some at their bounds in the end; it breaks outside of them."""
    scale = np.array([1.0, 10.0, 100.0, 1e3, 1e-2, 1e-3])
    bounds = [(-0.1, 0.1), (None, 2.0), (5.0, 50.0), (None, None), (0.0, 0.0), (-1.0, 1.0)]
    def value(self, x, batch):
        if np.any(x < [-0.1, -np.inf, 5.0, -np.inf, 0.0, -1.0]) or np.any(x > [0.1, 2.0, 50.0, np.inf, 0.0, 1.0]):
            raise RuntimeError(f"outside of the bounds: {x}")
        return super().value(x / self.scale, batch)

class ByName(Valve):
    """Gets its parameters by name; each client has its own optimum."""
    parameters = {
        "flow": Real(0, 1), "pause": Real(1e-3, 10, log=True), "teeth": Integer(8, 40), "mode": Choice("a", "b", 3),
    }
    def value(self, x, batch):
        shown = [x["flow"], np.log10(x["pause"]), (x["teeth"] - 30) / 8, float(x["mode"] != 3), 0.0, 0.0]
        return super().value(np.array(shown), batch)

class OtherMode(ByName):
    """The last client has an option of another kind."""
    def __init__(self, shard):
        super().__init__(shard)
        if shard.index == shard.count - 1:
            self.parameters = self.parameters | {"mode": Choice("a", "b", "3")}

class OwnScale(Bounded):
    """Each client has its own scale: they cannot train together."""
    def __init__(self, shard):
        super().__init__(shard)
        self.scale = self.scale * (1.0 + shard.index)

class FirstScale(Bounded):
    """Client 0 has another scale for parameter 1."""
    def __init__(self, shard):
        super().__init__(shard)
        if shard.index == 0:
            self.scale = self.scale * [1.0, 2.0, 1.0, 1.0, 1.0, 1.0]

class Shorter(Valve):
    """Client 2 has fewer parameters."""
    def __init__(self, shard):
        super().__init__(shard)
        if shard.index == 2:
            self.dim, self.days = 5, self.days[:, :5]

class LastFails(Valve):
    """Client 2 has rounds, but cannot evaluate what they lead to."""
    unable = (2,)
    def __init__(self, shard):
        super().__init__(shard)
        self.index = shard.index
    def evaluate(self, x):
        if self.index in self.unable and np.any(x):
            raise TimeoutError("the plant is in maintenance")
        return super().evaluate(x)

class AllFailAtLast(LastFails):
    unable = (0, 1, 2, 3)

class FailsAlways(LastFails):
    """Client 2 can evaluate nothing, not even the start."""
    def evaluate(self, x):
        if self.index == 2:
            raise TimeoutError("the plant is in maintenance")
        return super().evaluate(x)

class FailsOnce(Valve):
    """The first full evaluation of each client fails, and so does the third."""
    calls = 0
    def evaluate(self, x):
        self.calls += 1
        if self.calls in (1, 3):
            raise TimeoutError("the line was cut")
        return super().evaluate(x)

class Lossless(Valve):
    def evaluate(self, x):
        return {"cost": 1.0}
'''
"""The text of a module with black boxes; a factory is one of its classes."""

NOT_ALIKE = [
    ("OwnScale", r"client 1 has the scale 2\.0 for parameter 0, that of client 0 has 1\.0 \(6 parameters differ\)"),
    ("FirstScale", r"client 1 has the scale 10\.0 for parameter 1, that of client 0 has 20\.0; all clients"),
    ("Shorter", "client 2 has 5 parameters, that of client 0 6; all clients' objectives must have the same number"),
]
"""Factories of VALVE whose clients cannot train together, and what says so."""


def black_box(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write VALVE as a module that can be imported in this test, and return its name."""
    name = f"valve_{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"
    (folder / f"{name}.py").write_text(VALVE)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(folder)
    return name

"""``from zofedht import Optimizer``: ask and tell, for people with a transport of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from zofedht.common.config.checking import plain
from zofedht.common.config.own_objective import of_own_clients
from zofedht.common.config.run_config import RunConfig, dashed
from zofedht.common.errors import ConfigError, MessageError
from zofedht.common.objective.base import Bounds
from zofedht.common.objective.function import FunctionObjective
from zofedht.common.objective.loading import checked_objective
from zofedht.common.objective.named import space_of
from zofedht.common.objective.scaling import units_of
from zofedht.common.objective.units import given_start
from zofedht.common.space.kinds import Parameter, Settings, repeated
from zofedht.common.tasks import Reply, Task
from zofedht.common.typing import Vector
from zofedht.common.wire.clients import Member
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.aggregation.screening import Failure
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.state import ServerState, check_room, initial_state
from zofedht.server.records.checkpoint import read_checkpoint, write_state

__all__ = ["Optimizer"]

_MOST_CLIENTS = 10**6  # as num-clients


class Optimizer:
    """The server of a run without its messages: ``ask`` says who is to do what, ``tell`` takes the replies.

    It stands on the same pure functions as every run, with every algorithm of the table. Tasks hold all that a client
    needs, so a client keeps nothing from one to the next. No full evaluation is made: ``x`` is that of the last round.

    Parameters
    ----------
    config : RunConfig, optional
        The run config under ``options``.
    x0 : (n,) or mapping
        The starting point, in the user's units; of ``parameters`` their values by name, the middle where there is none.
    clients : int or sequence of str
        How many clients there are, called 0, 1 and so on, or their names.
    bounds, scale : optional
        As those of Objective; the clients' objectives must declare the same.
    parameters : mapping, optional
        Names with Real, Integer or Choice, in place of bounds and scale. ``task.settings`` are then the user's values.
    **options
        Run config keys with underscores. What is not given is as for ``run``: at most 50 parameters are searched by
        evaluations, unless a key of local steps is given.

    Raises
    ------
    ConfigError
        For wrong options, and for secure_aggregation, whose clients keep keys.

    Examples
    --------
    >>> optimizer = Optimizer(x0=[0.0, 0.0], algorithm="cma-es", rounds=60, seed=1)
    >>> while tasks := optimizer.ask():
    ...     for task in tasks:
    ...         values = [float(np.sum((x - 3.0) ** 2)) for x in task.points]
    ...         optimizer.tell([task.reply(values)])
    >>> np.round(optimizer.x, 3)
    array([3., 3.])
    """

    def __init__(
        self,
        config: RunConfig | None = None,
        x0: Any = None,
        *,
        clients: int | Sequence[str] = 1,
        bounds: Bounds | None = None,
        scale: Any = None,
        parameters: Mapping[str, Parameter] | None = None,
        **options: Any,
    ) -> None:
        if config is not None and not isinstance(config, RunConfig):
            raise ConfigError([f"config must be a RunConfig, got {config!r}"])
        if x0 is None and parameters is None:
            raise ConfigError(["x0 must be a point to start from, got None"])
        function = FunctionObjective(_nothing, x0, bounds=bounds, scale=scale, parameters=parameters)
        declared = checked_objective(function, "Optimizer")
        units, space = units_of(declared), space_of(declared)
        names = _names(clients)
        chosen = _config(config, {dashed(name): plain(value) for name, value in options.items()}, names, declared.dim)
        fitted = chosen.fitted(declared.dim, space)
        check_room(fitted, declared.dim)
        start = given_start({} if x0 is None else x0, declared.dim, units, space)
        self._begin(fitted, initial_state(fitted, start, units, space), names)

    def _begin(self, config: RunConfig, state: ServerState, names: Sequence[str]) -> None:
        if config.secure_aggregation:
            raise ConfigError(["secure-aggregation must be false for Optimizer, whose clients keep no keys"])
        self._coordinator = Coordinator(config, state)
        self._names = tuple(names)
        self._open: dict[int, Broadcast] = {}
        self._heard: list[Update] = []
        self._asked = 0  # attempts at rounds

    @property
    def config(self) -> RunConfig:
        """The run config."""
        return self._coordinator.config

    @property
    def state(self) -> ServerState:
        """All that the next round depends on; frozen."""
        return self._coordinator.state

    @property
    def x(self) -> Vector:
        """x after the last round, (n,), in the user's units."""
        return self.state.user_x

    @property
    def settings(self) -> Settings:
        """The values of named parameters at x; empty where they have no names."""
        return self.state.settings

    @property
    def round(self) -> int:
        """How many rounds are done."""
        return self.state.round

    @property
    def finished(self) -> bool:
        """Whether the rounds are done, the budget is spent, or nothing is left to be asked."""
        return self._coordinator.finished

    def ask(self) -> list[Task]:
        """Return what is still to be done in this round, a task for each slot; nothing when the run is finished.

        Raises RoundError when a round has failed too often; the state is then the one before it.
        """
        if not self._open and not self.finished:
            hosts = [
                Member(name, index, f"{name}, asked {self._asked}", keeps_x=False)  # holds nothing
                for index, name in enumerate(self._names)
            ]
            self._asked += 1
            self._heard = []
            self._open = {broadcast.slot: broadcast for broadcast in self._coordinator.ask(hosts)}
        return [Task(broadcast, self.state.units, self.state.named) for broadcast in self._open.values()]

    def tell(self, replies: Sequence[Reply], *, lost: Sequence[str] = ()) -> None:
        """Take replies; the round ends with the last one.

        Parameters
        ----------
        replies : sequence of Reply
            Some or all of those to the tasks of this round, in any order.
        lost : sequence of str
            Clients that will give no reply.

        Raises
        ------
        MessageError
            For a reply to another task, or none.
        ConfigError
            Where ``lost`` names others than clients.
        RoundError
            When the round has failed more than max-retries times; the state is then the one before it.
        ObjectiveError
            When an evaluation failed and on-error is stop.
        """
        _check_told(replies, lost, self._names)
        for reply in replies:
            update = reply.update
            asked = self._open.get(update.slot)
            if asked is None or (update.client, update.round) != (asked.client, asked.round):
                raise MessageError(
                    f"a reply must answer an open task, got one of client {update.client!r} for slot {update.slot} of"
                    f" round {update.round + 1}"
                )
        for reply in replies:
            del self._open[reply.update.slot]
            self._heard.append(reply.update)
        gone = [broadcast for broadcast in self._open.values() if broadcast.client in lost]
        if len(gone) < len(self._open) or not (replies or gone):
            return
        self._open = {}
        if again := self._coordinator.resend(self._heard) or self._coordinator.recheck(self._heard):
            self._open = {broadcast.slot: broadcast for broadcast in again}
        if not self._open:
            text = "no reply will be told"
            failures = [Failure(one.round, one.slot, one.client, "no-answer", text) for one in gone]
            self._coordinator.tell(self._heard, failures)

    def save(self, path: str | Path) -> None:
        """Write the state, config and names of the clients to a file. A round that is open is asked again.

        Raises DataError when it cannot be written.
        """
        write_state(Path(path).expanduser(), self.state, self.config)

    @classmethod
    def load(cls, path: str | Path, *, clients: int | Sequence[str] = 1) -> Self:
        """Return the optimizer that was saved; ``clients`` are those of before.

        Raises CheckpointError where the file holds none, and ConfigError for another number of clients.
        """
        state, config = read_checkpoint(Path(path).expanduser())
        names = _names(clients)
        if config.num_clients != len(names):
            raise ConfigError([f"clients must be the {config.num_clients} of the saved state, got {len(names)}"])
        optimizer = cls.__new__(cls)
        optimizer._begin(config, state, names)
        return optimizer


def _nothing(*x: Vector, **settings: Any) -> float:
    return 0.0


def _check_told(replies: Any, lost: Any, names: Sequence[str]) -> None:
    """Raise MessageError unless all are replies to different slots, ConfigError unless all lost ones are clients."""
    if not isinstance(replies, Sequence) or not all(isinstance(reply, Reply) for reply in replies):
        raise MessageError(f"replies must be a list of Reply, from task.reply(...) or work(...), got {replies!r:.60}")
    slots = [reply.update.slot for reply in replies]
    if twice := repeated(slots):
        raise MessageError(f"replies must answer each task once, got two for slot {twice[0]}")
    if isinstance(lost, str) or not isinstance(lost, Iterable) or (others := set(lost) - set(names)):
        odd = lost if isinstance(lost, str) or not isinstance(lost, Iterable) else sorted(map(str, others))
        raise ConfigError([f"lost must be a list of names of clients ({', '.join(names[:5])}), got {odd!r}"])


def _names(clients: int | Sequence[str]) -> list[str]:
    names: list[str] = []
    if isinstance(clients, int | np.integer):
        names = [str(index) for index in range(min(int(clients), _MOST_CLIENTS + 1))]
    elif isinstance(clients, Iterable):
        names = [str(name) for name in clients]
    if not names or len(set(names)) != len(names) or isinstance(clients, str | bool):
        raise ConfigError([f"clients must be a number of at least 1, or different names, got {clients!r}"])
    if len(names) > _MOST_CLIENTS:
        raise ConfigError([f"clients must be at most {_MOST_CLIENTS}, got {clients!r}"])
    return names


def _config(config: RunConfig | None, given: dict[str, Any], names: Sequence[str], dimension: int) -> RunConfig:
    settled = of_own_clients(config, given, len(names), dimension)
    return RunConfig.from_mapping((config or RunConfig()).to_mapping() | settled)

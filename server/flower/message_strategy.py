"""``ZOFedHT``: the strategy of Flower's Message API, for apps that bring their own model."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.common import EvaluateIns, GetParametersIns
from flwr.common import ndarrays_to_parameters as pack
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from zofedht.common.config.checking import plain
from zofedht.common.config.run_config import RunConfig, dashed
from zofedht.common.errors import ConfigError, MessageError, RoundError
from zofedht.common.machine.files import is_path
from zofedht.common.typing import Vector
from zofedht.common.wire.clients import Member
from zofedht.common.wire.messages import Update
from zofedht.common.wire.records import METRICS, flattened
from zofedht.server.aggregation.screening import Failure
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.round_record import RoundRecord
from zofedht.server.core.state import ServerState, first_state
from zofedht.server.evaluation.evaluate import mean_over_clients
from zofedht.server.flower.grid_nodes import GridNode, GridNodes, Layout, content_of, fit_res_of
from zofedht.server.flower.grid_rounds import GridRounds
from zofedht.server.flower.strategy import Asked, ZofedhtStrategy, by_node, client_replies, question
from zofedht.server.records.run_folder import RunFolder

__all__ = ["ZOFedHT"]

_OBJECTIVE = "client-app:train"  # what the run config names; the server never imports it
_ANYBODY = Member("")
_log = logging.getLogger("zofedht.flower")


class ZOFedHT(Strategy):
    """Federated zeroth-order optimisation for a ServerApp and ClientApps of one's own.

    The ClientApps answer with ``train`` and ``evaluate`` of ``zofedht.flower``. Each node is a client; its name is the
    ``partition-id`` of its node config, where there is one. ``start`` runs all rounds, sends a lost basis again, and
    gives a lost slot to another node; in a loop of one's own, ``configure_train`` and ``aggregate_train`` do the same
    round without that.

    Parameters
    ----------
    config : RunConfig, optional
        The run config under ``settings``.
    min_available_nodes : int
        How many nodes must be there before the first round; ``num_clients`` where that is given.
    out : str or Path, optional
        The result folder: history, checkpoint, summary.
    **settings
        Run config keys with underscores, such as ``step_size=0.1`` and ``local_steps=20``. By default all nodes take
        part in each round, and the algorithm is zofedht.

    Raises
    ------
    ConfigError
        For wrong settings.

    Examples
    --------
    >>> strategy = ZOFedHT(step_size=0.1, local_steps=20, radius=1e-3, seed=1)
    >>> strategy.settings["local-steps"]
    20
    """

    def __init__(
        self,
        config: RunConfig | None = None,
        *,
        min_available_nodes: int = 2,
        out: str | Path | None = None,
        **settings: Any,
    ) -> None:
        given = {dashed(name): plain(value) for name, value in settings.items()}
        if "objective" in given or "dataset" in given:
            raise ConfigError(["the ClientApp says what is minimised: leave out objective and dataset"])
        if out is not None and not is_path(out):
            raise ConfigError([f"out must name a folder, got {out!r}"])
        base = {} if config is None else config.to_mapping()
        self.settings: dict[str, Any] = base | given | {"objective": _OBJECTIVE}
        RunConfig.from_mapping(self.settings)
        self._least = int(given.get("num-clients", min_available_nodes))
        self._out = out
        self._configs = {"train": ConfigRecord(), "evaluate": ConfigRecord()}
        self._strategy: ZofedhtStrategy | None = None  # of a loop of one's own
        self._layout: Layout | None = None
        self._asked: list[Asked] = []

    def summary(self) -> None:
        """Log the settings."""
        for key, value in self.settings.items():
            _log.info("%s = %s", key, value)

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Run all rounds.

        Parameters
        ----------
        grid : Grid
        initial_arrays : ArrayRecord
            The model's arrays at the start.
        num_rounds : int
        timeout : float
            Seconds for a round; what has not answered by then is lost.
        train_config, evaluate_config : ConfigRecord, optional
            What the ClientApps get as ``message.content["config"]``, with ``server-round`` added.
        evaluate_fn : callable, optional
            ``evaluate_fn(round, arrays)``, called before the first round and after each.

        Returns
        -------
        Result
            Flower's own: the last arrays, in the types of the initial ones, and the metrics by round.

        Raises
        ------
        ZofedhtError
            When the rounds fail; what the result folder has can be looked at.
        """
        if not isinstance(grid, Grid):
            raise ConfigError([f"grid must be the Grid that ServerApp's main gets, got {grid!r}"])
        if not isinstance(initial_arrays, ArrayRecord) or not initial_arrays:
            what = f"{initial_arrays!r}; make one as ArrayRecord([weights]) or ArrayRecord(model.state_dict())"
            raise ConfigError([f"initial_arrays must be an ArrayRecord with at least one array, got {what}"])
        self._configs = {"train": train_config or ConfigRecord(), "evaluate": evaluate_config or ConfigRecord()}
        nodes, layout, x = self._nodes(grid, initial_arrays)
        config = self._config(len(nodes.wait(self._least, timeout)), rounds=num_rounds, round_timeout=float(timeout))
        result = Result(arrays=initial_arrays)

        def watch(state: ServerState, record: RoundRecord) -> None:
            self._number(state.round + 1)
            result.arrays = layout.of_user(state.x)
            result.train_metrics_clientapp[state.round] = _train_metrics(record)
            if record.train_loss_source == "full":
                result.evaluate_metrics_clientapp[state.round] = MetricRecord({"loss": record.train_loss})
            if evaluate_fn and (metrics := evaluate_fn(state.round, result.arrays)) is not None:
                result.evaluate_metrics_serverapp[state.round] = metrics

        if evaluate_fn and (metrics := evaluate_fn(0, initial_arrays)) is not None:
            result.evaluate_metrics_serverapp[0] = metrics
        self._number(1)
        with nullcontext() if self._out is None else RunFolder(Path(self._out).expanduser()) as folder:
            if folder is not None:
                folder.begin(config, "flower-app")
            GridRounds(config, nodes, layout, x, watch, folder).fit(num_rounds, timeout)
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return a round's training messages, one for each node that takes part.

        ``arrays`` count in the first round only: afterwards x is what ``aggregate_train`` has made of it. The run has
        ``rounds`` of the settings.
        """
        self._configs["train"] = config
        if self._strategy is None:
            self._strategy, self._layout = self._begin(grid, arrays)
        if self._strategy.coordinator.finished:
            raise RoundError(f"rounds = {self._strategy.coordinator.config.rounds} are done; give rounds=N to ZOFedHT")
        self._number(server_round)
        self._asked = self._strategy.ask()
        return [
            cast(GridNode, bundle[0].proxy).train_message(self._strategy.fit_ins([asked.broadcast for asked in bundle]))
            for bundle in by_node(self._asked, lambda asked: asked.proxy)
        ]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the new arrays and the metrics of the round, or (None, None) where too few nodes answered."""
        if self._strategy is None or self._layout is None:
            raise RoundError("aggregate_train was called before configure_train")
        coordinator = self._strategy.coordinator
        updates: list[Update] = []
        failures: list[Failure] = []
        for reply in replies:
            source = str(reply.metadata.src_node_id)
            slots = [asked.broadcast for asked in self._asked if asked.proxy.cid == source]
            try:
                updates += client_replies(fit_res_of(content_of(reply)), len(slots))
            except (MessageError, RoundError) as error:
                failures += [Failure(slot.round, slot.slot, slot.client, error.cause, str(error)) for slot in slots]
        record = coordinator.tell(updates, failures)
        if record is None:
            return None, None
        return self._layout.of_user(coordinator.state.x), _train_metrics(record)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return an evaluation message for each node."""
        self._configs["evaluate"] = config
        self._number(server_round)
        if self._strategy is None:
            return []
        x = pack([self._strategy.coordinator.state.x])
        nodes = [proxy for proxy, _ in self._strategy.questions()]
        return [node.evaluate_message(EvaluateIns(x, {})) for node in nodes if isinstance(node, GridNode)]

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Return the unweighted mean over the nodes of each metric that all have, or None where nobody answered."""
        records = [reply.content.metric_records.get(METRICS) for reply in replies if not reply.has_error()]
        told = [cast(dict[str, float], dict(record or {})) for record in records]
        told = [metrics for metrics in told if "loss" in metrics]
        return MetricRecord(cast(dict[str, Any], mean_over_clients(told))) if told else None

    def _begin(self, grid: Grid, arrays: ArrayRecord) -> tuple[ZofedhtStrategy, Layout]:
        nodes, layout, x = self._nodes(grid, arrays)
        config = self._config(len(nodes.wait(self._least, math.inf)))
        rounds = GridRounds(config, nodes, layout, x, lambda state, record: None)
        start = rounds.start()
        fitted = config.fitted(start.dimension, start.space)
        rounds.attach(Coordinator(fitted, first_state(fitted, start)))
        return rounds.strategy, layout

    def _nodes(self, grid: Grid, arrays: ArrayRecord) -> tuple[GridNodes, Layout, Vector]:
        layout, x = Layout(arrays), flattened(arrays.to_numpy_ndarrays())
        asked = GetParametersIns(question(RunConfig.from_mapping(self.settings), _ANYBODY, len(x)))
        return GridNodes(grid, lambda node_id: GridNode(grid, node_id, layout, self._configs), asked, x), layout, x

    def _config(self, nodes: int, **told: float) -> RunConfig:
        own = {"num-clients": nodes, "clients-per-round": nodes, "sampling": "without-replacement"}
        return RunConfig.from_mapping(own | self.settings | {dashed(name): value for name, value in told.items()})

    def _number(self, round_: int) -> None:
        for config in self._configs.values():
            config["server-round"] = round_


def _train_metrics(record: RoundRecord) -> MetricRecord:
    return MetricRecord({"train_loss": record.train_loss, "evaluations": record.evaluations})

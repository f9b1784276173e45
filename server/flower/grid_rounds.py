"""The rounds of a run over the nodes of a Grid, from an app's own arrays."""

from __future__ import annotations

from typing import Any

from flwr.server.client_manager import SimpleClientManager

from zofedht.common.config.run_config import RunConfig
from zofedht.common.objective.units import given_start
from zofedht.common.typing import Vector
from zofedht.common.wire.clients import Member
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.round_record import Observer
from zofedht.server.evaluation.start import Start
from zofedht.server.flower.grid_nodes import GridNodes, Layout
from zofedht.server.flower.round_loop import FlowerRounds
from zofedht.server.records.run_folder import RunFolder

__all__ = ["GridRounds"]


class GridRounds(FlowerRounds):
    """The rounds of a config over the nodes of a grid, from the app's own arrays."""

    def __init__(
        self,
        config: RunConfig,
        nodes: GridNodes,
        layout: Layout,
        x: Vector,
        watch: Observer,
        folder: RunFolder | None = None,
    ) -> None:
        def homes() -> dict[Member, Any]:
            return dict(nodes.homes())

        super().__init__(config, SimpleClientManager(), folder=folder, show_progress=False, homes=homes)
        self._nodes, self._layout, self._x, self._watch = nodes, layout, x, watch

    def start(self) -> Start:
        """Return the start that the nodes agree on, at the app's own arrays."""
        start = super().start()
        self._layout.units = start.units
        return start._replace(own=given_start(self._x, start.dimension, start.units))

    def attach(self, coordinator: Coordinator) -> None:
        super().attach(coordinator)
        coordinator.observers.append(self._watch)

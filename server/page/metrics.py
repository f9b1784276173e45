"""A run in Prometheus's text format, with names ``zofedht_*``; from the view, so a scrape costs the run nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from zofedht.common.errors import MissingExtraError
from zofedht.server.page.view import RunView

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

__all__ = ["CONTENT_TYPE", "metrics_text"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_STATES = ("waiting", "running", "stopped", "finished")
_MOST_CLIENTS = 1000


def metrics_text(view: RunView) -> bytes:
    """Return all metrics of a run.

    Raises MissingExtraError without prometheus-client.
    """
    try:
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.registry import Collector
    except ImportError as error:
        raise MissingExtraError(
            "metrics need prometheus-client; install it with `pip install 'zofedht[metrics]'`"
        ) from error

    class Run(Collector):
        def collect(self) -> Iterable[Metric]:
            yield from _of_run(view)
            yield from _of_clients(view)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Run())
    text: bytes = generate_latest(registry)
    return text


def _of_run(view: RunView) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

    def gauge(name: str, text: str, value: float | None) -> Metric:
        return GaugeMetricFamily(f"zofedht_{name}", text, math.nan if value is None else value)

    def counter(name: str, text: str, value: float) -> Metric:
        return CounterMetricFamily(f"zofedht_{name}", text, value)

    status, last = view.status(), view.last
    about = {"run": status["name"], "engine": status["engine"]}
    if view.config is not None:
        about |= {
            "algorithm": view.config.algorithm,
            "dataset": view.config.dataset,
            "objective": view.config.objective,
        }
    info = InfoMetricFamily("zofedht_run", "What is run.", value=about)
    state = GaugeMetricFamily("zofedht_state", "1 for the state that the run is in.", labels=["state"])
    for name in _STATES:
        state.add_metric([name], float(status["state"] == name))
    yield info
    yield state
    yield counter("rounds", "Rounds that are done.", status["rounds"])
    yield gauge("planned_rounds", "The key rounds; 0 where a budget alone ends the run.", status["of_rounds"])
    yield gauge("progress_ratio", "Part of the run that is done.", status["share"])
    yield gauge("left_seconds", "Time until the end, by the pace of the latest rounds.", status["seconds_left"])
    yield gauge("train_loss", "Training loss after the latest round.", status["loss"])
    yield gauge("best_train_loss", "The best training loss of a round.", status["best"])
    yield gauge("initial_train_loss", "Training loss of the start.", status["initial"])
    yield gauge("step_size", "eta of the latest round.", last.get("step_size"))
    yield gauge("subspace_weight", "alpha of the latest round.", last.get("subspace_weight"))
    yield gauge("replies", "Usable replies of the latest round.", status["replies"])
    yield counter("evaluations", "Evaluations that the algorithm asked for.", status["evaluations"])
    yield counter("run_seconds", "Wall time of the rounds.", status["seconds"])
    sent = CounterMetricFamily("zofedht_bytes", "Bytes of the rounds' messages.", labels=["direction"])
    for direction in ("up", "down"):
        sent.add_metric([direction], status[f"bytes_{direction}"])
    yield sent
    lost = CounterMetricFamily("zofedht_lost_slots", "Slots without a usable reply.", labels=["cause"])
    for cause, count in status["causes"].items():
        lost.add_metric([cause], count)
    yield lost
    yield counter("interventions", "Changes by automatic rules.", status["interventions"])
    yield gauge("connected_clients", "Clients that are connected to serve.", status["connected"])
    yield gauge("updated_timestamp_seconds", "When the run wrote last.", status["updated"])


def _of_clients(view: RunView) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    rows = list(islice(view.clients.rows.values(), _MOST_CLIENTS))

    def by_client(kind: Any, name: str, text: str, values: Iterable[float | None]) -> Metric:
        family: Metric = kind(f"zofedht_client_{name}", text, labels=["client"])
        for row, value in zip(rows, values, strict=True):
            if value is not None:
                family.add_metric([row.name], float(value))  # type: ignore[attr-defined]
        return family

    yield by_client(CounterMetricFamily, "slots", "Usable slots of a client.", (row.slots for row in rows))
    yield by_client(CounterMetricFamily, "slot_seconds", "From question to answer.", (row.seconds for row in rows))
    yield by_client(GaugeMetricFamily, "latest_slot_seconds", "The same of its latest round.", (r.latest for r in rows))
    yield by_client(CounterMetricFamily, "outliers", "Slots whose move was an outlier.", (row.outliers for row in rows))
    yield by_client(GaugeMetricFamily, "move_ratio", "Its longest move over the median.", (row.times for row in rows))
    yield by_client(GaugeMetricFamily, "connected", "1 for a connected client.", (row.connected for row in rows))
    yield by_client(GaugeMetricFamily, "seen_timestamp_seconds", "Its last sign of life.", (row.seen for row in rows))
    sent = CounterMetricFamily("zofedht_client_bytes", "Bytes of a client's messages.", labels=["client", "direction"])
    lost = CounterMetricFamily("zofedht_client_lost_slots", "Slots that a client lost.", labels=["client", "cause"])
    for row in rows:
        sent.add_metric([row.name, "up"], row.bytes_up)
        sent.add_metric([row.name, "down"], row.bytes_down)
        for cause, count in row.lost.items():
            lost.add_metric([row.name, cause], count)
    yield sent
    yield lost

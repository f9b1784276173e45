"""The nodes of Flower's Grid as clients: each is a client of its own, asked by Flower's Message API."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.common import (
    Code,
    DisconnectRes,
    EvaluateIns,
    EvaluateRes,
    FitIns,
    FitRes,
    GetParametersIns,
    GetParametersRes,
    GetPropertiesIns,
    GetPropertiesRes,
    Parameters,
    ReconnectIns,
    Scalar,
    Status,
)
from flwr.server.client_proxy import ClientProxy
from flwr.serverapp import Grid
from numpy.typing import NDArray

from zofedht.common.errors import MessageError, RoundError
from zofedht.common.objective.units import Units
from zofedht.common.plain_text import printable
from zofedht.common.typing import Vector
from zofedht.common.wire.arrays import decode_vectors
from zofedht.common.wire.clients import OWN_ROWS, Member
from zofedht.common.wire.records import ARRAYS, CONFIG, METRICS, OURS, PARTITION, STARTS, shaped

__all__ = ["GridNode", "GridNodes", "Layout"]

_OK = Status(Code.OK, "")
_ROWS = "examples"
_POLL = 0.2  # seconds between looks for nodes
_PATIENCE = 120.0  # seconds for a new node to say who it is: Flower starts a process for it


class Layout:
    """The arrays of the app's model, in which x goes to its nodes and comes back to its author."""

    def __init__(self, initial: ArrayRecord) -> None:
        self._names = list(initial.keys())
        self._like: list[NDArray[np.generic]] = initial.to_numpy_ndarrays()
        self.units: Units | None = None

    def searched(self, x: Vector) -> ArrayRecord:
        """Return x as float64 arrays, in the units that it is searched in."""
        return self._record(shaped(x, self._like))

    def of_user(self, x: Vector) -> ArrayRecord:
        """Return x as arrays of the types that the model began with, in the user's units."""
        own = x if self.units is None else self.units.to_user(x)
        return self._record(shaped(own, self._like, typed=True))

    def _record(self, arrays: Sequence[NDArray[np.generic]]) -> ArrayRecord:
        record = ArrayRecord(list(arrays))
        return ArrayRecord(dict(zip(self._names, record.values(), strict=True)))


class GridNode(ClientProxy):
    """A node of the grid; what Flower's classic strategies say to a client becomes its messages."""

    def __init__(self, grid: Grid, node_id: int, layout: Layout, configs: Mapping[str, ConfigRecord]) -> None:
        """``configs`` holds what the app's author sends with messages of the types train and evaluate."""
        super().__init__(str(node_id))
        self._grid, self._layout, self._configs = grid, layout, configs
        self.start: GetParametersRes | None = None

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        """Ask for the steps of one or several slots."""
        answer = self._ask(self.train_message(ins), timeout)
        return fit_res_of(answer)

    def train_message(self, ins: FitIns) -> Message:
        """Return FitIns as a training message."""
        x = decode_vectors(ins.parameters.tensors, "x", dtypes=("float64", "float32"))
        arrays = self._layout.searched(x[0].astype(np.float64)) if x else ArrayRecord()
        return self._message(MessageType.TRAIN, arrays, ConfigRecord(dict(ins.config)))

    def start_message(self, ins: GetParametersIns, x: Vector) -> Message:
        """Return the message that asks a node who it is."""
        ours = ConfigRecord({**ins.config, STARTS: True})
        return self._message(MessageType.TRAIN, self._layout.searched(x), ours)

    def evaluate(self, ins: EvaluateIns, timeout: float | None, group_id: int | None) -> EvaluateRes:
        """Ask for an evaluation of x on the node's rows."""
        answer = self._ask(self.evaluate_message(ins), timeout)
        told = scalars_of(answer.metric_records.get(METRICS)) | scalars_of(answer.config_records.get(OURS))
        examples = told.pop("num-examples", 0)
        return EvaluateRes(_OK, float(told.get("loss", np.nan)), int(examples), told)

    def evaluate_message(self, ins: EvaluateIns) -> Message:
        """Return EvaluateIns as an evaluation message, with x as the app's author knows it."""
        x = decode_vectors(ins.parameters.tensors, "x")[0]
        return self._message(MessageType.EVALUATE, self._layout.of_user(x))

    def get_parameters(self, ins: GetParametersIns, timeout: float | None, group_id: int | None) -> GetParametersRes:
        """Return the start and the units that the node has told when it was met."""
        if self.start is None:
            raise RoundError(f"node {self.cid} has not said who it is")
        return self.start

    def get_properties(self, ins: GetPropertiesIns, timeout: float | None, group_id: int | None) -> GetPropertiesRes:
        """Not asked by us."""
        raise NotImplementedError

    def reconnect(self, ins: ReconnectIns, timeout: float | None, group_id: int | None) -> DisconnectRes:
        """Not asked by us."""
        raise NotImplementedError

    def _message(self, kind: str, arrays: ArrayRecord, ours: ConfigRecord | None = None) -> Message:
        content = RecordDict({ARRAYS: arrays, CONFIG: ConfigRecord(dict(self._configs[kind]))})
        if ours is not None:
            content[OURS] = ours
        return Message(content=content, message_type=kind, dst_node_id=int(self.cid))

    def _ask(self, message: Message, timeout: float | None) -> RecordDict:
        for answer in self._grid.send_and_receive([message], timeout=timeout):
            return content_of(answer)
        raise TimeoutError(f"no answer within {timeout:g} seconds")


def content_of(answer: Message) -> RecordDict:
    """Return the content of an answer. Raises RoundError where it is an error."""
    if answer.has_error():
        raise RoundError(printable(answer.error.reason or "the node answered with an error"), cause="refused")
    return answer.content


def fit_res_of(content: RecordDict) -> FitRes:
    """Return the answer to a training message as a FitRes. Raises MessageError where it is not one of ours."""
    if OURS not in content.config_records or ARRAYS not in content.array_records:
        raise MessageError("a training message was answered by another function than train of zofedht.flower")
    examples = scalars_of(content.metric_records.get(METRICS)).get("num-examples", 0)
    tensors = [array.data for array in content.array_records[ARRAYS].values()]
    told = scalars_of(content.config_records[OURS])
    return FitRes(_OK, Parameters(tensors, "numpy.ndarray"), int(examples), told)


def scalars_of(record: MetricRecord | ConfigRecord | None) -> dict[str, Scalar]:
    """Return the values of a record. Raises MessageError for a list, which we never send."""
    told: dict[str, Scalar] = {}
    for key, value in (record or {}).items():
        if isinstance(value, list):
            raise MessageError(f"{key} must be one value, got a list")
        told[key] = value
    return told


class GridNodes:
    """Who of the grid's nodes is there; a new one is asked once who it is."""

    def __init__(self, grid: Grid, make: Callable[[int], GridNode], asked: GetParametersIns, x: Vector) -> None:
        self._grid, self._make, self._asked, self._x = grid, make, asked, x
        self._met: dict[int, tuple[Member, GridNode]] = {}
        self._complaint = f"none has answered within {_PATIENCE:g} seconds"

    def homes(self) -> dict[Member, GridNode]:
        """Return the members that are there, by their partition, and their nodes.

        Of two nodes with one partition the later one counts: Flower gives a node that comes back a new id. Raises
        RoundError where there are nodes, and none can say who it is.
        """
        ids = set(self._grid.get_node_ids())
        self._meet(ids - set(self._met))
        latest = {member.name: (member, node) for key, (member, node) in self._met.items() if key in ids}
        if ids and not latest:
            raise RoundError(f"no node could say who it is: {self._complaint}")
        return dict(latest.values())

    def wait(self, least: int, seconds: float) -> dict[Member, GridNode]:
        """Return ``homes`` as soon as so many are there. Raises RoundError where that takes longer."""
        deadline = time.monotonic() + seconds
        while len(homes := self.homes()) < least:
            if time.monotonic() > deadline:
                raise RoundError(f"{len(homes)} of {least} nodes were there within {seconds:g} seconds")
            time.sleep(_POLL)
        return homes

    def _meet(self, ids: Iterable[int]) -> None:
        nodes = {node: self._make(node) for node in ids}
        if not nodes:
            return
        messages = [node.start_message(self._asked, self._x) for node in nodes.values()]
        for answer in self._grid.send_and_receive(messages, timeout=_PATIENCE):
            node_id = answer.metadata.src_node_id
            try:
                said = fit_res_of(content_of(answer))
            except (RoundError, MessageError) as error:
                self._complaint = str(error)
                continue  # it is asked again in the next round
            node = nodes[node_id]
            node.start = GetParametersRes(_OK, said.parameters)
            partition, samples = (int(said.metrics.get(key, default)) for key, default in ((PARTITION, -1), (_ROWS, 0)))
            name, shard = (str(partition), partition) if partition >= 0 else (f"node-{node_id}", OWN_ROWS)
            self._met[node_id] = (Member(name, shard, node.cid, keeps_x=False, samples=samples), node)

"""What is lost on the way costs a slot, or goes to another client; the history names it."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from flwr.common import (
    Code,
    FitIns,
    FitRes,
    Parameters,
    Status,
)
from flwr.common import ndarrays_to_parameters as pack

from tests.helpers import small
from tests.server.flower.loopback import Loopback, fit, nodes
from tests.waiting import until
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import RoundError
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.history import read_history
from zofedht.server.records.run_folder import RunFolder, sha256_of_x

CONFIG = small(train_rows=240, step_size=1.0)
EVERYBODY = {"sampling": "without-replacement", "clients_per_round": 4}


def in_process(config: RunConfig) -> str:
    return sha256_of_x(run_in_process(config).state.x)


class Breaking(Loopback):
    """A node whose connection breaks at every fit; when another node has been asked in this round, if given."""

    after: Loopback | None = None

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        if self.after is not None:
            asked, round_ = self.after.fits, ins.config["round"]
            until(lambda: any(each.config["round"] == round_ for each in asked), "the fit of the other node")
        raise ConnectionError("the stream was reset")


class Declining(Loopback):
    """A node that answers with an error status."""

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        status = Status(Code.FIT_NOT_IMPLEMENTED, "this client does not fit")
        return FitRes(status=status, parameters=pack([]), num_examples=0, metrics={})


class Rambling(Loopback):
    """A node that answers with something else."""

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        answer = super().fit(ins, timeout, group_id)
        del answer.metrics["status"]
        return answer


class Garbling(Loopback):
    """A node whose arrays are something else."""

    content = b""

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        answer = super().fit(ins, timeout, group_id)
        answer.parameters = Parameters([self.content], "numpy.ndarray")
        return answer


def _npy(header: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00\x76\x00" + header.ljust(117) + b"\n"


GARBLED = {
    "nothing": (b"", "the move must be a .npy array, got 0 bytes"),
    "a pickle": (pickle.dumps({}), "the move must be a .npy array"),
    "an archive": (b"PK\x03\x04 and so on", "the move must be a .npy array"),
    "more numbers than memory": (
        _npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (461168601842738,), }"),
        "the move must hold 461168601842738 float64 numbers, got 0 bytes",
    ),
    "objects": (_npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }") + bytes(8), "got |O of shape (1,)"),
}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Breaking, "ConnectionError: the stream was reset"),
        (Declining, "this client does not fit"),
        (Rambling, "the message has no 'status'"),
        *((type(name, (Garbling,), {"content": content}), reason) for name, (content, reason) in GARBLED.items()),
    ],
)
def test_a_failing_node_costs_its_slots(tmp_path: Path, kind: type[Loopback], reason: str):
    """The history names the slots."""
    config = CONFIG.replace(**EVERYBODY, max_retries=0)
    folder = RunFolder(tmp_path / "run")
    folder.begin(config, "simulation")
    fit(config, [Loopback("1"), kind("2")], folder=folder)  # clients 1 and 3 live on node 2
    for row in read_history(folder.history_file):
        assert (row["replies"], row["attempts"]) == (2, 1)
        assert len({failure["slot"] for failure in row["failures"]}) == len(row["failures"]) == 2
        assert all(reason in failure["reason"] for failure in row["failures"])
        assert {failure["client"] for failure in row["failures"]} == {"1", "3"}


def test_x_does_not_depend_on_when_slots_are_lost(tmp_path: Path):
    """A lost slot goes to another client."""
    digests = set()
    for name in ("soon", "late"):
        folder = RunFolder(tmp_path / name)
        folder.begin(CONFIG.replace(**EVERYBODY), "simulation")
        good, broken = Loopback("1"), Breaking("2")  # clients 0 and 2, 1 and 3
        broken.after = good if name == "late" else None
        digests.add(sha256_of_x(fit(CONFIG.replace(**EVERYBODY), [good, broken], folder=folder).state.x))
        for row in read_history(folder.history_file):
            assert (row["replies"], row["attempts"]) == (4, 1)
            assert {failure["client"] for failure in row["failures"]} == {"1", "3"}
    assert len(digests) == 1
    assert digests != {in_process(CONFIG.replace(**EVERYBODY))}


def test_a_run_whose_nodes_all_fail_stops(tmp_path: Path):
    """It says why, and x is unharmed."""
    folder = RunFolder(tmp_path / "run")
    folder.begin(CONFIG, "simulation")
    with pytest.raises(RoundError, match=r"in 4 attempts \(client \d: ConnectionError: the stream was reset"):
        fit(CONFIG, nodes(2, kind=Breaking), folder=folder)
    config, state, _ = folder.reopen({})
    assert state.round == 0
    assert sha256_of_x(fit(config, nodes(2), folder=folder, state=state).state.x) == in_process(CONFIG)

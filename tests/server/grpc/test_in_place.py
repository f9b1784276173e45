"""Parameters in place over real processes: the bits of a run in process, newcomers, kills, and who is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.place import Rows, Wide
from tests.server.grpc.processes import SMALL, Process, Site
from tests.server.grpc.proxy import Proxy
from tests.waiting import until
from zofedht.common.config.run_config import RunConfig
from zofedht.common.wire.snapshots import PART_BYTES
from zofedht.server.__main__ import main
from zofedht.server.inprocess import run_in_process

KEYS: dict[str, Any] = {
    "objective": "tests.place:make", "in_place": True, "step_size": 0.05, "probe": "rademacher", "memory": None,
    "radius": 1e-3,
}  # fmt: skip


def in_process(**keys: Any) -> dict[str, Any]:
    """Return what the summary of the same run says of its parameters."""
    given = {key.replace("_", "-"): value for key, value in (SMALL | KEYS | keys).items() if value is not None}
    state = run_in_process(RunConfig.from_mapping(given)).state
    assert state.tensors is not None
    return dict(vars(state.tensors))


def joined(site: Site, name: str, *options: Any, factory: str = "make", share: str = "") -> Process:
    place = ["--objective", f"tests.place:{factory}", "--partition", share or f"{name[1:]}/3"]
    return site.client(name, *place, "--max-wait", "30", *options)


def saved(site: Site, name: str, kind: type[Rows] = Rows) -> str:
    """Return the digest of the parameters that a client has saved."""
    rows = kind(0)
    rows.load(site.folder / f"{name}.npz")
    return rows.state_digest()


@pytest.mark.parametrize(
    ("copies", "keys"),
    [
        ("memory", {}),
        ("disk", {"algorithm": "meerkat", "refresh": 2, "directions": "per-slot", "rank": 1}),
        ("memory", {"algorithm": "zofedht", "memory": 2, "step_size": 0.01}),
        ("memory", {"algorithm": "zofed-shrink", "objective": "tests.place:stiff", "warm_up": 2, "step_size": 0.01}),
    ],
)
def test_a_run_equals_that_in_process_bit_for_bit(site: Site, copies: str, keys: dict[str, Any]):
    server, factory = site.server(**(KEYS | keys)), keys.get("objective", "tests.place:make").rpartition(":")[2]
    save = {f"c{index}": site.folder / f"c{index}.npz" for index in range(3)}
    clients = [
        joined(
            site, name, "--copies", copies, "--save", path, "--ledger", site.folder / f"{name}.jsonl", factory=factory
        )
        for name, path in save.items()
    ]
    assert server.ends() == 0, server.text
    for client in clients:
        assert client.ends() == 0, client.text
    told = site.summary()
    assert told["tensors"] == in_process(**keys)
    assert site.failures() == []
    assert {saved(site, name) for name in save} == {told["tensors"]["present"]}
    assert told["bytes_down"] / told["rounds"] < 10_000  # 24 parameters here, and no more for any number of them


def test_a_killed_server_goes_on_to_the_same_bits(site: Site):
    keys = KEYS | {"rounds": 40, "checkpoint_every": 7}
    server = site.server(**keys)
    clients = [joined(site, f"c{index}") for index in range(3)]
    until(lambda: len(site.history()) > 10, "ten rounds")
    server.kill()
    server = site.server(**keys, resume=True, port=site.port)
    assert server.ends() == 0, server.text
    assert [client.ends() for client in clients] == [0, 0, 0]
    assert site.summary()["tensors"] == in_process(**keys)
    assert main(["export", str(site.out), "--out", str(site.folder / "server.npz")]) == 0
    assert saved(site, "server") == site.summary()["tensors"]["present"]


LATE: dict[str, Any] = KEYS | {
    "objective": "tests.place:wide", "rounds": 30, "sampling": "with-replacement", "clients_per_round": 2,
    "snapshot_after": 20,
}  # fmt: skip


def ends_with_a_newcomer(site: Site, server: Process, clients: list[Process]) -> None:
    """Let c2 join in the middle of a run: all end, with equal parameters."""
    until(lambda: len(site.history()) > 4, "five rounds")
    late = joined(site, "c2", "--save", site.folder / "c2.npz", factory="wide")
    late.says("joined")
    (site.folder / "go").touch()
    assert server.ends() == 0, server.text
    assert [client.ends() for client in (*clients, late)] == [0, 0, 0]
    assert "was not answered" not in late.text
    told = site.summary()
    assert told["evaluated_clients"]["last"] == 3
    assert saved(site, "c2", Wide) == told["tensors"]["present"]


@pytest.mark.parametrize("keys", [{"snapshot_after": 0}, {"algorithm": "zofedht", "memory": 2, "step_size": 0.01}])
def test_a_newcomer_follows_the_trail_from_the_start(site: Site, keys: dict[str, Any]):
    """With a guide, too, which is made of the whole trail."""
    server = site.server("--min-clients", 2, **(LATE | keys))
    ends_with_a_newcomer(site, server, [joined(site, f"c{index}", factory="wide") for index in range(2)])
    assert "got the parameters" not in server.text


def test_a_newcomer_gets_the_parameters_of_another_client(site: Site):
    server = site.server("--min-clients", 2, **LATE)
    clients = [joined(site, f"c{index}", factory="wide") for index in range(2)]
    ends_with_a_newcomer(site, server, clients)
    size = 4 * (7 * 3 + 3) + PART_BYTES
    server.says(rf"c2 got the parameters, {size:,} bytes in .* s, for \d+ step lengths")


def test_who_comes_back_after_many_rounds_gets_them_too(site: Site):
    """The process has lived all the time, and holds the parameters of a round long ago."""
    server = site.server(**LATE)
    clients = [joined(site, f"c{index}", factory="wide") for index in range(2)]
    with Proxy(site.port) as line:
        late = joined(site, "c2", "--server", f"127.0.0.1:{line.port}", factory="wide")
        until(lambda: len(site.history()) > 1, "two rounds")
        line.target = 0
        line.cut()
        server.says("left: c2")
        before = len(site.history())
        until(lambda: len(site.history()) > before + 4, "more step lengths than snapshot-after")
        assert "got the parameters" not in server.text
        line.target = site.port
        until(lambda: server.text.count("joined: c2") == 2, "c2 to come back")
        (site.folder / "go").touch()
        assert server.ends() == 0, server.text
        assert [client.ends() for client in (*clients, late)] == [0, 0, 0]
    server.says("c2 got the parameters")
    assert site.summary()["evaluated_clients"]["last"] == 3


def test_other_parameters_than_were_told_reach_nobody(site: Site):
    server = site.server("--min-clients", 2, **LATE)
    liar = site.evil("other-parameters", "c0", "box:tests.place:wide")
    ends_with_a_newcomer(site, server, [liar, joined(site, "c1", factory="wide")])
    server.says("client c0 sent other parameters than those whose digest it told")
    server.says("c2 got the parameters")


def test_after_a_kill_of_server_and_client_a_snapshot_leads_on(site: Site):
    server = site.server("--min-clients", 2, **LATE)
    clients = [joined(site, f"c{index}", factory="wide") for index in range(3)]
    until(lambda: len(site.history()) > 4, "five rounds")
    server.kill()
    clients.pop().kill()
    server = site.server("--min-clients", 2, **LATE, resume=True, port=site.port)
    ends_with_a_newcomer(site, server, clients)
    server.says("c2 got the parameters")


def test_who_allows_no_snapshot_follows_the_trail(site: Site):
    server = site.server("--min-clients", 2, **LATE)
    clients = [joined(site, f"c{index}", "--most-snapshot-mb", 1, factory="wide") for index in range(2)]
    ends_with_a_newcomer(site, server, clients)
    server.says("client c0: the client's own --most-snapshot-mb 1 allows no snapshot of 4.2 MB")
    assert "got the parameters" not in server.text


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        ("doubles", "has a block 'weight float64 7x3' where the run has 'weight float32 7x3'"),
        ("moved", "begins with other parameters than the run"),
        ("vector", "must be an InPlaceObjective where in-place is true, got FunctionObjective"),
    ],
)
def test_a_client_that_differs_is_refused_at_the_door(site: Site, factory: str, reason: str):
    server = site.server("--min-clients", 3, **KEYS)
    first = joined(site, "c0")
    server.says("c0")
    other = joined(site, "c1", "--max-wait", "1", factory=factory)
    other.says(reason.replace("(", ".").replace(")", "."))
    assert other.ends() != 0
    first.kill()


def test_a_run_that_is_not_in_place_refuses_an_objective_that_is(site: Site):
    site.server(**(KEYS | {"in_place": False, "probe": "gaussian"}))
    client = joined(site, "c0", "--max-wait", "1")
    client.says("returns an InPlaceObjective, which holds its parameters: set in-place = true")
    assert client.ends() != 0


def test_the_trail_is_what_x_of_the_run_is(site: Site):
    server = site.server(**KEYS)
    clients = [joined(site, f"c{index}") for index in range(3)]
    assert server.ends() == 0, server.text
    assert [client.ends() for client in clients] == [0, 0, 0]
    assert np.load(site.out / "x.npy").shape == (12 * 5,)

"""A client that dies, stops, is slow or lies costs a slot and nothing else; the history names it."""

from __future__ import annotations

import signal

import pytest

from tests.server.grpc.processes import Process, Site, until


def ends_complete(site: Site, server: Process, rounds: int = 12) -> None:
    assert server.ends() == 0, server.text
    assert [row["round"] for row in site.history()] == list(range(rounds))
    assert site.summary()["rounds"] == rounds


def test_another_client_takes_over_a_killed_ones_slot(site: Site):
    server = site.server()
    clients = site.clients(2)
    victim = site.evil("hang")
    until(site.mark("c2").exists, "c2 at work on a slot")
    victim.send(signal.SIGKILL)
    ends_complete(site, server)
    assert [(f["round"], f["client"], f["reason"]) for f in site.failures()] == [
        (2, "c2", "LostClient: the connection was lost")
    ]
    rows = site.history()
    assert [row["replies"] for row in rows] == [3] * 3 + [2] * 9  # in round 2 the slot was drawn again
    assert all(row["attempts"] == 1 for row in rows)
    assert "left: c2, 2 connected" in server.text
    assert [client.ends() for client in clients] == [0, 0]


def test_all_clients_of_a_round_may_die_and_others_finish_it(site: Site):
    server = site.server("--min-clients", 1, rounds=4)
    victim = site.evil("hang")
    until(site.mark("c2").exists, "c2 at work on a slot")
    victim.send(signal.SIGKILL)
    server.says("left: c2")
    client = site.client("c0", "--partition", "0/3")
    ends_complete(site, server, 4)
    assert client.ends() == 0
    assert {f["client"] for f in site.failures()} == {"c2"}


@pytest.mark.slow
def test_a_slow_client_loses_its_slot_only(site: Site):
    server = site.server(round_timeout=3.0, rounds=60)
    site.paced(0.1, 2)
    slow = site.evil("slow", amount=6.0)
    ends_complete(site, server, 60)
    failures = site.failures()
    assert [(f["round"], f["client"]) for f in failures] == [(2, "c2")]
    assert "no answer within" in failures[0]["reason"]
    replies = [row["replies"] for row in site.history()]
    assert replies[2] == 2  # there was no time left to draw it again
    assert replies[3] == 2  # it is not drawn while it owes an answer
    assert replies[-1] == 3  # when the late answer had come, and was dropped, it was drawn again
    assert server.text.count("joined: c2") == 1
    assert slow.ends() == 0
    assert "trying again" not in slow.text


@pytest.mark.slow
def test_a_stopped_client_is_noticed_twice_and_comes_back(site: Site):
    server = site.server(round_timeout=3.0, rounds=4000)
    clients = site.paced(0.1)
    until(lambda: len(site.history()) > 3, "some rounds")
    clients[2].send(signal.SIGSTOP)
    until(lambda: "c2" in {f["client"] for f in site.failures()}, "a failure in the history")  # first by round-timeout
    server.says("left: c2, 2 connected", 40)  # then by keep-alive
    before = len(site.history())
    until(lambda: len(site.history()) > before, "the run to go on")
    clients[2].send(signal.SIGCONT)
    until(lambda: server.text.count("joined: c2") == 2, "c2 to come back")
    until(lambda: site.history()[-1]["replies"] == 3, "a round with three replies")


def test_a_client_stopped_for_a_moment_goes_on_where_it_was(site: Site):
    server = site.server(round_timeout=3.0, rounds=4000)
    clients = site.paced(0.1)
    until(lambda: len(site.history()) > 3, "some rounds")
    clients[2].send(signal.SIGSTOP)
    until(site.failures, "a failure in the history")
    clients[2].send(signal.SIGCONT)
    until(lambda: site.history()[-1]["replies"] == 3, "a round with three replies")
    assert server.text.count("joined: c2") == 1


@pytest.mark.parametrize(
    ("deed", "reason"),
    [
        ("nan", "the move must not hold NaN or inf"),
        ("shape", "wrong shape: the move must be (65,), got (66,)"),
        ("wrong-round", "answered round 1000000"),
        ("for-another", "answered for slot"),
        ("matrix", "the move must be a float64 or float32 vector, got <f8 of shape (65, 1)"),
        ("single", "move must be a float64 vector, got float32 (65,)"),
        ("no-metrics", "the message has no 'status'"),
        ("junk", "the move must be a .npy array, got 600 bytes that are none"),
        ("pickle", "that are none"),
        ("object", "the move must be a float64 or float32 vector, got |O of shape (2,)"),
        ("claims", "the move must hold 9999999999999 float64 numbers, got 64 bytes"),
    ],
)
def test_a_bad_answer_costs_its_slot_only(site: Site, deed: str, reason: str):
    server = site.server(rounds=5)
    honest = site.clients(2)
    evil = site.evil(deed)
    ends_complete(site, server, 5)
    failures = site.failures()
    assert [(f["round"], f["client"]) for f in failures] == [(r, "c2") for r in (2, 3, 4)]
    assert all(reason in f["reason"] for f in failures), failures
    assert [row["replies"] for row in site.history()] == [3, 3, 2, 2, 2]
    assert [client.ends() for client in (*honest, evil)] == [0, 0, 0]


def test_an_oversized_answer_costs_its_slot_only(site: Site):
    server = site.server("--max-message-mb", 1, rounds=6)
    site.paced(0.3, 2)
    evil = site.evil("huge", amount=3e6)
    ends_complete(site, server, 6)
    assert {f["client"] for f in site.failures()} == {"c2"}
    assert all(row["replies"] >= 2 for row in site.history())
    assert "trying again" in evil.text


def test_a_missing_loss_does_not_stop_the_run(site: Site):
    server = site.server(dataset="clients", positive_labels="1", rounds=3)
    file = site.folder / "rows.csv"
    file.write_text("label,a,b\n" + "".join(f"{i % 2},{i},{i * i % 5}\n" for i in range(12)))
    for index in range(3):
        site.evil("no-figures" if index == 2 else "paced", f"c{index}", f"data:{file}")
    ends_complete(site, server, 3)
    assert site.summary()["final_train_loss"] < site.summary()["initial_train_loss"]


def test_a_late_client_is_drawn_next_round(site: Site):
    server = site.server("--min-clients", 2, rounds=2000)
    site.paced(0.05, 2)
    until(lambda: len(site.history()) > 3, "some rounds")
    assert {row["replies"] for row in site.history()} == {2}
    site.client("c2", "--partition", "2/3").says("joined")
    joined = len(site.history())
    until(lambda: len(site.history()) > joined + 2, "two rounds more")
    assert site.history()[joined + 1]["replies"] == 3
    assert site.failures() == []
    assert server.code is None


@pytest.mark.parametrize("deed", ["nan-start", "other-start", "no-start"])
def test_a_bad_starting_point_is_skipped(site: Site, deed: str):
    (site.folder / "boxes.py").write_text(
        "import numpy as np\nfrom zofedht import Objective\n"
        "class Box(Objective):\n    dim = 4\n    def __len__(self): return 3\n"
        "    def value(self, x, batch): return float(np.sum((x - 1) ** 2))\n"
    )
    server = site.server(objective="boxes:Box", step_size=0.05, rounds=3)
    site.evil(deed, "c0", "box:boxes:Box")  # the first to be asked
    for name in ("c1", "c2"):
        site.evil("paced", name, "box:boxes:Box")
    ends_complete(site, server, 3)
    assert site.mark("c0").exists()
    assert site.summary()["final_train_loss"] < site.summary()["initial_train_loss"] == 4.0

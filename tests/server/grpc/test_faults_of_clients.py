"""A client that dies, stops, is slow or lies costs a slot and nothing else; the history names it."""

from __future__ import annotations

import re
import signal

import pytest

from tests.server.grpc.processes import Process, Site
from tests.waiting import until


def ends_complete(site: Site, server: Process, rounds: int = 12) -> None:
    assert server.ends() == 0, server.text
    assert [row["round"] for row in site.history()] == list(range(rounds))
    assert site.summary()["rounds"] == rounds


def test_another_client_takes_over_a_killed_ones_slot(site: Site):
    server = site.server()
    clients = site.clients(2)
    victim = site.evil("hang")
    site.at_work("c2")
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


def test_others_finish_a_round_whose_clients_died(site: Site):
    server = site.server("--min-clients", 1, rounds=4)
    victim = site.evil("hang")
    site.at_work("c2")
    victim.send(signal.SIGKILL)
    server.says("left: c2")
    client = site.client("c0", "--partition", "0/3")
    ends_complete(site, server, 4)
    assert client.ends() == 0
    assert {f["client"] for f in site.failures()} == {"c2"}


@pytest.mark.slow
def test_a_slow_client_loses_its_slot_only(site: Site):
    """It keeps its connection. While it owes an answer it is not drawn; the late answer is dropped."""
    server = site.server(round_timeout=3.0, rounds=100_000)
    site.paced(0.1, 2)
    slow = site.evil("slow")
    late = site.at_work("c2")
    lost = until(lambda: [f for f in site.failures() if (f["round"], f["client"]) == (late, "c2")], "the lost slot")
    assert "no answer within" in lost[0]["reason"]
    until(lambda: site.history()[-1]["round"] > late + 3, "rounds without it")
    since = [row for row in site.history() if row["round"] >= late]
    assert max(row["replies"] for row in since) == 2  # and in round ``late`` there was no time left to draw it again
    assert [f["round"] for f in site.failures() if f["client"] == "c2" and f["round"] >= late] == [late]
    site.mark("c2").with_suffix(".go").touch()
    until(lambda: site.history()[-1]["replies"] == 3, "a round with three replies")
    assert server.text.count("joined: c2") == 1
    assert "trying again" not in slow.text


@pytest.mark.slow
def test_a_stopped_client_is_noticed_twice_and_comes_back(site: Site):
    server = site.server(round_timeout=3.0, rounds=4000)
    clients = site.paced(0.1)
    until(lambda: len(site.history()) > 3, "some rounds")
    clients[2].send(signal.SIGSTOP)
    until(lambda: "c2" in {f["client"] for f in site.failures()}, "a failure in the history")  # first by round-timeout
    server.says("left: c2")  # then by keep-alive
    before = len(site.history())
    until(lambda: len(site.history()) > before, "the run to go on")
    clients[2].send(signal.SIGCONT)
    until(lambda: server.text.count("joined: c2") == 2, "c2 to come back")
    until(lambda: site.history()[-1]["replies"] == 3, "a round with three replies")


def test_a_stopped_client_goes_on(site: Site):
    server = site.server(round_timeout=3.0, rounds=4000)
    clients = site.paced(0.1)
    until(lambda: len(site.history()) > 3, "some rounds")
    clients[2].send(signal.SIGSTOP)
    until(site.failures, "a failure in the history")
    clients[2].send(signal.SIGCONT)
    until(lambda: site.history()[-1]["replies"] == 3, "a round with three replies")
    assert server.text.count("joined: c2") == 1


DEEDS = {
    "nan": "the move must not hold NaN or inf",
    "shape": "wrong shape: the move must be (65,), got (66,)",
    "wrong-round": "answered round 1000001",
    "for-another": "answered for slot",
    "matrix": "the move must be a float64 or float32 vector, got <f8 of shape (65, 1)",
    "single": "move must be a float64 vector, got float32 (65,)",
    "no-metrics": "the message has no 'round'",
    "junk": "the move must be a .npy array, got 600 bytes that are none",
    "pickle": "that are none",
    "object": "the move must be a float64 or float32 vector, got |O of shape (2,)",
    "claims": "the move must hold 9999999999999 float64 numbers, got 64 bytes",
}
"""What evil clients do to their answers from round 2 on, and the reason in the history."""


def test_a_bad_answer_costs_its_slot_only(site: Site):
    count = 2 + len(DEEDS)
    server = site.server("--min-clients", count, rounds=5, num_clients=count, clients_per_round=count)
    clients = [site.client(name, "--partition", f"{index}/{count}") for index, name in enumerate(("c0", "c1"))]
    clients += [site.evil(deed, deed, f"{2 + index}/{count}") for index, deed in enumerate(DEEDS)]
    ends_complete(site, server, 5)
    failures = site.failures()
    assert [f["round"] for f in failures] == sorted([2, 3, 4] * len(DEEDS))
    for deed, reason in DEEDS.items():
        reasons = [f["reason"] for f in failures if f["client"] == deed]
        assert len(reasons) == 3, failures
        assert all(reason in each for each in reasons), reasons
    assert [row["replies"] for row in site.history()] == [count, count, 2, 2, 2]
    assert [client.ends() for client in clients] == [0] * count


def test_an_oversized_answer_costs_its_slot_only(site: Site):
    server = site.server("--max-message-mb", 1, rounds=6)
    site.paced(0.3, 2)
    evil = site.evil("huge", amount=3e6)
    ends_complete(site, server, 6)
    assert {f["client"] for f in site.failures()} == {"c2"}
    assert all(row["replies"] >= 2 for row in site.history())
    assert evil.ends() == 2  # the message would be as long the next time
    assert re.search(r"at most \d+ bytes, got 30\d+; --max-message-mb of the server bounds it", evil.text)
    assert "trying again" not in evil.text


def test_a_missing_loss_does_not_stop_the_run(site: Site):
    server = site.server(dataset="clients", positive_labels="1", rounds=6, step_size=0.1)
    file = site.folder / "rows.csv"
    file.write_text("label,a,b\n" + "".join(f"{i % 2},{i},{i * i % 5}\n" for i in range(12)))
    for index in range(3):
        site.evil("false-loss" if index == 2 else "paced", f"c{index}", f"data:{file}")
    ends_complete(site, server, 6)
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


def test_a_bad_starting_point_is_skipped(site: Site):
    (site.folder / "boxes.py").write_text(
        "import numpy as np\nfrom zofedht import Objective\n"
        "class Box(Objective):\n    dim = 4\n    def __len__(self): return 3\n"
        "    def value(self, x, batch): return float(np.sum((x - 1) ** 2))\n"
    )
    deeds = ["nan-start", "other-start", "no-start", "paced"]  # clients are asked in this order
    server = site.server("--min-clients", 4, objective="boxes:Box", num_clients=4, step_size=0.05, rounds=3)
    for index, deed in enumerate(deeds):
        site.evil(deed, f"c{index}", "box:boxes:Box")
    ends_complete(site, server, 3)
    assert [site.mark(f"c{index}").exists() for index in range(4)] == [True, True, True, False]
    assert site.summary()["final_train_loss"] < site.summary()["initial_train_loss"] == 4.0

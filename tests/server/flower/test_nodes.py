"""Where logical clients live, and what a node is asked and may say."""

from __future__ import annotations

from pathlib import Path

import pytest
from flwr.common import EvaluateIns, EvaluateRes, FitIns, FitRes, GetParametersIns, GetParametersRes, Parameters, Scalar

from tests.helpers import black_box, small
from tests.server.flower.loopback import Loopback, fit, nodes
from zofedht.common.errors import RoundError
from zofedht.common.shards import members_of
from zofedht.common.wire.bundle import unbundled
from zofedht.common.wire.clients import Member, Question
from zofedht.common.wire.codec import decode
from zofedht.server.flower.strategy import over_nodes
from zofedht.server.records.history import read_history
from zofedht.server.records.run_folder import RunFolder

MEMBERS = [Member(str(index), index, str(index)) for index in range(7)]


def by_id(proxies: list[Loopback]) -> dict[str, Loopback]:
    return {proxy.cid: proxy for proxy in proxies}


@pytest.mark.parametrize("count", [1, 2, 3, 7, 9])
def test_every_client_lives_on_one_node(count: int):
    """The node keeps the basis of the client."""
    homes = over_nodes(MEMBERS, by_id(nodes(count)))
    assert [(member.name, member.shard_index) for member in homes] == [(m.name, m.shard_index) for m in MEMBERS]
    assert all(member.host == proxy.cid for member, proxy in homes.items())
    lodgers = [sum(proxy.cid == home.cid for home in homes.values()) for proxy in nodes(count)]
    assert max(lodgers) - min(lodgers) <= 1


def test_homes_do_not_depend_on_the_order_of_nodes():
    proxies = nodes(4)
    assert over_nodes(MEMBERS, by_id(proxies)) == over_nodes(MEMBERS, by_id(proxies[::-1]))


def test_without_a_node_nobody_is_at_home():
    assert over_nodes(MEMBERS, {}) == {}


class Asked(Loopback):
    """A node that keeps what it was asked."""

    def __init__(self, cid: str) -> None:
        super().__init__(cid)
        self.asked: list[tuple[str, dict[str, Scalar]]] = []

    def get_parameters(self, ins: GetParametersIns, timeout: float | None, group_id: int | None) -> GetParametersRes:
        self.asked.append(("start", ins.config))
        return super().get_parameters(ins, timeout, group_id)

    def evaluate(self, ins: EvaluateIns, timeout: float | None, group_id: int | None) -> EvaluateRes:
        self.asked.append(("evaluation", ins.config))
        return super().evaluate(ins, timeout, group_id)


@pytest.mark.parametrize("known", [0, 6])
def test_a_question_names_client_partition_and_n(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: int):
    """A client whose sparse file lacks the last columns makes its objective after n."""
    config = small(objective=f"{black_box(tmp_path, monkeypatch)}:Valve", rounds=1)
    (node,) = nodes(1, kind=Asked)
    assert isinstance(node, Asked)
    fit(config, [node], dimension=known)
    asked = [(what, decode(Question, part.scalars)) for what, scalars in node.asked for part in unbundled(scalars, [])]
    everybody = [(member.name, member.shard_index) for member in members_of(config)]
    starts = [("start", *member, known) for member in everybody]
    evaluations = [("evaluation", *member, 6) for member in everybody]
    got = [(what, question.client, question.shard_index, question.dimension) for what, question in asked]
    assert sorted(got) == sorted(starts + 4 * evaluations)  # of the start and the last x, and of both once more
    assert all((question.seed, question.task) == (config.seed, config.task) for _, question in asked)


class Lying(Loopback):
    """A node that says of other slots than its own that their basis is lost."""

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        answer = super().fit(ins, timeout, group_id)
        slots = {key: value for key, value in ins.config.items() if key.endswith("slot")}
        answer.metrics |= {key: (int(str(slot)) + 1) % 4 for key, slot in slots.items()} | {"status": "basis-missing"}
        answer.parameters = Parameters([], "")
        return answer


def test_speaking_for_others_costs_ones_own_slots(tmp_path: Path):
    config = small(train_rows=240, step_size=1.0, sampling="without-replacement", clients_per_round=4)
    folder = RunFolder(tmp_path / "run")
    folder.begin(config, "simulation")
    fit(config, [Loopback("1"), Lying("2")], folder=folder)  # clients 1 and 3 live on node 2
    rows = read_history(folder.history_file)
    assert [(row["replies"], row["attempts"]) for row in rows] == [(2, 1)] * 7
    for row in rows:
        assert {failure["client"] for failure in row["failures"]} == {"1", "3"}
        assert all("answered for slot" in failure["reason"] for failure in row["failures"])


def test_rows_that_only_clients_hold_are_refused_over_nodes():
    with pytest.raises(RoundError, match=r"clients? 0.* could not say the starting point: dataset = clients has rows"):
        fit(small(dataset="clients"), nodes(2))

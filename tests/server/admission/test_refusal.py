"""Who may join: the reasons as a pure function, and what the refused client's user sees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import VALVE
from tests.server.grpc.processes import Site
from zofedht.common.objective.agreement import units_as_bytes
from zofedht.common.objective.units import Units
from zofedht.common.replay import draw_digest
from zofedht.common.terminal.command_line import NOT_BETTER
from zofedht.common.wire.clients import OWN_ROWS, PROTOCOL, Hello
from zofedht.server.admission.refusal import Expected, other_draws, refusal
from zofedht.server.delivery.fallbacks import OTHER_NUMBERS

HELLO = Hello("c0", "f00", "partition", 0, 3, 480, 65, PROTOCOL, "0.1.0", draw_digest())
EXPECTED = Expected(dimension=65, shard_count=3, clients_hold_data=False, black_box=False, count_given=True)


def test_a_fitting_client_is_admitted():
    assert refusal(HELLO, EXPECTED) is None
    assert refusal(HELLO, EXPECTED, certified_name="c0") is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, ""),
        ({"draw_digest": "0" * 16}, OTHER_NUMBERS),
    ],
)
def test_a_client_with_other_draws_is_admitted(changes: dict[str, str], reason: str):
    hello = replace(HELLO, **changes)
    assert refusal(hello, EXPECTED) is None
    assert other_draws(hello) == reason


def test_a_client_without_a_shard_is_admitted():
    assert refusal(replace(HELLO, shard_index=OWN_ROWS, shard_count=0, examples=0, dimension=0), EXPECTED) is None


def test_the_first_client_is_free_in_n_and_units():
    unknown = Expected(dimension=0, shard_count=0, clients_hold_data=True, black_box=True)
    assert refusal(replace(HELLO, source="objective", dimension=6), unknown) is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"protocol": PROTOCOL + 1}, f"speaks protocol {PROTOCOL + 1} .*the server protocol {PROTOCOL}; install"),
        ({"protocol": PROTOCOL - 1}, f"speaks protocol {PROTOCOL - 1} .*the server protocol {PROTOCOL}; install"),
        ({"dimension": 64}, "n = 65 parameters, this client's objective has 64; check model"),
        ({"shard_count": 5}, "must be num-clients = 3, got 5"),
        ({"source": "data"}, "the server deals its own data set; join with --partition I/N"),
        ({"source": "objective"}, "this client brings an objective; start the server with --set objective=module:"),
        ({"name": ""}, "1 to 64 printable characters, got ''"),
        ({"name": "x" * 65}, "1 to 64 printable characters"),
        ({"name": "a\nb"}, "1 to 64 printable characters"),
    ],
)
def test_a_refusal_names_the_rule_and_the_way_out(changes: dict[str, object], sentence: str):
    reason = refusal(replace(HELLO, **changes), EXPECTED)
    assert reason is not None
    assert reason.final
    with pytest.raises(ValueError, match=sentence):
        raise ValueError(reason.reason)


@pytest.mark.parametrize("certified", ["c1", "", "zofedht-server"])
def test_the_name_must_be_the_certificates(certified: str):
    assert "use --name" in str(refusal(HELLO, EXPECTED, certified_name=certified))


def test_somebody_must_hold_rows():
    holds = replace(EXPECTED, clients_hold_data=True)
    assert "--data FILE or --objective" in str(refusal(HELLO, holds))
    assert refusal(replace(HELLO, source="data"), holds) is None
    assert "join with --objective" in str(refusal(replace(HELLO, source="data"), replace(holds, black_box=True)))


def test_a_refused_client_says_why_and_ends(site: Site):
    server = site.server("--min-clients", 9)
    cases = [
        (site.client("p", "--partition", "0/5"), "must be num-clients = 3, got 5"),
        (site.evil("other-n", "n"), "n = 65 parameters, this client's objective has 7"),
        (site.evil("other-protocol", "v"), "speaks protocol 99"),
        (site.evil("nameless", "w"), "the message has no 'name'"),
        (site.evil("ill-typed", "i"), "name must be a text, got 5"),
        (site.client("d", "--data", site.folder / "none.csv"), "none.csv"),
    ]
    for client, sentence in cases:
        assert client.ends() == 2, client.text
        assert sentence in client.text
        assert "trying again" not in client.text
    assert server.code is None
    assert "joined" not in server.text


def test_the_first_black_box_decides_n(site: Site):
    (site.folder / "boxes.py").write_text(
        "import numpy as np\nfrom zofedht import Objective\n"
        "class Small(Objective):\n    dim = 4\n    def __len__(self): return 3\n"
        "    def value(self, x, batch): return float(np.sum(x * x))\n"
        "class Large(Small):\n    dim = 5\n"
    )
    server = site.server("--min-clients", 2, objective="boxes:Small", step_size=0.05)
    first = site.client("a", "--objective", "boxes:Small")
    server.says("joined: a")
    other = site.client("b", "--objective", "boxes:Large")
    other.says("not admitted yet by .*n = 4 parameters, this client's objective has 5.*those of 'a'.*; trying again")
    server.says("refused 'b': the server's x has n = 4 parameters, this client's objective has 5")
    second = site.client("c", "--objective", "boxes:Small")
    assert server.ends() == 0, server.text
    assert (first.ends(), second.ends()) == (0, 0)


def test_the_first_black_box_decides_scale_and_bounds(site: Site):
    boxes = ("Narrow", "[(0.0, 1.0), (20.0, 80.0)]"), ("Wide", "[(0.0, 1.0), (20.0, 90.0)]"), ("Free", "None")
    text = "".join(f"class {name}(Valve):\n    dim = 2\n    bounds = {bounds}\n" for name, bounds in boxes)
    (site.folder / "boxes.py").write_text(VALVE.replace("(4, 6)", "(4, 2)") + text)
    server = site.server("--min-clients", 2, objective="boxes:Narrow", step_size=0.05)
    first = site.client("z", "--objective", "boxes:Narrow")
    server.says("joined: z")
    wide, free = (site.client(name, "--objective", f"boxes:{name.title()}") for name in ("wide", "free"))
    for client in (wide, free):
        client.says("trying again")
    sentence = (
        "this client's objective has the scale 70.0 for parameter 1, the run's has 60.0; all clients of a run must"
    )
    assert sentence in wide.text
    assert (
        "the run's declares a scale or bounds and this client's objective does not; all clients of a run" in free.text
    )
    assert "(the run's are those of 'z', which has joined)" in wide.text
    server.says(f"refused 'wide': {sentence}")
    second = site.client("b", "--objective", "boxes:Narrow")
    assert server.ends() == 0, server.text
    assert (first.ends(), second.ends()) == (0, 0)
    summary = site.summary()
    assert summary["evaluated_clients"] == {"initial": 2, "last": 2}
    assert site.failures() == []
    assert (summary["success"], server.code) == (False, NOT_BETTER)  # it begins near the best x


def test_a_black_box_must_agree_on_num_clients():
    hello = replace(HELLO, source="objective", shard_index=1, shard_count=5)
    expected = Expected(dimension=0, shard_count=4, clients_hold_data=True, black_box=True, count_given=True)
    sentence = "num-clients = 4, this client was started with --partition 1/5; join with --partition I/4"
    assert sentence in str(refusal(hello, expected))
    assert refusal(replace(hello, shard_count=4), expected) is None
    assert refusal(replace(hello, shard_index=OWN_ROWS, shard_count=0), expected) is None
    # A count that whoever came first has told binds nobody: containers join while others are added.
    assert refusal(hello, replace(expected, count_given=False)) is None


def test_another_num_clients_is_refused(site: Site):
    (site.folder / "boxes.py").write_text(VALVE)
    site.server("--min-clients", 2, objective="boxes:Valve")
    other = site.client("a", "--objective", "boxes:Valve", "--partition", "1/5")
    assert other.ends() == 2
    assert "num-clients = 3, this client was started with --partition 1/5; join with --partition I/3" in other.text


def test_a_resumed_run_refuses_other_units():
    mine, kept = (units_as_bytes(Units(np.ones(2), np.zeros(2), np.full(2, high))) for high in (5.0, 6.0))
    hello = replace(HELLO, source="objective", dimension=2, units=mine)
    expected = Expected(dimension=2, shard_count=0, clients_hold_data=True, black_box=True, units=kept)
    assert refusal(replace(hello, units=kept), expected) is None
    assert "has the upper bound 5.0 for parameter 0, the run's has 6.0" in str(refusal(hello, expected))
    assert "all clients' objectives must have the same number" in str(refusal(replace(hello, dimension=3), expected))


def test_a_connected_name_is_refused_after_a_while(site: Site):
    server = site.server()
    first = site.client("c0", "--partition", "0/3")
    first.says("joined")
    again = site.evil("hasty", "c0", "1/3", amount=1.0)  # the command has more patience, which test_patience measures
    again.says("a client named 'c0' is connected already; give every client its own --name.*; trying again")
    assert again.ends() == 2
    assert "refuses this client" in again.text.splitlines()[-1]
    assert (server.code, first.code) == (None, None)


def test_a_dead_process_frees_its_name(site: Site):
    server = site.server()
    first = site.client("c0", "--partition", "0/3")
    first.says("joined")
    again = site.client("c0", "--partition", "0/3")
    again.says("connected already")
    first.kill()
    again.says("joined")
    assert server.code is None


def test_what_another_client_said_refuses_nobody_for_good():
    open_count = replace(EXPECTED, count_given=False, shard_count=7)
    assert refusal(HELLO, open_count) == ("N of --partition I/N must be num-clients = 7, got 3", False)
    claimed = Expected(6, 0, clients_hold_data=True, black_box=True, units=b"", first="liar")
    found = refusal(replace(HELLO, source="objective"), claimed)
    assert found is not None
    assert not found.final
    assert "(the run's are those of 'liar', which has joined)" in found.reason
    assert refusal(replace(HELLO, source="objective"), replace(claimed, first="")).final  # type: ignore[union-attr]


def test_a_claim_beyond_bounds_is_refused():
    box = Expected(0, 0, clients_hold_data=True, black_box=True, most_dimension=1000)
    hello = replace(HELLO, source="objective", dimension=1001)
    found = refusal(hello, box)
    assert found is not None
    assert found.final
    assert "n = 1001 parameters, and messages of --max-message-mb hold at most 1000" in found.reason
    assert refusal(replace(hello, dimension=1000), box) is None
    free = replace(EXPECTED, shard_count=0, miscounts=lambda count: f"not over {count}" if count > 9 else "")
    assert refusal(HELLO, free) is None
    assert refusal(replace(HELLO, shard_count=10), free) == ("--partition 0/10: not over 10", True)


def test_a_false_first_client_harms_nobody(site: Site):
    """Of num-clients: too many to deal to is refused; a false count that fits gives way to more that say otherwise."""
    server = site.server("--min-clients", 3, num_clients=None, dataset="digits", rounds=3)
    for deed, sentence in (
        ("many-shares", r"--partition 0/1000000: num-clients must be between 1 and .* training rows"),
        ("too-many-shares", "shard-count must be at most 1000000, got 10000000"),
        ("vast-n", "n = 65 parameters, this client's objective has 2147483647"),
    ):
        liar = site.evil(deed, "liar", "0/3")
        liar.says(sentence)
        assert liar.ends() == 2
    liar = site.evil("other-count", "liar", "0/3")
    server.says("joined: liar")
    first = site.client("c0", "--partition", "0/3")
    first.says(r"not admitted yet by .*N of --partition I/N must be num-clients = 7, got 3.*; trying again")
    clients = [first, *(site.client(f"c{index}", "--partition", f"{index}/3") for index in (1, 2))]
    server.says(r"left: liar \(more clients say otherwise")
    assert server.ends() == 0, server.text
    liar.says("not admitted yet by .*num-clients = 3, got 7")
    assert [client.ends() for client in clients] == [0, 0, 0]
    assert site.summary()["config"]["num-clients"] == 3


def test_a_false_first_n_is_bounded(site: Site):
    (site.folder / "boxes.py").write_text(VALVE)
    server = site.server(
        "--min-clients", 1, "--max-message-mb", 1, clients_per_round=1, objective="boxes:Valve", rounds=2
    )
    liar = site.evil("vast-n", "liar", "box:boxes:Valve")
    assert liar.ends() == 2
    assert "n = 2147483647 parameters, and messages of --max-message-mb hold at most" in liar.text
    honest = site.client("a", "--objective", "boxes:Valve")
    assert server.ends() == 0, server.text
    assert honest.ends() == 0

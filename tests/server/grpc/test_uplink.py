"""Slopes over the wire: the numbers, the bytes, and clients that draw otherwise."""

from __future__ import annotations

import itertools
import json

import pytest

from tests.server.grpc.processes import SMALL, Site
from tests.server.grpc.test_equality import all_end_well
from tests.waiting import until
from zofedht.common.config.run_config import RunConfig
from zofedht.server.aggregation.replays import OTHER_DIRECTIONS
from zofedht.server.delivery.fallbacks import OTHER_NUMBERS
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import sha256_of_x

SLOPES = {"uplink": "slopes", "local_steps": 50, "rounds": 6}
NETWORK = {"model": "mlp", "hidden_units": 100}  # n = 6,600


def in_process(**keys: object) -> str:
    return sha256_of_x(
        run_in_process(RunConfig.from_mapping(SMALL | {k.replace("_", "-"): v for k, v in keys.items()})).state.x
    )


@pytest.mark.parametrize("directions", ["per-slot", "shared"])
def test_slopes_over_tls_equal_in_process_bit_for_bit(secure_site: Site, directions: str):
    keys = {**SLOPES, "directions": directions}
    server = secure_site.server(**keys)
    all_end_well(server, secure_site.clients())
    assert secure_site.summary()["last_x_sha256"] == in_process(**keys)
    assert all(row["failures"] == row["fallbacks"] == [] for row in secure_site.history())


@pytest.mark.parametrize(
    ("uplink", "dtype", "least", "most"),
    [("move", "float64", 52_800, 53_500), ("move", "float32", 26_400, 27_100), ("slopes", "float64", 400, 1000)],
)
def test_the_history_has_the_bytes_of_the_channel(site: Site, uplink: str, dtype: str, least: int, most: int):
    keys = {**SLOPES, "uplink": uplink, "wire_dtype": dtype, **NETWORK}
    server = site.server(**keys)
    all_end_well(server, [site.evil("counting", f"c{i}", f"{i}/3") for i in range(3)])
    counted = [json.loads(site.mark(f"c{i}").read_text()) for i in range(3)]
    assert site.summary()["bytes_down"] == sum(each["fit_ins"] for each in counted)
    assert site.summary()["bytes_up"] == sum(each["fit_res"] for each in counted)
    per_slot = site.summary()["bytes_up"] / (3 * 6)
    assert least < per_slot < most
    assert site.summary()["last_x_sha256"] == in_process(**keys)


@pytest.mark.parametrize(
    ("deed", "reason", "said", "uplink"),
    [
        ("other-draws", OTHER_NUMBERS, True, "slopes"),
        ("other-draws", OTHER_NUMBERS, True, "move"),
        ("other-directions", OTHER_DIRECTIONS, False, "slopes"),
    ],
)
def test_a_client_with_other_directions_sends_moves(site: Site, deed: str, reason: str, said: bool, uplink: str):
    server = site.server(**{**SLOPES, "uplink": uplink}, directions="shared")
    all_end_well(server, [*site.clients(2), site.evil(deed)])
    rows = site.history()
    assert [(row["replies"], row["attempts"], row["failures"]) for row in rows] == [(3, 1, [])] * 6
    assert [[(f["client"], f["reason"]) for f in row["fallbacks"]] for row in rows] == [[("c2", reason)]] * 6
    assert (f"c2: {reason}" in server.text) is said  # when it joined
    assert site.summary()["fallbacks"] == {"c2": 6}
    assert "other draws     clients (slots): c2 (6); their moves were taken" in server.text


@pytest.mark.parametrize("trajectory", [True, False])
def test_with_slopes_down_x_crosses_the_wire_once(site: Site, trajectory: bool):
    keys = {**SLOPES, **NETWORK, "directions": "shared", "downlink": "slopes", "rounds": 12}
    keys |= {} if trajectory else {"algorithm": "zofedavg-sgd"}
    server = site.server(**keys)
    all_end_well(server, site.clients())
    rows = site.history()
    assert site.summary()["last_x_sha256"] == in_process(**keys)
    assert all(row["failures"] == row["fallbacks"] == [] for row in rows)
    down = [later["bytes_down"] - row["bytes_down"] for row, later in itertools.pairwise(rows)]
    assert rows[0]["bytes_down"] > 3 * 8 * 6_600
    assert max(down) < 3 * 2_000


def test_interruptions_do_not_change_x(site: Site):
    keys = {**SLOPES, "directions": "shared", "downlink": "slopes", "rounds": 30}
    server = site.server(**keys)
    clients = site.paced(0.05)
    until(lambda: len(site.history()) > 10, "some rounds")
    server.kill()
    again = site.server(resume=True, port=site.port, **keys)
    assert again.ends() == 0, again.text
    assert all(client.ends() == 0 for client in clients)
    assert site.summary()["last_x_sha256"] == in_process(**keys)


def test_a_restarted_client_gets_x_in_full(site: Site):
    keys = {**SLOPES, **NETWORK, "directions": "shared", "downlink": "slopes", "min_replies": 3, "max_retries": 100}
    server = site.server(**keys | {"rounds": 30})
    clients = site.paced(0.05)
    until(lambda: len(site.history()) > 10, "some rounds")
    clients[1].kill()
    clients[1] = site.client("c1", "--partition", "1/3")
    assert server.ends() == 0, server.text
    rows = site.history()
    down = [later["bytes_down"] - row["bytes_down"] for row, later in itertools.pairwise(rows)]
    assert 1 <= sum(each > 8 * 6_600 for each in down) <= 3  # x and Q, and Q once more for its first whole memory
    assert site.summary()["rounds"] == 30

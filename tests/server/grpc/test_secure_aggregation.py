"""Secure aggregation over the network, with clients that die in each stage."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.server.grpc.processes import SMALL, Site
from tests.server.grpc.test_equality import all_end_well
from zofedht.common.config.run_config import RunConfig
from zofedht.server.certificates import make_certificates
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import sha256_of_x

MASKED = {"uplink": "slopes", "directions": "shared", "rounds": 4, "secure_aggregation": True}


@pytest.mark.parametrize("downlink", ["x", "slopes"])
def test_masked_sums_over_tls_equal_in_process_bit_for_bit(secure_site: Site, downlink: str):
    keys = {**MASKED, "downlink": downlink}
    server = secure_site.server(**keys)
    all_end_well(server, [secure_site.client(f"c{i}", "--partition", f"{i}/3", "--only-sums") for i in range(3)])
    config = RunConfig.from_mapping(SMALL | {key.replace("_", "-"): value for key, value in keys.items()})
    assert secure_site.summary()["x_sha256"] == sha256_of_x(run_in_process(config).state.x)
    plain = run_in_process(config.replace(secure_aggregation=False)).state.x
    np.testing.assert_allclose(np.load(secure_site.out / "x.npy"), plain, atol=1e-6)
    assert all(row["failures"] == row["fallbacks"] == [] for row in secure_site.history())


@pytest.mark.parametrize("stage", ["keys", "shares", "masked", "unmask"])
def test_the_run_goes_on_when_a_client_dies(site: Site, stage: str):
    """In round 1, with a threshold of two of three: the sum is that of the others, or of all where it died last."""
    server = site.server(**MASKED)
    clients = [site.client(f"c{i}", "--partition", f"{i}/3") for i in range(2)]
    dying = site.evil(f"gone-{stage}", "c2", "2/3")
    all_end_well(server, clients)
    assert dying.ends() == 0
    replies = [row["replies"] for row in site.history()]
    assert replies == [3, 3 if stage == "unmask" else 2, 2, 2]
    assert {failure["client"] for failure in site.failures()} == {"c2"}
    assert np.all(np.isfinite(np.load(site.out / "x.npy")))


def test_the_run_goes_on_without_a_client_that_seals_garbage(site: Site):
    """The two others name it, and from the second try on it has no slot."""
    server = site.server(**MASKED)
    clients = [site.client(f"c{i}", "--partition", f"{i}/3") for i in range(2)]
    site.evil("garbage-shares", "c2", "2/3")
    all_end_well(server, clients)
    assert [(row["attempts"], row["replies"]) for row in site.history()] == [(2, 2), (1, 2), (1, 2), (1, 2)]
    causes = {failure["client"]: failure["cause"] for failure in site.failures()}
    assert causes == {"c0": "unusable", "c1": "unusable", "c2": "false-shares"}
    assert "client c2 is set aside for the rest of the run: 2 of 3 clients" in server.text


@pytest.mark.parametrize(
    ("deed", "refusal"),
    [
        ("own-keys", "signature that is not its owner's"),
        ("keys-of-another-authority", "certificate is of another authority"),
        ("swapped-keys", "signature that is not its owner's"),
        ("low-threshold", "the threshold must be more than half of 3 parties, got 1"),
        ("many-dropouts", "a sum must be of at least 2 parties, this one among them"),
        ("two-unmaskings", "the stage 'unmask' of secure aggregation is out of order"),
    ],
)
def test_a_lying_server_learns_no_sum(secure_site: Site, tmp_path: Path, deed: str, refusal: str):
    """Clients refuse in the first round, say why in their own log, and go on; the server has nothing to unmask."""
    make_certificates(tmp_path / "theirs", [], ["c1"], 10.0)
    within = ["tests.server.grpc.lying", deed, str(tmp_path / "theirs")]
    server = secure_site.server(within=within, **MASKED, max_retries=0)
    clients = [secure_site.client(f"c{i}", "--partition", f"{i}/3") for i in range(3)]
    clients[0].says(rf"round 1: .*{re.escape(refusal)}")
    assert server.ends() == 2, server.text
    assert secure_site.history() == []
    assert re.escape(refusal)[:40] in re.escape(server.text)
    assert deed != "two-unmaskings" or "answers to both questions: 3\n" in server.text
    assert all(client.code is None for client in clients)


def test_only_sums_lets_no_plain_slopes_out(site: Site):
    site.server(uplink="slopes", rounds=2, max_retries=0)
    clients = [site.client(f"c{i}", "--partition", f"{i}/3") for i in range(2)]
    clients.append(site.client("c2", "--partition", "2/3", "--only-sums"))
    assert [client.ends() for client in clients] == [0, 0, 0]
    assert {failure["client"] for failure in site.failures()} == {"c2"}
    assert all("--only-sums does not allow slopes without" in failure["reason"] for failure in site.failures())

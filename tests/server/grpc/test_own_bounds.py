"""Clients whose owners set bounds and keep a ledger, over the network."""

from __future__ import annotations

from tests.server.grpc.processes import Site


def test_a_served_run_keeps_bounds_and_ledger(site: Site):
    """The client with bounds loses its slots, with the bound as the reason; the other two go on."""
    site.server(batch_size=8, rounds=3, max_retries=0)
    clients = [site.client(f"c{i}", "--partition", f"{i}/3", "--ledger", f"sent-{i}.jsonl") for i in range(2)]
    clients.append(site.client("c2", "--partition", "2/3", "--least-batch", "16"))
    assert [client.ends() for client in clients] == [0, 0, 0]
    failures = site.failures()
    assert {failure["client"] for failure in failures} == {"c2"}
    assert all("--least-batch 16 does not allow steps on 8 samples" in failure["reason"] for failure in failures)
    summed = site.run("zofedht.client.__main__", ["ledger", str(site.folder / "sent-0.jsonl")])
    assert summed.ends() == 0
    assert "slot          3" in summed.text
    assert (site.folder / "sent-0.jsonl").read_text().count('"kind": "slot"') == 3

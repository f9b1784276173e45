"""A server that dies, is stopped, has a full disk or a cut line: nothing is lost, and clients come back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.grpc.processes import SMALL, Process, Site
from tests.server.grpc.proxy import Proxy
from tests.waiting import free_port, until
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import DataError
from zofedht.common.machine.files import cannot_write
from zofedht.server.certificates import make_certificates
from zofedht.server.inprocess import run_in_process
from zofedht.server.records import checkpoint
from zofedht.server.records.checkpoint import read_checkpoint
from zofedht.server.records.run_folder import RunFolder, sha256_of_x

LONG = {"rounds": 60, "checkpoint_every": 5}


def digest_in_process(**keys: object) -> str:
    return sha256_of_x(
        run_in_process(RunConfig.from_mapping(SMALL | {k.replace("_", "-"): v for k, v in keys.items()})).state.x
    )


def finished(site: Site, server: Process, clients: list[Process]) -> None:
    assert server.ends() == 0, server.text
    assert [client.ends() for client in clients] == [0, 0, 0]
    assert site.summary()["last_x_sha256"] == digest_in_process(**LONG)
    assert [row["round"] for row in site.history()] == list(range(60))
    assert site.failures() == []


def test_a_killed_server_resumes_to_the_same_x(site: Site):
    server = site.server(**LONG)
    clients = site.paced(0.03)
    until(lambda: len(site.history()) >= 12, "twelve rounds")
    server.send(signal.SIGKILL)
    server.ends()
    for client in clients:
        client.says("no connection to .* trying again in")
    server = site.server(resume=True, port=site.port, **LONG)
    assert int(server.says(r"continuing .* after round (\d+)")[1]) in range(10, 60, 5)
    finished(site, server, clients)


def test_a_terminated_server_saves_its_round(site: Site):
    server = site.server(**LONG | {"checkpoint_every": 1000})
    clients = site.paced(0.03)
    until(lambda: len(site.history()) >= 7, "seven rounds")
    server.send(signal.SIGTERM)
    assert server.ends() == 130
    assert "interrupted; what was finished is kept" in server.text
    done = len(site.history())
    for client in clients:
        client.says("trying again in")  # they are not sent home: the run is not over
    server = site.server(resume=True, port=site.port, **LONG)
    server.says(f"continuing .* after round {done}\n")
    finished(site, server, clients)


@pytest.mark.parametrize(
    "signals", [[signal.SIGHUP], [signal.SIGINT], [signal.SIGINT, signal.SIGINT, signal.SIGTERM]], ids=str
)
def test_signals_end_a_server_after_its_state_is_saved(site: Site, signals: list[signal.Signals]):
    server = site.server(**LONG | {"checkpoint_every": 1000})
    site.paced(0.03)
    until(lambda: len(site.history()) >= 4, "four rounds")
    for number in signals:
        server.send(number)
    assert server.ends() == 130
    assert "interrupted; what was finished is kept" in server.text
    state, _ = read_checkpoint(sorted((site.out / "checkpoints").glob("*.ckpt"))[-1])
    assert 4 <= state.round <= len(site.history())
    (site.out / ".summary.json.7.part").touch()
    resumed = site.server(resume=True, port=site.port, **LONG)
    resumed.says(f"continuing .* after round {state.round}\n")
    resumed.says("held 1 half-written files; they are deleted")


@pytest.mark.parametrize("how", ["closed", "left"])
def test_lost_standard_streams_change_nothing(site: Site, how: str):
    """Of all who take part, from their begin or after their first line, and where the server is interrupted then."""
    site.port, streams = free_port(), ["tests.server.grpc.streams", how]
    server = site.start_server(port=site.port, within=[*streams, "zofedht.server.__main__"], **LONG)
    join = [how, "zofedht.client.__main__", "join", "--server", f"127.0.0.1:{site.port}", "--insecure"]
    clients = [site.run(streams[0], [*join, "--name", f"c{i}", "--partition", f"{i}/3"]) for i in range(3)]
    until(lambda: len(site.history()) >= 4, "four rounds")
    server.send(signal.SIGHUP)  # a terminal that is closed
    assert server.ends() == 130
    resumed = ["resume", str(site.out)]  # the rows are the server's
    server = site.run(streams[0], [how, "zofedht.server.__main__", *resumed])
    assert server.ends() == 0
    assert site.summary()["last_x_sha256"] == digest_in_process(**LONG)
    for client in clients:
        client.send(signal.SIGHUP)
    assert [client.ends() for client in clients] == [130, 130, 130]


@pytest.mark.parametrize("checkpoint_every", [1, 1000])
def test_signals_end_a_run_in_process_after_its_state_is_saved(site: Site, checkpoint_every: int):
    """A terminal that closes, and an impatient user: in a round, or while a checkpoint is written."""
    keys = SMALL | {"rounds": 4000, "checkpoint-every": checkpoint_every}
    words = ["run", "--out", str(site.out), "--set", *(f"{key}={json.dumps(value)}" for key, value in keys.items())]
    run = site.run("zofedht.server.__main__", words)
    until(lambda: len(site.history()) >= 4, "four rounds")
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGINT):
        run.send(number)
    assert run.ends() == 130
    assert "interrupted; what was finished is kept" in run.text
    done = len(site.history())
    assert not list(site.out.rglob(".*.part"))
    resumed = site.run("zofedht.server.__main__", ["resume", str(site.out), "--set", f"rounds={done + 2}"])
    assert int(resumed.says(r"continuing .* after round (\d+)\n")[1]) in (done - 1, done)
    assert resumed.ends() == 0
    assert [row["round"] for row in site.history()] == list(range(done + 2))


def test_a_resumed_run_refuses_changed_keys(site: Site):
    server = site.server(rounds=3)
    clients = site.clients()
    assert server.ends() == 0
    assert [client.ends() for client in clients] == [0, 0, 0]
    changed = site.start_server(resume=True, rounds=9, seed=4)
    assert changed.ends() == 2
    assert "seed cannot change when a run is resumed" in changed.text


def test_a_folder_that_holds_a_run_is_not_overwritten(site: Site):
    server = site.server(rounds=3)
    site.clients()
    assert server.ends() == 0
    before = {path: path.read_bytes() for path in site.out.rglob("*") if path.is_file()}
    again = site.start_server(rounds=3)
    assert again.ends() == 2
    assert "already holds a run" in again.text
    assert {path: path.read_bytes() for path in site.out.rglob("*") if path.is_file()} == before


def test_clients_may_be_there_before_the_server(site: Site):
    with Proxy(0) as door:  # keeps the port; nobody is behind it yet
        site.port = door.port
        clients = site.clients()
        for client in clients:
            client.says("trying again in")
        server = site.start_server(rounds=4)
        door.target = int(server.says(r"listening on port (\d+)")[1])
        assert server.ends() == 0, server.text
        assert [client.ends() for client in clients] == [0, 0, 0]


def test_max_wait_bounds_the_patience_with_an_absent_server(site: Site):
    with Proxy(0) as door:
        began = time.monotonic()
        client = site.client("c0", "--max-wait", 2, server=f"127.0.0.1:{door.port}")
        assert client.ends() == 2
        assert time.monotonic() - began >= 2.0
        assert f"no connection to 127.0.0.1:{door.port} for 2 seconds" in client.text


def test_max_wait_does_not_count_joined_time(site: Site):
    server = site.server()
    client = site.client("c0", "--max-wait", 2, "--partition", "0/3")
    client.says("joined")
    joined = time.monotonic()
    until(lambda: time.monotonic() - joined > 2.0, "longer than it would wait")
    server.send(signal.SIGKILL)
    client.says("trying again in")


@pytest.mark.parametrize(
    ("signals", "code"),
    [
        ([signal.SIGTERM], 0),  # as systemd and docker stop it
        ([signal.SIGINT], 130),
        ([signal.SIGINT, signal.SIGINT, signal.SIGINT], 130),
        ([signal.SIGHUP, signal.SIGTERM], 130),
    ],
    ids=str,
)
def test_a_client_ends_by_signals_without_a_traceback(site: Site, signals: list[signal.Signals], code: int):
    server = site.server()
    client = site.client("c0", "--partition", "0/3")
    client.says("joined")
    for number in signals:
        client.send(number)
    assert client.ends() == code
    assert "interrupted; the run goes on without c0" in client.text
    server.says("left: c0, 0 connected")


def test_a_client_that_waits_for_its_server_ends_by_signals(site: Site):
    with Proxy(0) as door:
        client = site.client("c0", server=f"127.0.0.1:{door.port}")
        client.says("trying again in")
        for _ in range(5):
            client.send(signal.SIGINT)
        assert client.ends() == 130


def test_a_waiting_server_ends_at_once(site: Site):
    server = site.server()
    client = site.client("c0", "--partition", "0/3")
    client.says("joined")
    server.send(signal.SIGTERM)
    assert server.ends() == 130
    assert not site.out.exists()


def test_an_address_in_use_is_one_sentence(site: Site):
    site.server()
    site.out = site.folder / "another"
    second = site.start_server(port=site.port)
    assert second.ends() == 2
    assert f"--address 127.0.0.1:{site.port} cannot be bound" in second.text


@pytest.mark.parametrize("resume", [False, True])
def test_a_waiting_server_holds_its_folder(site: Site, resume: bool):
    first = site.server()
    second = site.start_server(resume=resume)
    assert second.ends() == 2
    assert f"{site.out} is being written by another run (process {first.pid} on " in second.text


@pytest.mark.parametrize(("address", "sentence"), [("0.0.0.0:1", "must be a loopback address"), ("127.0.0.1:x", "")])
def test_a_bad_health_address_is_one_sentence(site: Site, address: str, sentence: str):
    server = site.start_server("--health-address", address)
    assert server.ends() == 2
    assert sentence in server.text


def test_a_silent_partition_costs_a_slot_and_heals(site: Site):
    server = site.server(round_timeout=3.0, rounds=4000)
    site.paced(0.05, 2)
    with Proxy(site.port) as line:
        site.evil("paced", port=line.port, amount=0.05)
        until(lambda: len(site.history()) > 5, "some rounds")
        line.frozen.set()  # takes in and passes on nothing, and says nothing: a pulled cable
        known = len(site.failures())
        failure = until(lambda: site.failures()[known:], "a failure in the history")[0]
        assert (failure["client"], "no answer within" in failure["reason"]) == ("c2", True)
        before = len(site.history())
        until(lambda: len(site.history()) > before + 10, "the run to go on")
        assert {row["replies"] for row in site.history()[before:]} == {2}
        line.frozen.clear()
        until(lambda: site.history()[-1]["replies"] == 3, "the client to be drawn again")
    assert server.code is None


@pytest.mark.slow
def test_both_ends_notice_a_long_partition(site: Site):
    server = site.server(round_timeout=3.0, rounds=4000)
    site.paced(0.05, 2)
    with Proxy(site.port) as line:
        client = site.evil("paced", port=line.port, amount=0.05)
        until(lambda: len(site.history()) > 5, "some rounds")
        line.frozen.set()
        server.says("left: c2, 2 connected")
        client.says("trying again in")
        line.frozen.clear()
        until(lambda: server.text.count("joined: c2") == 2, "c2 to come back")
        until(lambda: site.history()[-1]["replies"] == 3, "the client to be drawn again")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = (
        os.geteuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=96k", "none", folder], check=False, capture_output=True
        ).returncode
    )
    if not mounted:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk_ends_a_resumable_run(site: Site, small_disk: Path):
    site.out = small_disk / "out"
    server = site.server(**LONG)
    clients = site.paced(0.03)
    until(lambda: len(site.history()) >= 7, "seven rounds")
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"0" * 1024)
        except OSError:
            pass
    assert server.ends() == 2, server.text
    assert "cannot be written (No space left on device); earlier files are kept" in server.text
    assert site.history()[6]["round"] == 6
    filler.unlink()
    server = site.server(resume=True, port=site.port, **LONG)
    finished(site, server, clients)


def test_a_failed_write_leaves_the_older_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config = RunConfig.from_mapping(SMALL)
    folder = RunFolder(tmp_path / "out")
    folder.begin(config, "grpc")
    write = checkpoint.replace_file

    def full(path: Path, content: bytes) -> None:
        if "00000008" in path.name:
            raise cannot_write(path, OSError(28, "No space left on device"))
        write(path, content)

    monkeypatch.setattr(checkpoint, "replace_file", full)
    with pytest.raises(DataError, match=r"No space left on device\); earlier files are kept"):
        run_in_process(config, folder=folder)
    monkeypatch.setattr(checkpoint, "replace_file", write)
    config, state, _ = folder.reopen({})
    assert 4 <= state.round < 8  # the newest that could be written
    assert sha256_of_x(run_in_process(config, folder=folder, state=state).state.x) == digest_in_process()


def test_a_client_with_its_certificate_comes_back_too(site: Site, tmp_path: Path):
    site.certificates = tmp_path / "certs"
    make_certificates(site.certificates, ["127.0.0.1"], ["c0", "c1", "c2"], 1.0)
    server = site.server()
    client = site.client("c0", "--partition", "0/3")
    client.says("joined")
    server.send(signal.SIGKILL)
    server.ends()
    server = site.server(port=site.port)
    server.says("joined: c0")

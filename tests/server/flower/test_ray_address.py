"""Where no Ray cluster answers, one sentence says so at once; what reads no ray-address refuses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.waiting import free_port
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError
from zofedht.experiments.study.cluster import Cluster
from zofedht.server.__main__ import main

ray = pytest.importorskip("ray", reason="the extra `sim` is not installed")

SIMULATION = ["run", "--engine", "simulation", "--set", "rounds=1", "--out", "run"]


@pytest.fixture
def dead_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of a cluster that has ended and that Ray's file still names.

    Ray puts the address of the machine in the place of 127.0.0.1.
    """
    address = f"127.0.0.1:{free_port()}"
    (tmp_path / "ray_current_cluster").write_text(address)
    monkeypatch.setattr("ray._private.utils.get_ray_address_file", lambda _: str(tmp_path / "ray_current_cluster"))
    monkeypatch.setattr("ray._private.services.find_gcs_addresses", set)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.chdir(tmp_path)
    return address


@pytest.mark.parametrize("named", ["auto", "address"])
def test_a_dead_cluster_is_told_at_once(dead_cluster: str, named: str, capsys: pytest.CaptureFixture[str]):
    address = dead_cluster if named == "address" else "auto"
    assert main([*SIMULATION, f"--set=ray-address={address}"]) == 2
    said = capsys.readouterr().err
    assert f"ray-address must be that of a Ray cluster, got {address!r}: nothing answers at " in said
    assert f":{dead_cluster.rpartition(':')[2]}, " in said
    assert not ray.is_initialized()


@pytest.mark.usefixtures("dead_cluster")
def test_a_study_says_that_no_cluster_answers():
    with pytest.raises(ConfigError, match=r"--jobs ray needs a cluster, .*nothing answers at "):
        Cluster()


@pytest.mark.parametrize("address", ["here", "ray://host:10001", "host:70000", ":6379", "host:0"])
def test_an_address_has_a_host_and_a_port(address: str):
    with pytest.raises(ConfigError, match="ray-address must be auto or HOST:PORT, got"):
        RunConfig.from_mapping({"ray-address": address})


@pytest.mark.parametrize("command", ["run", "serve", "compare"])
def test_only_a_simulation_takes_ray_address(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    words = {"serve": ["--address", "127.0.0.1:0", "--insecure"], "compare": ["--algorithms", "fedzo"]}.get(command, [])
    assert main([command, *words, "--set", "ray-address=auto"]) == 2
    assert "ray-address must be empty unless the engine is simulation, got 'auto'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())

"""The command of the client containers, with a name given and something else in the place of zofedht-client."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "docker" / "join-by-number"


def join(folder: Path, name: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the script; what zofedht-client would be told is printed."""
    program = folder / "zofedht-client"
    program.write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    (folder / "certificates" / name).mkdir(parents=True)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    settings = {"PATH": path, "NAME": name, "CERTIFICATES": str(folder / "certificates")} | environment
    return subprocess.run(
        ["sh", str(SCRIPT), "server:8080", "--max-wait", "60"],
        env=settings,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("name", "shard"), [("client-1", "0/5"), ("client-3", "2/5"), ("client-5", "4/5")])
def test_a_container_with_its_own_objective_gets_its_shard(tmp_path: Path, name: str, shard: str) -> None:
    done = join(tmp_path, name, OBJECTIVE="pump:Pump", CLIENTS="5")
    assert done.returncode == 0, done.stderr
    told = done.stdout.split()
    assert told[told.index("--partition") + 1] == shard
    assert told[told.index("--objective") + 1] == "pump:Pump"
    assert told[told.index("--name") + 1] == name


def test_a_container_beyond_clients_has_no_shard(tmp_path: Path) -> None:
    done = join(tmp_path, "client-5", OBJECTIVE="pump:Pump", CLIENTS="2")
    assert (done.returncode, done.stdout) == (2, "")
    assert "container 5, but CLIENTS is 2" in done.stderr
    assert "docker compose down" in done.stderr


def test_without_an_objective_the_server_deals_the_partitions(tmp_path: Path) -> None:
    done = join(tmp_path, "client-5", CLIENTS="2")
    assert done.returncode == 0, done.stderr
    assert "--partition" not in done.stdout


def test_a_name_without_a_certificate_is_refused(tmp_path: Path) -> None:
    done = join(tmp_path, "client-1", CERTIFICATES=str(tmp_path))
    assert done.returncode == 2
    assert "no certificate for client-1" in done.stderr

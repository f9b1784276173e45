"""docker-compose.yml as a text: what every container must have. Needs no engine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = ROOT / "docker-compose.yml"
FILES = sorted([COMPOSE, ROOT / ".dockerignore", *(path for path in (ROOT / "docker").iterdir() if path.is_file())])
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
ONCE = {"folders", "certificates"}
ROOTS = {"folders"}  # it gives folders that the engine made to the user of the others


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_can_do_no_more_than_it_must(name: str):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert set(service.get("cap_add", [])) == ({"CHOWN", "DAC_OVERRIDE"} if name in ROOTS else set())
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.get("privileged")
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), "docker/remote.yml publishes"


@pytest.mark.parametrize("name", SERVICES)
def test_only_folders_runs_as_root(name: str):
    """It hands the folders over to the user of the other containers."""
    expected = "0:0" if name in ROOTS else "${ZOFEDHT_UID:-1000}:${ZOFEDHT_GID:-1000}"
    assert SERVICES[name]["user"] == expected


@pytest.mark.parametrize("name", SERVICES)
def test_every_container_has_limits(name: str):
    assert set(SERVICES[name]["deploy"]["resources"]["limits"]) == {"cpus", "memory", "pids"}


@pytest.mark.parametrize("name", sorted(set(SERVICES) - ONCE))
def test_what_stays_has_a_health_check_and_comes_back(name: str):
    assert SERVICES[name]["healthcheck"]["test"][:2] == ["CMD", "health.py"]
    assert SERVICES[name]["restart"].startswith("on-failure")


def test_only_a_page_that_was_asked_for_is_published():
    """It asks for a token, and no other machine reaches it."""
    assert [name for name, service in SERVICES.items() if service.get("ports")] == ["page"]
    assert SERVICES["page"]["profiles"] == ["page"]
    assert "--page-token" in SERVICES["page"]["command"]


def test_what_runs_once_has_no_network():
    assert all(SERVICES[name]["network_mode"] == "none" for name in ONCE)


def test_neither_server_nor_clients_see_the_authority():
    for name in ("server", "client"):
        sources = {volume.partition(":")[0] for volume in SERVICES[name]["volumes"] if isinstance(volume, str)}
        assert sources == {"server-certificate" if name == "server" else "client-certificates"}


def test_tls_is_on():
    commands = " ".join(str(service["command"]) for service in SERVICES.values())
    assert "--tls-dir" in commands
    assert "--insecure" not in commands + (ROOT / "docker" / "join-by-number").read_text(encoding="utf-8")


def test_there_is_one_image():
    assert {service["image"] for service in SERVICES.values()} == {"zofedht"}
    assert sum("build" in service for service in SERVICES.values()) == 1


def test_paths_of_the_host_are_relative():
    mounts = [mount for service in SERVICES.values() for mount in service["volumes"] if not isinstance(mount, str)]
    sources = [re.sub(r"\$\{\w+:-(.*)\}", r"\1", mount["source"]) for mount in mounts]
    assert sources
    assert all(source.startswith("./") for source in sources)
    assert (ROOT / "docker" / "config.toml").is_file()


def test_only_clients_see_the_folder_of_their_own_objective():
    services = yaml.safe_load((ROOT / "docker" / "objective.yml").read_text(encoding="utf-8"))["services"]
    assert set(services) == {"server", "client"}
    assert [mount["target"] for mount in services["server"]["volumes"]] == ["/config.toml"]
    (folder,) = services["client"]["volumes"]
    assert folder["read_only"] is True
    assert folder["target"] == services["client"]["working_dir"]
    assert "${MODULES" not in COMPOSE.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_registry_and_no_home_is_named(path: Path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"[\w-]+\.(io|com|org|net|dev)\b|/home/|/Users/|/root\b|/work\b|index-url", text)


def test_the_dockerfile_needs_no_new_builder():
    text = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
    assert not re.search(r"^#\s*syntax|<<|--link|--mount", text, re.MULTILINE)
    assert re.findall(r"^ARG BASE=(\S+)", text, re.MULTILINE) == ["python:3.12-slim-bookworm"]
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${BASE}"] * 2
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", text, re.MULTILINE)
    assert not re.search(r"\bray\b|\[sim\]|apt-get", re.sub(r"^#.*$", "", text, flags=re.MULTILINE))

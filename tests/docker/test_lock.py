"""The locks of the image: every version that the project needs, each with its hashes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

packaging = pytest.importorskip("packaging.requirements", reason="packaging is not installed")

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def locked(name: str) -> dict[str, tuple[str, int]]:
    """Return the version of each package in a lock, and how many hashes it has."""
    text = (ROOT / "docker" / f"{name}.lock").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    found = [re.match(r"([\w.-]+)==([^\s;]+)", line) for line in lines]
    assert all(found)
    return {
        match[1]: (match[2], line.count("--hash=sha256:")) for match, line in zip(found, lines, strict=True) if match
    }


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("requirements", PROJECT["project"]["dependencies"] + PROJECT["project"]["optional-dependencies"]["plots"]),
        ("build", PROJECT["build-system"]["requires"]),
    ],
)
def test_a_lock_has_what_the_project_asks_for(name: str, wanted: list[str]):
    versions = locked(name)
    for requirement in map(packaging.Requirement, wanted):
        version, _ = versions[requirement.name.lower()]
        assert requirement.specifier.contains(version), f"`make lock` renews {requirement}, locked is {version}"


@pytest.mark.parametrize("name", ["requirements", "build"])
def test_each_version_has_hashes(name: str):
    assert all(hashes for _, hashes in locked(name).values())

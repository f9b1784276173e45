"""The package as its users meet it: beside folders of their own that have the same names as ours, and installed."""

from __future__ import annotations

import doctest
import importlib
import platform
import re
import runpy
import shutil
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import zofedht
from tests.own_folders import OPTIMUM, own_folders
from tests.waiting import run_to_end

_ROOT = Path(__file__).resolve().parents[1]
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))

_IMPORTS = """
import client, common, server
from zofedht import Objective, RunConfig, Shard, ZOFedClassifier, check, load_run, run
print(*(module.__file__ for module in (client, common, server)), sep="\\n")
result = run("valve:make", rounds=30, batch_size=0, seed=1, memory=2, num_clients=1)
print(*result.x)
"""


def _python(folder: Path, *words: str, python: str = sys.executable, **environment: str) -> str:
    ended = run_to_end([python, *words], folder, environment=environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


# The root on PYTHONPATH is a checkout that nobody installed, and what Flower does with a bundle.
@pytest.mark.parametrize("path", ["", str(_ROOT)])
def test_names_import_beside_the_users_own_folders(tmp_path: Path, path: str) -> None:
    *files, x = _python(own_folders(tmp_path), "-c", _IMPORTS, PYTHONPATH=path).splitlines()
    assert all(Path(file).is_relative_to(tmp_path) for file in files)
    np.testing.assert_allclose([float(part) for part in x.split()], OPTIMUM, atol=0.1)


@pytest.mark.parametrize("path", ["", str(_ROOT)])
def test_commands_find_the_users_own_folders(tmp_path: Path, path: str) -> None:
    folder = own_folders(tmp_path)
    keys = ["num-clients=1", "clients-per-round=1", "rounds=30", "batch-size=0", "memory=2"]
    told = _python(folder, "-m", "zofedht.client", "check", "--objective", "valve:make", PYTHONPATH=path)
    assert told.splitlines()[-1] == "valve:make can run"
    words = ["run", "--set", "objective=valve:make", *keys, "--out", "out"]
    _python(folder, "-m", "zofedht.server", *words, PYTHONPATH=path)
    np.testing.assert_allclose(np.load(folder / "out" / "x.npy"), OPTIMUM, atol=0.1)


@pytest.mark.parametrize("home", ["", "https://forge.example/zofedht/"])
def test_a_package_index_shows_links_that_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    """It knows no file of the repository: links are absolute, or words where no page of the repository is known."""
    for name in ("README.md", "setup.py"):
        shutil.copy(_ROOT / name, tmp_path)
    text = (_ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert "Repository" not in _PROJECT["project"]["urls"]
    told = text.replace("[project.urls]", f'[project.urls]\nRepository = "{home}"') if home else text
    (tmp_path / "pyproject.toml").write_text(told, encoding="utf-8")
    said: dict[str, str] = {}
    monkeypatch.setattr("setuptools.setup", lambda **words: said.update(words))
    runpy.run_path(str(tmp_path / "setup.py"))
    links = re.findall(r"\]\(([^)\s]+)\)", said["long_description"])
    assert all(link.startswith(("https://", "#")) for link in links)
    if home:
        assert f"{home}blob/v{_PROJECT['project']['version']}/docs/edge.md" in links
        assert f"{home}raw/v{_PROJECT['project']['version']}/docs/mnist-svm.png" in links
    assert "edge devices" in said["long_description"]


@pytest.mark.parametrize("module", ["zofedht.experiments", "experiments"])
def test_the_studies_start_from_a_checkout(module: str) -> None:
    assert "table1" in _python(_ROOT, "-m", module, "--help")


def test_the_users_folders_win_from_behind_this_repository(tmp_path: Path) -> None:
    """The working folder is the checkout, as under ``flwr run .``; the user's modules are on PYTHONPATH."""
    folder = own_folders(tmp_path)
    told = _python(_ROOT, "-m", "zofedht.client", "check", "--objective", "valve:make", PYTHONPATH=str(folder))
    assert told.splitlines()[-1] == "valve:make can run"


def test_every_public_name_is_there_and_its_examples_hold() -> None:
    assert set(zofedht.__all__) <= set(dir(zofedht))
    modules = {zofedht}
    for name in zofedht.__all__:
        value = getattr(zofedht, name)
        if not name.startswith("__"):
            modules.add(importlib.import_module(value.__module__))
    examples = [doctest.testmod(module) for module in modules]
    assert sum(done.attempted for done in examples) > 3
    assert not any(done.failed for done in examples)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(AttributeError, match=r"module 'zofedht' has no attribute 'minimise'; it has .*, run"):
        _ = zofedht.minimise  # type: ignore[attr-defined]


@pytest.mark.parametrize("program", ["server", "client"])
def test_version_names_flower_and_python_but_imports_nothing(tmp_path: Path, program: str) -> None:
    told = _python(tmp_path, "-m", f"zofedht.{program}", "--version", PYTHONPATH=str(_ROOT))
    flower, python = metadata.version("flwr"), platform.python_version()
    assert told == f"zofedht-{program} {zofedht.__version__} (flwr {flower}, Python {python})\n"
    module = f"zofedht.{program}.__main__"
    script = f"import sys, {module} as m\ntry: m.main(['--version'])\nexcept SystemExit: print('flwr' in sys.modules)"
    assert _python(tmp_path, "-c", script).splitlines()[-1] == "False"


def test_the_version_is_that_of_pyproject() -> None:
    assert zofedht.__version__ == _PROJECT["project"]["version"]


def test_every_folder_of_the_package_is_listed_in_pyproject() -> None:
    homes = {"zofedht": "zofedht", **_PROJECT["tool"]["setuptools"]["package-dir"]}
    found = set()
    for package, folder in homes.items():
        for init in (_ROOT / folder).rglob("__init__.py"):
            found.add(".".join([package, *init.parent.relative_to(_ROOT / folder).parts]))
        loose = {file.parent for file in (_ROOT / folder).rglob("*.py")} - {
            init.parent for init in (_ROOT / folder).rglob("__init__.py")
        }
        assert not loose, "a folder without __init__.py is not installed"
    assert sorted(found) == _PROJECT["tool"]["setuptools"]["packages"]

"""What several tests share: patience, one worker for what belongs together, large data sets, modules of one test."""

from __future__ import annotations

import importlib
import os
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A busy machine may stand still for a while: an example that takes long has not failed.
settings.register_profile("patient", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

TEST_DATA = "ZOFEDHT_TEST_DATA"
"""The environment variable that names another folder with the large data sets."""


# The tests of one of these run one after another on one worker: they share what takes long to start, or fill the
# machine. The rest runs wherever there is room.
ONE_WORKER = {
    "tests/docker/test_compose.py": "containers",
    "tests/server/flower/test_flwr_run.py": "flower",
    "tests/server/flower/test_simulation.py": "flower",
    "tests/server/flower/test_ray_cluster.py": "flower",
    "tests/server/flower/test_superlink_page.py": "flower",
    "tests/test_installed.py": "installed",
    "tests/experiments/study/test_command.py": "study",
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep together what belongs together, under ``--dist load``: groups of pytest-xdist 3.8 fail under pytest 9.2."""
    if config.getoption("dist") != "load":  # what ``-n`` stands for; whoever names another way gets it
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return ONE_WORKER.get(nodeid.partition("::")[0], nodeid)

    return Scheduling(config, log)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder with the large data sets: mnist, fashion-mnist, rcv1; skip the test where there is none."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get(TEST_DATA) or beside)
    if not folder.is_dir():
        pytest.skip(f"no folder {folder} with the large data sets; {TEST_DATA}=DIR names another folder")
    return folder


@pytest.fixture
def write_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Return a function that writes a module into the working folder, an empty one; imports are undone afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(name: str, text: str) -> None:
        monkeypatch.setitem(sys.modules, name, sys)  # so that what is imported in its place is removed at the end
        del sys.modules[name]
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
        importlib.invalidate_caches()

    return write

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

# Ray gives up on parts of its own that take a minute to start, as on a busy machine.
for _limit in ("worker_register_timeout_seconds", "gcs_server_request_timeout_seconds", "DASHBOARD_STARTUP_TIMEOUT_S"):
    os.environ.setdefault(f"RAY_{_limit}", "600")
os.environ.setdefault("RAY_agent_register_timeout_ms", "600000")

TEST_DATA = "ZOFEDHT_TEST_DATA"
"""The environment variable that names another folder with the large data sets."""


# The tests of one of these run one after another on one worker: they share what takes long to start, or fill the
# machine. The rest runs wherever there is room. The longest are named first, and begin first.
ONE_WORKER = {
    "tests/server/flower/test_superlink_page.py": "superlink",
    "tests/server/flower/test_flwr_run.py": "superlink",
    "tests/server/flower/test_ray_cluster.py": "ray",
    "tests/docker/test_compose.py": "containers",
    "tests/server/flower/test_simulation.py": "ray",
    "tests/test_installed.py": "installed",
    "tests/experiments/study/test_command.py": "study",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--engines", action="store_true", help="run also the tests that are marked `engine`")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of minutes unless asked; let begin first what takes long, so that no worker ends late."""
    if not config.getoption("--engines"):
        left_out = pytest.mark.skip(reason="takes minutes: `make test-all` runs it, or pytest --engines")
        for item in items:
            if item.get_closest_marker("engine"):
                item.add_marker(left_out)
    if hasattr(config, "workerinput"):  # alone, the order of the files is as good
        items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    file, groups = item.nodeid.partition("::")[0], list(ONE_WORKER)
    return groups.index(file) if file in groups else len(groups) + (item.get_closest_marker("slow") is None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep together what belongs together, under ``--dist load``: groups of pytest-xdist 3.8 fail under pytest 9.2."""
    if config.getoption("dist") != "load":  # what ``-n`` stands for; whoever names another way gets it
        return None
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False  # by the number of tests; the order here is that of their time

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

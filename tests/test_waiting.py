"""A test that waits for what does not come fails, and says what it waited for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import conftest
from tests.waiting import run_to_end, until

ROOT = Path(__file__).parents[1]


def test_a_wait_says_what_it_waited_for() -> None:
    with pytest.raises(AssertionError, match=r"waited 0\.05 s for a miracle"):
        until(lambda: False, "a miracle", 0.05)


def test_a_command_is_named_that_does_not_end(tmp_path: Path) -> None:
    script = "import time; print('begun', flush=True); time.sleep(3600)"
    with pytest.raises(AssertionError, match=r"waited 2 s for the end of: .*python.* -c "):
        run_to_end([sys.executable, "-c", script], tmp_path, seconds=2.0)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="this system does not tell environments")
def test_a_process_left_behind_is_killed(tmp_path: Path) -> None:
    """It keeps standard output open: a test that reads a pipe would wait for it."""
    script = "import os, time; print(os.fork() or time.sleep(3600))"
    done = run_to_end([sys.executable, "-c", script], tmp_path)
    assert done.returncode == 0
    until(lambda: _ended(int(done.stdout)), "the end of the process left behind")


def _ended(pid: int) -> bool:
    """A zombie has ended too: nobody may be there to bury it."""
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_engines_are_left_out_and_said_to_be() -> None:
    """Where they are not asked for; what make test leaves out, CI runs."""
    file = "tests/server/flower/test_flwr_run.py"
    done = run_to_end([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", file], ROOT)
    assert done.returncode == 0, done.stdout
    assert f"SKIPPED [2] {file}: takes minutes: `make test-all` runs it" in done.stdout
    assert "-n $(WORKERS) --engines\n" in (ROOT / "Makefile").read_text()
    assert "\nmake test-all\n" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("starts", ["superlink_sites(", "two_raylets(", '"flower-superlink"', '"docker", "compose"'])
def test_what_starts_an_engine_is_marked(starts: str) -> None:
    files = [path for path in ROOT.glob("tests/**/test_*.py") if starts in path.read_text()]
    files.remove(Path(__file__))
    assert files
    assert [path.name for path in files if "pytest.mark.engine" not in path.read_text()] == []


def test_files_of_one_worker_exist() -> None:
    """A file that has moved would run on all workers without a word."""
    assert all((ROOT / name).is_file() for name in conftest.ONE_WORKER)

"""A folder has one writer: others are refused and change nothing, and whatever ends it gives the folder back."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import SMALL, quadratics, small
from tests.waiting import until
from zofedht import load_run, run
from zofedht.common.errors import DataError
from zofedht.server.__main__ import main
from zofedht.server.core.round_record import RoundRecord
from zofedht.server.inprocess import run_in_process
from zofedht.server.records import lock as folder_lock
from zofedht.server.records.history import read_history
from zofedht.server.records.lock import FolderLock
from zofedht.server.records.run_folder import RunFolder

ROOT = Path(__file__).resolve().parents[3]
SETTINGS = [f"{key}={value}" for key, value in SMALL.items()]
REFUSED = r"the result folder .*run is being written by another run \(process {pid} on \S+\); wait for its end"


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunFolder, "draw", lambda folder: "picture: not drawn")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def lock(tmp_path: Path) -> FolderLock:
    return FolderLock(tmp_path / "run.lock")


def snapshot(folder: Path) -> dict[Path, tuple[bytes, int]]:
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def is_free(folder: Path) -> bool:
    """Whether another writer can have it now; nothing of a lock is left."""
    assert not (folder / "run.lock").exists()
    with RunFolder(folder) as again:
        again.reopen({})
    return True


def test_other_writers_are_refused_during_a_run(out: Path, capsys: pytest.CaptureFixture[str]):
    def meddle(state: Any, record: RoundRecord) -> None:
        if state.round != 3:
            return
        before = snapshot(out)
        for words in (["resume", str(out)], ["run", "--out", str(out), "--set", *SETTINGS]):
            assert main(words) == 2
            error = capsys.readouterr().err
            assert error.count("\n") == 1
            assert error.startswith(f"zofedht-server: error: the result folder {out} is being written by another run")
            assert f"(process {os.getpid()} on " in error
        with pytest.raises(DataError, match=REFUSED.format(pid=os.getpid())):
            run(lambda x: 1.0, np.zeros(2), out=out)
        assert snapshot(out) == before
        seen.append(state.round)

    seen: list[int] = []
    with RunFolder(out) as folder:
        folder.begin(small(), "in-process")
        result = run_in_process(small(), quadratics(), folder=folder, observers=[meddle])
    assert seen == [3]
    assert result.x.tobytes() == run_in_process(small(), quadratics()).x.tobytes()
    assert [row["round"] for row in read_history(folder.history_file)] == list(range(7))


def test_readers_never_wait(out: Path):
    with RunFolder(out) as folder:
        folder.begin(small(checkpoint_every=1), "in-process")
        rounds = []
        run_in_process(
            small(checkpoint_every=1),
            quadratics(),
            folder=folder,
            observers=[lambda state, record: rounds.append(len(load_run(out).history))],
        )
        assert main(["export", str(out), "--out", str(out / "x.csv")]) == 0
    assert rounds == list(range(1, 8))


def commands(out: Path) -> None:
    assert main(["run", "--out", str(out), "--set", *SETTINGS]) == 0
    assert main(["resume", str(out), "--set", "rounds=9"]) == 0


def comparison(out: Path) -> None:
    assert main(["compare", "--algorithms", out.name, "--out", str(out.parent), "--set", *SETTINGS]) == 0


def one_call(out: Path) -> None:
    assert run(quadratics(), config=small(), out=out).nit == 7


def one_call_that_fails(out: Path) -> None:
    def broken(x: Any) -> float:
        return 1 / 0 if np.any(x) else 1.0

    assert not run(broken, np.zeros(2), out=out).success


def interrupted(out: Path) -> None:
    def interrupt(row: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(quadratics(), config=small(), out=out, callback=interrupt)


@pytest.mark.parametrize("end", [commands, one_call, one_call_that_fails, interrupted])
def test_a_folder_is_free_after_any_end(out: Path, end: Callable[[Path], None]):
    end(out)
    assert is_free(out)


def test_a_comparison_releases_all_its_folders(tmp_path: Path):
    pytest.importorskip("matplotlib")
    comparison(tmp_path / "zofedht")
    assert is_free(tmp_path / "zofedht")


@pytest.mark.filterwarnings("default:.*half-written files:UserWarning")
def test_a_killed_run_can_be_resumed_at_once(out: Path, capsys: pytest.CaptureFixture[str]):
    words = ["run", "--out", str(out), "--set", *SETTINGS, "rounds=1000000", "model=quadratic", "evaluate-every=0"]
    with subprocess.Popen(
        [sys.executable, "-m", "zofedht.server", *words], cwd=ROOT, stderr=subprocess.DEVNULL
    ) as process:
        try:
            second = out / "checkpoints" / "round-00000002.ckpt"
            until(lambda: second.exists() or process.poll() is not None, "a checkpoint")
            assert main(["resume", str(out), "--set", "rounds=3"]) == 2
            assert f"(process {process.pid} on " in capsys.readouterr().err
            assert process.poll() is None
        finally:
            process.send_signal(signal.SIGKILL)
    assert (out / "run.lock").exists()  # and holds nothing
    (out / ".summary.json.7.part").touch()  # a kill can leave one
    assert main(["resume", str(out), "--set", "rounds=3"]) in (0, 3)  # 3: the run ended, and no x was better
    assert "half-written files; they are deleted" in capsys.readouterr().err
    assert is_free(out)


def test_a_lock_passes_to_the_next_writer(lock: FolderLock):
    other = FolderLock(lock.path)
    lock.take()
    lock.take()
    for _ in range(2):
        with pytest.raises(DataError, match="wait for its end, or stop it and resume, or choose another folder"):
            other.take()
    assert (lock.held, other.held) == (True, False)
    lock.give_back()
    lock.give_back()
    assert not lock.path.exists()
    other.take()
    assert other.held
    other.give_back()


def test_a_forgotten_lock_is_released(tmp_path: Path):
    FolderLock(tmp_path / "run.lock").take()
    lock = FolderLock(tmp_path / "run.lock")
    lock.take()
    lock.give_back()


def test_no_lock_is_held_on_a_removed_file(lock: FolderLock, monkeypatch: pytest.MonkeyPatch):
    lock.take()
    flock, ours = folder_lock._lock, FolderLock(lock.path)

    def late(descriptor: int) -> None:
        lock.give_back()
        flock(descriptor)

    monkeypatch.setattr(folder_lock, "_lock", late)
    ours.take()
    monkeypatch.undo()
    with pytest.raises(DataError, match=f"process {os.getpid()} on "):
        FolderLock(lock.path).take()
    ours.give_back()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_does_not_hold_the_folder(lock: FolderLock):
    lock.take()
    ours, childs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        childs.send(b"!")
        childs.recv(1)  # until the parent closes its end
        os._exit(0)
    childs.close()
    try:
        assert ours.recv(1) == b"!"
        with pytest.raises(DataError):  # the child has given nothing back
            FolderLock(lock.path).take()
        lock.close()  # as a kill does
        again = FolderLock(lock.path)
        again.take()
        again.give_back()
    finally:
        ours.close()
        os.waitpid(child, 0)


def test_a_file_system_without_locks_gives_a_warning(lock: FolderLock, monkeypatch: pytest.MonkeyPatch):
    def no_locks(descriptor: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(folder_lock, "_lock", no_locks)
    with pytest.warns(UserWarning, match=r"has no locks \(No locks available\), so a second process could"):
        lock.take()
    assert lock.held
    lock.give_back()


def test_a_lock_that_fails_otherwise_is_an_error(lock: FolderLock, monkeypatch: pytest.MonkeyPatch):
    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(folder_lock, "_lock", broken)
    with pytest.raises(DataError, match=r"run\.lock cannot be written \(Input/output error\)"):
        lock.take()
    assert not lock.held
    with pytest.raises(DataError, match=r"cannot be written \(No such file or directory\)"):
        FolderLock(lock.path.parent / "absent" / "run.lock").take()

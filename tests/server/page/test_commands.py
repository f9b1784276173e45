"""--page and watch as a person types them."""

from __future__ import annotations

import ctypes
import re
import signal
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.helpers import SMALL
from tests.server.grpc.processes import Site
from tests.server.page.runs import begin
from tests.server.page.test_http import context_of, secure_status
from tests.waiting import PATIENCE
from zofedht.server.__main__ import main
from zofedht.server.certificates import make_certificates
from zofedht.server.records.run_folder import RunFolder

SETTINGS = [f"{key}={value}" for key, value in SMALL.items()]


@pytest.fixture(autouse=True)
def _no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunFolder, "draw", lambda folder: "picture: not drawn")


def command(*words: str | Path) -> int:
    return main([str(word) for word in words])


def test_a_run_says_where_its_page_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert command("run", "--out", tmp_path / "run", "--page", "127.0.0.1:0", "--set", *SETTINGS) == 0
    assert re.search(r"^\S+ page: http://127\.0\.0\.1:\d+/$", capsys.readouterr().err, re.MULTILINE)
    assert command("resume", tmp_path / "run", "--page", "127.0.0.1:0", "--set", "rounds=8") == 0
    assert "page: http" in capsys.readouterr().err


def test_without_the_option_there_is_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert command("run", "--out", tmp_path / "run", "--set", *SETTINGS) == 0
    assert "page:" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "why"),
    [("0.0.0.0:8088", "leaves this machine"), ("8088", "must be HOST:PORT"), ("127.0.0.1:99999", "must be HOST:PORT")],
)
def test_an_open_page_is_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str, why: str
):
    assert command("run", "--out", tmp_path / "run", "--page", address, "--set", *SETTINGS) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert why in line
    assert not (tmp_path / "run").exists()


def test_watch_shows_a_folder_until_it_is_stopped(tmp_path: Path, site: Site):
    assert command("run", "--out", tmp_path / "run", "--set", *SETTINGS) == 0
    for number in (signal.SIGINT, signal.SIGTERM):
        watching = site.run("zofedht.server.__main__", ["watch", str(tmp_path / "run"), "--page", "127.0.0.1:0"])
        address = watching.says(r"page: (http\S+)")[1]
        with urllib.request.urlopen(address + "files/summary.json", timeout=PATIENCE) as answer:
            assert answer.read() == (tmp_path / "run" / "summary.json").read_bytes()
        watching.send(number)
        assert watching.ends() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="signals to one thread are sent with Linux's tgkill")
def test_watch_heeds_a_signal_of_any_thread(tmp_path: Path, site: Site):
    """The system chooses the thread that gets a signal; a browser's stream is open meanwhile."""
    with begin(tmp_path / "run"):
        pass
    watching = site.run("zofedht.server.__main__", ["watch", str(tmp_path / "run"), "--page", "127.0.0.1:0"])
    address = watching.says(r"page: (http\S+)")[1]
    with urllib.request.urlopen(address + "events", timeout=PATIENCE) as stream:
        assert stream.readline().startswith(b"retry")
        pid = watching.pid
        (other, *_) = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir() if int(task.name) != pid]
        assert ctypes.CDLL(None).tgkill(pid, other, signal.SIGTERM) == 0
        assert watching.ends() == 0


def test_watch_refuses_certificates_of_a_file(tmp_path: Path, site: Site):
    """SIGHUP reads the file again; without it the page goes on as it was."""
    make_certificates(tmp_path, ["127.0.0.1"], ["a", "b"], 10.0)
    with begin(tmp_path / "run"):
        pass
    (tmp_path / "refused").write_text("")
    words = ["watch", tmp_path / "run", "--page", "0.0.0.0:0", "--tls-dir", tmp_path / "server", "--refuse", "a"]
    watching = site.run("zofedht.server.__main__", [*words, "--refuse-file", tmp_path / "refused"])
    port = int(watching.says(r"page: https://\S+:(\d+)/")[1])
    with pytest.raises(OSError):  # noqa: PT011  (a connection that ends, or is reset)
        secure_status(port, context_of(tmp_path, "a"))
    assert secure_status(port, context_of(tmp_path, "b")) == 200
    (tmp_path / "refused").write_text("b\n")
    watching.send(signal.SIGHUP)
    watching.says("refused was read again")
    with pytest.raises(OSError):  # noqa: PT011
        secure_status(port, context_of(tmp_path, "b"))
    assert watching.code is None


@pytest.mark.parametrize("command_", [["run", "--out"], ["watch"]])
def test_a_list_that_closes_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], command_: list[str]):
    with begin(tmp_path / "watched"):
        pass
    folder = tmp_path / ("watched" if command_ == ["watch"] else "new")
    assert command(*command_, folder, "--page", "127.0.0.1:0", "--refuse", "a") == 2
    assert "this page asks for none: leave them out" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_watch_needs_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert command("watch", tmp_path) == 2
    assert "holds no run" in capsys.readouterr().err

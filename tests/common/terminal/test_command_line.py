"""How the commands meet errors and addresses."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import run_to_end
from zofedht.common.errors import ConfigError, DataError
from zofedht.common.terminal.command_line import check_address, guarded


@pytest.mark.parametrize("address", ["localhost:8080", "127.0.0.1:0", "[::1]:65535"])
def test_an_address_is_a_host_and_a_port(address: str) -> None:
    check_address("--address", address)


@pytest.mark.parametrize("address", ["", "8080", ":8080", "host:", "host:x", "127.0.0.1:99999", "host:-1"])
def test_a_wrong_address_is_named_with_its_option(address: str) -> None:
    with pytest.raises(ConfigError, match=r"--server must be HOST:PORT with a port up to 65535, got ") as caught:
        check_address("--server", address)
    assert repr(address) in str(caught.value)


def test_an_error_is_one_sentence_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    def action() -> int:
        raise DataError("the file is gone")

    assert guarded("prog", action) == 2
    assert capsys.readouterr().err == "prog: error: the file is gone\n"


def test_no_control_character_reaches_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    def action() -> int:
        raise DataError("two\nlines, \x1b[31mred\x07")

    guarded("prog", action)
    assert capsys.readouterr().err == "prog: error: two\nlines, \\x1b[31mred\\x07\n"


def test_an_interrupt_exits_with_130(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    def mistaken() -> int:
        raise KeyError("ours")

    assert guarded("prog", interrupted) == 130
    assert "kept" in capsys.readouterr().err
    with pytest.raises(KeyError):
        guarded("prog", mistaken)


class _Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")

    flush = close = lambda self: self.write("")  # type: ignore[assignment]


@pytest.mark.parametrize("stream", [None, _Gone()], ids=["closed at the start", "a terminal that has gone"])
def test_a_lost_standard_error_ends_nothing(stream: io.StringIO | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def action() -> int:
        print("a line", file=sys.stderr, flush=True)
        return 0

    def failing() -> int:
        raise DataError("the file is gone")

    monkeypatch.setattr(sys, "stderr", stream)
    assert (guarded("prog", action), guarded("prog", failing)) == (0, 2)


class _Full(io.StringIO):
    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


@pytest.mark.parametrize("code", [0, 3])
def test_a_reader_that_has_gone_changes_nothing(
    code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def action() -> int:
        print("a result")
        return code

    monkeypatch.setattr(sys, "stdout", _Full(BrokenPipeError(32, "Broken pipe")))
    assert guarded("prog", action) == code
    assert capsys.readouterr().err == ""


def test_an_output_on_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def action() -> int:
        print("a result")
        return 0

    monkeypatch.setattr(sys, "stdout", _Full(OSError(28, "No space left on device")))
    assert guarded("prog", action) == 2
    assert "standard output cannot be written ([Errno 28] No space left on device)" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full to stand for a full disk")
@pytest.mark.parametrize(("command", "option"), [("server", "--version"), ("client", "--help")])
def test_what_ends_while_it_is_parsed_tells_of_a_full_disk(command: str, option: str) -> None:
    code = f"import sys; from zofedht.{command}.__main__ import main; sys.exit(main(sys.argv[1:]))"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", code, option], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert b"standard output cannot be written ([Errno 28] No space left on device)" in done.stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a shell")
def test_head_takes_what_it_wants() -> None:
    """As in ``keys | head -1``: Python's own end must not complain, either."""
    code = "import sys; from zofedht.server.__main__ import main; sys.exit(main(['keys']))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        said = child.stderr.read()
        assert (child.wait(60), said) == (0, b"")


_RAW = """
import os, sys
from zofedht.common.terminal.command_line import guarded

def action():
    with open("mine", "wb"):
        os.write(2, b"a line of a library in C")
    return 0

sys.exit(guarded("prog", action))
"""


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
def test_no_file_stands_in_for_a_closed_stream(tmp_path: Path) -> None:
    command = ["sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, _RAW]
    assert run_to_end(command, tmp_path).returncode == 0
    assert (tmp_path / "mine").read_bytes() == b""


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no such signal")
@pytest.mark.parametrize("ignored", [True, False])
def test_a_hangup_that_nohup_ignores_stays_ignored(ignored: bool, tmp_path: Path) -> None:
    code = (
        "import os, signal\nfrom zofedht.common.terminal.command_line import Interrupt\n"
        f"signal.signal(signal.SIGHUP, signal.{'SIG_IGN' if ignored else 'SIG_DFL'})\n"
        "Interrupt().install('SIGINT', 'SIGHUP')\n"
        "try:\n os.kill(os.getpid(), signal.SIGHUP)\nexcept KeyboardInterrupt as error:\n print(error.args)\n"
    )
    said = run_to_end([sys.executable, "-c", code], tmp_path).stdout
    assert said == ("" if ignored else f"({int(signal.SIGHUP)},)\n")

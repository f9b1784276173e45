"""What the commands log: with time and level, as text or JSON, in whole lines."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from zofedht.common.terminal.logs import LogOptions, shown

LOG = logging.getLogger("zofedht.server.somewhere")
ROOT = Path(__file__).resolve().parents[3]
Captured = pytest.CaptureFixture[str]


def say_everything() -> None:
    LOG.debug("a slot")
    LOG.info("a client")
    LOG.warning("a doubt")
    LOG.error("an end")


def test_text_has_times_and_levels(capsys: Captured):
    with shown(LogOptions(1), "zofedht-server"):
        say_everything()
    debug, info, warning, error = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d server\.somewhere: a slot", debug)
    assert re.fullmatch(r"\d\d:\d\d:\d\d a client", info)
    assert re.fullmatch(r"\d\d:\d\d:\d\d warning: a doubt", warning)
    assert error == "zofedht-server: error: an end"


def test_json_is_an_object_a_line(capsys: Captured):
    with shown(LogOptions(1, "json")):
        say_everything()
        LOG.info("two\nlines \x1b[31m", extra={"facts": {"round": 3}})
    rows = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [row["level"] for row in rows] == ["debug", "info", "warning", "error", "info"]
    assert {row["logger"] for row in rows} == {"zofedht.server.somewhere"}
    assert rows[4]["message"] == "two\nlines \x1b[31m"
    assert rows[4]["round"] == 3
    assert all(datetime.fromisoformat(row["time"]).tzinfo for row in rows)


@pytest.mark.parametrize(("verbosity", "lines"), [(-3, 1), (-2, 1), (-1, 2), (0, 3), (1, 4)])
def test_levels_are_chosen(capsys: Captured, verbosity: int, lines: int):
    with shown(LogOptions(verbosity)):
        say_everything()
    assert len(capsys.readouterr().err.splitlines()) == lines


def test_control_characters_are_escaped(capsys: Captured):
    with shown():
        LOG.info("red \x1b[31m")
    assert capsys.readouterr().err.endswith("red \\x1b[31m\n")


def test_a_block_in_a_block_shows_once(capsys: Captured):
    with shown(), shown(LogOptions(1)):
        say_everything()
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_a_program_that_imports_the_package_sees_nothing():
    warns = "logging.getLogger('zofedht.x').warning('a doubt')"
    script = f"from zofedht.common.terminal import logs; import logging; {warns}"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""


def test_lines_of_many_processes_are_whole(tmp_path: Path):
    """Without a buffer, as in containers, print makes two writes of a line."""
    script = (
        "import logging, sys; from zofedht.common.terminal.logs import shown\n"
        "with shown():\n"
        "    for _ in range(300): logging.getLogger('zofedht').info(sys.argv[1] * 200)\n"
    )
    log = tmp_path / "log"
    with log.open("ab") as file:
        processes = [
            subprocess.Popen([sys.executable, "-u", "-c", script, letter], cwd=ROOT, stderr=file) for letter in "abcd"
        ]
        assert [process.wait() for process in processes] == [0, 0, 0, 0]
    lines = log.read_text().splitlines()
    assert len(lines) == 1200
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d (a{200}|b{200}|c{200}|d{200})", line) for line in lines)


@pytest.mark.parametrize("folder", ["common", "client", "server", "zofedht"])
def test_nothing_but_results_is_printed(folder: str):
    """Each print is in a command, or in the app that Flower runs, and goes to standard output."""
    found = set()
    for path in (ROOT / folder).rglob("*.py"):
        code = re.sub(r'""".*?"""', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        if re.search(r"\bprint\(", code):
            found.add(os.fspath(path.relative_to(ROOT)))
            assert "file=sys.stderr" not in code, path
    assert found <= {
        "common/terminal/command_line.py",
        "client/__main__.py",
        "server/commands/running.py",
        "server/commands/comparing.py",
        "server/commands/showing.py",
        "server/flower/app.py",
    }

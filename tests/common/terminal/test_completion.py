"""Completion: a real bash completes commands and keys by the script."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from zofedht.client.cli import parser as client_parser
from zofedht.common.errors import MissingExtraError
from zofedht.common.terminal.completion import completion_script
from zofedht.server.cli import parser as server_parser

needs_shtab = pytest.mark.skipif(
    __import__("importlib.util").util.find_spec("shtab") is None, reason="the extra `completion` is not installed"
)
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")


def completed(words: list[str]) -> set[str]:
    """Return what bash offers for the last of the words."""
    script = completion_script(server_parser(), "bash")
    line = " ".join(words)
    find = "$(complete -p zofedht-server | sed 's/.*-F \\([^ ]*\\).*/\\1/')"
    run = (
        f"compopt() {{ :; }}\nCOMP_WORDS=({line})\nCOMP_CWORD={len(words) - 1}\nCOMP_LINE={line!r}\n"
        f'"{find}" zofedht-server "${{COMP_WORDS[-1]}}"\nprintf "%s\\n" "${{COMPREPLY[@]}}"\n'
    )
    ended = subprocess.run(["bash", "-c", script + "\n" + run], capture_output=True, text=True, check=True)
    return set(ended.stdout.split())


@needs_shtab
@needs_bash
def test_commands_are_completed():
    assert completed(["zofedht-server", "res"]) == {"resume"}


@needs_shtab
@needs_bash
def test_keys_are_completed():
    assert "step-size=" in completed(["zofedht-server", "run", "--set", "step-s"])


@needs_shtab
@pytest.mark.parametrize("make", [server_parser, client_parser])
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_program_has_a_script_for_each_shell(make, shell: str):
    parser = make()
    script = completion_script(parser, shell)
    assert parser.prog in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


@needs_shtab
@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_keys(tmp_path: Path):
    script = completion_script(server_parser(), "fish") + '\ncomplete -C "zofedht-server run --set step-s"'
    home = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    ended = subprocess.run(["fish"], input=script, env=home, capture_output=True, text=True, check=True)
    assert {line.split()[0] for line in ended.stdout.splitlines()} == {"step-size=", "step-schedule="}


def test_without_shtab_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'zofedht\[completion\]'"):
        completion_script(server_parser(), "bash")

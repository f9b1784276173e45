"""Run an example as its README says: the ``sh`` blocks, in order, in a copy of the folder."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["EXAMPLES", "number_before", "run_as_written"]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_SECONDS = 240.0  # a shared machine may be slow, an example that takes so long has failed


def run_as_written(name: str, folder: Path, *, changes: Mapping[str, str] | None = None, path: str = "") -> str:
    """Return what the commands of the example ``name`` print, its copy being made in ``folder``.

    ``changes`` are texts of the README to be replaced, such as a port; each must be there. ``path`` is what
    is found after this environment's own commands, if not what the caller finds.
    """
    shutil.copytree(EXAMPLES / name, folder / "examples" / name, ignore=shutil.ignore_patterns("__pycache__", "runs"))
    commands = "\n".join(re.findall(r"```sh\n(.*?)```", (EXAMPLES / name / "README.md").read_text(), re.DOTALL))
    assert commands, f"the README of {name} has no sh block"
    for old, new in (changes or {}).items():
        assert old in commands, f"the README of {name} does not say {old!r}"
        commands = commands.replace(old, new)
    own = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": os.pathsep.join([own, path or os.environ["PATH"]])}
    bash = shutil.which("bash")
    assert bash, "the commands need bash"
    shell = subprocess.Popen(
        [bash, "-euo", "pipefail", "-c", commands],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        said, _ = shell.communicate(timeout=_SECONDS)
    finally:
        _end(shell)
    assert shell.returncode == 0, said
    assert "Traceback" not in said, said
    return said


def number_before(text: str, said: str) -> float:
    """Return the number at the beginning of the line that goes on with ``text``."""
    found = re.search(rf"^ *(-?[\d.]+) +{re.escape(text)}", said, re.MULTILINE)
    assert found, f"nothing printed a number before {text!r}:\n{said}"
    return float(found[1])


def _end(shell: subprocess.Popen[str]) -> None:
    """Kill what the commands have left running, such as a server of a test that failed; it is their own session."""
    try:
        os.killpg(shell.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # the rule: everything has ended
    finally:
        shell.wait()

"""Run an example as its README says: the ``sh`` blocks, in order, in a copy of the folder."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.doc_blocks import blocks
from tests.waiting import run_to_end

__all__ = ["EXAMPLES", "number_before", "run_as_written"]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run_as_written(name: str, folder: Path, *, changes: Mapping[str, str] | None = None, path: str = "") -> str:
    """Return what the commands of the example ``name`` print, its copy being made in ``folder``.

    ``changes`` are texts of the README to be replaced, such as a port; each must be there. ``path`` is what
    is found after this environment's own commands, if not what the caller finds.
    """
    shutil.copytree(EXAMPLES / name, folder / "examples" / name, ignore=shutil.ignore_patterns("__pycache__", "runs"))
    page = EXAMPLES / name / "README.md"
    commands = "\n".join(block.text for block in blocks(page) if block.kind == "sh" and not block.reason)
    assert commands, f"the README of {name} has no sh block"
    for old, new in (changes or {}).items():
        assert old in commands, f"the README of {name} does not say {old!r}"
        commands = commands.replace(old, new)
    own = str(Path(sys.executable).parent)
    environment = {"PATH": os.pathsep.join([own, path or os.environ["PATH"]])}
    bash = shutil.which("bash")
    assert bash, "the commands need bash"
    shell = run_to_end([bash, "-euo", "pipefail", "-c", f"exec 2>&1\n{commands}"], folder, environment=environment)
    said = shell.stdout
    assert shell.returncode == 0, said
    assert "Traceback" not in said, said
    return said


def number_before(text: str, said: str) -> float:
    """Return the number at the beginning of the line that goes on with ``text``."""
    found = re.search(rf"^ *(-?[\d.]+) +{re.escape(text)}", said, re.MULTILINE)
    assert found, f"nothing printed a number before {text!r}:\n{said}"
    return float(found[1])

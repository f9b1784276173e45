"""Every block of code in the docs runs as written, in the order of its page, or says above it why it does not.

A block that begins with ``# NAME.py`` or ``# NAME.toml`` is a file beside those that follow. Ports are replaced by free
ones, so that tests do not meet each other.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.doc_blocks import PAGES, ROOT, Block, blocks
from tests.waiting import free_port, run_to_end

_SHOWN = {"text", "bibtex", "yaml", "toml", "ini"}  # not commands: output, or files of other programs
_RUN = {"sh", "python"}
_ELSEWHERE = {
    "README.md": "tests/test_readme.py",
    "docs/compose.md": "tests/docker/test_compose.py",
    "docs/fleet.md": "tests/test_fleet_page.py",
    "docs/objectives.md": "tests/test_readme.py",
    "docs/parameters.md": "tests/test_parameters_page.py",
    "docs/superlink.md": "tests/server/flower/test_superlink_page.py",
    "examples/closed_model/README.md": "tests/examples/test_closed_model.py",
    "examples/device_settings/README.md": "tests/examples/test_device_settings.py",
    "examples/f1_threshold/README.md": "tests/examples/test_f1_threshold.py",
    "examples/fleet_optimisers/README.md": "tests/examples/test_fleet_optimisers.py",
    "examples/flower_app/README.md": "tests/examples/test_flower_app.py",
    "examples/sensors_npz/README.md": "tests/examples/test_sensors_npz.py",
    "examples/two_levels/README.md": "tests/examples/test_two_levels.py",
}
"""Pages whose blocks another test runs, and looks at what they print."""

_QUICK = {"docs/commands.md"}


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _to_run(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.kind in _RUN and not block.reason]


_HERE = [page for page in PAGES if _to_run(page) and _name(page) not in _ELSEWHERE]


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_each_block_says_what_it_is(page: Path):
    """A fence without a language hides whether it is a command; a reason is for commands alone."""
    assert page.read_text(encoding="utf-8").count("\n```") == 2 * len(blocks(page)), "a fence is not closed"
    for block in blocks(page):
        assert block.kind in _SHOWN | _RUN, f"{_name(page)}:{block.line}: ```{block.kind}"
        assert block.kind in _RUN or not block.reason, f"{_name(page)}:{block.line}: it is not run anyway"
        assert not block.reason or len(block.reason) > 8, f"{_name(page)}:{block.line}: why is it not run?"


@pytest.mark.parametrize("page", _ELSEWHERE)
def test_pages_that_others_run_are_run_there(page: str):
    text = (ROOT / _ELSEWHERE[page]).read_text(encoding="utf-8")
    folder, _, rest = page.partition("/")
    name = rest.partition("/")[0] or folder
    assert re.search(rf'["/]{re.escape(name)}"', text) or f"/{name}" in text


def test_something_is_run():
    assert {"docs/auto.md", "docs/commands.md", "docs/family.md"} <= {_name(page) for page in _HERE}


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=() if _name(page) in _QUICK else pytest.mark.slow) for page in _HERE],
    ids=[_name(page) for page in _HERE],
)
def test_blocks_run_in_the_order_of_the_page(page: Path, tmp_path: Path):
    bash = shutil.which("bash")
    assert bash, "the commands need bash"
    environment = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    environment |= {"HOME": str(tmp_path), "FLWR_HOME": str(tmp_path / "flwr"), "MPLBACKEND": "Agg"}
    # Loops that other tests have compiled: each page would compile them anew in a home of its own.
    environment |= {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")}
    ports = {port: str(free_port()) for port in ("8080", "8088")}
    for block in blocks(page):
        text = re.sub(r"(?<=127\.0\.0\.1:)(8080|8088)", lambda found: ports[found[0]], block.text)
        if block.file:
            (tmp_path / block.file).write_text(text, encoding="utf-8")
        elif block.kind in _RUN and not block.reason:
            words = [sys.executable, "-c", text] if block.kind == "python" else [bash, "-euo", "pipefail", "-c", text]
            done = run_to_end(words, tmp_path, environment=environment)
            assert done.returncode == 0, f"{_name(page)}:{block.line}\n{done.stdout}{done.stderr}"
            assert "Traceback" not in done.stderr, f"{_name(page)}:{block.line}\n{done.stderr}"

"""The code blocks of the docs, in the order of their page: what runs, and what says why it does not."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PAGES", "ROOT", "Block", "blocks", "copy_checkout"]

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").glob("*/README.md"))]

_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]*?) -->\n+)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)
_NO_SOURCES = (
    ".venv", ".git", ".*_cache", ".hypothesis", "build", "runs", "shared", "__pycache__", "*.egg-info"
)  # fmt: skip
_FILE = re.compile(r"# ([\w./-]+\.(?:py|toml))\n")


@dataclass(frozen=True)
class Block:
    """A block of a page: what it holds, and why it is not run, where it says so in a comment above."""

    line: int
    kind: str
    text: str
    reason: str

    @property
    def file(self) -> str:
        """The name in the first line of a block that is a file, else empty."""
        found = _FILE.match(self.text)
        return found[1] if found else ""


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(text.count("\n", 0, found.start("kind")) + 1, found["kind"], found["text"], found["reason"] or "")
        for found in _BLOCK.finditer(text)
    ]


def copy_checkout(folder: Path) -> Path:
    """Copy the sources to ``folder``, as a reader's clone has them, and return it."""
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*_NO_SOURCES))
    return folder

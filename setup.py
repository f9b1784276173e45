"""The README as a package index shows it: a link into the repository becomes one to its web page.

That page is the URL called Repository in pyproject.toml. Without it the words of such a link stay, and a picture
becomes its description. Everything else about the package is in pyproject.toml.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from setuptools import setup

_ROOT = Path(__file__).resolve().parent
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")


def readme() -> str:
    """Return the text of README.md with absolute links."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    home = project.get("urls", {}).get("Repository", "").rstrip("/")

    def absolute(link: re.Match[str]) -> str:
        picture, words, target = link.groups()
        if not home:
            return words
        return f"{picture}[{words}]({home}/{'raw' if picture else 'blob'}/v{project['version']}/{target})"

    return _LINK.sub(absolute, (_ROOT / "README.md").read_text(encoding="utf-8"))


setup(long_description=readme(), long_description_content_type="text/markdown")

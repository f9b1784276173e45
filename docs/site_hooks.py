"""What ``mkdocs build`` needs besides docs/: pages that lie elsewhere, the page of the API, and that of all errors.

Links are written for a forge that shows the repository. Here they are turned to the pages of the site.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File

_ROOT = Path(__file__).resolve().parents[1]
_ELSEWHERE = (
    {"README.md": "project.md"}
    | {name: name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")}
    | {
        path.relative_to(_ROOT).as_posix(): path.relative_to(_ROOT).as_posix()
        for path in sorted(_ROOT.glob("examples/*/README.md"))
    }
)
"""Files of the repository outside of docs/, and what they are called in the site."""

_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")
_PARTS = ("common", "client", "server", "experiments")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that lie elsewhere and those that are made."""
    made = {name: (_ROOT / path).read_text(encoding="utf-8") for path, name in _ELSEWHERE.items()}
    made |= {"api.md": _api(), "errors.md": _errors()}
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn the links of a page to the pages of the site; a link to another file of the repository becomes text."""
    source = page.file.src_uri
    home = {name: path for path, name in _ELSEWHERE.items()}.get(source, f"docs/{source}")

    def turned(match: re.Match[str]) -> str:
        target = os.path.normpath(PurePosixPath(home).parent / match[1]).replace(os.sep, "/")
        inside = _ELSEWHERE.get(target, target.removeprefix("docs/") if target.startswith("docs/") else None)
        if inside is None:
            return f"] (`{target}` in the repository)"
        return f"]({os.path.relpath(inside, PurePosixPath(source).parent)}{match[2] or ''})"

    return _LINK.sub(turned, markdown)


def _api() -> str:
    """Return a page with every public name, in the words of its docstring."""
    lines = ["# Python", ""]
    for module in ("zofedht", "zofedht.flower"):
        lines += [f"## {module}", ""]
        package = importlib.import_module(module)
        for name in package.__all__:
            if not name.startswith("_"):
                lines += [f"::: {getattr(package, name).__module__}.{name}", "    options: {heading_level: 3}", ""]
    return "\n".join(lines)


def _errors() -> str:
    """Return a page with every error sentence of the code, so that the search finds it."""
    rows = {}
    for part in _PARTS:
        for path in sorted((_ROOT / part).rglob("*.py")):
            for sentence, kind in _sentences(ast.parse(path.read_text(encoding="utf-8"))):
                rows.setdefault(sentence, (kind, path.relative_to(_ROOT).as_posix()))
    lines = [
        "# Errors",
        "",
        "Every error is one sentence: the thing, the rule, the value and the way out. Search for the words of yours;",
        "`...` stands for what differs. Commands end with exit code 2 and without a traceback.",
        "",
        "| sentence | error | where |",
        "|---|---|---|",
    ]
    cell = str.maketrans(
        {"|": "\\|", "<": "&lt;", ">": "&gt;", "*": "\\*", "_": "\\_", "`": "'", "[": "\\[", "\n": " "}
    )
    lines += [f"| {sentence.translate(cell)} | {kind} | {path} |" for sentence, (kind, path) in sorted(rows.items())]
    return "\n".join(lines) + "\n"


def _sentences(tree: ast.AST) -> list[tuple[str, str]]:
    """Return the sentences that errors of ours are made with, and the names of the errors."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = re.search(r"(\w+Error)\b", ast.unparse(node.func))
        if name is None or not node.args:
            continue
        texts = node.args[0].elts if isinstance(node.args[0], ast.List) else [node.args[0]]
        found += [(text, name[1]) for text in map(_text, texts) if len(text.replace("...", "")) > 15]
    return found


def _text(node: ast.AST) -> str:
    """Return the text of a string, with ... for its values."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) if isinstance(part, ast.Constant) else "..." for part in node.values)
    return ""

"""Markdown tables, and the one self-contained HTML page made from them."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Mapping, Sequence

__all__ = ["page", "table"]

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;font-size:14px;margin:1rem 0;display:block;overflow-x:auto}"
    "th,td{border:1px solid #ccc;padding:.25rem .6rem;text-align:left}th{background:#f3f3f3}"
    "img{max-width:100%}code{background:#f3f3f3;padding:0 .2rem}"
)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; bars in the cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def page(title: str, markdown: str, pictures: Mapping[str, bytes]) -> str:
    """Return an HTML page that needs no other file: pictures, named as in the Markdown, are embedded.

    It knows only the Markdown that the report uses: headings, paragraphs, lists, tables, pictures, code and bold.
    """
    body = "\n".join(_block(block, pictures) for block in re.split(r"\n{2,}", markdown.strip()))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n'
        f"<body>\n{body}\n</body></html>\n"
    )


def _block(block: str, pictures: Mapping[str, bytes]) -> str:
    lines = block.strip().splitlines()
    heading = re.match(r"(#{1,4}) (.*)", lines[0])
    if heading:
        level = len(heading[1])
        rest = "\n".join(lines[1:])
        return f"<h{level}>{_inline(heading[2])}</h{level}>" + (_block(rest, pictures) if rest.strip() else "")
    picture = re.fullmatch(r"!\[(.*)\]\((.*)\)", block.strip())
    if picture:
        data = base64.b64encode(pictures[picture[2]]).decode()
        return f'<img alt="{html.escape(picture[1])}" src="data:image/png;base64,{data}">'
    if lines[0].startswith("| "):
        head, _, *rows = [_cells(line) for line in lines]
        top = "".join(f"<th>{cell}</th>" for cell in head)
        rest = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
        return f"<table><tr>{top}</tr>{rest}</table>"
    if lines[0].startswith("- "):
        items = re.split(r"(?m)^- ", block.strip())[1:]
        return "<ul>" + "".join(f"<li>{_inline(item.strip())}</li>" for item in items) + "</ul>"
    return f"<p>{_inline(block)}</p>"


def _cells(line: str) -> list[str]:
    return [_inline(cell.strip().replace("\\|", "|")) for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def _inline(text: str) -> str:
    text = html.escape(text, quote=False)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", text)

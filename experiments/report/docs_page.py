"""Puts a report between two marks of a page, and its pictures beside the page."""

from __future__ import annotations

import re
from pathlib import Path

from zofedht.common.errors import DataError
from zofedht.common.machine.files import make_folder, replace_file

__all__ = ["BEGIN", "END", "fill_page"]

BEGIN, END = "<!-- report: begin -->", "<!-- report: end -->"


def fill_page(page: Path, report: Path) -> list[Path]:
    """Replace the text between the marks by ``report`` (report.md) and copy its pictures; return all paths.

    Pictures go to the folder named as the page. Raises DataError when the page has no marks or cannot be
    read or written.
    """
    try:
        text = page.read_text(encoding="utf-8")
        body = report.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"{error.filename} cannot be read ({error.strerror})") from error
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise DataError(f"{page} must have the marks {BEGIN} and {END}, one after the other; the report goes between")
    body = re.sub(r"\A# .*\n+", "", body)  # the page has its own title
    names = re.findall(r"!\[[^]]*\]\(([^)/]+\.png)\)", body)
    body = re.sub(r"(!\[[^]]*\]\()([^)/]+\.png\))", rf"\g<1>{page.stem}/\g<2>", body)
    folder = page.parent / page.stem
    written = [page]
    make_folder(folder)
    for name in names:
        replace_file(folder / name, (report.parent / name).read_bytes())
        written.append(folder / name)
    replace_file(page, f"{head}{BEGIN}\n\n{body.strip()}\n\n{END}{tail}".encode())
    return written

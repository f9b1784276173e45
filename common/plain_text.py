"""Text of a peer on its way to a terminal, a log or a file: printable, and not long."""

from __future__ import annotations

__all__ = ["MOST_TEXT", "printable"]

MOST_TEXT = 200
"""Characters of a text that a client sends."""


def printable(text: str, most: int | None = MOST_TEXT, keep: str = "") -> str:
    r"""Return a text with escapes in the place of what does not print, cut to ``most`` characters.

    A terminal obeys control characters: they move the cursor, change colours and forge lines. Characters of ``keep``
    stay as they are.

    Examples
    --------
    >>> printable("red \x1b[31m alert\nand a line that never was")
    'red \\x1b[31m alert\\nand a line that never was'
    >>> printable("a long story", most=9)
    'a long...'
    """
    if most is not None and len(text) > most:
        text = text[: most - 3] + "..."
    if text.isprintable():
        return text
    shown = "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)
    return shown if most is None or len(shown) <= most else shown[: most - 3] + "..."

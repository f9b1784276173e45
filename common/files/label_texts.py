"""Labels that are texts, such as yes and no: what ``positive-labels`` names is 1, any other text is 0."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zofedht.common.choices import label_texts
from zofedht.common.files.reading import RawRows, unusable
from zofedht.common.plain_text import printable
from zofedht.common.typing import Vector

__all__ = ["MISSING", "TextLabels", "numbered", "with_numbers"]

MISSING = {"", "na", "n/a", "nan", "null", "none", "<na>", "?", "-", "#n/a", "#na", "#div/0!", "#ref!", "#value!"}
"""Cells without a value, in lower case: what people and spreadsheets write."""

_SHOWN = 5
_LONGEST = 30  # characters of a text that is shown


class TextLabels(tuple[str, ...]):
    """The different texts of a file's labels, sorted."""

    def __str__(self) -> str:
        """Return the first few, in quotes."""
        few = ", ".join(f"'{printable(text, _LONGEST)}'" for text in self[:_SHOWN])
        return few if len(self) <= _SHOWN else f"{few}, ... ({len(self)} in all)"


def numbered(texts: Sequence[str], positive: str, source: Path | str, where: str) -> tuple[Vector, TextLabels]:
    """Return 1 for each label that ``positive`` names and 0 for any other, and the different texts.

    Case and outer spaces make no difference, so that clients agree. Raises DataError where ``positive`` names no texts.
    """
    texts = [text.strip() for text in texts]
    found, wanted = TextLabels(sorted(set(texts))), label_texts(positive)
    if not wanted:
        one = found[-1] if "," not in found[-1] else "TEXT"
        raise unusable(
            source,
            "have labels that are numbers, unless positive-labels names texts",
            f"{found} {where}",
            "set positive-labels to the texts of class 1, or label-column to another column: both are keys of the run"
            f" config, as in --set positive-labels={one} on the server",
            public_text="the client's labels are texts, and positive-labels names none; set it to the texts of class 1",
        )
    return np.array([float(text.casefold() in wanted) for text in texts]), found


def with_numbers(part: RawRows, positive: str, source: Path | str) -> RawRows:
    """Return the rows with numbers in the place of labels that are texts. Raises DataError as ``numbered`` does."""
    labels: NDArray[Any] = part.labels
    if labels.dtype.kind not in "OSUT" or labels.ndim != 1:
        return part
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8", "replace")
    if all(isinstance(label, int | float | np.number | np.bool_) for label in labels):
        return part._replace(labels=labels.astype(np.float64))
    texts = [str(label) for label in labels]
    for row, text in enumerate(texts, start=1):
        if text.strip().casefold() in MISSING:
            got, way_out = f"{text!r} in row {row}", "fill it in, or drop the row"
            raise unusable(source, "have a label in every row", got, way_out)
    numbers, classes = numbered(texts, positive, source, f"as {part.label or 'labels'}")
    return part._replace(labels=numbers, classes=classes)

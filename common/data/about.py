"""What a reader says of the rows that it has read: one line, and a word where columns are of very different size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zofedht.common.files.label_texts import TextLabels
from zofedht.common.files.reading import RawRows
from zofedht.common.typing import is_sparse

__all__ = ["SHOWN_LABELS", "about_rows", "telling_columns", "uneven_columns"]

SHOWN_LABELS = 10
"""More different labels are counted and not listed."""

_MANY_ROWS = 10  # in fewer, a column may have one value for each label by chance
_UNEVEN = 100.0  # the ratio of the largest entries of two columns that is worth a word


def uneven_columns(part: RawRows, transforms: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence where columns are of very different size and nothing puts them on one scale, else nothing."""
    if is_sparse(part.features) or "standardize" in transforms:
        return ()
    features = np.asarray(part.features)
    sizes = np.maximum(np.abs(features.max(axis=0).astype(np.float64)), np.abs(features.min(axis=0).astype(np.float64)))
    there = np.flatnonzero(sizes)
    if len(there) < 2:
        return ()
    least, most = there[np.argmin(sizes[there])], int(np.argmax(sizes))
    if sizes[most] < _UNEVEN * sizes[least]:
        return ()

    def shown(place: int) -> str:
        name = f"'{part.names[place]}'" if part.names else f"column {place + 1}"
        return f"{name} reaches {sizes[place]:.3g}"

    way_out = ",".join(("standardize", *transforms))
    return (
        f"columns are of very different size: {shown(most)}, {shown(int(least))}; the small ones hardly count;"
        f" preprocess={way_out} puts all on one scale",
    )


def about_rows(part: RawRows) -> str:
    """Return one line about what was read and what was taken as what."""
    rows, columns = part.features.shape
    values, counts = np.unique(part.labels, return_counts=True)
    shown = ", ".join(f"{count} x {value:g}" for value, count in zip(values, counts, strict=True))
    if len(values) > SHOWN_LABELS:
        shown = f"{len(values)} different labels"
    label = f"label '{part.label}'" if part.label else "labels"
    texts = (f"the texts of the labels are {TextLabels(part.classes)}",) if part.classes else ()
    return "; ".join([f"read {rows} rows, {columns} columns, {label} ({shown})", *texts, *part.notes])


def telling_columns(part: RawRows) -> tuple[str, ...]:
    """Return a sentence where a column has one value for each label: it may be a copy of the label, else nothing."""
    values = np.unique(part.labels)
    if is_sparse(part.features) or not 1 < len(values) <= SHOWN_LABELS or len(part.labels) < _MANY_ROWS:
        return ()
    features = np.asarray(part.features)
    parts = [features[part.labels == value] for value in values]
    least, most = (np.array([reach(one, axis=0) for one in parts]) for reach in (np.min, np.max))
    same = np.flatnonzero(np.all(least == most, axis=0) & np.any(least != least[0], axis=0))
    telling = [place for place in same if len(np.unique(least[:, place])) == len(values)]
    if not telling:
        return ()
    place = int(telling[0])
    name = f"column '{part.names[place]}'" if part.names else f"column {place + 1} of the features"
    return (
        f"{name} tells the label: it has one value for each; if it is a copy of the label, leave it out with features",
    )

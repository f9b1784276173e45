"""Positive labels: the rule "auto", and the binary target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zofedht.common.choices import AUTO, MANY, label_texts
from zofedht.common.errors import DataError
from zofedht.common.files.label_texts import TextLabels
from zofedht.common.typing import Indices, Vector

__all__ = ["binary_target", "check_both_classes", "check_texts", "choose_positive", "labels_text", "whole_labels"]

_EXACT = 2.0**53  # beyond it float64 no longer tells whole numbers apart
_SHOWN = 10
_TOLD = 100  # different labels in a client's introduction


def whole_labels(labels: NDArray[Any], source: str, column: str = "") -> Indices:
    """Return labels (rows,) of any real dtype as integers. Raises DataError for a label that is not whole.

    ``column`` is what the source calls them.
    """
    if labels.dtype.kind in "bi":
        return labels.astype(np.intp)
    fits = (np.abs(labels) <= _EXACT) & (np.trunc(labels) == labels)
    if not fits.all():
        row = int(np.argmin(fits))
        raise DataError(
            f"data set '{source}' must have labels that are whole numbers, got {labels[row]} at row"
            f" {row + 1}{f' of {column!r}' if column else ''}; number the classes first, or set label-column to the"
            " column that holds them",
            public_text="the client's labels must be whole numbers; its own log says where they are not",
        )
    return labels.astype(np.intp)


def choose_positive(chosen: frozenset[int], labels: Indices, source: str) -> frozenset[int]:
    """Return the chosen positive labels, or apply the rule "auto" if ``chosen`` is empty.

    The rule "auto" takes the larger of two labels, and 5 to 9 of more labels that are digits on both sides of 5.
    Raises DataError for other labels. ``labels`` are those of all rows, training and test, of all clients.
    """
    if chosen:
        return chosen
    found = np.unique(labels)
    if len(found) == 2:
        return frozenset({int(found[1])})
    if len(found) > 2 and 0 <= found[0] < 5 <= found[-1] <= 9:
        return frozenset(range(5, 10))
    raise DataError(
        f"positive-labels '{AUTO}' needs two labels, or digits 0-9, and data set '{source}' has"
        f" {_listing(found)}; name the positive labels, as in positive-labels = '5-9'"
    )


def binary_target(labels: Indices, positive: frozenset[int]) -> Vector:
    """Return (rows,) float64: 1.0 for a positive label, 0.0 for any other."""
    return np.isin(labels, np.fromiter(positive, np.intp)).astype(np.float64)


def check_both_classes(
    target: Vector, labels: Indices, positive: frozenset[int], source: str, texts: tuple[str, Sequence[str]] = ("", ())
) -> None:
    """Raise DataError unless a training part has rows of both classes.

    ``texts`` are positive-labels and the different labels, where these are texts.
    """
    if 0.0 < target.mean() < 1.0:
        return
    side, (named, classes) = "positive" if target[0] else "negative", texts
    raise DataError(
        f"positive-labels must leave rows of both classes, and with {named or _listing(np.array(sorted(positive)))}"
        f" all {len(target)} training rows of '{source}' are {side}; choose among its labels,"
        f" {TextLabels(classes) if named else _listing(np.unique(labels))}"
    )


def check_texts(positive_labels: str, classes: Sequence[str], labels: Indices) -> None:
    """Raise DataError where ``positive_labels`` names texts and the labels, which have no ``classes``, are numbers."""
    if label_texts(positive_labels) and not classes:
        raise DataError.public(
            f"positive-labels = {positive_labels} names texts, and these labels are numbers:"
            f" {_listing(np.unique(labels))}; set positive-labels to some of them"
        )


def labels_text(labels: Indices) -> str:
    """Return the different labels as a client tells them: joined by commas, or "many"."""
    found = np.unique(labels)
    return ",".join(str(int(label)) for label in found) if len(found) <= _TOLD else MANY


def _listing(labels: NDArray[Any]) -> str:
    shown = ", ".join(str(int(label)) for label in labels[:_SHOWN])
    return shown if len(labels) <= _SHOWN else f"{shown}, ... ({len(labels)} in all)"

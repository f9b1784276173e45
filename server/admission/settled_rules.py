"""Rules about rows that no client can decide alone: the server settles them from what all clients see in their files.

Clients tell the different labels, the names of the columns and the least and largest index of their rows, never rows
or counts of labels; and where ``preprocess`` has standardize, the sums of columns. What cannot be settled is refused
with the key to set. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zofedht.common.choices import AUTO, MANY, parse_columns, parse_labels, parse_transforms
from zofedht.common.config.run_config import RunConfig
from zofedht.common.data.labels import choose_positive
from zofedht.common.data.standard import ColumnSums, columns_text, merged
from zofedht.common.errors import DataError
from zofedht.common.files.columns import folded, listed
from zofedht.common.plain_text import printable
from zofedht.common.wire.clients import Hello

__all__ = ["Settled", "columns_mismatch", "labels_of", "settle_rules", "unknown_labels"]

_DIGEST = "sha256 "  # how long names begin in an introduction
_SHOWN = 60  # characters of a client's own words


class Settled(NamedTuple):
    """The config of the run, and a line about each rule that was settled."""

    config: RunConfig
    notes: tuple[str, ...]


def labels_of(hello: Hello) -> frozenset[int] | None:
    """Return the different labels of a client's own rows; None where they are too many to be told."""
    if hello.labels == MANY:
        return None
    return frozenset(int(label) for label in hello.labels.split(",") if label)


def settle_rules(config: RunConfig, clients: Sequence[Hello]) -> Settled:
    """Return the config in which all that the clients' files were to decide is said.

    Raises DataError where that cannot be said from the files.
    """
    clients = [hello for hello in clients if hello.source == "data"]
    if not clients:
        return Settled(config, ())
    changes: dict[str, str] = {}
    notes: list[str] = []
    _settle_indices(config, clients, changes, notes)
    _settle_names(config, clients, changes, notes)
    _compare_label_columns(clients, notes)
    _settle_labels(config, clients, changes, notes)
    _settle_columns(config, clients, changes, notes)
    return Settled(config.replace(**changes), tuple(notes))


def _settle_indices(config: RunConfig, clients: Sequence[Hello], changes: dict[str, str], notes: list[str]) -> None:
    sparse = [hello for hello in clients if hello.most_index >= 0]
    if not sparse:
        return
    least = min(sparse, key=lambda hello: hello.least_index)
    if config.svmlight_indices == AUTO:
        changes["svmlight_indices"] = "from-0" if least.least_index == 0 else "from-1"
        why = f"{least.name} has an index 0" if least.least_index == 0 else "no client has an index 0"
        others = [hello.name for hello in sparse if hello.least_index > least.least_index == 0]
        if others:
            why += f"; that of {others[0]}, without one, is read alike, and is a column off if it counts from 1"
        notes.append(f"svmlight indices count {changes['svmlight_indices'].replace('-', ' ')}: {why}")
    first = 0 if changes.get("svmlight_indices", config.svmlight_indices) == "from-0" else 1
    if config.features == AUTO and len(sparse) == len(clients):
        count = max(hello.most_index for hello in sparse) - first + 1
        changes["features"] = str(count)
        notes.append(f"rows have {count} columns, the most of any client's file")


def _settle_names(config: RunConfig, clients: Sequence[Hello], changes: dict[str, str], notes: list[str]) -> None:
    named = [hello for hello in clients if hello.names]
    if not named or config.features != AUTO:
        return
    first = named[0]
    nameless = [hello.name for hello in clients if not hello.names and hello.most_index < 0]
    if nameless:
        notes.append(f"{', '.join(nameless)}: columns without names, taken in the order of {first.name}")
    if first.names.startswith(_DIGEST):
        return  # all have the same names in the same order
    names = listed(first.names.split("\n"))
    changes["features"] = AUTO if names.isdecimal() else names  # a number would be how many there are
    others = [hello.name for hello in named if hello.names != first.names]
    if others:
        notes.append(f"{', '.join(others)}: columns in another order than {first.name}, matched by name")


def _compare_label_columns(clients: Sequence[Hello], notes: list[str]) -> None:
    """Note where the labels of clients are from columns of other names: the last one of a file may be anything."""
    found: dict[str, str] = {}
    for hello in clients:
        if hello.label:
            found.setdefault(folded(hello.label), f"{hello.name} takes '{printable(hello.label, _SHOWN)}'")
    if len(found) > 1:
        told = ", ".join(found.values())
        notes.append(f"warning: columns of other names are the label: {told}; set --label-column where one is not")


def _settle_labels(config: RunConfig, clients: Sequence[Hello], changes: dict[str, str], notes: list[str]) -> None:
    seen = {hello.name: labels_of(hello) for hello in clients}
    positive = parse_labels(config.positive_labels)
    if not positive:
        if config.model == "quadratic":
            changes["positive_labels"] = "1"  # the model has no labels
            return
        many = next((name for name, labels in seen.items() if labels is None), None)
        if many is not None:
            raise DataError(
                f"positive-labels must be set for the rows of {many}, which have more labels than can be told; set it"
                " as in positive-labels = '5-9'"
            )
    found = frozenset[int]().union(*(labels or () for labels in seen.values()))
    if not positive:
        if len(found) == 1:
            raise DataError(
                f"positive-labels must be set where all clients have the label {next(iter(found))} alone, which may be"
                " positive or negative; set positive-labels, or wait for more clients with --min-clients"
            )
        positive = choose_positive(frozenset(), np.array(sorted(found)), "of all clients")
        changes["positive_labels"] = ",".join(map(str, sorted(positive)))
        notes.append(f"labels {_shown(found)}; positive: {_shown(positive)}")
    if None in seen.values():
        return
    if not found & positive or not found - positive:
        empty = "positive" if not found & positive else "negative"
        named = _shown(positive) if config.positive_labels == AUTO else config.positive_labels
        text = f"no client has a {empty} row: the labels of all clients are {_shown(found)}, positive-labels is {named}"
        if config.positive_labels == AUTO:
            raise DataError(f"{text}; set positive-labels to some of these labels")
        notes.append(f"warning: {text}")


def _settle_columns(config: RunConfig, clients: Sequence[Hello], changes: dict[str, str], notes: list[str]) -> None:
    if "standardize" not in parse_transforms(config.preprocess) or config.standardize_by != AUTO:
        return
    names = next((hello.names for hello in clients if hello.names), "")
    first = 0 if changes.get("svmlight_indices", config.svmlight_indices) == "from-0" else 1
    width = max(hello.most_index for hello in clients) - first + 1
    parts = []
    for hello in clients:
        sums = _sums_of(hello)
        if hello.most_index >= 0:
            sums = _placed(sums, min(hello.least_index, 1) - first, width)
        elif names and hello.names not in ("", names) and not names.startswith(_DIGEST):
            own = hello.names.split("\n")
            order = [own.index(name) for name in names.split("\n")]
            sums = sums._replace(means=sums.means[order], squares=sums.squares[order])
        parts.append(sums)
    if len(widths := {len(sums.means) for sums in parts}) > 1:
        raise DataError(f"all clients must have the same columns to standardize, got {sorted(widths)} of them")
    total = merged(parts)
    changes["standardize_by"] = columns_text(total)
    constant = [mean for mean, deviation in parse_columns(changes["standardize_by"]) if not deviation]
    notes.append(
        f"columns are standardized by the sums of {len(parts)} clients, {total.rows} rows"
        + (f"; {len(constant)} of them have one value everywhere" if constant else "")
    )


def _sums_of(hello: Hello) -> ColumnSums:
    told = hello.column_sums
    if told is None or len(told) % 2 or not hello.examples or not np.isfinite(told).all():
        raise DataError(f"{hello.name} must tell the sums of its columns, which preprocess = standardize needs")
    half = len(told) // 2
    return ColumnSums(hello.examples, told[:half], np.maximum(told[half:], 0.0))


def _placed(sums: ColumnSums, shift: int, width: int) -> ColumnSums:
    """Return the sums of a sparse file in the columns of the run: those that it does not have hold zeros."""
    means, squares = np.zeros((2, width))
    means[shift : shift + len(sums.means)], squares[shift : shift + len(sums.means)] = sums.means, sums.squares
    return ColumnSums(sums.rows, means, squares)


def _shown(labels: frozenset[int]) -> str:
    listing = sorted(labels)
    shown = ", ".join(map(str, listing[:10]))
    return shown if len(listing) <= 10 else f"{shown}, ... ({len(listing)} in all)"


def columns_mismatch(mine: str, theirs: str, who: str, whom: str) -> str:
    """Return a sentence about the first column that one client has and the other lacks, or an empty text.

    ``mine`` and ``theirs`` are names as in a Hello. Columns without names, and in another order, are no mismatch.
    """
    if mine == theirs or not mine or not theirs:
        return ""
    way_out = (
        "give the same columns and the same --label-column to all clients, or name the columns to use with --set"
        " features=A,B on the server"
    )
    if mine.startswith(_DIGEST) or theirs.startswith(_DIGEST):
        return f"{who} has other columns than {whom}, or the same in another order; {way_out}"
    ours, others = mine.split("\n"), theirs.split("\n")
    for names, holder, lacking, there in ((ours, who, whom, others), (others, whom, who, ours)):
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            return f"{holder} has two columns {twice!r}, and columns are matched by name; {way_out}"
        extra = next((name for name in names if name not in there), None)
        if extra is not None:
            return f"{holder} has a column {extra!r} and {lacking} has none of that name; {way_out}"
    return ""


def unknown_labels(hello: Hello, known: frozenset[int] | None) -> str:
    """Return a sentence about a label that no client had when the rule was settled, or an empty text."""
    mine = labels_of(hello) or frozenset()
    if known is None or mine <= known:
        return ""
    return (
        f"this client has the label {min(mine - known)}, and the positive labels were settled from {_shown(known)}; set"
        " positive-labels on the server in a new run, or leave these rows out"
    )

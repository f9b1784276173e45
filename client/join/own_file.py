"""The file of a joined client: its rows, and what of them the server learns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from zofedht.client.join.options import JoinOptions
from zofedht.common.choices import AUTO, parse_transforms
from zofedht.common.config.run_config import RunConfig
from zofedht.common.data.about import about_rows, telling_columns, uneven_columns
from zofedht.common.data.labels import labels_text
from zofedht.common.data.standard import LEAST_ROWS, MOST_COLUMNS, sums_of
from zofedht.common.errors import DataError
from zofedht.common.files.columns import folded
from zofedht.common.files.reading import FileRules, RawRows
from zofedht.common.shards import own_rows, rules_of
from zofedht.common.source_digest import digest_of
from zofedht.common.typing import Vector

__all__ = ["OwnFile", "Seen"]

_LONGEST_LABEL = 200  # characters of the name of a column that the server is told


class Seen(NamedTuple):
    """What the server learns of this client's own file: nothing of single rows."""

    names: tuple[str, ...] = ()
    label: str = ""
    labels: str = ""
    indices: tuple[int, int] | None = None
    digest: str = ""
    sums: Vector | None = None  # of columns, where the server is to settle by what they are standardized


class OwnFile:
    """The file of ``--data``; ``seen`` is what the server learns of it."""

    def __init__(self, options: JoinOptions, report: Callable[[str], None]) -> None:
        self.seen = Seen()
        self._options, self._report = options, report
        self._rows: tuple[tuple[FileRules, int], RawRows] | None = None
        self._about: tuple[str, ...] = ()  # the latest lines about the rows

    def rows(self, config: RunConfig, dimension: int, *, keep: bool) -> RawRows:
        """Return the rows of this client's file; they are kept from the introduction to the first slot.

        They are read again where the server has settled how.
        """
        how = rules_of(config), dimension
        rows = self._rows[1] if self._rows and self._rows[0] == how else own_rows(config, self._options.data, dimension)
        self._rows = (how, rows) if keep else None
        about = about_rows(rows), *uneven_columns(rows, parse_transforms(config.preprocess)), *telling_columns(rows)
        for line in about:
            if line not in self._about:
                self._report(line)
        self._about = about
        names = tuple(folded(name) for name in rows.names)
        # Of the file as it is written: settled rules must not change the digest.
        digest = self.seen.digest or digest_of(Path(self._options.data))
        label = rows.label[:_LONGEST_LABEL] if rows.names else ""
        self.seen = Seen(names, label, labels_text(rows.labels), rows.indices, digest, self._sums(config, rows))
        return rows

    def _sums(self, config: RunConfig, rows: RawRows) -> Vector | None:
        """Return the sums of columns as they are told: means, then squares. None where the server asks for none."""
        if "standardize" not in parse_transforms(config.preprocess) or config.standardize_by != AUTO:
            return None
        self._options.bounds.check_column_sums()
        if len(rows.labels) < LEAST_ROWS:
            raise DataError.public(
                f"this client has {len(rows.labels)} rows, and sums of the columns of fewer than {LEAST_ROWS} would"
                " tell the rows; give standardize-by on the server"
            )
        if (columns := rows.features.shape[1]) > MOST_COLUMNS:
            raise DataError.public(
                f"preprocess = standardize takes at most {MOST_COLUMNS:,} columns of clients' own rows, got"
                f" {columns:,}; leave it out"
            )
        sums = sums_of(rows.features)
        return np.concatenate([sums.means, sums.squares])

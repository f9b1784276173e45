"""A run says what it read and took as what, on every engine, and names columns of very different size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.server.grpc.processes import SMALL
from zofedht.common.config.run_config import RunConfig
from zofedht.common.data.about import telling_columns, uneven_columns
from zofedht.common.files.reading import RawRows
from zofedht.common.shards import about_data
from zofedht.common.terminal.command_line import NOT_BETTER
from zofedht.server.__main__ import main
from zofedht.server.inprocess import InProcessEngine

_READ = "read 20 rows, 2 columns, label 'state' (10 x 1, 10 x 2); 4 of them held out to test on; positive: 2"


def _table(folder: Path, scale: float = 1.0) -> Path:
    rows = np.random.default_rng(0).normal(size=(20, 2)) * [1.0, scale]
    lines = [f"{heat},{flow},{1 + place % 2}" for place, (heat, flow) in enumerate(rows)]
    (folder / "rows.csv").write_text("\n".join(["heat,flow,state", *lines]))
    return folder / "rows.csv"


def test_a_run_says_what_it_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    keys = [f"{key}={value}" for key, value in SMALL.items()]
    words = ["run", "--out", str(tmp_path / "out"), "--set", *keys, f"dataset={_table(tmp_path)}", "rounds=1"]
    assert main(words) == NOT_BETTER
    assert capsys.readouterr().err.splitlines()[0].partition(" ")[2] == _READ  # after the time


def test_all_engines_say_it_at_the_start(tmp_path: Path):
    """conduct shows what the engine's start tells."""
    config = RunConfig(dataset=str(_table(tmp_path)), num_clients=2, clients_per_round=2)
    assert InProcessEngine(config).start().about == about_data(config) == (_READ,)


def test_an_objective_has_nothing_to_say(tmp_path: Path):
    from tests.helpers import quadratics, small

    assert InProcessEngine(small(), quadratics()).start().about == ()


def test_columns_of_very_different_size_are_named(tmp_path: Path):
    told = about_data(RunConfig(dataset=str(_table(tmp_path, 1e4)), num_clients=2, clients_per_round=2))
    assert len(told) == 2
    assert told[1].startswith("columns are of very different size: 'flow' reaches ")
    assert "'heat' reaches" in told[1]


@pytest.mark.parametrize("sizes", [(1.0, 50.0), (0.0, 3.0), (7.0,)])
def test_columns_of_about_one_size_are_not(sizes: tuple[float, ...]):
    """A column of zeros has no size."""
    assert uneven_columns(RawRows(np.array([sizes, sizes]), np.zeros(2)), ("bias",)) == ()


def test_texts_of_labels_are_told(tmp_path: Path):
    path = _table(tmp_path)
    path.write_text(path.read_text().replace(",1\n", ",B\n").replace(",2", ",M"))
    told = about_data(RunConfig(dataset=str(path), num_clients=2, clients_per_round=2, positive_labels="M"))
    assert "label 'state' (10 x 0, 10 x 1); the texts of the labels are 'B', 'M'; " in told[0]
    assert told[0].endswith("positive: M")


_STATE = np.tile([0.0, 1.0], 10)


@pytest.mark.parametrize("copy", [_STATE, 1.0 - _STATE, 7.0 + 2.0 * _STATE])
def test_a_column_that_tells_the_label_is_named(copy: np.ndarray):
    rows = RawRows(np.column_stack([np.arange(20.0), np.ones(20), copy]), _STATE, ("heat", "one", "copy"))
    (told,) = telling_columns(rows)
    assert told.startswith("column 'copy' tells the label")
    assert "leave it out with features" in told


def test_other_columns_do_not_tell_the_label():
    """One that is constant for one label alone tells it in part, and two rows prove nothing."""
    columns = np.column_stack([np.where(_STATE > 0, 1.0, np.arange(20.0)), np.ones(20)])
    assert telling_columns(RawRows(columns, _STATE)) == ()
    assert telling_columns(RawRows(_STATE[:4, np.newaxis], _STATE[:4])) == ()

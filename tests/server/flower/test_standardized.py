"""Columns on one scale and labels of text, over Flower: the nodes make the rows that one process makes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.helpers import small
from tests.server.flower.loopback import fit, nodes
from zofedht.common.choices import AUTO
from zofedht.common.config.run_config import RunConfig
from zofedht.common.shards import with_standard_columns
from zofedht.server.inprocess import run_in_process


def _table(folder: Path) -> RunConfig:
    """Return the config of a table with text labels and columns of very different size."""
    rows = np.random.default_rng(0).normal(size=(40, 2)) * [1e9, 1e-9]
    lines = [f"{heat!r},{flow!r},{'BM'[int(heat > 0)]}" for heat, flow in rows.tolist()]
    (folder / "rows.csv").write_text("\n".join(["heat,flow,state", *lines]))
    return small(dataset=str(folder / "rows.csv"), positive_labels="m", preprocess="standardize,bias", rounds=3)


@pytest.mark.parametrize("settled", [True, False], ids=["as-a-command-does", "each-process-alone"])
def test_x_equals_in_process(tmp_path: Path, settled: bool):
    auto = _table(tmp_path)
    config = with_standard_columns(auto) if settled else auto
    assert (config.standardize_by == AUTO) is not settled
    x = fit(config, nodes(2)).state.x
    assert x.tobytes() == run_in_process(config).state.x.tobytes() == run_in_process(auto).state.x.tobytes()
    assert x.tobytes() != run_in_process(auto.replace(preprocess="bias")).state.x.tobytes()

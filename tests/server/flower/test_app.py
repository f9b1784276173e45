"""The ServerApp: what ``flwr run .`` begins."""

from __future__ import annotations

from pathlib import Path

import pytest
from flwr.app import Context, RecordDict

from tests.helpers import small
from zofedht.common.errors import DataError, RoundError
from zofedht.server.flower.app import server_fn
from zofedht.server.records.run_folder import RunFolder


def test_the_folder_is_the_apps_until_the_run_ends(tmp_path: Path):
    keys = small(out=str(tmp_path / "run"), round_timeout=0.05, model="quadratic").to_mapping()
    components = server_fn(Context(run_id=1, node_id=2, node_config={}, state=RecordDict(), run_config=keys))
    assert components.server is not None
    other = RunFolder(tmp_path / "run")
    with pytest.raises(DataError, match=r"is being written by another run \(process "):
        other.begin(small(), "simulation")
    with pytest.raises(RoundError, match=r"no client connected within 0\.05 seconds"):
        components.server.fit(7, None)
    with other:
        other.begin(small(), "simulation")

"""Resident clients with a file of their own each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.as_written import number_before, run_as_written
from tests.waiting import free_port


@pytest.mark.slow
def test_sites_train_together_on_files_that_stay_with_them(tmp_path: Path) -> None:
    port = free_port()
    said = run_as_written("sensors_npz", tmp_path, changes={"127.0.0.1:8080": f"127.0.0.1:{port}"})
    assert said.count("the run is over") == 3
    alone = [number_before(f"trained on {name} alone", said) for name in ("site-1.npz", "site-2.csv", "site-3.csv.gz")]
    assert number_before("trained together", said) > max(alone) + 0.04  # 0.060 to 0.093 more over ten seeds

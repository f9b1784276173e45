"""Optimisers of others over a fleet of houses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.examples.as_written import number_before, run_as_written
from tests.waiting import free_port


@pytest.mark.slow
@pytest.mark.engine
def test_every_optimiser_finds_better_settings(tmp_path: Path) -> None:
    said = run_as_written("fleet_optimisers", tmp_path, changes={"127.0.0.1:8080": f"127.0.0.1:{free_port()}"})
    maker = number_before("a day with the maker's settings", said)
    for name in ("COBYQA", "differential evolution", "optuna"):
        found = re.search(rf"^{name}: ([\d.]+) a day", said, re.MULTILINE)
        assert found, said
        assert float(found[1]) < maker - 3.0  # the best known settings gain 4.01
    assert "the same by workers=fleet.map: True" in said
    assert said.count("5 of 5 sites better") >= 5
    here, there = re.findall(r"^ *([\d.]+) a day with the best of 19\d\d site evaluations$", said, re.MULTILINE)[-2:]
    assert here == there  # killed and gone on; over the network
    assert said.count("the run is over") == 5
    assert "candidate,round,slope,base,setback,lead,mean,sites" in said

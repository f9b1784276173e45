"""The adapter in front of a model that is reached by HTTP only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.examples.as_written import number_before, run_as_written


@pytest.mark.slow
def test_an_adapter_is_trained_by_the_scores_of_a_model_that_sometimes_refuses(tmp_path: Path) -> None:
    said = run_as_written("closed_model", tmp_path)
    skipped = re.search(r"(\d+) of 800 steps were skipped", said)
    assert skipped
    assert int(skipped[1]) >= 15  # each fortieth call
    before, behind = (number_before(text, said) for text in ("sent as they are", "behind the adapter"))
    assert behind > before + 0.15  # 0.205 to 0.268 more over seeds 0 to 5

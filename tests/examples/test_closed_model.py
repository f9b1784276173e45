"""The adapter in front of a model that is reached by HTTP only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.examples.as_written import number_before, run_as_written


@pytest.mark.slow
def test_an_adapter_is_trained_by_scores(tmp_path: Path) -> None:
    """The model refuses each fortieth call."""
    said = run_as_written("closed_model", tmp_path)
    skipped = re.search(r"(\d+) of 800 steps were skipped", said)
    assert skipped
    assert int(skipped[1]) >= 15  # each fortieth call
    before, behind = (number_before(text, said) for text in ("sent as they are", "behind the adapter"))
    assert behind > before + 0.15  # 0.195 to 0.268 more over seeds 0 to 9


@pytest.mark.slow
@pytest.mark.engine
def test_both_ends_are_asked_at_once(tmp_path: Path) -> None:
    """The service takes one question a call."""
    changes = {
        "python model_server.py &": "python model_server.py --fail-every 0 &",
        "--objective adapter:make ": "--objective adapter:make_two_calls ",
        "--config run.toml": "--config run.toml --set objective=adapter:make_two_calls rounds=3",
    }
    said = run_as_written("closed_model", tmp_path, changes=changes)
    assert "concurrency: 2 evaluations at once give the same losses as alone" in said
    assert re.search(r"^0 of 60 steps were skipped", said, re.MULTILINE)

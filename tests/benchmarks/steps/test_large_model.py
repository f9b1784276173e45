"""The cost of a slot in place is told beside that of its evaluations."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.steps.large_model import main, slot_seconds, transformer

SMALL = {"words": 50, "places": 48, "width": 16, "inner": 24, "layers": 1, "heads": 2}


def test_every_case_has_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ",".join(f"{name}={size}" for name, size in SMALL.items())
    out = tmp_path / "found.json"
    assert main(["--sizes", sizes, "--batch", "4", "--steps", "2", "--repeats", "1", "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    assert set(found) == {f"{p}/{s}" for p in ("rademacher", "gaussian") for s in ("central/1", "forward/9")} | {"peak"}
    assert all(0.0 < row["share"] < 1.0 for name, row in found.items() if name != "peak")
    assert "rademacher  forward  9" in capsys.readouterr().out


def test_the_share_counts_what_is_not_evaluated(tmp_path: Path) -> None:
    objective = transformer(tmp_path, "all", rows=8, **SMALL)
    value, busy = objective.value, np.ones((400, 400))

    def slow(batch: object) -> float:
        for _ in range(10):
            busy @ busy
        return value(batch)

    objective.value = slow
    keys = {"probe": "rademacher", "slope": "central", "local-steps": 2, "batch-size": 4}
    assert slot_seconds(objective, keys, 2)[2] < 0.5  # the sums are few beside such evaluations
    assert objective.value is slow

"""The check of an objective in place names what is wrong with it, and leaves its parameters as they were."""

from __future__ import annotations

import numpy as np
import pytest

from tests.place import Rows
from zofedht import check
from zofedht.client.__main__ import main
from zofedht.common.machine import memory
from zofedht.common.tensors.directions import PIECE


def findings(objective: Rows) -> dict[str, tuple[str, str]]:
    before = objective.state_digest()
    report = check(objective, radius=1e-3, batch_size=8, rounds=10)
    assert objective.state_digest() == before
    return {finding.name: (finding.level, finding.text) for finding in report.findings}


def test_a_good_objective_can_run():
    found = findings(Rows(0))
    assert {level for level, _ in found.values()} == {"ok"}
    assert found["size"][1] == "24 parameters in 2 blocks, 0.0 MB, 40 samples"
    assert "a slot of 50 steps about" in found["time"][1]


class Drops(Rows):
    """A net with dropout left on."""

    def value(self, batch):
        return super().value(batch) * (1.0 + 1e-3 * (self.calls % 2))


class Learns(Rows):
    """A net whose evaluation changes a parameter."""

    def value(self, batch):
        self.arrays["bias"][0] += np.float32(1e-3)
        return super().value(batch)


class Forgets(Rows):
    """An add that leaves the last block out."""

    def add_all(self, directions, coefficients):
        kept = self.arrays["bias"].copy()
        super().add_all(directions, coefficients)
        self.arrays["bias"][:] = kept


class Rounds(Rows):
    """A put that rounds."""

    def put(self, block, numbers):
        super().put(block, numbers.astype(np.float16))


class Raises(Rows):
    """A loss in float32."""

    def value(self, batch):
        return np.float32(super().value(batch))


@pytest.mark.parametrize(
    ("kind", "name", "level", "text"),
    [
        (Drops, "repeats", "warning", "put the net into evaluation mode, so that no dropout draws"),
        (Learns, "repeats", "error", "changes the parameters"),
        (Forgets, "add", "error", "add() does not add coefficient * v to bias"),
        (Rounds, "put", "error", "put() of what tensor() gave changes the parameters"),
        (Raises, "value", "error", "must return one float64 number"),
    ],
)
def test_what_is_wrong_is_named(kind: type[Rows], name: str, level: str, text: str):
    found = {one.name: (one.level, one.text) for one in check(kind(0), radius=1e-3, batch_size=8).findings}
    assert found[name][0] == level
    assert text in found[name][1]


def test_the_command_checks_a_factory(capsys: pytest.CaptureFixture[str]):
    keys = ["--set", "in-place=true", "step-size=0.1", "radius=0.001"]
    assert main(["check", "--objective", "tests.place:make", *keys]) == 0
    assert capsys.readouterr().out.endswith("tests.place:make can run\n")
    assert main(["check", "--objective", "tests.place:vector", *keys]) == 2
    assert "must be an InPlaceObjective" in capsys.readouterr().err


def test_the_memory_of_a_guide_is_looked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory, "_SMALL", 0)
    monkeypatch.setattr(memory, "free_bytes", lambda: 4 * 7 * 3 + 16 * PIECE + 4 * 2 * 24 - 1)
    assert check(Rows(0), radius=1e-3, batch_size=8).ok
    report = check(Rows(0), radius=1e-3, batch_size=8, algorithm="zofedht", memory=2)
    (found,) = (finding for finding in report.findings if finding.level == "error")
    assert "a guide of 2 moves, 0.0 MB, take at least" in found.text


def test_stiff_directions_are_looked_for():
    rows, keys = Rows(0), {"radius": 1e-3, "batch_size": 8, "algorithm": "zofed-shrink", "warm_up": 3}
    (found,) = (finding for finding in check(rows, **keys).findings if finding.level == "error")
    assert found.name == "stiff"
    rows.stiff = [{"bias": np.ones(3)}]
    assert check(rows, **keys).ok
    rows.stiff = [{"bias": np.ones(4)}]
    assert not check(rows, radius=1e-3, batch_size=8).ok

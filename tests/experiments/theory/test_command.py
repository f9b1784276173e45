"""The theory command: what it prints is what it measured."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from zofedht.experiments.__main__ import main
from zofedht.experiments.theory import command as module
from zofedht.experiments.theory import insensitive, printed_tables
from zofedht.experiments.theory.command import log_slope


def test_log_slope_finds_a_power():
    assert log_slope([1.0, 10.0, 100.0], [3.0, 0.3, 0.03]) == pytest.approx(-1.0)


@pytest.mark.slow
@pytest.mark.engine  # rates show after hundreds of rounds; bounds and tables have quick tests of their own
def test_the_command_reports_bounds_slopes_and_lemmas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(module, "_BASE", replace(module._BASE, rounds=100))
    # What a trajectory holds has tests of its own; here are few rounds of it.
    monkeypatch.setattr(insensitive, "_WORK", replace(insensitive._WORK, rounds=20))
    monkeypatch.setattr(printed_tables, "held_on_digits", partial(insensitive.held_on_digits, rounds=10))
    monkeypatch.setattr(module, "_SWEEPS", {"R": (25, 100), "K": (2, 8), "M": (2, 8), "n": (10, 40)})
    assert main(["theory", "--quick", "--out", str(tmp_path / "t")]) == 0
    text = capsys.readouterr().out
    assert text.strip() == (tmp_path / "t" / "theory.md").read_text().strip()
    found = json.loads((tmp_path / "t" / "theory.json").read_text())
    rows = [*found["laws"].values(), *(row for sweep in found["sweeps"].values() for row in sweep["rows"])]
    assert len(rows) == 3 + 8
    assert all(0.0 < row["measured"] <= row["bound"] for row in rows)
    assert all(row["eta"] <= min(row["conditions"].values()) * (1 + 1e-12) for row in rows)
    for name, sign in (("R", -1), ("K", -1), ("M", -1), ("n", 1)):
        slope = found["sweeps"][name]["measured slope"]
        # Leading order 1/2; two points and two seeds give it to some .2, and lower orders are still there.
        assert sign * slope == pytest.approx(0.5, abs=0.25)
    assert "as printed" in text
    assert text.count("**exceeded**") == 1  # by the steep quadratic alone
    assert all(row["measured"] <= min(row["corrected"], row["ours"]) for row in found["printed"]["theorem"])
    assert found["laws"]["trace, alpha 0.3"]["lambda"] == pytest.approx(0.7 + 0.3 * 20 / 5)

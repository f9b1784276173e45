"""The controller settings of a device that is another program."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.as_written import EXAMPLES, number_before, run_as_written

FOLDER = EXAMPLES / "device_settings"
WORN = ["2.0", "0.7", "1.0", "0.1"]


def answers(command: list[str], question: str) -> list[str]:
    ended = subprocess.run(command, input=question, capture_output=True, text=True, check=True)
    return ended.stdout.splitlines()


@pytest.mark.slow
def test_tuned_settings_suit_new_devices(tmp_path: Path) -> None:
    said = run_as_written("device_settings", tmp_path)
    assert "5 with bounds" in said
    factory, tuned = (number_before(f"{kind} settings on devices never seen", said) for kind in ("factory", "tuned"))
    assert tuned < 0.9 * factory  # 0.72 to 0.85 of it over seeds 0 to 9
    header, *rows = (tmp_path / "examples" / "device_settings" / "settings.csv").read_text().splitlines()
    settings = {name: float(value) for name, value in (row.split(",") for row in rows)}
    assert header == "parameter,value"
    assert list(settings) == ["kp", "ki", "kd", "filter", "forward"]
    assert all(0.0 <= value <= 220.0 for value in settings.values())


@pytest.mark.slow
def test_the_device_runs_without_a_compiler(tmp_path: Path) -> None:
    """The machine says so, and the device in Python has the same loss."""
    (tmp_path / "nothing").mkdir()
    short = {"--config run.toml": "--config run.toml --set rounds=3", "python try_settings.py runs/fleet": "true"}
    said = run_as_written("device_settings", tmp_path, changes=short, path=str(tmp_path / "nothing"))
    assert "no C compiler (cc) here: devices run in Python" in said
    assert "training loss   0.7666 -> " in said  # as with the compiled device


def test_the_device_in_python_answers_as_the_compiled_one(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc) here")
    binary = tmp_path / "device"
    subprocess.run([compiler, "-O2", "-o", str(binary), str(FOLDER / "device.c"), "-lm"], check=True)
    question = "0.27 11 0.0053 0.0024 0.00027 1 2 1003\n0.4 0 0.001 0 0.003 7\n-1 0 0 0 0 1\n0.27 11 0.0053 0 0\n"
    compiled = answers([str(binary), *WORN], question)
    written = answers([sys.executable, str(FOLDER / "device.py"), *WORN], question)
    assert [float(line) for line in compiled[:2]] == pytest.approx([float(line) for line in written[:2]], rel=1e-6)
    assert [line.split()[0] for line in compiled[2:] + written[2:]] == ["error"] * 4

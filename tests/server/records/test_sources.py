"""A resumed run knows what it was made from: other rows, or another objective, are refused with both digests."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from zofedht.common import shards
from zofedht.common.source_digest import digest_of
from zofedht.common.terminal.command_line import NOT_BETTER
from zofedht.server.__main__ import main
from zofedht.server.records.finished_run import load_run

_ROWS = "heat,label\n" + "".join(f"{place - 20},{int(place > 20)}\n" for place in range(40))
_TURNED = _ROWS.replace(",1\n", ",z\n").replace(",0\n", ",1\n").replace(",z\n", ",0\n")
_KEYS = ["num-clients=2", "clients-per-round=2", "rounds=2", "local-steps=5", "step-schedule=constant", "kernel=numpy"]


def test_a_digest_depends_on_every_part() -> None:
    rows = np.arange(6.0).reshape(2, 3)
    other = rows.copy()
    other[1, 2] = 5.5
    parts = [rows, other, rows.reshape(3, 2), rows.astype(np.float32), sparse.csr_array(rows), sparse.csr_array(other)]
    assert (
        len({digest_of(part) for part in parts} | {digest_of(rows, rows), digest_of(b"ab"), digest_of(b"a", b"b")}) == 9
    )
    assert digest_of(rows) == digest_of(rows.copy()) == digest_of(np.asfortranarray(rows))


def _said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


def test_turned_labels_are_refused_until_the_change_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = tmp_path / "rows.csv", tmp_path / "out"
    data.write_text(_ROWS)
    assert main(["run", "--out", str(out), "--set", f"dataset={data}", *_KEYS]) == 0
    assert main(["resume", str(out), "--set", "rounds=3"]) == 0
    data.write_text(_TURNED)
    shards._latest.cache_clear()  # as in another process
    _said(capsys)
    assert main(["resume", str(out), "--set", "rounds=4"]) == 2
    said = _said(capsys)
    digests = re.findall(r"[0-9a-f]{32}", said)
    assert len(set(digests)) == 2
    assert "--data-changed" in said
    assert load_run(out).summary["rounds"] == 3
    assert main(["resume", str(out), "--data-changed", "--set", "rounds=4"]) == NOT_BETTER
    assert main(["resume", str(out), "--set", "rounds=5"]) == 0


def test_other_code_of_the_objective_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        "from zofedht import Objective\nclass Bowl(Objective):\n    dim = 2\n"
        "    def value(self, x, batch):\n        return float(((x - 1.0) ** 2).sum())\n"
    )
    code, out = tmp_path / "bowl_of_source.py", tmp_path / "out"
    code.write_text(text)
    keys = ["objective=bowl_of_source:Bowl", "step-size=0.1", *_KEYS]
    assert main(["run", "--out", str(out), "--set", *keys]) == 0
    code.write_text(text.replace("1.0", "2.0"))
    assert main(["resume", str(out), "--set", "rounds=3"]) == 2
    assert "--data-changed" in _said(capsys)
    code.write_text(text)
    assert main(["resume", str(out), "--set", "rounds=3"]) == 0

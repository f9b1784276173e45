"""What a client has sent is in its ledger, in plain numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from flwr.common import Code, EvaluateRes, FitRes, GetParametersRes, Status, ndarrays_to_parameters, serde
from flwr.proto.transport_pb2 import ClientMessage

from zofedht.client.__main__ import main
from zofedht.client.join.ledger import Ledger, total
from zofedht.common.errors import DataError
from zofedht.common.tensors.agreement import Tensors
from zofedht.common.wire.checked import Checked
from zofedht.common.wire.codec import encode
from zofedht.common.wire.snapshots import encode_part
from zofedht.common.wire.start import encode_tensors


def _slot(move: np.ndarray, slopes: np.ndarray, reason: str = "") -> ClientMessage:
    metrics = {
        "round": 3,
        "slopes": slopes.astype("<f8").tobytes(),
        "draw-digest": b"\x01\x02",
        "evaluations": 40,
        "loss": 0.5,
    }
    metrics |= {"reason": reason} if reason else {}
    result = FitRes(Status(Code.OK, "Success"), ndarrays_to_parameters([move]), 8, metrics)
    return ClientMessage(fit_res=serde.fit_res_to_proto(result))


def test_a_line_holds_the_numbers_that_leave(tmp_path: Path):
    move, slopes = np.array([0.1, -1e-300, 3.0]), np.array([1 / 3, 2.0])
    message = _slot(move, slopes)
    Ledger(tmp_path / "sent.jsonl").sent(message)
    line = json.loads((tmp_path / "sent.jsonl").read_text())
    assert line["kind"] == "slot"
    assert line["bytes"] == message.ByteSize()
    assert line["arrays"] == [move.tolist()], "every bit: JSON's numbers read back as the same float64"
    assert line["slopes"] == slopes.tolist()
    assert (line["draw-digest"], line["round"], line["loss"], line["examples"]) == ("0102", 3, 0.5, 8)


def test_a_ledger_is_continued_and_readable_by_its_owner_alone(tmp_path: Path):
    path = tmp_path / "sent.jsonl"
    for _ in range(2):
        Ledger(path).sent(_slot(np.zeros(3), np.zeros(2)))
    assert path.stat().st_mode & 0o777 == 0o600
    found = total(path)
    assert (found.messages, found.numbers, found.evaluations) == ({"slot": 2}, 10, 80)


def test_what_the_parameters_are_is_told_as_a_text(tmp_path: Path):
    blocks = encode_tensors(Tensors(6, "weight float32 2x3", "0" * 32, "1" * 32))
    start = GetParametersRes(Status(Code.OK, "Success"), ndarrays_to_parameters(blocks))
    Ledger(tmp_path / "sent.jsonl").sent(ClientMessage(get_parameters_res=serde.get_parameters_res_to_proto(start)))
    part = EvaluateRes(Status(Code.OK, "Success"), 0.0, 0, encode_part(bytes(40)))
    Ledger(tmp_path / "sent.jsonl").sent(ClientMessage(evaluate_res=serde.evaluate_res_to_proto(part)))
    first, second = map(json.loads, (tmp_path / "sent.jsonl").read_text().splitlines())
    assert "weight float32 2x3" in first["about"]
    assert second["part"] == "40 bytes of the parameters"
    assert total(tmp_path / "sent.jsonl").numbers == 0


def test_numbers_of_checks_are_counted(tmp_path: Path):
    told = Checked(evaluations=9, value="ok", repeats="warning", spread=np.array([0.25]), flat=np.array([1.0, 3.0]))
    result = EvaluateRes(Status(Code.OK, "Success"), 0.0, 0, encode(told).scalars)
    Ledger(tmp_path / "sent.jsonl").sent(ClientMessage(evaluate_res=serde.evaluate_res_to_proto(result)))
    line = json.loads((tmp_path / "sent.jsonl").read_text())
    assert (line["check-repeats"], line["check-spread"]) == ("warning", [0.25])
    assert total(tmp_path / "sent.jsonl").numbers == 3


def test_the_command_sums_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "sent.jsonl"
    ledger = Ledger(path)
    ledger.sent(_slot(np.zeros(3), np.zeros(2)))
    ledger.sent(_slot(np.zeros(3), np.zeros(2), reason="round 3, step 1: the objective raised ValueError"))
    path.write_text(path.read_text() + '{"kind": "sl')  # cut short by a kill
    assert main(["ledger", str(path)]) == 0
    out = capsys.readouterr().out
    assert "2 messages" in out
    assert "1 x round 3, step 1: the objective raised ValueError" in out


def test_what_is_no_ledger_is_refused(tmp_path: Path):
    path = tmp_path / "other.jsonl"
    path.write_text('{"a": 1}\n{"b": 2}\n')
    with pytest.raises(DataError, match=r"line 1 of .* is not a ledger's JSON object"):
        total(path)
    with pytest.raises(DataError, match="cannot be read"):
        total(tmp_path / "nothing")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_nothing_is_sent_that_cannot_be_written():
    with pytest.raises(DataError, match="so nothing more is sent; make room and join again"):
        Ledger(Path("/dev/full")).sent(_slot(np.zeros(3), np.zeros(2)))


def test_a_folder_is_no_ledger(tmp_path: Path):
    with pytest.raises(DataError, match=r"--ledger .* cannot be written"):
        Ledger(tmp_path)


@pytest.mark.parametrize("torn", ['{"kind": "sl', '{"kind": "slot", "arrays": [' + "0.25, " * 50_000])
def test_a_torn_line_is_cut_before_the_next(tmp_path: Path, torn: str):
    path = tmp_path / "sent.jsonl"
    Ledger(path).sent(_slot(np.zeros(3), np.zeros(2)))
    whole = path.read_text()
    path.write_text(whole + torn)
    Ledger(path).sent(_slot(np.ones(3), np.zeros(2)))
    assert path.read_text().startswith(whole)
    assert total(path).messages == {"slot": 2}


def test_a_file_of_one_torn_line_begins_anew(tmp_path: Path):
    path = tmp_path / "sent.jsonl"
    path.write_text('{"kind": "sl')
    Ledger(path).sent(_slot(np.ones(3), np.zeros(2)))
    assert total(path).messages == {"slot": 1}

"""The device's own record of what it has sent: a JSON object a line, in plain numbers.

A line is written before its message leaves. Where it cannot be written, the message is not sent.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from flwr.proto.transport_pb2 import ClientMessage, Scalar

from zofedht.client.join.lifetime import Spent, lifetime_file
from zofedht.common.errors import DataError
from zofedht.common.plain_text import printable
from zofedht.common.terminal.whole_lines import length_of_whole_lines
from zofedht.common.wire.arrays import decode_vector
from zofedht.common.wire.snapshots import PART

__all__ = ["Ledger", "Totals", "ledger_text", "total"]

KINDS = {
    "get_properties_res": "introduction",
    "get_parameters_res": "start",
    "fit_res": "slot",
    "evaluate_res": "evaluation",
}
"""What a message is called, by the name of its field in Flower's ClientMessage."""

_OF_CHECKS = ("check-spread", "check-batch-spread", "check-flat", "check-steep")
_NUMBERS = ("slopes", "sketch", "values", "start", "column-sums", *_OF_CHECKS)
"""Keys whose bytes are float64 numbers; other bytes are digests."""


class Ledger:
    """Appends a line for each message. A line that a kill has torn is cut off first: its message was not sent.

    Parameters
    ----------
    path : Path
        The file; it is made, readable by its owner alone, or continued.

    Raises
    ------
    DataError
        The file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.touch(mode=0o600)
            with path.open("r+b" if path.is_file() else "ab") as file:
                if file.readable():  # a pipe or a device has no line to cut
                    file.truncate(length_of_whole_lines(file))
        except OSError as error:
            raise DataError(f"--ledger {path} cannot be written ({error.strerror}); name another file") from error

    def sent(self, message: ClientMessage) -> None:
        """Write the line of a message that is about to leave. Raises DataError when it cannot be written."""
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(_plain(message)) + "\n")
        except OSError as error:
            raise DataError(
                f"the ledger {self._path} cannot be written ({error.strerror}), so nothing more is sent; make room"
                " and join again"
            ) from error


def _plain(message: ClientMessage) -> dict[str, Any]:
    name = str(message.WhichOneof("msg"))
    answer = getattr(message, name)
    line: dict[str, Any] = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "kind": KINDS.get(name, name),
        "bytes": message.ByteSize(),
    }
    if answer.HasField("status") and answer.status.message not in ("", "Success"):
        line["reason"] = answer.status.message
    fields = {field.name for field in answer.DESCRIPTOR.fields}
    if "num_examples" in fields:
        line["examples"] = answer.num_examples
    if "parameters" in fields and answer.parameters.tensors:
        kinds = ("float64", "float32", "uint8")  # bytes say what parameters there are, and hold none
        arrays = [decode_vector(tensor, "an array", kinds) for tensor in answer.parameters.tensors]
        line["arrays"] = [array.tolist() for array in arrays if array.dtype != np.uint8]
        if texts := [array.tobytes().decode(errors="replace") for array in arrays if array.dtype == np.uint8]:
            line["about"] = "\n".join(texts)
    scalars = answer.properties if "properties" in fields else answer.metrics if "metrics" in fields else {}
    return line | {key: _value(key, scalar) for key, scalar in sorted(scalars.items())}


def _value(key: str, scalar: Scalar) -> object:
    value = getattr(scalar, str(scalar.WhichOneof("scalar")))
    if not isinstance(value, bytes):
        return value
    if key == PART:  # all clients have the same parameters
        return f"{len(value)} bytes of the parameters"
    return np.frombuffer(value, "<f8").tolist() if key in _NUMBERS else value.hex()


class Totals(NamedTuple):
    """What a ledger holds in all."""

    messages: Mapping[str, int]  # by kind
    reasons: Mapping[str, int]  # of messages that say that something failed
    numbers: int  # in moves, slopes, sketches, starts and the values of a fleet's points
    evaluations: int  # that the slots' steps asked for
    bytes: int
    first: str
    last: str


def total(path: Path) -> Totals:
    """Return what the lines of a ledger come to.

    Raises
    ------
    DataError
        The file cannot be read, or a line but the last is not the JSON object of a message. The last line may have
        been cut short by a kill; its message was then not sent.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the ledger {path} cannot be read ({error})") from error
    kinds: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    numbers = evaluations = size = 0
    times: list[str] = []
    for place, text in enumerate(lines, start=1):
        try:
            line = json.loads(text)
            kinds[line["kind"]] += 1
            times.append(line["time"])
            size += line["bytes"]
        except (ValueError, TypeError, KeyError) as error:
            if place == len(lines):
                break
            raise DataError(f"line {place} of {path} is not a ledger's JSON object: {text[:60]}") from error
        numbers += sum(len(array) for array in line.get("arrays", ())) + sum(len(line.get(key, ())) for key in _NUMBERS)
        evaluations += line.get("evaluations", 0)
        if line.get("reason"):
            reasons[line["reason"]] += 1
    return Totals(kinds, reasons, numbers, evaluations, size, times[0] if times else "-", times[-1] if times else "-")


def ledger_text(path: Path) -> str:
    """Return a ledger's totals in a few lines. Raises DataError as ``total`` does."""
    found = total(path)
    lines = [
        f"{path}: {sum(found.messages.values()):,} messages, {found.bytes:,} bytes, {found.first} to {found.last}",
        *(f"  {kind:<13} {count:,}" for kind, count in found.messages.items()),
        f"  {'numbers':<13} {found.numbers:,} in moves, slopes, values and starts",
        f"  {'evaluations':<13} {found.evaluations:,} that the steps asked for",
        *(f"  {'reason':<13} {count:,} x {printable(reason, None)}" for reason, count in found.reasons.items()),
    ]
    if (spent := lifetime_file(path)).exists():
        known = Spent.read(spent)
        lines.append(f"  {'epsilon':<13} {known.epsilon(1e-5):.4g} at delta 1e-5, of {known.slots:,} slots in all runs")
    return "\n".join(lines)

"""FitIns to bytes; the shared part of a round is serialised once.

Two serialised messages, one after the other, are the message with the fields of both: protobuf merges embedded messages
and maps. So x, Q and the scalars that slots have in common are written once a round, and the few that are a slot's own
are appended.
"""

from __future__ import annotations

import threading
from typing import Any

from flwr.common import FitIns, Parameters, serde
from flwr.proto.transport_pb2 import ServerMessage

__all__ = ["FitEncoder"]

Config = dict[str, Any]

_SHARED = "basis"  # the one large value of the fit config


class FitEncoder:
    """Remembers the serialised x of the latest Parameters object, the latest basis, and what scalars have in common."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: Config = {}
        self._common: tuple[Config, bytes] = ({}, b"")
        self._parameters: tuple[Parameters, bytes] | None = None
        self._basis: tuple[object, bytes] | None = None

    def encode(self, ins: FitIns) -> bytes:
        """Return the serialised ServerMessage of ``ins``."""
        basis = ins.config.get(_SHARED)
        scalars = {key: value for key, value in ins.config.items() if key != _SHARED}
        with self._lock:
            known, shared = self._in_common(scalars)
            if ins.parameters.tensors:  # empty for a client that follows x by itself
                if self._parameters is None or self._parameters[0] is not ins.parameters:
                    self._parameters = (ins.parameters, _serialised(FitIns(ins.parameters, {})))
                shared += self._parameters[1]
            if basis is not None:
                if self._basis is None or self._basis[0] is not basis:
                    self._basis = (basis, _serialised(FitIns(Parameters([], ""), {_SHARED: basis})))
                shared += self._basis[1]
        own = {key: value for key, value in scalars.items() if key not in known}
        return shared + _serialised(FitIns(Parameters([], ins.parameters.tensor_type), own))

    def _in_common(self, scalars: Config) -> tuple[Config, bytes]:
        """Return the scalars that two slots in a row have had and this one has, and the same serialised."""
        common, latest, self._latest = self._common, self._latest, scalars
        if not common[0] or any(key not in scalars or not _same(scalars[key], one) for key, one in common[0].items()):
            both = {key: value for key, value in scalars.items() if key in latest and _same(value, latest[key])}
            common = both, _serialised(FitIns(Parameters([], ""), both)) if both else b""
            self._common = common
        return common


def _same(one: Any, other: Any) -> bool:
    """Return whether two scalars are one; two floats that are equal may differ in their sign."""
    return one is other or (type(one) is type(other) is not float and one == other)


def _serialised(ins: FitIns) -> bytes:
    return bytes(ServerMessage(fit_ins=serde.fit_ins_to_proto(ins)).SerializeToString())

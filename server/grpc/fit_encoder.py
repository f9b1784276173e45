"""FitIns to bytes; the shared part of a round is serialised once.

Two serialised messages, one after the other, are the message with the fields of both: protobuf merges embedded messages
and maps. So x and Q are written once a round, and the few scalars of each client are appended.
"""

from __future__ import annotations

import threading

from flwr.common import FitIns, Parameters, serde
from flwr.proto.transport_pb2 import ServerMessage

__all__ = ["FitEncoder"]

_SHARED = "basis"  # the one large value of the fit config


class FitEncoder:
    """Remembers the serialised x of the latest Parameters object, and the latest basis."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parameters: tuple[Parameters, bytes] | None = None
        self._basis: tuple[object, bytes] | None = None

    def encode(self, ins: FitIns) -> bytes:
        """Return the serialised ServerMessage of ``ins``."""
        basis = ins.config.get(_SHARED)
        own = FitIns(Parameters([], ins.parameters.tensor_type), {k: v for k, v in ins.config.items() if k != _SHARED})
        shared = b""
        with self._lock:
            if ins.parameters.tensors:  # empty for a client that follows x by itself
                if self._parameters is None or self._parameters[0] is not ins.parameters:
                    self._parameters = (ins.parameters, _serialised(FitIns(ins.parameters, {})))
                shared = self._parameters[1]
            if basis is not None:
                if self._basis is None or self._basis[0] is not basis:
                    self._basis = (basis, _serialised(FitIns(Parameters([], ""), {_SHARED: basis})))
                shared += self._basis[1]
        return shared + _serialised(own)


def _serialised(ins: FitIns) -> bytes:
    return bytes(ServerMessage(fit_ins=serde.fit_ins_to_proto(ins)).SerializeToString())

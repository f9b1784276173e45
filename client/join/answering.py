"""A question of the server as Flower's message, and the client's answer to it: no question ends the client."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from flwr.client import Client
from flwr.common import Code, Status, serde
from flwr.common.typing import EvaluateRes, FitRes, GetParametersRes, GetPropertiesRes, Parameters
from flwr.proto.transport_pb2 import ClientMessage, ServerMessage

from zofedht.common.errors import JoinError, ZofedhtError
from zofedht.common.wire.arrays import decode_vectors

__all__ = ["answer_to", "refusal_of"]

_log = logging.getLogger(__name__)

_TRAIL_AND_PART = 2, ("float64", "uint8")
_NOTHING = Parameters([], "numpy.ndarray")
_FAILED: dict[str, Callable[[Status], Any]] = {
    "fit": lambda status: FitRes(status, _NOTHING, 0, {}),
    "evaluate": lambda status: EvaluateRes(status, 0.0, 0, {}),
    "get_parameters": lambda status: GetParametersRes(status, _NOTHING),
    "get_properties": lambda status: GetPropertiesRes(status, {}),
}
"""Verb of a question -> the answer of a client that failed."""


def answer_to(client: Client, kind: str | None, message: ServerMessage) -> ClientMessage:
    """Return the client's answer as a message; an exception becomes a status that the server reports.

    No question ends the client. Raises ZofedhtError when the client cannot introduce itself.
    """
    verb = (kind or "").removesuffix("_ins")
    verb = verb if verb in _FAILED else "get_properties"
    try:
        question = getattr(serde, f"{verb}_ins_from_proto")(getattr(message, f"{verb}_ins"))
        if verb == "evaluate":  # before NumPy's reader, which allocates whatever shape an array claims
            part = question.config.get("snapshot") == "give"  # the trail, and bytes of parameters in place
            decode_vectors(question.parameters.tensors, "x", *(_TRAIL_AND_PART if part else ()))
        return _wrapped(verb, getattr(client, verb)(question))
    except ZofedhtError as error:
        if kind == "get_properties_ins":
            raise  # the user of this client must see it
        _log.warning("a question of the server was not answered: %s", error)
        return _wrapped(verb, _FAILED[verb](Status(Code.FIT_NOT_IMPLEMENTED, error.public_text)))
    except Exception as error:  # no server of this program asks such a question
        text = f"a question of the server could not be answered: {type(error).__name__}"
        if kind == "get_properties_ins":
            raise JoinError(f"{text}: {error}") from error
        _log.warning("%s: %s", text, error)
        return _wrapped(verb, _FAILED[verb](Status(Code.FIT_NOT_IMPLEMENTED, text)))


def refusal_of(error: ZofedhtError, name: str) -> ClientMessage:
    """Return the introduction of a client that does not join: its name and why, with nothing of this device."""
    status = Status(Code.FIT_NOT_IMPLEMENTED, error.public_text)  # the code whose answer keeps its properties
    return _wrapped("get_properties", GetPropertiesRes(status, {"name": name, "cause": error.cause}))


def _wrapped(verb: str, result: Any) -> ClientMessage:
    return ClientMessage(**{f"{verb}_res": getattr(serde, f"{verb}_res_to_proto")(result)})

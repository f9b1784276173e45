"""The gRPC server: Flower's bidirectional message service over grpcio, with our own admission and TLS.

Flower marks ``start_server`` as deprecated. This module and ``client/join/transport.py`` use its messages and its
service definition directly, and are the only modules to replace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import grpc
from flwr.common import Code, GetPropertiesIns, GetPropertiesRes, serde
from flwr.proto.transport_pb2 import ServerMessage

from zofedht.common.errors import CAUSES, Cause, MessageError, ZofedhtError
from zofedht.common.plain_text import printable
from zofedht.common.wire.clients import Hello
from zofedht.common.wire.codec import decode
from zofedht.server.admission.places import Place, Places
from zofedht.server.admission.refusal import Expected, refusal
from zofedht.server.admission.revoked import serial_of
from zofedht.server.grpc.conversation import Conversation, LostClient
from zofedht.server.grpc.event_loop import event_loop
from zofedht.server.grpc.fit_encoder import FitEncoder
from zofedht.server.grpc.resident_proxy import ResidentProxy
from zofedht.server.grpc.roster import Roster

__all__ = ["JoinService"]

_HELLO_SECONDS = 120.0  # a small device may read its data before it answers
_HELLO_BYTES = 64 * 1024
_MOST_STRANGERS = 512  # streams before their introduction
_MOST_REASON = 1000  # characters; a reason travels as a header


class JoinService:
    """Flower's ``Join``: one stream per client with questions of the server and answers of the client."""

    def __init__(
        self,
        roster: Roster,
        hello: Callable[[], GetPropertiesIns],
        expected: Callable[[], Expected],
        most_bytes: Callable[[], int],
        most_strangers: int = _MOST_STRANGERS,
        hello_seconds: float = _HELLO_SECONDS,
        refused: Callable[[str, str, Cause | None], None] = lambda name, reason, cause: None,
        begun: Callable[[], bool] = lambda: True,
    ) -> None:
        """Take what the service depends on.

        Parameters
        ----------
        roster : Roster
            Gets each admitted client.
        hello : callable
            Returns the question that asks a new client for its introduction.
        expected : callable
            Returns what the introduction must hold.
        most_bytes : callable
            Returns the longest accepted reply of an admitted client, in bytes.
        most_strangers, hello_seconds : int, float
            How many clients may introduce themselves at once, and how long one may take.
        refused : callable
            Gets name and reason of each refused client; and the cause where the client itself does not join.
        begun : callable
            Returns whether the run has begun. Until then a first client that more clients contradict has to leave.
        """
        self._roster = roster
        self._hello = hello
        self._expected = expected
        self._most_bytes = most_bytes
        self._hello_seconds = hello_seconds
        self._refused = refused
        self._begun = begun
        self._places = Places(most_strangers)
        self._encoder = FitEncoder()

    async def join(self, _: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        """Admit or refuse the client, then carry its messages until its stream ends."""
        await context.send_initial_metadata(())  # else an abort beside the first write would send it twice, and fail
        conversation = Conversation(event_loop(), _HELLO_BYTES)
        writer = asyncio.ensure_future(_write(conversation, context))
        reader = asyncio.ensure_future(_read(conversation, context))
        try:
            await self._carry(conversation, context, writer)
        finally:  # also where grpc cancels this coroutine, since the client has gone
            conversation.close()
            writer.cancel()
            reader.cancel()
        if conversation.complaint:
            text = f"the server ended the connection: {conversation.complaint}"
            code = grpc.StatusCode.OUT_OF_RANGE if conversation.too_long else grpc.StatusCode.ABORTED
            await context.abort(code, text)

    async def _carry(
        self, conversation: Conversation, context: grpc.aio.ServicerContext[bytes, bytes], writer: asyncio.Future[None]
    ) -> None:
        certified = _common_name(context)
        place = Place(certified, _address(context), conversation.close)
        self._places.take(place)
        try:
            hello = await self._introduction(conversation, context, place)
        finally:
            self._places.leave(place)
        proxy = ResidentProxy(hello, conversation, self._encoder, self._roster.traffic.of(hello.name))
        proxy.serial = _serial(context)
        conversation.accept(self._most_bytes)
        # One client at a time, since all this is one thread: the first may decide what is expected of the next.
        refused = refusal(hello, self._expected(), certified, proxy.serial)
        if refused is not None and not (refused.final or self._begun()) and self._roster.outvotes(hello):
            refused = refusal(hello, self._expected(), certified, proxy.serial)
        taken = None if refused else self._roster.admit(proxy)
        if refused is not None:
            self._refused(hello.name, refused.reason, None)
            code = grpc.StatusCode.FAILED_PRECONDITION if refused.final else grpc.StatusCode.ABORTED
            await context.abort(code, refused.reason[:_MOST_REASON])
        if taken is not None:
            self._refused(hello.name, taken, None)
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, taken[:_MOST_REASON])
        try:
            conversation.tell(_WELCOME)
            await writer
        finally:
            self._roster.leave(proxy)

    async def _introduction(
        self, conversation: Conversation, context: grpc.aio.ServicerContext[bytes, bytes], place: Place
    ) -> Hello:
        try:
            answer = await asyncio.wrap_future(conversation.begin(_question(self._hello()), self._hello_seconds))
        except LostClient as error:
            if place.taken_away:
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many clients are joining at this moment")
            text = f"the client did not introduce itself: {error}"
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, text)
        try:
            result = serde.get_properties_res_from_proto(answer.get_properties_res)
            if result.status.code != Code.OK:
                self._hear_refusal(result, _common_name(context))
                raise MessageError(printable(result.status.message))
            return decode(Hello, result.properties)
        except Exception as error:  # Flower's reader may raise anything for a stranger's message
            reason = str(error) if isinstance(error, MessageError) else "the introduction cannot be read"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, reason[:_MOST_REASON])
            raise AssertionError("abort raises") from error

    def _hear_refusal(self, result: GetPropertiesRes, certified: str | None) -> None:
        """Pass on what a client says that does not join; a stranger may claim any name, with TLS its own alone."""
        name, cause = (str(result.properties.get(key, "")) for key in ("name", "cause"))
        known = next((one for one in CAUSES if one == cause), ZofedhtError.cause)
        self._refused(name if certified is None else certified, result.status.message, known)


async def _write(conversation: Conversation, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
    with suppress(asyncio.InvalidStateError, grpc.RpcError, grpc.aio.UsageError):  # the stream has ended
        async for message in conversation.outgoing():
            await context.write(message)


async def _read(conversation: Conversation, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
    """Take in the client's messages until the stream ends."""
    try:
        while (data := await context.read()) is not grpc.aio.EOF:
            if complaint := conversation.take(data):
                conversation.complaint = complaint
                conversation.close(complaint)
                return
    except Exception:  # grpc ends a stream by several
        return
    finally:
        conversation.close()


def _question(ins: GetPropertiesIns) -> bytes:
    return bytes(ServerMessage(get_properties_ins=serde.get_properties_ins_to_proto(ins)).SerializeToString())


_WELCOME = _question(GetPropertiesIns({}))
"""The second question about properties admits a client; it has no answer."""


def _serial(context: grpc.aio.ServicerContext[bytes, bytes]) -> str:
    shown = context.auth_context().get("x509_pem_cert")
    return serial_of(shown[0]) if shown else ""


def _common_name(context: grpc.aio.ServicerContext[bytes, bytes]) -> str | None:
    identity = context.auth_context()
    if identity.get("transport_security_type") != [b"ssl"]:
        return None
    names = identity.get("x509_common_name")  # a certificate without a common name is nobody's
    return names[0].decode(errors="replace") if names else ""


def _address(context: grpc.aio.ServicerContext[bytes, bytes]) -> str:
    """Return the peer's address without the port, such as ipv4:10.0.0.7."""
    return str(context.peer()).rpartition(":")[0]

"""Many joined clients in one process, without a thread of their own.

    python -m benchmarks.servers.many_clients PORT FILE N INDEX... [--certificates DIR] [--prepared]

FILE is the data set that the server deals in N shards. A client is the NumPyClient of ``zofedht-client join``, with its
own stream and connection, and its own certificate in ``DIR/client-INDEX``. With ``--prepared`` one client works on the
first slot. All others repeat its answer under their own names, rounds and slots. What is left is the time of the server
and of gRPC.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from flwr.client import Client
from flwr.proto.transport_pb2 import ClientMessage, ServerMessage

from zofedht.client.join.answering import answer_to
from zofedht.client.join.connection import Connection
from zofedht.client.join.resident import JoinOptions, ResidentClient
from zofedht.client.join.transport import METHOD
from zofedht.common.tls import read_tls
from zofedht.common.wire.arrays import decode_vector, encode_vector
from zofedht.common.wire.clients import OWN_ROWS
from zofedht.common.wire.pieces import pieces_of

_JOINING = 16  # at once


def main(argv: Sequence[str] | None = None) -> None:
    """Join as the given partitions and stay until the run is over. Raises what ended a client otherwise."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__.splitlines()[0])
    parser.add_argument("port", metavar="PORT")
    parser.add_argument("file", metavar="FILE", help="data set that the server deals")
    parser.add_argument("count", type=int, metavar="N", help="shards")
    parser.add_argument("indices", type=int, nargs="+", metavar="INDEX", help="shards of the clients of this process")
    parser.add_argument("--certificates", type=Path, help="folder of their certificates (plain text)")
    parser.add_argument("--prepared", action="store_true", help="answer with what one of them has said")
    asyncio.run(_hold(parser.parse_args(argv)))


async def _hold(args: argparse.Namespace) -> None:
    joining = asyncio.Semaphore(_JOINING)
    # It answers about whatever shard it is asked about first.
    prototype = _Prototype(_client("prototype", OWN_ROWS, 0, args.file)) if args.prepared else None
    await asyncio.gather(*(_stay(index, args, joining, prototype) for index in args.indices))


def _client(name: str, index: int, count: int, file: str) -> Client:
    options = JoinOptions(name, uuid.uuid4().hex, index, count, dataset=file)
    return ResidentClient(options, lambda text: None).to_client()


class _Prototype:
    """Answers once by a client, and then with the bytes of that answer and what is another client's own.

    Protobuf takes the last of two entries of a map with one key.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._said: dict[str, bytes] = {}  # by the kind of question

    def answer(self, index: int, kind: str, message: ServerMessage) -> bytes:
        """Return the serialised answer of the client of a shard."""
        if kind not in self._said:
            said = answer_to(self._client, kind, message)
            for place, tensor in enumerate(
                said.fit_res.parameters.tensors
            ):  # moves of one length: nobody is an outlier
                move = decode_vector(tensor, "the move")
                said.fit_res.parameters.tensors[place] = encode_vector(1e-3 * move / np.linalg.norm(move))
            self._said[kind] = said.SerializeToString()
        own = ClientMessage()
        if kind == "fit_ins":
            for key in ("round", "slot", "client"):
                own.fit_res.metrics[key].CopyFrom(message.fit_ins.config[key])
        else:
            told = own.get_properties_res.properties
            told["name"].string, told["instance"].string = f"client-{index}", uuid.uuid4().hex
        return self._said[kind] + own.SerializeToString()


async def _stay(index: int, args: argparse.Namespace, joining: asyncio.Semaphore, prototype: _Prototype | None) -> None:
    name = f"client-{index}"
    tls = read_tls(args.certificates / name, "client") if args.certificates else None
    connection = Connection(f"127.0.0.1:{args.port}", tls)
    client = None if prototype else _client(name, index, args.count, args.file)
    introduced = admitted = False
    await joining.acquire()
    try:
        async with _channel(connection) as channel:
            call: Any = channel.stream_stream(METHOD)()
            while (data := await call.read()) is not grpc.aio.EOF:
                message = ServerMessage.FromString(data)
                kind = str(message.WhichOneof("msg"))
                if kind == "reconnect_ins":
                    return
                if kind == "get_properties_ins" and introduced:
                    admitted = True
                    joining.release()
                    continue
                introduced = True
                if prototype is not None:
                    answer = prototype.answer(index, kind, message)
                else:
                    assert client is not None
                    answer = answer_to(client, kind, message).SerializeToString()
                for piece in pieces_of(answer):
                    await call.write(piece)
    except grpc.RpcError as error:
        with suppress(BrokenPipeError):
            print(f"{name}: {error}", flush=True)
        if not admitted:  # the benchmark would wait for it for ever
            os._exit(1)


def _channel(connection: Connection) -> Any:
    tls = connection.tls
    if tls is None:
        return grpc.aio.insecure_channel(connection.address, connection.options())
    shown = grpc.ssl_channel_credentials(tls.authority, tls.key, tls.certificate)
    return grpc.aio.secure_channel(connection.address, shown, connection.options())


if __name__ == "__main__":
    main()

"""Errands of other threads to a loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from zofedht.server.grpc.event_loop import errands_of

ROOT = Path(__file__).resolve().parents[3]
# The queue's thread wakes the loop through a socket pair. A slow read widens the moment in which a dropped server could
# close that socket under the loop.
_SERVERS_THAT_COME_AND_GO = """
import socket, time
import grpc
from zofedht.server.grpc.event_loop import wait_for

class Slow(socket.socket):
    def recv(self, size):
        time.sleep(0.02 if size == 1 else 0)  # grpcio reads a byte a wake; the loop's own socket is as fast as ever
        return super().recv(size)

def slow_pair(pair=socket.socketpair):
    read, write = pair()
    return Slow(fileno=read.detach()), write

socket.socketpair = slow_pair

async def echo(requests, context):
    async for request in requests:
        yield request

handler = grpc.method_handlers_generic_handler("Echo", {"Join": grpc.stream_stream_rpc_method_handler(echo)})

async def start():
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, port

for _ in range(5):
    server, port = wait_for(start())
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        calls = [channel.stream_stream("/Echo/Join")(iter([b"1"] * 3)) for _ in range(3)]
        assert [len(list(call)) for call in calls] == [3, 3, 3]
        wait_for(server.stop(0))
        del server
print("all served")
"""


def test_many_errands_wake_a_loop_once_and_keep_their_order(monkeypatch: pytest.MonkeyPatch):
    loop, done, wakes = asyncio.new_event_loop(), list[int](), 0
    wake = loop.call_soon_threadsafe

    def counted(*args: object) -> object:
        nonlocal wakes
        wakes += 1
        return wake(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    errands = errands_of(loop)
    assert errands is errands_of(loop)
    for number in range(200):
        errands.add(done.append, number)
    errands.add(loop.stop)
    loop.run_forever()
    assert done == list(range(200))
    assert wakes == 1
    errands.add(done.append, 200)  # a later one wakes it again
    errands.add(loop.stop)
    loop.run_forever()
    assert done[-1] == 200
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        errands.add(done.append, 201)


def test_a_server_that_is_dropped_leaves_the_loop_its_queue():
    done = subprocess.run(
        [sys.executable, "-c", _SERVERS_THAT_COME_AND_GO], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "all served\n"
    assert "Traceback" not in done.stderr

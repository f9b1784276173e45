"""Errands of other threads to a loop."""

from __future__ import annotations

import asyncio

import pytest

from zofedht.server.grpc.event_loop import errands_of


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

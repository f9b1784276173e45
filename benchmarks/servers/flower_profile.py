"""The share of a round of `flwr run .` that is this package's own, on the embedded digits.

    python -m benchmarks.servers.flower_profile [--rounds 30] [--set KEY=VALUE ...] [--json FILE]

It runs Flower's simulation, as `flwr run .` does. A clock is around every call that Flower makes into our strategy and
that our round loop makes into the coordinator. Then the same messages go to the same NumPyClient in this process, which
gives the time of a client's work. The rest of a round is Flower's and Ray's. The first round, in which workers start,
is not counted.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from zofedht.client.flower.numpy_client import ZofedhtClient
from zofedht.client.steps.worker import BasisStore
from zofedht.common.config.run_config import RunConfig
from zofedht.common.config.texts import parse_assignments
from zofedht.common.shards import members_of, objective_of
from zofedht.common.wire.codec import decode, encode
from zofedht.common.wire.messages import Update
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.state import initial_state
from zofedht.server.flower.simulation import run_simulation
from zofedht.server.flower.strategy import ZofedhtStrategy
from zofedht.server.inprocess import InProcessEngine
from zofedht.server.records.run_folder import RunFolder

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the parts of a round and write the JSON."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30, help="rounds of the run")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="other keys of the run config")
    parser.add_argument("--json", type=Path, help="file for the result")
    args = parser.parse_args(argv)
    config = RunConfig.from_mapping({"evaluate-every": 0} | parse_assignments(args.set) | {"rounds": args.rounds})
    spent: list[float] = []
    with _clocked(spent), tempfile.TemporaryDirectory() as scratch:
        folder = RunFolder(Path(scratch) / "out")
        folder.begin(config, "simulation")
        run_simulation(config, folder)
        history = (Path(scratch) / "out" / "history.jsonl").read_text(encoding="utf-8").splitlines()
    marks = [json.loads(line)["seconds"] for line in history]
    whole = statistics.median(np.diff(marks))
    server, client = sum(spent) / args.rounds, _client_seconds(config)
    parts = {"round_ms": 1e3 * whole, "server_ms": 1e3 * server, "client_ms": 1e3 * client * config.clients_per_round}
    parts["ours"] = (parts["server_ms"] + parts["client_ms"]) / parts["round_ms"]
    print(
        f"a round of {config.clients_per_round} slots: {parts['round_ms']:.0f} ms\n"
        f"  our server: {parts['server_ms']:.1f} ms\n"
        f"  our clients, one after another: {parts['client_ms']:.1f} ms\n"
        f"  ours in all: {100 * parts['ours']:.1f}% at most; the rest is Flower and Ray"
    )
    if args.json:
        args.json.write_text(json.dumps(parts, indent=2) + "\n")
    return 0


@contextmanager
def _clocked(spent: list[float]) -> Iterator[None]:
    """Time the calls into our server; a call within a call counts once."""
    depth = [0]

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            depth[0] += 1
            before = time.perf_counter()
            try:
                return function(*args, **options)
            finally:
                depth[0] -= 1
                if depth[0] == 0:
                    spent.append(time.perf_counter() - before)

        return call

    kept = [
        (kind, name, vars(kind)[name])
        for kind in (Coordinator, ZofedhtStrategy)
        for name in vars(kind)
        if not name.startswith("_") and callable(vars(kind)[name])
    ]
    for kind, name, function in kept:
        setattr(kind, name, timed(function))
    try:
        yield
    finally:
        for kind, name, function in kept:
            setattr(kind, name, function)


def _client_seconds(config: RunConfig) -> float:
    """Return the seconds of one fit of our NumPyClient, from the config of the message to the metrics."""
    client = ZofedhtClient(lambda question: objective_of(question.task, question.shard_index), BasisStore())
    members = members_of(config)
    start = InProcessEngine(config).start()
    coordinator = Coordinator(config, initial_state(config, np.zeros(start.dimension), start.units))
    seconds = []
    while not coordinator.finished:
        updates = []
        for broadcast in coordinator.ask(members):
            arrays, scalars = encode(broadcast)
            before = time.perf_counter()
            arrays, examples, scalars = client.fit(list(arrays), dict(scalars))
            seconds.append(time.perf_counter() - before)
            updates.append(decode(Update, scalars, arrays, examples=examples))
        coordinator.tell(updates)
    return statistics.median(seconds)


if __name__ == "__main__":
    raise SystemExit(main())

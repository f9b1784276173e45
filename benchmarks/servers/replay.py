"""What replaying slopes costs the server: milliseconds per round, on one core and on all.

    python -m benchmarks.servers.replay [--dimensions 785,39300,2361900] [--directions per-slot,shared] [--slots 10]
                                        [--steps 50] [--repeats 5] [--json FILE]

Beside it is the cost of what a replay replaces: reading as many moves of n numbers out of their messages. One core and
all cores take turns, so that other work on the machine weighs on both. All numbers are medians; the median of the ratio
is over the turns.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.directions.trajectory import basis_of
from zofedht.common.machine.blas import one_thread
from zofedht.common.random.streams import Address
from zofedht.common.typing import Matrix
from zofedht.common.wire.arrays import decode_vector
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.aggregation import replays
from zofedht.server.aggregation.replays import Replays

_MEMORY = 5


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print a table and write the JSON."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__.splitlines()[0])
    parser.add_argument("--dimensions", default="785,39300,2361900", help="numbers of parameters")
    parser.add_argument("--directions", default="per-slot,shared", help="whose directions a slot takes")
    parser.add_argument("--slots", type=int, default=10, help="slots of a round")
    parser.add_argument("--steps", type=int, default=50, help="steps of a slot")
    parser.add_argument("--repeats", type=int, default=5, help="turns of which the median is taken")
    parser.add_argument("--json", type=Path, help="file for the result")
    args = parser.parse_args(argv)
    cores = replays.available_cores()
    _replaying(*_round(8, 1, 1, shared=False), np.eye(8)[:, :_MEMORY], 1)()  # the first use compiles
    print(f"ms per round of {args.slots} slots of {args.steps} steps, Q of {_MEMORY} columns; {args.repeats} turns")
    columns = f"{'1 core':>11}{f'{cores} cores':>11}{'ratio':>7}{'reading moves':>16}"
    print(f"{'n':>9}{'directions':>12}{columns}")
    result: dict[str, dict[str, float]] = {}
    for dimension in (int(text) for text in args.dimensions.split(",")):
        basis = basis_of(list(np.random.default_rng(0).standard_normal((_MEMORY, dimension))))
        for directions in args.directions.split(","):
            asked, updates = _round(dimension, args.slots, args.steps, shared=directions == "shared")
            works = [_replaying(asked, updates, basis, 1), _replaying(asked, updates, basis, cores)]
            one, all_, reading = _turns([*works, _reading(dimension, args.slots)], args.repeats)
            ratio = statistics.median(b / a for a, b in zip(one, all_, strict=True))
            shown = [statistics.median(times) for times in (one, all_, reading)]
            print(
                f"{dimension:>9}{directions:>12}{shown[0]:>11.2f}{shown[1]:>11.2f}{ratio:>7.2f}{shown[2]:>16.2f}",
                flush=True,
            )
            names = ("one_core_ms", "all_cores_ms", "reading_moves_ms")
            result[f"{dimension} {directions}"] = dict(zip(names, shown, strict=True)) | {"ratio": ratio}
    if args.json:
        args.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0


def _turns(works: Sequence[Callable[[], object]], repeats: int) -> list[list[float]]:
    """Return the milliseconds of each work, turn by turn."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(repeats):
        for work, spent in zip(works, times, strict=True):
            began = time.perf_counter()
            work()
            spent.append(1e3 * (time.perf_counter() - began))
    return times


def _round(dimension: int, slots: int, steps: int, *, shared: bool) -> tuple[dict[int, Broadcast], list[Update]]:
    rng = np.random.default_rng(1)
    x = np.zeros(dimension)
    config = RunConfig().replace(local_steps=steps, uplink="slopes")
    spec = config.step_spec(step_size=0.1, subspace_weight=0.3, subspace_gain=dimension / _MEMORY)
    asked = {
        slot: Broadcast(
            address=Address(0, 7, slot, 0 if shared else None),
            spec=spec,
            client=str(slot),
            shard_index=slot,
            x=x,
            basis_version=5,
            basis_rank=_MEMORY,
        )
        for slot in range(slots)
    }
    updates = [
        Update(7, slot, str(slot), slopes=rng.standard_normal(steps), sketch=np.zeros(4), examples=1)
        for slot in range(slots)
    ]
    return asked, updates


def _replaying(asked: dict[int, Broadcast], updates: list[Update], basis: Matrix, cores: int) -> Callable[[], object]:
    def work() -> object:
        replays.available_cores = lambda: cores
        return Replays().contributions(updates, asked, basis, "uniform")

    return work


def _reading(dimension: int, slots: int) -> Callable[[], object]:
    file = io.BytesIO()
    np.save(file, np.ones(dimension))

    def work() -> object:
        with one_thread():
            return sum(np.array(decode_vector(file.getvalue(), "the move")) for _ in range(slots))

    return work


if __name__ == "__main__":
    sys.exit(main())

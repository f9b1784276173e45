"""What a slot in place costs beyond its forward passes, for a transformer of 22,565,761 parameters.

    python -m benchmarks.steps.large_model [--trainable all] [--batch 32] [--steps 5] [--repeats 3] [--json FILE]

The net is that of examples/sentences with random weights, on onnxruntime; a sentence has 6 to 40 tokens. A slot follows
the trail of a round, copies x_r, takes its steps and puts x_r back. Times are CPU seconds of one thread, medians of
the slots.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zofedht.client.plan import Plan
from zofedht.client.tensors.held import Held
from zofedht.client.tensors.place_steps import place_steps
from zofedht.common.config.run_config import RunConfig
from zofedht.common.directions.law import law_of
from zofedht.common.machine.blas import one_thread
from zofedht.common.random.streams import Address
from zofedht.common.tensors.objective import InPlaceObjective
from zofedht.common.tensors.trail import TrailLaw

__all__ = ["Timed", "main", "slot_seconds", "transformer"]

_CASES = [(probe, slope, q) for probe in ("rademacher", "gaussian") for slope, q in (("central", 1), ("forward", 9))]


class Timed:
    """Counts the CPU seconds of an objective's evaluations."""

    def __init__(self, objective: Any) -> None:
        self.seconds, self.calls, self._value = 0.0, 0, objective.value
        objective.value = self

    def __call__(self, batch: Any) -> float:
        began = time.process_time()
        loss = float(self._value(batch))
        self.seconds, self.calls = self.seconds + time.process_time() - began, self.calls + 1
        return loss


def transformer(folder: Path, trainable: str, rows: int = 256, **sizes: int) -> Any:
    """Return the net of the example with random weights, as an objective on random sentences."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "sentences"))
    import minilm
    import reviews

    from zofedht.onnx import session

    shape, rng = minilm.Shape(**sizes), np.random.default_rng(0)
    weights = {name: rng.standard_normal(size, np.float32) * 0.05 for name, size in minilm.shapes(shape).items()}
    minilm.write_graph(folder / "net.onnx", weights, shape)
    sentences = [rng.integers(1, shape.words, length).tolist() for length in rng.integers(6, 40, rows)]
    data = (sentences, rng.choice([-1.0, 1.0], rows))
    return session(folder / "net.onnx", reviews.loss, data, trainable=trainable, threads=1)


def slot_seconds(objective: InPlaceObjective, keys: dict[str, Any], repeats: int) -> tuple[float, float, float]:
    """Return the CPU seconds of an evaluation and of a step beyond its evaluations, and the share of the latter."""
    config = RunConfig.from_mapping(
        {"objective": "net:make", "in-place": True, "radius": 1e-3, "step-size": 1e-6, **keys}
    )
    spec = config.step_spec(step_size=1e-6)
    law, held, timed = TrailLaw.of(spec, config), Held(objective), Timed(objective)
    forward, beyond = [], []
    for round_ in range(repeats + 1):
        plan = Plan(spec, law_of(spec, 0), Address(0, round_, 0))
        timed.seconds, timed.calls, began = 0.0, 0, time.process_time()
        held.go_to(np.full(round_ * law.slopes, 1e-6), law)
        with held.changed():
            place_steps(objective, plan, law.directions(round_, 0, objective.blocks, np.empty(0)))
        spent = time.process_time() - began
        if round_:  # the first slot has no trail to follow
            forward.append(timed.seconds / timed.calls)
            beyond.append((spent - timed.seconds) / spec.local_steps)
    objective.value = timed._value  # type: ignore[method-assign]
    evaluation, rest = statistics.median(forward), statistics.median(beyond)
    return evaluation, rest, rest / (rest + evaluation * timed.calls / spec.local_steps)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print a table and write the JSON."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__.splitlines()[0])
    parser.add_argument("--trainable", default="all", help="all, bias, or a regular expression for names of tensors")
    parser.add_argument("--batch", type=int, default=32, help="sentences of an evaluation")
    parser.add_argument("--steps", type=int, default=5, help="steps of a slot")
    parser.add_argument("--repeats", type=int, default=3, help="slots of which the median is taken")
    parser.add_argument("--sizes", default="", help="other sizes of the net, as words=50,width=16")
    parser.add_argument("--json", type=Path, help="file for the result")
    args = parser.parse_args(argv)
    sizes = {name: int(value) for name, _, value in (part.partition("=") for part in args.sizes.split(",") if part)}
    result: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder, one_thread():
        objective = transformer(Path(folder), args.trainable, **sizes)
        held = sum(block.bytes for block in objective.blocks) / 1e6
        print(f"n = {objective.dim:,}, {held:.1f} MB of parameters; {args.batch} sentences, {args.repeats} slots each")
        print(f"{'probe':>11} {'slope':>8} {'q':>2} {'evaluation':>11} {'beyond, a step':>15} {'share of a step':>16}")
        for probe, slope, q in _CASES:
            keys = {"probe": probe, "slope": slope, "slopes-per-step": q, "local-steps": args.steps}
            found = slot_seconds(objective, {**keys, "batch-size": args.batch}, args.repeats)
            evaluation, beyond, share = found
            print(f"{probe:>11} {slope:>8} {q:>2} {evaluation:9.3f} s {beyond:13.3f} s {share:15.1%}", flush=True)
            result[f"{probe}/{slope}/{q}"] = {"evaluation": evaluation, "beyond": beyond, "share": share}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"peak memory of the process {peak:.0f} MB")
    if args.json:
        args.json.write_text(json.dumps({**result, "peak": peak}, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

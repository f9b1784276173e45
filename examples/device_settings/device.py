"""The device of device.c, number for number, for a machine without a C compiler; some 20 times slower.

    python device.py FRICTION TORQUE PLAY NOISE

device.c describes the device and its protocol.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence

STEP, STEPS, DELAY, NERVES = 0.002, 600, 3, 4.0


def uniform(seed: int) -> Iterator[float]:
    while True:
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        yield (seed >> 11) / 9007199254740992.0


def clip(value: float, limit: float) -> float:
    return max(-limit, min(limit, value))


def run_cycle(wear: Sequence[float], settings: Sequence[float], cycle: int) -> float:
    friction, strength, play, noisy = wear
    kp, ki, kd, smoothing, forward = settings
    draw = uniform(2 * cycle + 1)
    for _ in range(8):
        next(draw)
    target, travel = 20.0 + 70.0 * next(draw), 0.2 + 0.2 * next(draw)
    push, pushed = 0.3 * (2.0 * next(draw) - 1.0), 0.6 + 0.2 * next(draw)
    angle = speed = shaft = integral = slope = before = torque = cost = 0.0
    sent = [0.0] * DELAY
    for step in range(STEPS):
        now = step * STEP
        part = now / travel if now < travel else 1.0
        wanted = target * part * part * (3.0 - 2.0 * part)
        wanted_speed = target * 6.0 * part * (1.0 - part) / travel
        noise = noisy * (next(draw) + next(draw) + next(draw) - 1.5) * 2.0
        error = wanted - (shaft + noise)

        slope += ((error - before) / STEP - slope) * STEP / (smoothing + STEP)
        before = error
        integral = clip(integral + ki * error * STEP, 1.0)
        command = clip(kp * error + integral + kd * slope + forward * wanted_speed, 1.0)
        cost += abs(error + noise) + NERVES * abs(command - torque) / 2.0
        torque = command

        reached = sent[step % DELAY]
        sent[step % DELAY] = command
        load = 0.0 if now < pushed else push
        rubbing = friction * (0.08 * math.tanh(speed / 5.0) + 0.0002 * speed)
        speed += STEP * 20000.0 * (strength * reached - rubbing - load)
        angle += STEP * speed
        shaft = min(max(shaft, angle - play / 2.0), angle + play / 2.0)
    return cost / STEPS


def answer(wear: Sequence[float], line: str) -> str:
    words = line.split()
    try:
        settings, cycles = [float(word) for word in words[:5]], [int(word) for word in words[5:]]
    except ValueError as error:
        return f"error {error}"
    if len(settings) < 5 or not all(math.isfinite(value) and value >= 0.0 for value in settings):
        return "error five settings must be finite numbers of at least 0"
    if not cycles:
        return "error no cycle was named"
    return repr(sum(run_cycle(wear, settings, cycle) for cycle in cycles) / len(cycles))


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit("usage: device.py FRICTION TORQUE PLAY NOISE")
    wear = [float(word) for word in sys.argv[1:]]
    for line in sys.stdin:
        print(answer(wear, line), flush=True)

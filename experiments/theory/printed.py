"""Theorem 1 and its lemmas with the paper's own constants, and the steps of the proof that fail.

They are about eq. (9), b = 1, M draws with replacement and a constant step. ``bounds`` has our own constants.

What was found (tests/experiments/theory/test_printed.py computes each):

- The last line of the proof loses sqrt(L). With eq. (11), gap/(R eta K) and (36/M) L eta (n+4) s^2 are both
  6 sqrt(L gap (n+4) s^2/(R K M)), s^2 = sigma_g^2 + sigma_l^2. Scaling f shows it: runs on a steep quadratic
  exceed ``printed_bound``, and not the corrected one.
- Lemma 5 ends with (1 - alpha) - 32 (n+4) eta^2 K^2 L^2 >= (1 - alpha)/2 and cites eq. (13), which gives 1/2 for the
  second term: too much for alpha > 0. The product of eqs. (16) and (17) gives (1 - alpha)/4, which is enough.
- Lemma 6 takes E[g] as grad f_mu; it is C grad f_mu. With C in its place the lemma stays true.
- Lemma 6 drops the cross terms of eq. (30), which are not 0 for K > 1 (``two_steps``). Let S be the sum
  of E|g_k|^2. By Cauchy-Schwarz and eq. (17) they add at most 2 S/M^2 to S/M. Eq. (13) gives S <= 9/8 of what eq. (31)
  takes twice, so for M >= 3 the lemma stays true.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from zofedht.experiments.theory.bounds import Bound, Problem, Work

__all__ = [
    "RoundBounds",
    "descent_left",
    "printed_bound",
    "printed_conditions",
    "printed_step",
    "psi",
    "round_bounds",
    "two_steps",
]


def printed_step(problem: Problem, work: Work, dimension: int) -> float:
    """Return eta of eq. (11)."""
    work_done = work.rounds * work.local_steps * problem.smoothness
    return math.sqrt(problem.gap * work.slots / ((dimension + 4) * _noise(problem) * work_done)) / 6.0


def printed_conditions(problem: Problem, work: Work, dimension: int, weight: float) -> dict[str, float]:
    """Return the largest eta that eqs. (13) to (19) allow, by number."""
    smooth, steps, slots, left = problem.smoothness, work.local_steps, work.slots, 1.0 - weight
    return {
        "(13)": 1.0 / (8.0 * smooth * steps * math.sqrt(dimension + 4)),
        "(14)": 1.0 / (smooth * steps**1.5 * math.sqrt(10.0 * slots)),
        "(15)": left / (smooth * steps),
        "(16)": slots * left / (128.0 * smooth * (dimension + 4)),
        "(17)": 1.0 / (slots * smooth * steps**2),
        "(18)": 1.0 / (5.0 * smooth * steps),
        "(19)": slots / (4.0 * smooth * left),
    }


def printed_bound(problem: Problem, work: Work, dimension: int, weight: float, *, corrected: bool = False) -> Bound:
    """Return the right side of Theorem 1, for the step of eq. (11); ``corrected`` puts L under the root.

    Half of the printed root is due to the start, half to noise.
    """
    inside = problem.gap * (dimension + 4) * _noise(problem) / (work.rounds * work.local_steps * work.slots)
    root = 96.0 / (1.0 - weight) * math.sqrt(inside * (problem.smoothness if corrected else 1.0))
    smoothing = 8.0 * (work.radius * problem.smoothness) ** 2 * (dimension + 6) ** 3 / (1.0 - weight) ** 2
    return Bound(start=0.5 * root, smoothing=smoothing, noise=0.5 * root)


def psi(problem: Problem, work: Work, dimension: int) -> float:
    """Return psi of eq. (24)."""
    smoothing = 0.5 * (work.radius * problem.smoothness) ** 2 * (dimension + 6) ** 3
    return smoothing + 2.0 * (dimension + 4) * (4.0 * problem.global_noise**2 + problem.local_noise**2)


@dataclass(frozen=True)
class RoundBounds:
    """What lemmas 4 to 6 say of one round from x_r."""

    drift: float  # eq. (22): sum over k of E|w_k - x_r|^2, of each client
    size: float  # eq. (23): sum over k of E|g_k|^2, of each client
    descent: float  # lemma 5: E<grad f, x_{r+1} - x_r>
    move: float  # lemma 6: E|x_{r+1} - x_r|^2


def round_bounds(
    problem: Problem, work: Work, dimension: int, weight: float, eta: float, *, gradient: float, mean: float
) -> RoundBounds:
    """Return the right sides of lemmas 4 to 6.

    ``gradient`` is |grad f(x_r)|^2, and ``mean`` is E|(1/N) sum_i sum_k grad f_i,mu(w_k)|^2.
    """
    smooth, steps, slots = problem.smoothness, work.local_steps, work.slots
    spread = psi(problem, work, dimension)
    together = spread + 8.0 * (dimension + 4) * gradient
    bias = (smooth * work.radius) ** 2 * (dimension + 3) ** 3 / (1.0 - weight)
    turn = eta * steps
    return RoundBounds(
        drift=2.0 * turn**2 * steps * together,
        size=2.0 * steps * together,
        descent=-0.25 * turn * (1.0 - weight) * gradient
        - 0.5 * turn * (1.0 - weight) * mean / steps**2
        + 2.0 * smooth**2 * turn**3 * spread
        + 0.25 * turn * bias,
        move=32.0 * eta * turn / slots * (dimension + 4) * gradient
        + 2.5 * turn**2 * bias
        + 4.0 * eta * turn / slots * spread
        + 5.0 * turn**2 * problem.global_noise**2 / slots
        + eta**2 * mean,
    )


def descent_left(problem: Problem, work: Work, dimension: int, weight: float, eta: float) -> tuple[float, float]:
    """Return what is left of lemma 5's descent, 1 - alpha - 32 (n+4) (eta K L)^2, and what it needs, (1 - alpha)/2."""
    feedback = 32.0 * (dimension + 4) * (eta * work.local_steps * problem.smoothness) ** 2
    return 1.0 - weight - feedback, 0.5 * (1.0 - weight)


def two_steps(curvature: float, eta: float) -> tuple[float, float]:
    """Return E|x_{r+1} - x_r|^2/eta^2, and what eq. (30) says of it.

    For f(x) = h x^2/2, x_r = 1, N = M = 1, K = 2 and C = 1, from the moments of v: g_0 = h v^2, w_1 = 1 - eta g_0,
    g_1 = h w_1 v'^2. Both differ by 4 eta h^3.
    """
    bend = eta * curvature
    move = curvature**2 * (8.0 - 12.0 * bend + 9.0 * bend**2)
    noise = curvature**2 * (4.0 - 4.0 * bend + 6.0 * bend**2)  # E|B|^2
    mean = curvature**2 * (4.0 - 4.0 * bend + 3.0 * bend**2)  # E|sum of gradients|^2
    return move, noise + mean


def _noise(problem: Problem) -> float:
    return problem.global_noise**2 + problem.local_noise**2

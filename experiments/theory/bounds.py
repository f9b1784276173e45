"""A convergence bound in the setting of the paper's Theorem 1, and the step sizes that it allows.

**The constants here are ours**, and the bound covers any covariance; ``printed`` has the paper's.

Assumptions: F(.; xi) is L-smooth; E|grad F - grad f_i|^2 <= sigma_l^2; (1/N) sum_i |grad f_i - grad f|^2 <= sigma_g^2;
f >= f*. In a round C_r is fixed by the past, and a step uses g = c v, v ~ N(0, C_r). Write
kappa I <= C_r <= lambda I and tr C_r <= T for all rounds of a run.

Lemma 1  E[g] = C grad f_mu(w), with f_mu(w) = E f(w + mu v) (integration by parts).
Lemma 2  |grad f_mu - grad f| <= L mu sqrt(T), since E|v| <= sqrt(T).
Lemma 3  E|g|^2 <= A E|grad F|^2 + S, with A = 2 lambda (T + 2 lambda) and
         S = mu^2 L^2 T (T + 2 lambda)(T + 4 lambda)/2:  c = <grad F, v> + r with |r| <= L mu |v|^2/2,
         E <a, v>^2 |v|^2 = a'(T C + 2 C^2) a and E|v|^6 <= T (T + 2 lambda)(T + 4 lambda).

Theorem  Let b = 8 K lambda^2 + 4 A, e = 4 K lambda^2 L^2 mu^2 T + 2 A sigma_l^2 + 2 S and
theta = K lambda L^2 eta^2 + L eta/(2 M). If
    (overshoot)  eta K L lambda <= 1,   (drift)  eta^2 K L^2 b <= 1/2,   (descent)  2 b theta <= kappa/4,
then for a constant step eta
    (1/R) sum_r E|grad f(x_r)|^2
        <= (4/kappa) [ (f(x_0) - f*)/(eta K R) + lambda L^2 mu^2 T + 2 theta (b sigma_g^2 + e) ].

Proof. A slot's sum of g is a sum of conditional means C grad f_{i,mu}(w_k) and a martingale, so
E|sum g|^2 <= 2 |sum of means|^2 + 2 sum E|g|^2. Let D be the largest mean squared drift |w_k - x_r|^2 and
B = b (|grad f|^2 + sigma_g^2 + L^2 D) + e. By Lemmas 2 and 3, E|sum g|^2 <= K B; so D <= eta^2 K B, and the round's
move, a mean over i.i.d. slots, has a second moment of at most |its mean|^2 + eta^2 K B/M (drawing without
replacement only lowers the variance). (drift) gives B <= 2 b (|grad f|^2 + sigma_g^2) + 2 e. In the descent
inequality use -<C grad f, h> = (|h - grad f|_C^2 - |grad f|_C^2 - |h|_C^2)/2 for h the mean of
grad f_{i,mu}: (overshoot) lets the last term pay for |its mean|^2, Lemma 2 and D bound the first, and
|grad f|_C^2 >= kappa |grad f|^2. So
    E f(x_{r+1}) <= f(x_r) - eta K (kappa/2 - 2 b theta) |grad f|^2
                    + eta K [lambda L^2 mu^2 T + 2 theta (b sigma_g^2 + e)];
(descent) leaves kappa/4. Sum over r.

``covariance = "paper"`` has lambda = 1, as Theorem 1 needs. The trace-normalised covariance is outside it: its
largest eigenvalue is lambda = 1 - alpha + alpha n/tau', and that takes the place of 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from zofedht.common.directions.law import subspace_gain

__all__ = ["Bound", "Problem", "Spectrum", "Work", "balanced_step", "binding", "bound", "conditions", "spectrum"]


@dataclass(frozen=True)
class Spectrum:
    """Bounds on the covariances of a run: kappa I <= C <= lambda I, tr C <= trace."""

    smallest: float
    largest: float
    trace: float

    @property
    def sixth_moment(self) -> float:
        """An upper bound of E|v|^6."""
        return self.trace * (self.trace + 2.0 * self.largest) * (self.trace + 4.0 * self.largest)

    @property
    def factor(self) -> float:
        """A of Lemma 3."""
        return 2.0 * self.largest * (self.trace + 2.0 * self.largest)

    def offset(self, smoothness: float, radius: float) -> float:
        """Return S of Lemma 3."""
        return 0.5 * (smoothness * radius) ** 2 * self.sixth_moment

    def bias(self, smoothness: float, radius: float) -> float:
        """Return Lemma 2's bound of |grad f_mu - grad f|."""
        return smoothness * radius * math.sqrt(self.trace)


def spectrum(dimension: int, rank: int, weight: float, covariance: str) -> Spectrum:
    """Return the bounds for a run of (1-a) I + a s Q Q^T; its first rounds, before a basis, have C = I."""
    if rank == 0 or weight == 0.0:
        return Spectrum(1.0, 1.0, float(dimension))
    s = subspace_gain(covariance, dimension, rank)
    inside = 1.0 - weight + weight * s
    outside = 1.0 - weight if rank < dimension else inside
    trace = (1.0 - weight) * dimension + weight * s * rank
    return Spectrum(min(1.0, inside, outside), max(1.0, inside), max(float(dimension), trace))


@dataclass(frozen=True)
class Problem:
    """What is assumed of f."""

    smoothness: float  # L
    gap: float  # f(x_0) - f*
    local_noise: float  # sigma_l, for the minibatch that is used
    global_noise: float  # sigma_g


@dataclass(frozen=True)
class Work:
    """What a run does."""

    rounds: int  # R
    local_steps: int  # K
    slots: int  # M
    radius: float  # mu


@dataclass(frozen=True)
class Bound:
    """The three terms of the theorem's right-hand side."""

    start: float  # falls with eta K R
    smoothing: float  # of order mu^2
    noise: float  # of order eta

    @property
    def total(self) -> float:
        """The bound of the mean squared gradient norm."""
        return self.start + self.smoothing + self.noise


def _growth(work: Work, law: Spectrum) -> float:
    """Return b."""
    return 8.0 * work.local_steps * law.largest**2 + 4.0 * law.factor


def _noise(problem: Problem, work: Work, law: Spectrum) -> float:
    """Return b sigma_g^2 + e."""
    smooth = problem.smoothness * work.radius
    e = 4.0 * work.local_steps * law.largest**2 * smooth**2 * law.trace
    e += 2.0 * law.factor * problem.local_noise**2 + 2.0 * law.offset(problem.smoothness, work.radius)
    return _growth(work, law) * problem.global_noise**2 + e


def conditions(problem: Problem, work: Work, law: Spectrum) -> dict[str, float]:
    """Return the largest eta that each condition of the theorem allows."""
    growth, smooth, steps = _growth(work, law), problem.smoothness, work.local_steps
    # descent: 2 b (K lambda L^2 eta^2 + L eta/(2M)) = kappa/4, the positive root, in a form that does not cancel.
    square, linear = 2.0 * growth * steps * law.largest * smooth**2, growth * smooth / work.slots
    wanted = 0.25 * law.smallest
    return {
        "overshoot": 1.0 / (steps * smooth * law.largest),
        "drift": math.sqrt(0.5 / (steps * growth)) / smooth,
        "descent": 2.0 * wanted / (linear + math.sqrt(linear**2 + 4.0 * square * wanted)),
    }


def binding(problem: Problem, work: Work, law: Spectrum) -> tuple[str, float]:
    """Return the condition that binds and the largest step it allows."""
    return min(conditions(problem, work, law).items(), key=lambda item: item[1])


def balanced_step(problem: Problem, work: Work, law: Spectrum) -> tuple[float, str]:
    """Return the step that balances the terms in 1/eta and eta, cut at the conditions, and what decided.

    eta = sqrt(gap M / (K R L (b sigma_g^2 + e))), of order sqrt(M/(n K R)) for n >> K. It has the role of
    the paper's eq. (11).
    """
    noise = _noise(problem, work, law)
    name, largest = binding(problem, work, law)
    if noise == 0.0:
        return largest, name
    runs = work.local_steps * work.rounds * problem.smoothness
    eta = math.sqrt(problem.gap * work.slots / (runs * noise))
    return (eta, "balance") if eta <= largest else (largest, name)


def bound(problem: Problem, work: Work, law: Spectrum, eta: float) -> Bound:
    """Return the theorem's bound of (1/R) sum_r E|grad f(x_r)|^2 for the constant step ``eta``.

    Raises ValueError when a condition forbids the step, naming it, or C is singular (weight 1).
    """
    if law.smallest <= 0.0:
        raise ValueError("the bound needs every direction to be probed: subspace-weight must be below 1")
    name, largest = binding(problem, work, law)
    if not 0.0 < eta <= largest * (1.0 + 1e-12):
        raise ValueError(f"eta must be in (0, {largest:.6g}], got {eta:.6g}: the condition '{name}' binds")
    theta = work.local_steps * law.largest * (problem.smoothness * eta) ** 2 + problem.smoothness * eta / (
        2.0 * work.slots
    )
    factor = 4.0 / law.smallest
    return Bound(
        start=factor * problem.gap / (eta * work.local_steps * work.rounds),
        smoothing=factor * law.largest * (problem.smoothness * work.radius) ** 2 * law.trace,
        noise=factor * 2.0 * theta * _noise(problem, work, law),
    )

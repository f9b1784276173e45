"""subspace-weight = auto: stretch the directions along the trajectory unless clients pull apart there. Pure.

With Q the basis (n, k) and u_i the move of slot i divided by its step, p_i = Q'u_i is where its client goes inside the
subspace. Its energy I = mean |p_i|^2 has three parts, each of which the server can estimate:

    A  what clients agree on: the mean of <p_i, p_j> over pairs of slots with different clients (unbiased; it is
       |mean p|^2 less what independent p_i would give it, I/M);
    N  noise: a slot's u is a sum of random directions, so an axis inside gets L/(1 - alpha) times the energy of an
       axis outside, L = 1 - alpha + alpha n/k being the variance of v inside;
    D  what is left: steady pulls in which clients differ, I - A - N.

Noise does no lasting harm: it is averaged over slots and rounds. Differing pulls do: a stretched slot runs far into
its own client's valley, and x follows whoever was drawn. So the rule looks at D/I, summed over the rounds between two
refreshes: above APART the stretch L is divided by 4, below TOGETHER doubled, and kept between 1 (alpha = 0: isotropic,
Q is not sent) and what the starting weight gives. Steering alpha itself would not do: with n/k = 157, alpha = .02 is
still L = 4. The first basis is judged at once, by the slots of the round before it. At L = 1 clients are watched on;
when they no longer pull apart the stretch comes back.

Where noise hides the pulls, the losses tell: if those at the rounds' x, in the mean between two refreshes, are above
the loss before the first move and above what they were when directions were last isotropic, these stay isotropic for
the rest of the run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from zofedht.common.config.derived_keys import START_WEIGHT
from zofedht.common.typing import Matrix, Vector
from zofedht.server.auto.interventions import Intervention

__all__ = ["Pull", "WeightState", "hear", "observe", "refreshed", "weight_of_stretch"]

_APART = 0.5
_TOGETHER = 0.25
_MORE = 2.0
_LESS = 4.0


@dataclass(frozen=True)
class Pull:
    """Where a slot went, divided by its step: (n,)."""

    client: str
    direction: Vector


@dataclass(frozen=True)
class WeightState:
    """All that the rule remembers: the stretch L (0: no basis yet), the sums of I, A and N since the refresh, the loss
    before the first move (NaN: no round yet), the sum of the rounds' losses since the refresh and their number, their
    mean between two refreshes when directions were last isotropic (0: never yet), and whether stretched ones hurt."""

    stretch: float = 0.0
    inside: float = 0.0
    agreed: float = 0.0
    noise: float = 0.0
    level: float = math.nan
    losses: float = 0.0
    rounds: int = 0
    isotropic: float = 0.0
    hurt: bool = False


def weight_of_stretch(state: WeightState, dimension: int, rank: int) -> float:
    """Return alpha for a basis of ``rank`` columns."""
    if rank >= dimension:
        return START_WEIGHT  # the subspace is everything: C = I whatever the weight
    return min(START_WEIGHT, max(0.0, state.stretch - 1.0) / (dimension / rank - 1.0))


def hear(state: WeightState, loss: float) -> WeightState:
    """Return the state with a round added, at whose x the mean loss of its slots was ``loss``."""
    if not math.isfinite(loss):
        return state
    level = loss if math.isnan(state.level) else state.level
    return replace(state, level=level, losses=state.losses + loss, rounds=state.rounds + 1)


def observe(state: WeightState, basis: Matrix, pulls: Sequence[Pull]) -> WeightState:
    """Return the state with a round added; ``basis`` is Q, (n, k). A round of one client teaches nothing."""
    dimension, rank = basis.shape
    clients = {pull.client: sum(other.client == pull.client for other in pulls) for pull in pulls}
    pairs = len(pulls) ** 2 - sum(count**2 for count in clients.values())
    if not 0 < rank < dimension or pairs == 0:
        return state
    parts = np.stack([basis.T @ pull.direction for pull in pulls])
    whole = parts.sum(axis=0)
    products = float(whole @ whole)
    for client in clients:
        own = parts[[pull.client == client for pull in pulls]].sum(axis=0)
        products -= float(own @ own)
    inside = float(np.mean(np.sum(parts**2, axis=1)))
    everything = float(np.mean([pull.direction @ pull.direction for pull in pulls]))
    weight = weight_of_stretch(state, dimension, rank)
    an_axis_outside = (everything - inside) / (dimension - rank) / (1.0 - weight)
    noise = rank * max(1.0, state.stretch) * an_axis_outside
    sums = (state.inside + inside, state.agreed + products / pairs, state.noise + noise)
    if not np.all(np.isfinite(sums)):
        return state
    return replace(state, inside=sums[0], agreed=sums[1], noise=sums[2])


def _differing(state: WeightState) -> float:
    """D/I, 0 where nothing was observed."""
    return (state.inside - state.agreed - state.noise) / state.inside if state.inside > 0.0 else 0.0


def refreshed(
    state: WeightState, dimension: int, rank_before: int, rank: int
) -> tuple[WeightState, tuple[Intervention, ...]]:
    """Return the state for a new basis, and the change of the weight if there is one."""
    if not 0 < rank < dimension:
        return state, ()
    old = weight_of_stretch(state, dimension, rank_before) if rank_before else 0.0
    loss = state.losses / state.rounds if state.rounds else state.level
    hurt = state.hurt or (old > 0.0 and loss > max(state.level, state.isotropic))
    stretch = 1.0 if hurt else _stretch(state, 1.0 - START_WEIGHT + START_WEIGHT * dimension / rank)
    after = WeightState(stretch, level=state.level, isotropic=state.isotropic if old > 0.0 else loss, hurt=hurt)
    new = weight_of_stretch(after, dimension, rank)
    if new == old or state.stretch == 0.0:
        return after, ()
    shares = f"{max(0.0, _differing(state)):.2f} of the energy there are pulls in which clients differ"
    why = f"{shares}, {state.agreed / state.inside:.2f} are shared" if state.inside > 0.0 else shares
    if hurt:
        why = f"the mean loss rose to {loss:.4g}; it was {state.level:.4g} before the first move"
    return after, (Intervention("subspace-weight", old, new, why),)


def _stretch(state: WeightState, most: float) -> float:
    """Return the stretch that the pulls since the last refresh are for."""
    differing = _differing(state)
    if state.stretch == 0.0:
        return 1.0 if differing > _APART else most
    if state.inside <= 0.0:
        return min(most, state.stretch)
    factor = 1.0 / _LESS if differing > _APART else _MORE if differing < _TOGETHER else 1.0
    return min(most, max(1.0, state.stretch * factor))

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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common.config import START_WEIGHT
from common.typing import Matrix, Vector
from server.interventions import Intervention

__all__ = ["Pull", "WeightState", "observe", "refreshed", "weight_of_stretch"]

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
    """All that the rule remembers: the stretch L (0: no basis yet), and the sums of I, A and N since the refresh."""

    stretch: float = 0.0
    inside: float = 0.0
    agreed: float = 0.0
    noise: float = 0.0


def weight_of_stretch(state: WeightState, dimension: int, rank: int) -> float:
    """Return alpha for a basis of ``rank`` columns."""
    if rank >= dimension:
        return START_WEIGHT  # the subspace is everything: C = I whatever the weight
    return min(START_WEIGHT, max(0.0, state.stretch - 1.0) / (dimension / rank - 1.0))


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
    return WeightState(state.stretch, *sums) if np.all(np.isfinite(sums)) else state


def _differing(state: WeightState) -> float:
    """D/I, 0 where nothing was observed."""
    return (state.inside - state.agreed - state.noise) / state.inside if state.inside > 0.0 else 0.0


def refreshed(
    state: WeightState, dimension: int, rank_before: int, rank: int
) -> tuple[WeightState, tuple[Intervention, ...]]:
    """Return the state for a new basis, and the change of the stretch if there is one."""
    if not 0 < rank < dimension:
        return state, ()
    most = 1.0 - START_WEIGHT + START_WEIGHT * dimension / rank
    if state.stretch == 0.0:
        return WeightState(1.0 if _differing(state) > _APART else most), ()
    if state.inside <= 0.0:
        return WeightState(min(most, state.stretch)), ()
    differing = _differing(state)
    factor = 1.0 / _LESS if differing > _APART else _MORE if differing < _TOGETHER else 1.0
    after = WeightState(min(most, max(1.0, state.stretch * factor)))
    old = weight_of_stretch(state, dimension, rank_before) if rank_before else 0.0
    new = weight_of_stretch(after, dimension, rank)
    if new == old:
        return after, ()
    shares = f"{differing:.2f} of the energy there are pulls in which clients differ, {state.agreed / state.inside:.2f}"
    return after, (Intervention("subspace-weight", old, new, f"{shares} are shared"),)

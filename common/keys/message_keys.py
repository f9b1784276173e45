"""Keys that say what is sent, and what hides it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from zofedht.common.choices import DIRECTIONS, DOWNLINKS, PRIVACIES, UNSAID, UPLINKS, WIRE_DTYPES
from zofedht.common.keys.declaration import key
from zofedht.common.rules import at_least, between, one_of, positive

__all__ = ["MessageKeys"]


@dataclass(frozen=True)
class MessageKeys:
    """Messages and privacy."""

    uplink: str = key(
        UNSAID,
        "what a client sends: its move (n numbers), or its slopes (K numbers), which the server replays; default: the"
        " algorithm's, else move, and slopes in place",
        rule=one_of((UNSAID, *UPLINKS)),
        otherwise=lambda config: "slopes" if config.in_place else "move",
    )
    directions: str = key(
        UNSAID,
        "each slot draws its own directions, or all slots of a round share them; default: the algorithm's, else"
        " per-slot, and shared in place",
        symbol="v_k",
        rule=one_of((UNSAID, *DIRECTIONS)),
        otherwise=lambda config: "shared" if config.in_place else "per-slot",
    )
    downlink: str = key(
        UNSAID,
        "what a client is sent: x, or slopes: the trail from the x that it holds (needs shared directions and slopes"
        " up), or the sums of a pool; default: the algorithm's, else x, and"
        " slopes in place",
        rule=one_of((UNSAID, *DOWNLINKS)),
        otherwise=lambda config: "slopes" if config.in_place else "x",
    )
    snapshot_after: int = key(
        500,
        "in place: a client that joins when the trail is longer by so many step lengths than the one that it holds is"
        " sent the parameters of another client; 0: it always follows the trail",
        unit="step lengths",
        rule=at_least(0),
    )
    wire_dtype: str = key(
        "float64",
        "type in which x, Q and moves are sent; float32 halves them and rounds them",
        rule=one_of(WIRE_DTYPES),
    )
    privacy: str = key(
        "none",
        "who adds noise to the slopes: nobody, each client (local), or the server to the mean of a round (central)",
        rule=one_of(PRIVACIES),
    )
    clip: float = key(
        1.0,
        "largest slope of one sample, or of a batch where F has no values of samples",
        symbol="C",
        rule=positive(),
    )
    noise_multiplier: float = key(
        1.0,
        "standard deviation of the noise, in units of what one row (local) or one client (central) can change",
        symbol="z",
        rule=positive(),
    )
    epsilon: float = key(
        0.0,
        "privacy loss that ends the run before it is exceeded; 0: only told",
        symbol="epsilon",
        rule=at_least(0.0, math.inf),
    )
    delta: float = key(
        1e-5, "probability with which the privacy loss may exceed epsilon", symbol="delta", rule=between(1e-300, 0.5)
    )
    least_samples: int = key(
        0,
        "fewest samples of a shard that may answer; the accountant takes batch-size of so many as the sampling rate; 0:"
        " any shard, and no sampling is counted",
        unit="samples",
        rule=at_least(0),
    )
    secure_aggregation: bool = key(
        False,
        "whether the server sees only the sum of a round's slopes, by masks that the clients agree on",
        rule=between(0, 1),
    )
    share_threshold: int = key(
        0,
        "clients of a round that must stay until its sum is unmasked; fewer cannot unmask another; 0: two thirds",
        unit="slots",
        rule=at_least(0),
    )
    slope_range: float = key(
        1000.0, "largest slope under secure aggregation; slopes are rounded to 2^-40 of it", rule=positive()
    )

"""The algorithm table: every algorithm takes x <- x - eta sum_j c_j v_j and differs in a row.

To add one, add a row here, and at most one function (a law of v in ``directions/law.py``, a slope in
``directions/slopes.py``, or a step of the server in ``server/rows/server_step.py``). docs/family.md has each row's
recipe. The table stays in one module, however long: who adds a row compares it with all others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from zofedht.common.choices import UPLINKS

__all__ = ["ALGORITHMS", "LEAST", "Algorithm", "first_population"]

LEAST = 2
"""The fewest sites that a generation of CMA-ES asks, where there are as many."""


def first_population(dimension: int) -> int:
    """Return lambda of CMA-ES, the candidates of a generation: 4 + floor(3 ln n), Hansen 2016, eq. 48."""
    return 4 + math.floor(3.0 * math.log(dimension))


@dataclass(frozen=True)
class Algorithm:
    """One row: where directions come from, what data a step sees, and the values of keys that nobody gives."""

    name: str
    law: str  # of directions, one of LAWS
    data: Literal["minibatch", "shard"]
    summary: str
    source: str = ""  # where its recipe is from, as in docs/family.md
    uplinks: tuple[str, ...] = UPLINKS
    warm_up: float = 0.0  # part of the rounds, unless the key of this name says otherwise
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)  # by field name of the config
    own: Mapping[str, Any] = field(default_factory=dict, hash=False)  # other ones, for an objective of somebody's own
    asks: Literal["steps", "points"] = "steps"  # what a slot is to do: take local steps, or evaluate F at points
    most_parameters: int = 0  # n at most; 0: any number
    learns: str = ""  # what the server makes a guide of in every round, if anything

    @property
    def asks_points(self) -> bool:
        """Whether slots evaluate F at the server's points, and the server alone searches."""
        return self.asks == "points"

    @property
    def shrinks(self) -> bool:
        """Whether directions shrink along what objectives name as stiff."""
        return self.law == "shrunk"

    @property
    def follows_trajectory(self) -> bool:
        """Whether the server keeps moves and ships a basis Q."""
        return self.law in ("trajectory", "either")

    @property
    def learns_guide(self) -> bool:
        """Whether the server makes a new guide of every round."""
        return bool(self.learns)

    @property
    def low_rank(self) -> bool:
        """Whether directions have a low rank in blocks of parameters."""
        return self.law in ("lowrank", "subspace-core")

    @property
    def pools(self) -> bool:
        """Whether directions are candidates of a pool, whose sums tell x."""
        return self.law in ("pool", "weighted-pool")


def _isotropic(name: str, summary: str, source: str, **defaults: Any) -> Algorithm:
    """A row that is a set of keys: isotropic directions and minibatches."""
    return Algorithm(name, "isotropic", "minibatch", summary, source, defaults=defaults)


_ALONG_SHARED = {"directions": "shared", "uplink": "slopes", "downlink": "slopes"}

_FRAMES = {
    "probe": "frame", "slopes_per_step": 200, "local_steps": 1, "directions": "shared", "uplink": "slopes",
    "sampling": "without-replacement",
}  # fmt: skip

_BY_SUMS = {"radius": 5e-4, "uplink": "slopes", "downlink": "slopes"}

ALGORITHMS = {
    row.name: row
    for row in (
        Algorithm(
            "zofedht",
            "trajectory",
            "minibatch",
            "directions stretched along the last moves (Algorithm 1)",
            "arXiv 2409.15955, algorithm 1",
        ),
        Algorithm("zofedavg-sgd", "isotropic", "minibatch", "isotropic directions, minibatch slopes"),
        Algorithm(
            "zofed-shrink",
            "shrunk",
            "minibatch",
            "forward slopes on one value, shrunk along the stiff directions that objectives name",
            warm_up=0.09,
            defaults={"slope": "forward", "slopes_per_step": 9, "local_steps": 10},
            # A quarter of the variance, where F has noise; and one slope a step falls faster where it has none.
            own={"slope": "central", "slopes_per_step": 1, "local_steps": 50},
        ),
        Algorithm("zofedavg-gd", "isotropic", "shard", "isotropic directions, slopes on the whole shard"),
        Algorithm(
            "fedavg",
            "isotropic",
            "minibatch",
            "the first-order yardstick: local steps along the gradients of a built-in model",
            "McMahan et al. 2017, algorithm 1",
            uplinks=("move",),
            defaults={"slope": "gradient"},
        ),
        _isotropic(
            "fedzo",
            "several forward slopes on one value, along a sphere",
            "Fang et al. 2022",
            slope="forward", slopes_per_step=20, probe="sphere", local_steps=20, sampling="without-replacement",
        ),
        _isotropic(
            "fedrzo",
            "fedzo with one slope a step and a large radius, for an F that is not smooth",
            "Qiu et al. 2023",
            slope="forward", probe="sphere", local_steps=20, radius=0.1,
        ),
        _isotropic(
            "rsgf",
            "one forward slope a round",
            "Ghadimi and Lan 2013, eq. 3.12 and 3.13",
            slope="forward", local_steps=1,
        ),
        _isotropic(
            "spsa", "one central slope along signs a round", "Spall 1992", probe="rademacher", local_steps=1
        ),
        _isotropic(
            "mezo", "one central slope a round", "Malladi et al. 2023, eq. 1, algorithm 1", radius=1e-3, local_steps=1
        ),
        _isotropic(
            "mezo-svrg",
            "mezo whose slopes are corrected by those at the start of the slot, on the same samples",
            "Gautam et al. 2024",
            radius=1e-3, local_steps=2, correction="svrg",
        ),
        _isotropic(
            "fedmezo", "zofedavg-sgd with mezo's radius", "Ling et al. 2024, eq. 3 and 4", radius=1e-3
        ),
        _isotropic(
            "decomfl",
            "forward slopes along shared directions, up and down as numbers",
            "Li et al. 2025, eq. 3, algorithms 1 and 2",
            slope="forward", slopes_per_step=10, radius=1e-3, local_steps=1, **_ALONG_SHARED,
        ),
        _isotropic(
            "fzoo",
            "forward slopes along signs, divided by their standard deviation",
            "Dang et al. 2025, proposition 3.2",
            slope="forward", slopes_per_step=8, probe="rademacher", radius=1e-3, local_steps=1, slope_scale="spread",
        ),
        Algorithm(
            "guided-es",
            "trajectory",
            "minibatch",
            "central slopes, half of each along the last move",
            "Maheswaranathan et al. 2019",
            defaults={"memory": 1, "subspace_weight": 0.5, "local_steps": 1},
        ),
        Algorithm(
            "sges",
            "either",
            "minibatch",
            "central slopes, each along the last moves or across them",
            "Liu et al. 2020",
            defaults={"subspace_weight": 0.5, "refresh": 1, "local_steps": 1},
        ),
        Algorithm(
            "conmezo",
            "cone",
            "minibatch",
            "central slopes in a cone around the smoothed moves",
            "Behric et al. 2025",
            learns="moves",
            defaults={"radius": 1e-3, "local_steps": 1},
        ),
        Algorithm(
            "hiso",
            "diagonal",
            "minibatch",
            "decomfl with directions scaled by the squares of earlier slopes",
            "Li et al. 2026, eq. 8 to 10 and 12, algorithm 1",
            learns="squares",
            defaults={
                "slope": "forward", "slopes_per_step": 10, "radius": 1e-3, "local_steps": 1,
                "directions": "shared", "uplink": "slopes", "guide_decay": 0.95,
            },
        ),
        Algorithm(
            "hizoo",
            "diagonal",
            "minibatch",
            "three-point slopes, directions scaled by the sizes of curvatures",
            "Zhao et al. 2025, eq. 3 and 5, algorithm 1",
            learns="curvature-sizes",
            defaults={"slope": "three-point", "radius": 1e-3, "local_steps": 1},
        ),
        Algorithm(
            "zoha",
            "diagonal",
            "minibatch",
            "three-point slopes, directions scaled by the diagonal of the Hessian",
            "Ye et al. 2018, its diagonal",
            learns="curvatures",
            defaults={
                "slope": "three-point", "slopes_per_step": 10, "radius": 1e-3, "local_steps": 1, "guide_floor": 0.01,
            },
        ),
        Algorithm(
            "meerkat",
            "subset",
            "minibatch",
            "central slopes of few parameters, those that moved farthest in the first rounds",
            "Ran et al. 2026",
            learns="subset",
            defaults={"radius": 1e-3, "local_steps": 10, "uplink": "slopes"},
        ),
        Algorithm(
            "lozo",
            "lowrank",
            "minibatch",
            "central slopes along matrices of low rank, one of whose sides stays for some rounds",
            "Chen et al. 2025",
            defaults={"radius": 1e-3, "local_steps": 1, "refresh": 50},
        ),
        Algorithm(
            "subzero",
            "subspace-core",
            "minibatch",
            "central slopes along matrices of low rank, both of whose sides stay for some rounds",
            "Yu et al. 2025, algorithm 3",
            defaults={"radius": 1e-3, "local_steps": 1, "refresh": 50},
        ),
        Algorithm(
            "fedkseed",
            "pool",
            "minibatch",
            "central slopes along candidates of a pool, summed by candidate",
            "Qin et al. 2024",
            defaults=_BY_SUMS,
        ),
        Algorithm(
            "fedkseed-pro",
            "weighted-pool",
            "minibatch",
            "fedkseed that draws candidates of large slopes more often",
            "Qin et al. 2024",
            uplinks=("slopes",),
            learns="chances",
            defaults=_BY_SUMS,
        ),
        _isotropic(
            "zo-sign",
            "the sign of the mean of the slopes' estimates",
            "Liu et al. 2019, algorithm 1",
            slope="forward", slopes_per_step=10, local_steps=1,
            server_step="adam", server_momentum=0.0, server_decay=0.0, server_floor=0.0,
        ),
        _isotropic(
            "zo-momentum",
            "momentum on the mean of one slope a slot",
            "Zhang et al. 2024 (ZO-SGD-MMT)",
            radius=1e-3, local_steps=1, server_step="momentum",
        ),
        _isotropic(
            "zo-adam",
            "adam on the mean of one slope a slot",
            "Zhang et al. 2024 (ZO-Adam)",
            radius=1e-3, local_steps=1, server_step="adam", server_decay=0.999, server_floor=1e-8,
        ),
        _isotropic(
            "r-adazo",
            "adam whose second moment is that of the smoothed mean",
            "Shu et al. 2025, algorithm 2",
            local_steps=1, server_step="refined-adam", server_decay=0.999, server_floor=1e-8,
        ),
        Algorithm(
            "fedzen",
            "isotropic",
            "shard",
            "three-point slopes along frames that all clients share, and newton steps of the Hessian learnt from them",
            "Maritan et al. 2023",
            most_parameters=200,
            defaults={"slope": "three-point", "radius": 1e-3, "server_step": "newton"} | _FRAMES,
        ),
        Algorithm(
            "adaptive-qn",
            "isotropic",
            "minibatch",
            "forward slopes along frames that all slots share, L-BFGS steps from pairs on the same samples, and batches"
            " that grow",
            "Bollapragada and Wild 2023",
            most_parameters=200,
            defaults={"slope": "forward", "server_step": "quasi-newton", "batch_growth": 0.9} | _FRAMES,
        ),
        _isotropic(
            "zo-scaffold",
            "zofedavg-sgd whose slopes are corrected by what the server knows of each client's gradient",
            "Karimireddy et al. 2020, eq. 3 to 5, with slopes",
            correction="control",
        ),
        _isotropic(
            "zo-mgt",
            "the mean of all clients' momenta, each of central slopes along signs",
            "Su et al. 2026",
            probe="rademacher", local_steps=1, server_step="tracking",
        ),
        Algorithm(
            "fzoos",
            "isotropic",
            "shard",
            "steps along the gradient of a Gaussian process that each client fits to the last values of its F,"
            " corrected by what the others know",
            "Shu et al. 2023, algorithm 2",
            uplinks=("move",),
            most_parameters=300,
            defaults={
                "slope": "surrogate", "slopes_per_step": 5, "local_steps": 10, "radius": 0.01, "memory": 150,
            },
        ),
        _isotropic(
            "fedadam", "zofedavg-sgd with adam on the server", "Reddi et al. 2021, algorithm 2", server_step="adam"
        ),
        _isotropic(
            "fedyogi", "zofedavg-sgd with yogi on the server", "Reddi et al. 2021, algorithm 2", server_step="yogi"
        ),
        _isotropic(
            "fedadagrad",
            "zofedavg-sgd with adagrad on the server",
            "Reddi et al. 2021, algorithm 2",
            server_step="adagrad", server_momentum=0.0,
        ),
        Algorithm(
            "cma-es",
            "isotropic",
            "minibatch",
            "evaluations at the candidates of CMA-ES, of as many clients as their spread calls for",
            "Hansen 2016, eq. 41 to 56; Nomura et al. 2023 under noise",
            asks="points",
            most_parameters=200,
        ),
        Algorithm(
            "lbfgs",
            "isotropic",
            "shard",
            "L-BFGS-B on forward differences of all clients, for smooth F without noise, to where no step leads lower",
            "Byrd et al. 1995, by SciPy",
            asks="points",
            most_parameters=200,
        ),
        Algorithm(
            "auto",
            "isotropic",
            "minibatch",
            "a look at the start, then cma-es or, where F is smooth and without noise, lbfgs",
            asks="points",
            most_parameters=200,
        ),
    )
}  # fmt: skip
"""Rows by name, the value of the run config key ``algorithm``."""

"""The benchmark of learnt directions compares equal evaluations, and hides what models name."""

from __future__ import annotations

import numpy as np

from benchmarks.methods.learnt_shrink import KINDS, Silent
from tests.common.samples import model
from zofedht.common.config.run_config import RunConfig
from zofedht.server.rows.learnt_shrink import schedule


def test_all_kinds_spend_the_same_evaluations() -> None:
    spent = {}
    for kind, (keys, known) in KINDS.items():
        config = RunConfig.from_mapping(
            {"algorithm": "zofed-shrink", "clients-per-round": 10, "num-clients": 100} | keys
        )
        learns = known is Silent and config.shrink < 1.0
        spent[kind] = config.rounds + (len(schedule(config, 65)) if learns else 0)
    assert set(spent.values()) == {104}


def test_a_silent_objective_names_nothing_and_is_the_same_function() -> None:
    inner = model("logistic")
    x = np.linspace(-1.0, 1.0, inner.dim)
    assert inner.stiff(x) is not None
    assert Silent(inner).stiff(x) is None
    assert Silent(inner).value(x, slice(3)) == inner.value(x, slice(3))

"""Steps that are corrected by those at x: their formula, and noise that goes as w comes back to x."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.common.samples import model
from tests.helpers import quadratics, small, spec
from zofedht.client.plan import Plan
from zofedht.client.steps.svrg_steps import svrg_steps
from zofedht.common.config.run_config import RunConfig
from zofedht.common.directions.law import law_of
from zofedht.common.directions.slopes import probes
from zofedht.common.errors import ConfigError
from zofedht.common.random.streams import Address
from zofedht.server.inprocess import run_in_process


def config(**keys: Any) -> RunConfig:
    return small(**({"algorithm": "mezo-svrg"} | keys))


@pytest.mark.parametrize("slope", ["central", "forward"])
@pytest.mark.parametrize("q", [1, 3])
def test_steps_follow_the_published_formula(slope: str, q: int) -> None:
    """theta <- theta - eta [g(theta; batch) - g(x; batch) + g(x; all)], each g = c v summed over q."""
    objective = model("logistic")
    asked = spec(local_steps=4, batch_size=5, slope=slope, slopes_per_step=q, correction="svrg", step_size=0.3)
    plan = Plan(asked, law_of(asked, objective.dim), Address(1, 2, 3))
    x = np.linspace(-1.0, 1.0, objective.dim)
    move, slopes, _ = svrg_steps(objective, x, plan)

    def estimate(w: Any, v: Any, batch: Any) -> Any:
        return probes(objective, w, v, asked.radius, batch, slope).slopes @ v

    directions = list(plan.steps(objective.dim))
    whole = estimate(x, directions[0], slice(None))
    w = x - 0.3 * whole
    for v, batch in list(zip(directions, plan.batches(len(objective)), strict=True))[1:]:
        w = w - 0.3 * (estimate(w, v, batch) - estimate(x, v, batch) + whole)
    np.testing.assert_allclose(move, w - x, rtol=1e-10)
    np.testing.assert_allclose(-0.3 * slopes @ np.concatenate(directions), move, rtol=1e-10)


def test_the_noise_of_samples_cancels() -> None:
    """All samples of a quadratic bend alike, so corrected steps of one sample each end at the optimum."""
    objective = quadratics(1, rows=40)[0]
    keys = {"num_clients": 1, "clients_per_round": 1, "batch_size": 1, "rounds": 600, "step_schedule": "constant"}
    keys |= {"step_size": 0.015}  # a step repeats that on the whole shard K times, so K eta |v|^2 must be below 2
    optimum = objective.centres.mean(axis=0)  # type: ignore[attr-defined]
    apart = {
        name: np.linalg.norm(run_in_process(config(algorithm=name, **keys), [objective]).state.x - optimum)
        for name in ("mezo-svrg", "mezo")
    }
    assert apart["mezo-svrg"] < 1e-4
    assert apart["mezo"] > 0.5


def test_what_would_break_the_correction_is_refused() -> None:
    for keys in ({"slope": "gradient"}, {"slope_scale": "spread", "slopes_per_step": 2}, {"on_error": "skip-step"}):
        with pytest.raises(ConfigError, match="svrg"):
            config(**keys)

"""Every row of the table: its run resumes, its slopes lead where its moves lead, and aliases are what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.common.samples import BlackBox
from tests.helpers import quadratics, small
from zofedht.common.algorithms import ALGORITHMS
from zofedht.common.config.run_config import RunConfig
from zofedht.common.directions.law import law_of, slot_directions
from zofedht.common.errors import ConfigError, RoundError
from zofedht.common.random.streams import Address
from zofedht.common.typing import Matrix, Vector
from zofedht.server.core.state import ServerState
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import RunFolder

ROWS = sorted(name for name, row in ALGORITHMS.items() if not row.asks_points)
ALONG_SLOPES = [name for name in ROWS if "slopes" in ALGORITHMS[name].uplinks]
SHORT = {"num-clients": 4, "clients-per-round": 3, "rounds": 7, "batch-size": 3, "step-size": 0.01, "seed": 11}
"""All that is not the row's."""


def config(name: str, **keys: Any) -> RunConfig:
    return RunConfig.from_mapping(own(name)).replace(**keys)


def own(name: str) -> dict[str, Any]:
    """What a run of the row is given; newton steps need all clients."""
    everybody = ALGORITHMS[name].defaults.get("server_step") == "newton"
    return SHORT | {"algorithm": name} | ({"clients-per-round": 4} if everybody else {})


def state(name: str, **keys: Any) -> ServerState:
    return run_in_process(config(name, **keys), quadratics()).state


def x(name: str, **keys: Any) -> Vector:
    return state(name, **keys).x


@pytest.mark.parametrize("name", ROWS)
def test_a_row_brings_its_defaults_and_what_is_named_wins(name: str) -> None:
    row = ALGORITHMS[name]
    assert {key: getattr(config(name), key) for key in row.defaults} == row.defaults
    assert config(name, radius=0.25).radius == 0.25
    for key, value in row.defaults.items():
        said = config(name).to_mapping()[key.replace("_", "-")]
        assert said == "default", key
        assert RunConfig.from_mapping(own(name) | row_keys(row.defaults))
        assert value is not None
    assert config(name).replace(algorithm="zofedavg-sgd", clients_per_round=3) == config("zofedavg-sgd")


def row_keys(defaults: Any) -> dict[str, Any]:
    return {key.replace("_", "-"): value for key, value in defaults.items()}


@pytest.mark.parametrize("name", [name for name in ROWS if ALGORITHMS[name].law == "isotropic"])
def test_an_alias_is_the_plain_row_with_its_keys(name: str) -> None:
    if ALGORITHMS[name].data == "minibatch":
        assert x(name).tobytes() == x("zofedavg-sgd", **ALGORITHMS[name].defaults).tobytes()


@pytest.mark.parametrize("name", ROWS)
def test_a_resumed_run_of_a_row_equals_an_uninterrupted_one(name: str, tmp_path: Path) -> None:
    whole = config(name, step_schedule="constant", dataset="digits", train_rows=300, warm_up=2, checkpoint_every=1)
    folder = RunFolder(tmp_path)
    folder.begin(whole.replace(rounds=3), "in-process")
    run_in_process(whole.replace(rounds=3), folder=folder)
    longer, kept, _ = folder.reopen({"rounds": 7})
    assert (
        run_in_process(longer, folder=folder, state=kept).state.x.tobytes() == run_in_process(whole).state.x.tobytes()
    )


@pytest.mark.parametrize("name", [name for name in ROWS if len(ALGORITHMS[name].uplinks) == 2])
def test_slopes_of_a_row_lead_where_its_moves_lead(name: str) -> None:
    shared = {"directions": "shared", "downlink": "x"}
    moves, slopes = (x(name, uplink=uplink, **shared) for uplink in ("move", "slopes"))
    np.testing.assert_allclose(slopes, moves, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in ALONG_SLOPES if config(name).server_step == "mean"])
def test_clients_follow_a_row_by_slopes_alone(name: str) -> None:
    shared = {"directions": "shared", "uplink": "slopes"}
    ends = [x(name, downlink=downlink, **shared).tobytes() for downlink in ("x", "slopes")]
    assert ends[0] == ends[1]


@pytest.mark.parametrize("name", ROWS)
def test_a_row_charges_what_its_steps_ask(name: str) -> None:
    one = config(name)
    q = one.fitted(12).slopes_per_step
    points = {"forward": q + 1, "central": 2 * q, "three-point": 2 * q + 1, "gradient": 3, "surrogate": 1}[one.slope]
    batch = one.batch_size if ALGORITHMS[name].data == "minibatch" else 6
    asked = state(name, num_clients=1, clients_per_round=1).totals.evaluations
    samples = one.local_steps * batch
    if one.correction == "svrg":  # the shard once, and then each batch at w and at x
        samples = 6 + 2 * (one.local_steps - 1) * batch
    if one.slope == "surrogate":  # x and 50 around it, K of the way, and q around each but the last
        samples = (51 + one.local_steps + q * (one.local_steps - 1)) * batch
    rounds = 7
    if one.server_step == "quasi-newton":  # but for the first round each measures at the x before as well
        rounds += 6
    assert asked == rounds * points * samples


@pytest.mark.parametrize("name", ["lozo", "subzero"])
def test_blocks_move_by_one_rank_between_refreshes(name: str) -> None:
    """Rank 1: the sides stay for three rounds, so x, which begins at 0, gains one rank in three."""
    blocks: list[Matrix] = []
    one = config(name, blocks="3x4", rank=1, refresh=3)
    run_in_process(one, quadratics(), observers=[lambda state, record: blocks.append(state.x.reshape(3, 4))])
    assert [np.linalg.matrix_rank(block, tol=1e-9) for block in blocks] == [1, 1, 1, 2, 2, 2, 3]


def test_meerkat_sends_its_slopes_alone() -> None:
    assert config("meerkat").uplink == "slopes"
    assert x("meerkat", refresh=2).tobytes() != x("meerkat", refresh=2, subset_share=1.0).tobytes()


def test_signs_are_what_zo_sign_moves_by() -> None:
    states: list[ServerState] = []
    run_in_process(config("zo-sign"), quadratics(), observers=[lambda state, record: states.append(state)])
    step = np.abs(states[1].x - states[0].x)
    np.testing.assert_allclose(step, config("zo-sign").server_rate, rtol=1e-10)


def test_guided_directions_have_the_published_covariance() -> None:
    """a I / n + (1-a) U U^T / k of Maheswaranathan et al., eq. 1, times n: their a is 1 minus ours."""
    one, dimension = config("guided-es"), 8
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((dimension, 1)))[0]
    spec = one.step_spec(step_size=0.1, subspace_weight=one.subspace_weight, subspace_gain=dimension / 1)
    v = np.concatenate(list(slot_directions(law_of(spec, dimension, basis), 40_000, Address(0, 0, 0))))
    published = dimension * (0.5 * np.eye(dimension) / dimension + 0.5 * basis @ basis.T)
    np.testing.assert_allclose(v.T @ v / len(v), published, atol=5 * 6.0 / np.sqrt(len(v)))


@pytest.mark.parametrize("refresh", [1, 2, 3])
def test_the_basis_is_made_anew_every_refresh(refresh: int) -> None:
    versions: list[int] = []
    keys = {"memory": 2, "refresh": refresh}
    run_in_process(small(**keys), quadratics(), observers=[lambda state, record: versions.append(state.basis_version)])
    made = [round_ if round_ % refresh == 0 else None for round_ in range(1, 8)]
    assert versions == [max((m for m in made[:end] if m), default=-1) for end in range(1, 8)]
    down = {"uplink": "slopes", "directions": "shared"}
    ends = {x("zofedht", **keys, **down, downlink=downlink).tobytes() for downlink in ("x", "slopes")}
    assert len(ends) == 1


def test_fedzo_steps_by_the_published_formula() -> None:
    """n / (mu q) sum_j (F(x + mu u_j) - F(x)) u_j with unit u_j: mu is ours times sqrt(n), eta ours times q."""
    objective = quadratics()[0]
    one = config("fedzo", num_clients=1, clients_per_round=1, rounds=1, local_steps=1, batch_size=0, radius=1e-3)
    moved = run_in_process(one, [objective]).state.x
    dimension, q = objective.dim, one.slopes_per_step
    (v,) = slot_directions(law_of(one.step_spec(step_size=0.01), dimension), q, Address(one.seed, 0, 0))
    u, mu, eta = v / np.sqrt(dimension), 1e-3 * np.sqrt(dimension), 0.01 * q
    rows = slice(None)
    origin = objective.value(np.zeros(dimension), rows)
    estimate = sum(dimension / (mu * q) * (objective.value(mu * each, rows) - origin) * each for each in u)
    np.testing.assert_allclose(moved, -eta * estimate, rtol=1e-6)


def test_fedavg_is_gradient_descent_on_whole_shards() -> None:
    """One client, K steps: w <- w - eta (w - mean row) for this quadratic."""
    objective = quadratics()[0]
    one = config("fedavg", num_clients=1, clients_per_round=1, rounds=1, local_steps=5, batch_size=0, step_size=0.3)
    centre = objective.centres.mean(axis=0)  # type: ignore[attr-defined]
    np.testing.assert_allclose(run_in_process(one, [objective]).state.x, (1 - 0.7**5) * centre, rtol=1e-12)


def test_fedavg_needs_a_model_with_gradients() -> None:
    with pytest.raises(ConfigError, match="for an objective of your own, got 'gradient': only built-in models"):
        config("fedavg", objective="valve:make")
    with pytest.raises(ConfigError, match="uplink must be move where slope is gradient"):
        config("zofedavg-sgd", slope="gradient", uplink="slopes")
    with pytest.raises(ConfigError, match="slope must be central or forward with zofedht"):
        config("zofedht", slope="gradient")
    with pytest.raises(RoundError, match="this objective has no gradient"):
        run_in_process(config("fedavg"), [BlackBox(inner) for inner in quadratics()])

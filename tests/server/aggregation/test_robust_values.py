"""Sites that lie about values of F: robust tables, and searches that bear them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from zofedht import ConfigError, run
from zofedht.common.config.run_config import RunConfig
from zofedht.common.typing import Vector
from zofedht.server.aggregation.combine import summed_outliers
from zofedht.server.aggregation.robust_values import robust_table, spreads_of
from zofedht.server.records.history import read_history
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.terminal.summary import summary_text

_SITES = 7
_CENTRES = np.linspace(-0.3, 0.3, _SITES)
_BEST = np.array([0.7, -0.4])


def _honest(index: int) -> Any:
    """Return F of a site: its own level and place; over all sites the least mean is at _BEST."""
    return lambda x: float(np.sum((x - _BEST - _CENTRES[index]) ** 2)) + 10.0 * index


_LIES: dict[str, Any] = {
    "another sign, longer": lambda value, x: -1000.0 * value,
    "a place of its own": lambda value, x: 1e4 * float(np.sum((x - 5.0) ** 2)),
    "vast": lambda value, x: 1e99 * float(np.sum(x)),
    "noise": lambda value, x: 1e3 * float(np.sin(1e9 * float(np.sum(x)))),
    "one value": lambda value, x: -1e6,
}


def _sites(liars: int, lie: str) -> list[Any]:
    def site(index: int) -> Any:
        honest = _honest(index)
        return (lambda x: _LIES[lie](honest(x), x)) if index < liars else honest

    return [site(index) for index in range(_SITES)]


def _far(liars: int, lie: str, **keys: Any) -> float:
    """Return how far x ends from where the mean of honest sites is least."""
    x: Vector = run(_sites(liars, lie), np.zeros(2), seed=1, rounds=50, **keys).x
    return float(np.linalg.norm(x - _BEST))


@pytest.mark.parametrize("lie", _LIES)
@pytest.mark.parametrize(
    ("algorithm", "rule"),
    [("cma-es", "median"), ("lbfgs", "median"), ("auto", "trimmed-mean"), ("cma-es", "trimmed-mean")],
)
def test_a_search_bears_two_liars_of_seven(algorithm: str, rule: str, lie: str):
    assert _far(2, lie, algorithm=algorithm, aggregation=rule) < 0.5


def test_the_mean_does_not():
    assert _far(1, "a place of its own", algorithm="cma-es") > 1.0


@pytest.mark.parametrize("rule", ["trimmed-mean", "median"])
def test_honest_sites_end_near_the_mean(rule: str):
    assert _far(0, "vast", algorithm="cma-es", aggregation=rule) < 0.05


def test_a_liar_is_named(tmp_path: Any):
    run(_sites(1, "another sign, longer"), np.zeros(2), rounds=10, algorithm="cma-es", out=tmp_path / "run")
    told = summed_outliers(read_history(tmp_path / "run" / "history.jsonl"))
    assert set(told) == {"0"}
    assert told["0"]["slots"] >= 2
    assert told["0"]["times"] > 100
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["outliers"] == told
    text = summary_text(summary, RunFolder(tmp_path / "run"))
    assert "client 0 spread its values " in text
    assert "if that is not to be trusted: aggregation=median or trimmed-mean" in text
    assert "Client 0 spread its values " in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize("seed", range(5))
def test_columns_of_a_robust_table_have_the_means_of_the_rule(seed: int):
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((7, 5))
    centred = table - np.median(table, axis=1, keepdims=True)
    trimmed = np.sort(centred, axis=0)[2:-2].mean(axis=0) + np.sort(np.median(table, axis=1))[2:-2].mean()
    assert np.allclose(robust_table("trimmed-mean", table, 2).mean(axis=0), trimmed)
    middle = np.median(centred, axis=0) + np.median(np.median(table, axis=1))
    assert np.allclose(robust_table("median", table, 2).mean(axis=0), middle)
    assert robust_table("mean", table, 2) is table


def test_lost_answers_stay_lost():
    table = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan], [2.0, 3.0, 1e9], [1.5, 2.5, 3.5]])
    robust = robust_table("median", table, 1)
    assert np.array_equal(np.isnan(robust), np.isnan(table))
    assert np.all(robust[~np.isnan(robust)] < 10.0)


def test_spreads_do_not_depend_on_levels():
    table = np.outer(np.ones(5), np.arange(7.0)) + 100.0 * np.arange(5.0)[:, None]
    table[3] *= -31.0
    assert spreads_of(table).tolist() == [2.0, 2.0, 2.0, 62.0, 2.0]


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (
            {"aggregation": "krum"},
            "must be mean, trimmed-mean, median for algorithm cma-es, got 'krum': the other rules",
        ),
        ({"aggregation": "trimmed-mean", "tolerate": 3}, "tolerate must be less than half of num-clients = 6"),
        ({"aggregation": "median", "return_x": "best"}, "return-x must be last"),
    ],
)
def test_what_cannot_bear_liars_is_refused(keys: dict[str, Any], sentence: str):
    with pytest.raises(ConfigError, match=sentence):
        RunConfig().replace(algorithm="cma-es", objective="a:b", num_clients=6, **keys)

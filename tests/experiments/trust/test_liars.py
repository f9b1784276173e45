"""The table of lying clients: honest runs are those of the engine, and rules bear what the mean does not."""

from __future__ import annotations

import pytest

from zofedht.common.choices import AGGREGATIONS
from zofedht.experiments.__main__ import main
from zofedht.experiments.trust.liars import LIES, Panel, final_loss
from zofedht.server.inprocess import run_in_process

_SHORT = Panel(rounds=20)


def test_without_liars_the_run_is_the_engines():
    config = _SHORT.config("mean", 0)
    assert final_loss(config, 0, "x-10") == run_in_process(config).final["train_loss"]


@pytest.mark.parametrize("uplink", ["move", "slopes"])
@pytest.mark.parametrize("rule", [rule for rule in AGGREGATIONS if rule not in ("mean", "krum")])
def test_a_rule_is_near_the_mean_among_honest_clients_and_bears_one_liar(rule: str, uplink: str):
    """Within 3% of the mean, and within 10% of honest with one liar, whatever it sends.

    Twenty rounds of digits dealt iid, seed 0: the losses are the same in each run of this test.
    """
    panel = Panel(rounds=20, uplink=uplink)
    mean = final_loss(panel.config("mean", 0), 0, "x-10")
    honest = final_loss(panel.config(rule, 0), 0, "x-10")
    assert honest < 1.03 * mean
    for lie in LIES:
        assert final_loss(panel.config(rule, 0), 1, lie) < 1.10 * honest, lie


def test_the_mean_bears_no_liar():
    config = _SHORT.config("mean", 0)
    assert final_loss(config, 1, "x-10") > 5.0 * final_loss(config, 0, "x-10")


def test_krum_bears_three_liars():
    config = _SHORT.config("krum", 0)
    assert final_loss(config, 3, "x-1000") < 1.1 * final_loss(config, 0, "x-1000")


def test_the_command_prints_a_row_for_each_rule(capsys: pytest.CaptureFixture[str]):
    assert main(["liars", "--rounds", "2", "--seeds", "1"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows[4:]] == list(AGGREGATIONS)

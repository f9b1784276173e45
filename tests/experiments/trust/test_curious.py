"""What a curious server rebuilds: rows from small batches, nothing but their mean from the whole shard."""

from __future__ import annotations

import numpy as np
import pytest

from zofedht.experiments.__main__ import main
from zofedht.experiments.trust.curious import made_up_rows, rebuilt_rows, spy

_DATA = made_up_rows()  # 8 rows of 20 numbers


@pytest.mark.parametrize("batch", [1, 4, 8])
def test_batches_give_every_row_away(batch: int):
    assert rebuilt_rows(_DATA, spy(_DATA, batch, slopes=400)) == 8


def test_the_whole_shard_gives_its_mean_gradient_alone():
    spied = spy(_DATA, batch=0, slopes=400)
    assert rebuilt_rows(_DATA, spied) == 0
    mean = np.mean((0.5 - _DATA.target)[:, None] * _DATA.features, axis=0)
    np.testing.assert_allclose(np.mean(spied.gradients, axis=0), mean, atol=1e-6)


def test_fewer_slopes_than_numbers_do_not_suffice():
    assert rebuilt_rows(_DATA, spy(_DATA, batch=1, slopes=100)) == 0


def test_noise_on_slopes_spoils_the_rows():
    assert rebuilt_rows(_DATA, spy(_DATA, batch=1, slopes=400, noise=0.1)) == 0


def test_the_command_prints_the_table(capsys: pytest.CaptureFixture[str]):
    assert main(["curious"]) == 0
    assert "| batch of 1 | 400 | 8 |" in capsys.readouterr().out

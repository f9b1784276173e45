"""A pool of candidate directions: the same for every slot, drawn with the chances that it is given."""

from __future__ import annotations

import numpy as np
import pytest

from zofedht.common.directions import pool
from zofedht.common.directions.law import DirectionLaw, slot_directions
from zofedht.common.directions.pool import chances_of, drawn_candidates
from zofedht.common.random.streams import Address
from zofedht.common.typing import Matrix

_N, _S = 7, 5


def _drawn(
    law: DirectionLaw, count: int = 40, address: Address | None = None, block_bytes: int | None = None
) -> Matrix:
    return np.concatenate(list(slot_directions(law, 40, address or Address(1, 2, 3), block_bytes=block_bytes)))


@pytest.mark.parametrize("probe", ["gaussian", "rademacher", "sphere"])
def test_all_slots_draw_from_one_pool(probe: str) -> None:
    law = DirectionLaw(_N, law="pool", pool_size=_S, probe=probe)
    slots = [_drawn(law, address=Address(1, round_, slot)) for round_ in (0, 9) for slot in (0, 4)]
    candidates = np.unique(np.concatenate(slots), axis=0)
    assert len(candidates) == _S
    assert len({tuple(map(tuple, slot)) for slot in slots}) == 4
    assert not np.isin(_drawn(law, address=Address(2, 0, 0)), candidates).any() or probe == "rademacher"


def test_neither_blocks_nor_memory_change_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    law = DirectionLaw(_N, law="pool", pool_size=_S)
    whole = _drawn(law)
    assert _drawn(law, block_bytes=8 * _N * 3).tobytes() == whole.tobytes()
    monkeypatch.setattr(pool, "_KEPT_BYTES", 0)
    assert _drawn(law).tobytes() == whole.tobytes()


def test_candidates_have_the_chances_of_the_guide() -> None:
    chances, count = np.array([[0.5], [0.0], [0.125], [0.125], [0.25]]), 40_000
    for guide, wanted in ((None, np.full(_S, 0.2)), (chances, chances[:, 0])):
        found = np.bincount(drawn_candidates(_S, guide, count, Address(1, 2, 3)), minlength=_S) / count
        assert np.all(np.abs(found - wanted) <= 5.0 * np.sqrt(wanted * (1.0 - wanted) / count))


def test_large_slopes_give_large_chances() -> None:
    """Written as in the source: softmax of amplitudes that are scaled to [0, 1]."""
    amplitudes = np.array([3.0, 1.0, 2.0])
    weights = np.exp([1.0, 0.0, 0.5])
    np.testing.assert_allclose(chances_of(amplitudes)[:, 0], weights / weights.sum(), rtol=1e-14)
    np.testing.assert_allclose(chances_of(np.full(3, 7.0))[:, 0], 1.0 / 3.0)

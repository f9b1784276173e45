"""Parameters on the trail: every road to a place ends in the same bits."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tests.place import Rows
from zofedht import DataError, ObjectiveError
from zofedht.client.tensors import copies
from zofedht.client.tensors.copies import copy_of
from zofedht.client.tensors.held import Held, Households
from zofedht.common.machine import memory
from zofedht.common.tensors.trail import TrailLaw

LAW = TrailLaw(3, "rademacher", 5)
GUIDED = replace(LAW, law="trajectory", weight=0.3, memory=2)
TRAIL = np.random.default_rng(0).standard_normal(20) * 0.01


def digest_at(trail: np.ndarray, law: TrailLaw = LAW) -> str:
    rows = Rows(0)
    Held(rows).go_to(trail, law)
    return rows.state_digest()


@pytest.mark.parametrize("road", list(itertools.permutations([0, 2, 4])))
@pytest.mark.parametrize("where", ["memory", "disk"])
@pytest.mark.parametrize("law", [LAW, GUIDED, replace(GUIDED, refresh=3)])
def test_every_road_leads_to_the_same_bits(road: tuple[int, ...], where: str, law: TrailLaw):
    rows = Rows(0)
    held = Held(rows, where)
    for rounds in (*road, *road):
        held.go_to(TRAIL[: 5 * rounds], law)
        held.directions(rounds, 0, TRAIL, law)
        with held.changed():
            rows.arrays["bias"] += 1.0
        assert rows.state_digest() == digest_at(TRAIL[: 5 * rounds], law)


def test_another_end_of_the_trail_is_reached_from_the_start():
    rows = Rows(0)
    held = Held(rows)
    held.go_to(TRAIL, LAW)
    other = np.concatenate([TRAIL[:10], TRAIL[:5]])
    held.go_to(other, LAW)
    assert rows.state_digest() == digest_at(other)


def test_another_law_begins_at_the_start():
    rows, law = Rows(0), TrailLaw(4, "gaussian", 5)
    held = Held(rows)
    held.go_to(TRAIL, LAW)
    held.go_to(TRAIL, law)
    assert rows.state_digest() == digest_at(TRAIL, law) != digest_at(TRAIL)


def test_the_description_leaves_the_start_and_shows_bits():
    rows = Rows(0)
    before = rows.state_digest()
    tensors = Held(rows).tensors
    assert rows.state_digest() == before == tensors.start
    assert tensors.draws != tensors.start
    other = Rows(0)
    other.arrays["weight"][0, 0] = np.nextafter(other.arrays["weight"][0, 0], np.float32(1))
    assert Held(other).tensors.start != tensors.start


def test_objectives_of_one_mapping_share_their_parameters():
    arrays = dict(Rows(0).arrays)
    first, second, third = Rows(0, arrays=arrays), Rows(1, arrays=arrays), Rows(2)
    homes = Households()
    assert homes.of(first) is homes.of(second)
    assert homes.of(first) is not homes.of(third)


def test_too_little_room_is_told_with_the_sum(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(copies, "_SMALL", 0)
    monkeypatch.setattr(copies, "free_bytes", lambda: 50)
    with pytest.raises(ObjectiveError, match=r"a copy of the parameters takes 0.0 MB, and 0 MB of memory are free"):
        copy_of(Rows(0), "memory")


@pytest.mark.parametrize(("where", "way_out"), [("memory", "take --copies disk"), ("disk", "set TMPDIR to a folder")])
def test_room_for_the_start_and_x_is_looked_for_before_the_run(
    where: str, way_out: str, monkeypatch: pytest.MonkeyPatch
):
    size = 4 * (7 * 3 + 3)
    for free, fits in ((2 * size, True), (2 * size - 1, False)):
        monkeypatch.setattr(copies, "_SMALL", 0)
        monkeypatch.setattr(copies, "free_bytes", lambda: free)  # noqa: B023  it is asked within this turn
        monkeypatch.setattr(copies.shutil, "disk_usage", lambda folder: SimpleNamespace(free=free))  # noqa: B023
        if fits:
            Held(Rows(0), where)
            continue
        with pytest.raises(ObjectiveError, match=rf"2 copies of the parameters take 2 x 0.0 MB, .*; {way_out}"):
            Held(Rows(0), where)


def parts(held: Held, trail: np.ndarray, size: int) -> list[bytes]:
    copy, found = held.copy_at(trail, LAW), list[bytes]()
    while part := copy.read(sum(map(len, found)), size):
        found.append(part)
    return found


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("where", ["memory", "disk"])
def test_a_snapshot_leads_on_to_the_same_bits(where: str, kind: str):
    donor, late = Rows(0, kind), Rows(1, kind)
    giving, taking = Held(donor, where), Held(late, where)
    found = parts(giving, TRAIL[:15], 37)
    digest, trail = donor.state_digest(), TRAIL[:15]
    taking.begin_arrival(trail, LAW)
    for number, part in enumerate(found):
        taking.arrive(37 * number, part, digest)
    assert late.state_digest() == digest
    assert taking.length_held(TRAIL, LAW) == 15
    for held in (giving, taking):
        held.go_to(TRAIL, LAW)
        with held.changed():
            pass
    assert late.state_digest() == donor.state_digest()
    taking.go_to(TRAIL[:5], LAW)
    giving.go_to(TRAIL[:5], LAW)
    assert late.state_digest() == donor.state_digest()


def test_a_snapshot_of_another_digest_leaves_the_start():
    donor, late = Rows(0), Rows(1)
    (whole,) = parts(Held(donor), TRAIL, 10**6)
    taking, start = Held(late), late.state_digest()
    taking.begin_arrival(TRAIL, LAW)
    with pytest.raises(DataError, match=f"have the digest {donor.state_digest()}, not {start}"):
        taking.arrive(0, whole, start)
    assert late.state_digest() == start
    taking.go_to(TRAIL, LAW)
    assert late.state_digest() == donor.state_digest()


def test_only_the_next_part_is_taken():
    donor, late = Rows(0), Rows(1)
    first, second, *_ = parts(Held(donor), TRAIL, 40)
    taking = Held(late)
    with pytest.raises(DataError, match="from 0 on are not those that come next"):
        taking.arrive(0, first, "")
    taking.begin_arrival(TRAIL, LAW)
    taking.arrive(0, first, "")
    for start, part in ((0, first), (40, second + bytes(1000)), (40, b"")):
        with pytest.raises(DataError, match="are not those that come next"):
            taking.arrive(start, part, "")
    taking.go_to(TRAIL[:10], LAW)
    with taking.changed():  # a slot, whose copy takes the place of what has arrived
        pass
    with pytest.raises(DataError, match="from 40 on are not those that come next"):
        taking.arrive(40, second, "")


def test_a_guide_that_is_there_needs_no_further_room(monkeypatch: pytest.MonkeyPatch):
    """A client that joins again has its guide already; another law needs room of its own."""
    rows, homes = Rows(0), Households()
    held = homes.of(rows)
    homes.prepare(held, GUIDED, rows.dim)
    monkeypatch.setattr(memory, "_SMALL", 0)
    monkeypatch.setattr(memory, "free_bytes", lambda: 1)
    homes.prepare(held, GUIDED, rows.dim)
    with pytest.raises(ObjectiveError, match="the guide of memory = 3 moves"):
        homes.prepare(held, replace(GUIDED, memory=3), rows.dim)

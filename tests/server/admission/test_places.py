"""Who must leave when too many clients introduce themselves at once."""

from __future__ import annotations

import pytest

from zofedht.server.admission.places import Place, Places
from zofedht.server.grpc.descriptors import most_connections, raise_descriptor_limit

MOST = 6


class Door:
    """Places, and who had to leave them."""

    def __init__(self) -> None:
        self.places = Places(MOST)
        self.sent_away: list[str] = []
        self.taken: dict[str, Place] = {}

    def come(self, name: str, certificate: str | None, address: str) -> None:
        self.taken[name] = Place(certificate, address, lambda: self.sent_away.append(name))
        self.places.take(self.taken[name])


def test_a_newcomer_takes_the_place_of_the_crowds_oldest():
    door = Door()
    door.come("honest", None, "b")
    for index in range(MOST - 1):
        door.come(f"flood-{index}", None, "a")
    door.come("newcomer", None, "c")
    assert door.sent_away == ["flood-0"]
    assert [name for name, place in door.taken.items() if place.taken_away] == ["flood-0"]


def test_a_flood_takes_places_only_from_itself():
    door = Door()
    door.come("honest", None, "b")
    for index in range(10 * MOST):
        door.come(f"flood-{index}", None, "a")
    assert door.sent_away == [f"flood-{index}" for index in range(10 * MOST - (MOST - 1))]


def test_a_certificate_has_few_places():
    door = Door()
    for index in range(10):
        door.come(f"c0-{index}", "c0", f"address-{index}")
    assert door.sent_away == [f"c0-{index}" for index in range(6)]
    door.come("c1", "c1", "x")
    door.come("c2", "c2", "x")
    assert len(door.sent_away) == 6


def test_a_left_place_is_free():
    door = Door()
    for index in range(MOST):
        door.come(str(index), None, "a")
    door.places.leave(door.taken["3"])
    door.come("more", None, "a")
    assert door.sent_away == []
    door.come("last", None, "a")
    door.places.leave(door.taken["0"])  # given away already
    assert door.sent_away == ["0"]


@pytest.mark.parametrize(("limit", "most"), [(100, 50), (1024, 768), (2**20, 10_000)])
def test_connections_leave_a_reserve_of_descriptors(limit: int, most: int):
    assert most_connections(limit) == most


def test_the_descriptor_limit_is_raised_to_the_hard_one():
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
    try:
        raised = raise_descriptor_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (raised, hard)
        assert raised == hard or hard == resource.RLIM_INFINITY
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

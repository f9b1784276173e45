"""Bytes by client: a message that is for several clients is counted once, in shares."""

import pytest

from zofedht.server.delivery.traffic import Traffic


@pytest.mark.parametrize("size", [0, 1, 2, 3, 100, 101])
def test_the_shares_of_a_message_make_up_its_size(size: int):
    traffic = Traffic()
    traffic.share(["a", "b", "c"], up=size, down=2 * size)
    taken = traffic.take()
    assert sum(up for up, _ in taken.values()) == size
    assert sum(down for _, down in taken.values()) == 2 * size
    assert max(up for up, _ in taken.values()) - min(up for up, _ in taken.values()) <= 1


def test_a_client_with_two_slots_has_two_shares():
    traffic = Traffic()
    traffic.share(["a", "b", "a"], up=30)
    assert traffic.take() == {"a": (20, 0), "b": (10, 0)}

"""The waits of a client that lost its server, with a clock of the test's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from zofedht.client.join.patience import Patience


class Clock:
    """Time that passes when it is told to."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def waits(patience: Patience, count: int) -> list[float | None]:
    return [patience.pause() for _ in range(count)]


def steady(clock: Callable[[], float], max_wait: float = float("inf")) -> Patience:
    return Patience(max_wait, clock=clock, jitter=lambda: 1.0)


def test_waits_double_up_to_half_a_minute():
    assert waits(steady(Clock()), 9) == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_waits_start_again_after_success():
    patience = steady(Clock())
    waits(patience, 5)
    patience.admitted()
    patience.lost()
    assert waits(patience, 2) == [0.5, 1.0]


def test_jitter_stays_within_a_half_and_three_halves():
    drawn = [pause / 0.5 for pause in (Patience(float("inf")).pause() for _ in range(500)) if pause]
    assert len(drawn) == 500
    assert min(drawn) >= 0.5
    assert max(drawn) <= 1.5
    assert max(drawn) - min(drawn) > 0.8  # 500 uniform draws over a range of one


def test_without_max_wait_it_never_gives_up():
    clock = Clock()
    patience = steady(clock)
    for _ in range(100):
        clock.now += 3600.0
        assert patience.pause() == pytest.approx(30.0) or patience.pause() is not None


def test_the_last_wait_ends_at_max_wait():
    clock = Clock()
    patience = steady(clock, max_wait=2.0)
    assert patience.pause() == 0.5
    clock.now += 1.8
    assert patience.pause() == pytest.approx(0.2)
    clock.now += 0.2
    assert patience.pause() is None


def test_max_wait_counts_from_the_loss():
    clock = Clock()
    patience = steady(clock, max_wait=2.0)
    patience.admitted()
    clock.now += 3600.0
    patience.lost()
    assert patience.pause() == 0.5


def test_a_taken_name_is_retried_for_25_seconds():
    clock = Clock()
    patience = steady(clock)
    total = 0.0
    while (pause := patience.pause(taken=True)) is not None:
        assert pause <= 2.0
        clock.now += pause
        total += pause
    assert 25.0 <= total <= 27.0


def test_a_name_taken_again_is_retried_anew():
    clock = Clock()
    patience = steady(clock)
    assert patience.pause(taken=True) is not None
    clock.now += 30.0
    assert patience.pause(taken=False) is not None
    assert patience.pause(taken=True) is not None

"""A slot that is not done is answered with its cause, by one rule for both workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from zofedht.common.errors import Cause, ObjectiveError, ZofedhtError
from zofedht.common.wire.messages import Broadcast, Status, Update

__all__ = ["NotDoneError", "failed_steps", "not_held", "unusable"]


class NotDoneError(Exception):
    """Work on a slot ends here; ``answer`` is what the server is told."""

    def __init__(
        self, broadcast: Broadcast, status: Status, cause: Cause, reason: str, step: int | None = None
    ) -> None:
        super().__init__(reason)
        self.answer = Update(broadcast.round, broadcast.slot, broadcast.client, status, cause, step, reason)


def not_held(broadcast: Broadcast) -> NotDoneError:
    """Return the error of an x that the message leads to from another x than the client holds."""
    reason = f"x of round {broadcast.round + 1} does not follow from what is held"
    return NotDoneError(broadcast, "x-missing", "not-held", reason)


@contextmanager
def unusable(broadcast: Broadcast, error_text: Callable[[ZofedhtError], str]) -> Iterator[None]:
    """Raise NotDoneError for an error of the block: what the slot needs cannot be used."""
    try:
        yield
    except ZofedhtError as error:
        raise NotDoneError(broadcast, "failed", "unusable", error_text(error)) from error


@contextmanager
def failed_steps(broadcast: Broadcast, error_text: Callable[[ZofedhtError], str]) -> Iterator[None]:
    """Raise NotDoneError for an evaluation of the block that failed; the run stops where its config says so."""
    try:
        yield
    except ObjectiveError as error:
        status: Status = "stopped" if broadcast.spec.on_error == "stop" else "failed"
        raise NotDoneError(broadcast, status, error.cause, error_text(error), error.step) from error

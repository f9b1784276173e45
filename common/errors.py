"""Every error that a user can meet, as one tree.

    ZofedhtError
    |-- ConfigError          keys of the run config are unknown, ill-typed or out of range (lists them all)
    |-- DataError            a data set, a file or a shard is not usable
    |-- ObjectiveError       an objective cannot be loaded, raises, or returns no loss
    |-- MessageError         a message between server and client cannot be read
    |-- CheckpointError      a folder has no usable checkpoint
    |-- JoinError            the server refuses this client, or cannot be reached
    |-- FleetError           a fleet of sites cannot be asked this, or not go on in this folder
    |   `-- BudgetError      the budget of evaluations is spent
    |-- RoundError           a round failed more often than max-retries allows
    `-- MissingExtraError    an optional dependency is not installed

The commands print such an error as one sentence and exit with code 2. Any other exception is a mistake of this program
and shows its traceback.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self, get_args

__all__ = [
    "CAUSES",
    "EVALUATION_FAILED",
    "BudgetError",
    "Cause",
    "CheckpointError",
    "ConfigError",
    "DataError",
    "FleetError",
    "JoinError",
    "MessageError",
    "MissingExtraError",
    "ObjectiveError",
    "RoundError",
    "ZofedhtError",
    "cause_of",
]

Cause = Literal[
    "raised",  # an evaluation raised an exception
    "not-a-loss",  # an evaluation returned no float64 number
    "not-finite",  # a loss, a slope or a move holds NaN or inf
    "unusable",  # the client's data, objective or message cannot be used: it took no step
    "not-held",  # the client lost the basis or the x that its work needs
    "refused",  # the client answered with an error
    "malformed",  # the reply does not fit the question
    "stale",  # the reply came too late
    "other-directions",  # the client draws other directions than the server
    "false-shares",  # many others cannot open what the client sealed for them, under secure aggregation
    "no-answer",  # the message or the client was lost, or too late
    "absent",  # the client was not connected and got no question
]
"""Why a slot, a step or an evaluation failed. Programs read the cause; its sentence is for people."""

CAUSES: tuple[Cause, ...] = get_args(Cause)

EVALUATION_FAILED: tuple[Cause, ...] = ("raised", "not-a-loss")
"""Causes in the user's objective, as opposed to the length of the steps."""


class ZofedhtError(Exception):
    """Base of all errors that a user can cure."""

    cause: Cause = "unusable"
    """The cause of a failure by this error."""

    public_text: str
    """The sentence for the server: the error's own text only where that holds nothing of the device."""

    def __init__(self, text: str, *, public_text: str | None = None, cause: Cause | None = None) -> None:
        super().__init__(text)
        self.public_text = self._usual_public_text() if public_text is None else public_text
        if cause is not None:
            self.cause = cause

    @classmethod
    def public(cls, text: str, **more: Any) -> Self:
        """Return an error whose own text the server may read: it holds nothing of the device."""
        return cls(text, public_text=text, **more)

    def _usual_public_text(self) -> str:
        return f"the client had a {type(self).__name__}; its own log says more"


class ConfigError(ZofedhtError):
    """The run config is wrong; ``problems`` holds one sentence for each problem.

    The server may read them: a client's problems are those of the config that the server sent.

    Examples
    --------
    >>> ConfigError(["rounds must be at least 0, got -1"]).problems
    ('rounds must be at least 0, got -1',)
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        head = "the run config has a problem" if len(self.problems) == 1 else "the run config has problems"
        text = f"{head}: " + "; ".join(self.problems)
        super().__init__(text, public_text=text)


class DataError(ZofedhtError):
    """A data set, a data file or a shard cannot be used. The text may name files and their cells."""

    def _usual_public_text(self) -> str:
        return "the client's data cannot be used; its own log says why"


class ObjectiveError(ZofedhtError):
    """An objective cannot be loaded, raised, or returned no loss.

    ``step`` is the local step, from 0, whose evaluation failed; None outside of local steps.
    """

    def __init__(
        self, text: str, *, public_text: str | None = None, cause: Cause | None = None, step: int | None = None
    ) -> None:
        super().__init__(text, public_text=public_text, cause=cause)
        self.step = step

    def _usual_public_text(self) -> str:
        return "the client's objective cannot be used; its own log says why"


class MessageError(ZofedhtError):
    """A message between server and client cannot be read. The text names only what the sender sent."""

    cause = "malformed"

    def __init__(self, text: str) -> None:
        super().__init__(text, public_text=text)


class CheckpointError(ZofedhtError):
    """A folder has no usable checkpoint."""


class JoinError(ZofedhtError):
    """The server refuses this client, or could not be reached within ``--max-wait``."""


class FleetError(ZofedhtError):
    """A fleet of sites cannot be asked this, or cannot go on with what is in its folder."""


class BudgetError(FleetError):
    """The budget of evaluations does not suffice for what is asked; nothing of it was asked.

    It is no StopIteration: that would end a ``map`` or a loop over one without a word.
    """


class RoundError(ZofedhtError):
    """A round had too few usable replies, too often."""

    cause = "no-answer"


class MissingExtraError(ZofedhtError):
    """An optional dependency is not installed."""


def cause_of(error: BaseException) -> Cause:
    """Return the cause of a failure by this error: "no-answer" for an error from outside of this program."""
    return error.cause if isinstance(error, ZofedhtError) else "no-answer"

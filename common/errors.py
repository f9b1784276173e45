"""Every error a user can meet, as one tree.

    ZofedhtError
    |-- ConfigError          a run config key is unknown, ill-typed or out of range (lists them all)
    |-- DataError            a data set, a file or a partition is not usable
    |-- ObjectiveError       the objective could not be loaded, raised, or returned what it must not
    |-- MessageError         a message between server and client could not be read
    |-- CheckpointError      no checkpoint in a directory can be continued from
    |-- JoinError            the server refuses this client, or cannot be reached
    |-- FleetError           a fleet of sites cannot be asked this, or not go on in this folder
    |   `-- BudgetError      the budget of evaluations is spent
    |-- RoundError           a round failed more often than max-retries allows
    `-- MissingExtraError    an optional dependency is needed and not installed

The commands print such an error as one sentence and exit with code 2; anything else is our own
mistake and shows its traceback.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "BudgetError",
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
]


class ZofedhtError(Exception):
    """Base of all errors that are the user's to act on."""

    told: str
    """What a client tells the server of it: the sentence itself only where that holds nothing of the device."""

    def __init__(self, text: str, *, told: str | None = None) -> None:
        super().__init__(text)
        self.told = self._untold() if told is None else told

    def _untold(self) -> str:
        return f"the client had a {type(self).__name__}; its own log says more"


class ConfigError(ZofedhtError):
    """The run config is wrong; ``problems`` holds one sentence for each thing to mend.

    The server may read them: on a client they are about the config that the server itself has sent.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        head = "the run config has a problem" if len(self.problems) == 1 else "the run config has problems"
        text = f"{head}: " + "; ".join(self.problems)
        super().__init__(text, told=text)


class DataError(ZofedhtError):
    """A data set, a data file or a partition cannot be used. The text may name files and cells of them."""

    def _untold(self) -> str:
        return "the client's data cannot be used; its own log says why"


class ObjectiveError(ZofedhtError):
    """An objective could not be loaded, raised, or returned something that is not a loss."""

    def _untold(self) -> str:
        return "the client's objective cannot be used; its own log says why"


class MessageError(ZofedhtError):
    """A message between server and client cannot be read. The text tells the sender what it has sent."""

    def __init__(self, text: str) -> None:
        super().__init__(text, told=text)


class CheckpointError(ZofedhtError):
    """No checkpoint can be continued from."""


class JoinError(ZofedhtError):
    """The server refuses this client, or could not be reached for as long as it was to wait."""


class FleetError(ZofedhtError):
    """A fleet of sites cannot be asked this, or cannot go on with what is in its folder."""


class BudgetError(FleetError):
    """The budget of evaluations does not suffice for what is asked; nothing of it was asked.

    It is no StopIteration: that would end a ``map`` or a loop over one without a word.
    """


class RoundError(ZofedhtError):
    """A round had too few usable replies, too often."""


class MissingExtraError(ZofedhtError):
    """An optional dependency is needed and not installed."""

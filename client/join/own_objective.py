"""What a joined client's objective is made from: never more than its own command line has named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from zofedht.client.join.options import JoinOptions, on_this_machine, own_parameters, with_own_columns
from zofedht.client.join.own_file import OwnFile, Seen
from zofedht.common.config.run_config import RunConfig
from zofedht.common.data.named_sets import NAMED_SETS
from zofedht.common.errors import DataError, MessageError
from zofedht.common.objective.base import Objective
from zofedht.common.objective.loading import code_of, load_objective
from zofedht.common.objective.scaling import in_search_units
from zofedht.common.shards import lone_objective, own_objective, rules_of
from zofedht.common.source_digest import digest_of
from zofedht.common.wire.clients import OWN_ROWS, Question

__all__ = ["OwnObjective"]

_MOST_PARAMETERS = 2**25  # of which a message holds x: 256 MB


class OwnObjective:
    """The objective of a joined client, made once for all that it depends on."""

    def __init__(self, options: JoinOptions, report: Callable[[str], None]) -> None:
        self._options, self._file = options, OwnFile(options, report)
        self._asked: tuple[str, int] | None = None  # task and shard of the latest question
        self._made: tuple[str, Objective] | None = None

    @property
    def seen(self) -> Seen:
        """What the server learns of this client's own file."""
        return self._file.seen

    def __call__(self, question: Question, *, settled: bool = True) -> Objective:
        """Return the objective that a question is about.

        ``settled`` is False while the client introduces itself. Raises ZofedhtError when the server asks for what this
        client's command line did not name.
        """
        asked = question.task, question.shard_index
        if self._made is None or asked != self._asked:
            name = self._name(question)
            if self._made is None or name != self._made[0]:
                made = self._make(question, settled=settled)
                if made.dim > _MOST_PARAMETERS:
                    raise DataError.public(
                        f"the server's model has {made.dim} parameters, and a message holds at most {_MOST_PARAMETERS}"
                    )
                self._options.bounds.check_shard(len(made))
                self._made = (name, made)
            self._asked = asked
        return self._made[1]

    def _name(self, question: Question) -> str:
        """Return what the objective depends on: num-clients, say, may be settled only after this client has joined."""
        mine, config = self._options, RunConfig.of_task(question.task)
        match mine.source:
            case "objective":
                return f"{config.seed} {config.parameters}"
            case "data":
                config = with_own_columns(config, mine)
                parts = config.positive_labels, config.preprocess, config.standardize_by, rules_of(config)
                return repr((config.model, config.hidden_units, config.mlp_bias, config.l2, *parts))
            case _:
                return f"{on_this_machine(config, mine).task} {question.shard_index}"

    def _make(self, question: Question, *, settled: bool) -> Objective:
        mine, config = self._options, RunConfig.of_task(question.task)
        match mine.source:
            case "objective":
                made = load_objective(mine.objective, mine.shard(config.seed), own_parameters(config, mine))
                return in_search_units(made)
            case "data":
                config = with_own_columns(config, mine)
                rows = self._file.rows(config, question.dimension, keep=not settled)
                return own_objective(config, rows, settled=settled)
            case _:
                if config.objective:
                    # The server must not be able to make this machine import a module.
                    raise DataError.public("the server trains a black box; join with --objective module:factory")
                if mine.shard_index not in (OWN_ROWS, question.shard_index):
                    raise MessageError(
                        f"this client holds shard {mine.shard_index} of {mine.shard_count} and answers about no other,"
                        f" got a question about {question.shard_index}"
                    )
                return lone_objective(on_this_machine(config, mine), question.shard_index, fetch=bool(mine.dataset))

    def source_digest(self, objective: Objective | None) -> str:
        """Return the digest of what this client's objective is made from; empty while it waits for its shard."""
        mine = self._options
        match mine.source:
            case "objective":
                return digest_of(code_of(mine.objective), *([file] if (file := Path(mine.data)).is_file() else []))
            case "data":
                return self._file.seen.digest
            case _ if mine.dataset and mine.dataset not in NAMED_SETS:
                return digest_of(Path(mine.dataset))  # of rows that the server chooses, one cell could be guessed
            case _:
                data = getattr(objective, "features", None), getattr(objective, "target", None)
                return "" if data[0] is None or data[1] is None else digest_of(*data)

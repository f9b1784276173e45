"""A joined client: its own name, its own rows or its share of the server's, kept in memory between rounds."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from flwr.common import Scalar
from flwr.common.typing import NDArrays

from zofedht.client.flower.numpy_client import ZofedhtClient
from zofedht.client.join.options import JoinOptions, on_this_machine, own_parameters, with_own_columns
from zofedht.client.join.own_file import OwnFile
from zofedht.client.privacy.secret_file import secret_of_file
from zofedht.client.steps.warm_up import warm_up
from zofedht.client.steps.worker import BasisStore, no_secret
from zofedht.client.tensors.held import Households
from zofedht.client.tensors.worker import PlaceWorker
from zofedht.common.checks.finding import Finding
from zofedht.common.data.named_sets import NAMED_SETS
from zofedht.common.errors import DataError, MessageError, ZofedhtError
from zofedht.common.machine.versions import version_of
from zofedht.common.objective.agreement import MOST_UNITS_BYTES, units_as_bytes
from zofedht.common.objective.base import Objective
from zofedht.common.objective.loading import code_of, load_objective
from zofedht.common.objective.names import names_as_text
from zofedht.common.objective.scaling import in_search_units, units_of
from zofedht.common.replay import draw_digest
from zofedht.common.shards import config_of_task, lone_objective, own_objective, rules_of
from zofedht.common.source_digest import digest_of
from zofedht.common.tensors.loading import load_in_place
from zofedht.common.tensors.objective import InPlaceObjective
from zofedht.common.wire.clients import OWN_ROWS, PROTOCOL, Hello, Question
from zofedht.common.wire.codec import decode, encode
from zofedht.common.wire.messages import Broadcast, Update

__all__ = ["JoinOptions", "ResidentClient"]

_log = logging.getLogger(__name__)

_SECONDS_BETWEEN_LINES = 5.0
_MOST_PARAMETERS = 2**25  # of which a message holds x: 256 MB


class ResidentClient(ZofedhtClient):
    """The NumPyClient of ``zofedht-client join``."""

    def __init__(self, options: JoinOptions, report: Callable[[str], None]) -> None:
        secret = self._secret_of if options.privacy_key else no_secret
        bounds, lifetime = options.bounds, options.lifetime
        super().__init__(
            self._objective,
            BasisStore(),
            self._told,
            bounds.check_slot,
            secret,
            lifetime.spend,
            self._place,
            options.identity,
        )
        self._options = options
        self._report = report
        self._asked: tuple[str, int] | None = None  # task and shard of the latest question
        self._made: tuple[str, Objective] | None = None
        self._held: InPlaceObjective | None = None
        self._worker_in_place = PlaceWorker(
            self._in_place, Households(options.copies), self._told, bounds.check_slot, bounds.check_snapshot
        )
        self._file = OwnFile(options, report)
        self._warm = ""  # the task of the latest preparations
        self._shown = 0.0
        self._error = ""  # the latest, in full: only this device's log has it

    def get_properties(self, config: dict[str, Scalar]) -> dict[str, Scalar]:
        """Introduce this client to the server, ready for its first slot: it is timed from when it has joined.

        Raises ZofedhtError when its rows or its objective or the loops that the run wants cannot be had; then it does
        not join.
        """
        question = decode(Question, config)
        mine = self._options
        if place := self._place(question.task):
            return self._introduced_in_place(question, place)
        known = mine.source != "partition" or mine.shard_index != OWN_ROWS
        objective = self._objective(replace(question, shard_index=mine.shard_index), settled=False) if known else None
        self._warm_up(question.task, objective)
        # How many columns there are is settled by all clients where a sparse file may lack the last ones.
        seen = self._file.seen
        sized = objective is not None and (seen.indices is None or bool(question.dimension))
        hello = replace(
            self._introduced(),
            examples=0 if objective is None else len(objective),
            dimension=objective.dim if objective is not None and sized else 0,
            units=b"" if objective is None else units_as_bytes(units_of(objective), MOST_UNITS_BYTES),
            names="" if objective is None else names_as_text(seen.names or objective.names or ()),
            label=seen.label,
            labels=seen.labels,
            column_sums=seen.sums,
            source_digest=self._source_digest(objective),
            least_index=-1 if seen.indices is None else seen.indices[0],
            most_index=-1 if seen.indices is None else seen.indices[1],
        )
        return encode(hello).scalars

    def _introduced(self) -> Hello:
        """Return what this client says of itself whatever it holds."""
        mine = self._options
        return Hello(
            name=mine.name,
            instance=mine.instance,
            source=mine.source,
            shard_index=mine.shard_index,
            shard_count=mine.shard_count,
            examples=0,
            dimension=0,
            protocol=PROTOCOL,
            version=version_of("zofedht"),
            draw_digest=draw_digest(),
        )

    def _introduced_in_place(self, question: Question, place: PlaceWorker) -> dict[str, Scalar]:
        tensors = place.held(question).tensors
        hello = replace(
            self._introduced(),
            examples=len(self._in_place(question)),
            dimension=tensors.dimension,
            source_digest=self._source_digest(None),
            tensors=tensors.text(),
        )
        return encode(hello).scalars

    def fit(self, parameters: NDArrays, config: dict[str, Scalar]) -> tuple[NDArrays, int, dict[str, Scalar]]:
        """Do one slot of work, and tell about it now and then."""
        self._error = ""
        return super().fit(parameters, config)

    def _worked(self, update: Update) -> None:
        now, place = time.monotonic(), f"round {update.round + 1}"
        at = "" if update.step is None else f", step {update.step + 1}"
        if update.status in ("failed", "stopped"):
            _log.warning("%s%s: %s", place, at, self._error or update.reason)
        elif update.skipped:
            what = "values lost" if update.values is not None else "steps skipped"
            _log.warning("%s: %d %s, the first%s: %s", place, update.skipped, what, at, self._error)
        elif self._error:
            _log.warning("%s: a slope counts as 0, and the server is not told: %s", place, self._error)
        elif now - self._shown > _SECONDS_BETWEEN_LINES and update.status == "ok":
            self._shown = now
            what = "loss of my probes" if update.values is None else "mean of my values"
            self._report(f"{place}  {what} {update.loss:.4g}")

    def evaluate(self, parameters: NDArrays, config: dict[str, Scalar]) -> tuple[float, int, dict[str, Scalar]]:
        """Evaluate x, and tell where that fails."""
        self._error = ""
        loss, examples, metrics = super().evaluate(parameters, config)
        if self._error:
            _log.warning("x could not be evaluated on all samples: %s", self._error)
        return loss, examples, metrics

    def _permit_losses(self, count: int) -> None:
        self._options.bounds.check_losses(count)

    def _permit_check(self, samples: int) -> None:
        self._options.bounds.check_tries(samples)

    def _found(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            if finding.level != "ok":
                _log.warning("check %s: %s", finding.name, finding.text)

    def _secret_of(self, broadcast: Broadcast) -> bytes:
        return secret_of_file(Path(self._options.privacy_key), self._options.name)

    def _told(self, error: ZofedhtError) -> str:
        self._error = str(error)
        return error.public_text

    def _objective(self, question: Question, *, settled: bool = True) -> Objective:
        """Return the objective of this client's rows; made once for all that it depends on.

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

    def _place(self, task: str) -> PlaceWorker | None:
        return self._worker_in_place if config_of_task(task).in_place else None

    def _in_place(self, question: Question) -> InPlaceObjective:
        """Return the objective that this client brings to a run in place, made once: it holds the parameters."""
        mine = self._options
        if mine.source != "objective":
            raise DataError.public("the server's run is in place; join with --objective module:factory")
        if self._held is None:
            self._held = load_in_place(mine.objective, mine.shard(question.seed))
            self._options.bounds.check_shard(len(self._held))
        return self._held

    def save(self, path: Path) -> None:
        """Write the parameters in place of the last round that this client has seen, as an .npz.

        Raises DataError where there are none, or the file cannot be written.
        """
        if self._held is None:
            raise DataError(f"{path} is not written: the run was not in place, and this client holds no parameters")
        self._worker_in_place.save(self._held, path)
        self._report(f"the parameters are in {path}")

    def _name(self, question: Question) -> str:
        """Return what the objective depends on: num-clients, say, may be settled only after this client has joined."""
        mine, config = self._options, config_of_task(question.task)
        match mine.source:
            case "objective":
                return f"{config.seed} {config.parameters}"
            case "data":
                config = with_own_columns(config, mine)
                parts = config.positive_labels, config.preprocess, config.standardize_by, rules_of(config)
                return repr((config.model, config.hidden_units, config.mlp_bias, config.l2, *parts))
            case _:
                return f"{on_this_machine(config, mine).task} {question.shard_index}"

    def _warm_up(self, task: str, objective: Objective | None) -> None:
        if task == self._warm:
            return
        began = time.monotonic()
        warm_up(config_of_task(task), objective)
        self._warm = task
        seconds = time.monotonic() - began
        if seconds > 1.0:
            self._report(f"the compiled loops are ready after {seconds:.1f} s")

    def _make(self, question: Question, *, settled: bool) -> Objective:
        mine, config = self._options, config_of_task(question.task)
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

    def _source_digest(self, objective: Objective | None) -> str:
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

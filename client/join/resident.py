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
from zofedht.client.join.options import JoinOptions
from zofedht.client.join.own_objective import OwnObjective
from zofedht.client.privacy.secret_file import secret_of_file
from zofedht.client.steps.warm_up import warm_up
from zofedht.client.steps.worker import BasisStore, no_secret
from zofedht.client.tensors.held import Households
from zofedht.client.tensors.worker import PlaceWorker
from zofedht.common.checks.finding import Finding
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import DataError, ZofedhtError
from zofedht.common.machine.versions import version_of
from zofedht.common.objective.agreement import MOST_UNITS_BYTES, units_as_bytes
from zofedht.common.objective.base import Objective
from zofedht.common.objective.names import names_as_text
from zofedht.common.objective.scaling import units_of
from zofedht.common.replay import draw_digest
from zofedht.common.tensors.loading import load_in_place
from zofedht.common.tensors.objective import InPlaceObjective
from zofedht.common.wire.clients import OWN_ROWS, PROTOCOL, Hello, Question
from zofedht.common.wire.codec import decode, encode
from zofedht.common.wire.messages import Broadcast, Update

__all__ = ["JoinOptions", "ResidentClient"]

_log = logging.getLogger(__name__)

_SECONDS_BETWEEN_LINES = 5.0


class ResidentClient(ZofedhtClient):
    """The NumPyClient of ``zofedht-client join``."""

    def __init__(self, options: JoinOptions, report: Callable[[str], None]) -> None:
        secret = self._secret_of if options.privacy_key else no_secret
        bounds, lifetime = options.bounds, options.lifetime
        self._objective = OwnObjective(options, report)
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
        self._held: InPlaceObjective | None = None
        self._worker_in_place = PlaceWorker(
            self._in_place, Households(options.copies), self._told, bounds.check_slot, bounds.check_snapshot
        )
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
        seen = self._objective.seen
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
            source_digest=self._objective.source_digest(objective),
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
            source_digest=self._objective.source_digest(None),
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

    def _place(self, task: str) -> PlaceWorker | None:
        return self._worker_in_place if RunConfig.of_task(task).in_place else None

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

    def _warm_up(self, task: str, objective: Objective | None) -> None:
        if task == self._warm:
            return
        began = time.monotonic()
        warm_up(RunConfig.of_task(task), objective)
        self._warm = task
        seconds = time.monotonic() - began
        if seconds > 1.0:
            self._report(f"the compiled loops are ready after {seconds:.1f} s")

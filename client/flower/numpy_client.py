"""The Flower NumPyClient: translate, delegate to the worker, translate back."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
from flwr.client import Client, NumPyClient
from flwr.common import Code, FitIns, FitRes, Parameters, Scalar, Status
from flwr.common.typing import NDArrays

from zofedht.client.flower.looking import look
from zofedht.client.privacy.identity import Identity
from zofedht.client.steps.worker import BasisStore, Worker, no_secret
from zofedht.client.tensors.worker import PlaceWorker
from zofedht.common.checks.finding import Finding
from zofedht.common.choices import WIRE_DTYPES
from zofedht.common.config.step_spec import StepSpec
from zofedht.common.errors import DataError, ZofedhtError
from zofedht.common.machine.memory import lacking
from zofedht.common.objective.agreement import check_fits
from zofedht.common.objective.base import Objective
from zofedht.common.objective.loading import starting_point
from zofedht.common.objective.named import space_of
from zofedht.common.objective.parameters import parameters_of
from zofedht.common.objective.points import check_points, evaluate_points, full_evaluation
from zofedht.common.objective.scaling import units_of
from zofedht.common.typing import Matrix
from zofedht.common.wire.arrays import decode_vectors, encode_vector
from zofedht.common.wire.bundle import bundled, encode_updates, unbundled
from zofedht.common.wire.checked import CheckQuestion, asks_for_check
from zofedht.common.wire.clients import Question
from zofedht.common.wire.codec import STATE_DIGEST, Config, Encoded, decode, encode, encode_no_metrics
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.common.wire.points import (
    asks_for_parameters,
    asks_for_points,
    decode_points,
    encode_answers,
    encode_parameters,
)
from zofedht.common.wire.start import Beginning, encode_start, encode_tensors

__all__ = ["ZofedhtClient"]

_MOST_SECONDS = 1.0
"""Of one message about many points: then what is known is told, so that a server that is killed loses little."""


class ZofedhtClient(NumPyClient):
    """Serves one or many clients; each message names its client.

    ``objective_of`` maps a Question, with task, client and shard index, to the objective of that shard.
    """

    def __init__(
        self,
        objective_of: Callable[[Question], Objective],
        bases: BasisStore,
        error_text: Callable[[ZofedhtError], str] = str,
        permit: Callable[[StepSpec, int], None] = lambda spec, shard: None,
        secret_of: Callable[[Broadcast], bytes] = no_secret,
        spend: Callable[[StepSpec, Objective], None] = lambda spec, objective: None,
        place_of: Callable[[str], PlaceWorker | None] = lambda task: None,
        identity: Identity | None = None,
    ) -> None:
        """``place_of`` returns what works on parameters in place, of the task of a run; None where there are none.

        ``error_text`` makes the text for the server: ``str`` unless the server belongs to somebody else."""
        self._objective_of, self._place_of = objective_of, place_of
        self._error_text = error_text
        self._worker = Worker(
            lambda broadcast: objective_of(_question(broadcast)),
            bases,
            error_text=error_text,
            permit=permit,
            secret_of=secret_of,
            spend=spend,
            identity=identity,
        )

    def to_client(self) -> Client:
        """Return Flower's Client, with our own reader of .npy bytes in ``fit``: NumPy's parses them as Python text."""
        client = super().to_client()
        setattr(client, "fit", self._fit_bytes)  # noqa: B010  (Flower makes the class)
        return client

    def _fit_bytes(self, ins: FitIns) -> FitRes:
        tensors = ins.parameters.tensors
        vectors: NDArrays = [np.array(view) for view in decode_vectors(tensors, "x", len(tensors), WIRE_DTYPES)]
        moves, examples, metrics = self.fit(vectors, ins.config)
        told = Parameters([encode_vector(move) for move in moves], ins.parameters.tensor_type)
        return FitRes(Status(Code.OK, "Success"), told, examples, metrics)

    def get_parameters(self, config: dict[str, Scalar]) -> NDArrays:
        """Return the objective's own starting point or zeros, (n,), and what it declares of its parameters.

        Scale and both bounds follow where it has units, and the bytes of its space where parameters have names.
        """
        question = decode(Question, config)
        if place := self._place_of(question.task):
            return encode_tensors(place.held(question).tensors)
        objective = self._objective_of(question)
        own = starting_point(objective, question.seed)
        units = units_of(objective)
        start = objective.zeros() if own is None else own
        return encode_start(Beginning(start, units, space_of(objective)))

    def fit(self, parameters: NDArrays, config: dict[str, Scalar]) -> tuple[NDArrays, int, dict[str, Scalar]]:
        """Do one slot of work, or all slots of this node, one after another."""
        updates: list[Update] = []
        asked_for = unbundled(config, parameters)
        if len(asked_for) > 1 and (
            text := lacking(len(asked_for) * sum(array.nbytes for array in parameters), "moves")
        ):
            raise DataError.public(f"{text}; ask for fewer slots at once")
        for asked in asked_for:
            broadcast = decode(Broadcast, asked.scalars, asked.arrays)
            worker = self._place_of(broadcast.task) if broadcast.spec.in_place else self._worker
            updates.append((worker or self._worker).work(broadcast))
            self._worked(updates[-1])
        arrays, metrics = encode_updates(updates)
        return cast(NDArrays, arrays), sum(update.examples for update in updates), metrics

    def _worked(self, update: Update) -> None:
        """Look at an answer before it is sent."""

    def _permit_losses(self, count: int) -> None:
        """Raise ZofedhtError where this device's owner does not allow so many losses in one answer."""

    def _permit_check(self, samples: int) -> None:
        """Raise ZofedhtError where this device's owner does not allow F to be tried out on so many samples."""

    def _found(self, findings: Sequence[Finding]) -> None:
        """Look at what checks have found, which is not sent."""

    def evaluate(self, parameters: NDArrays, config: dict[str, Scalar]) -> tuple[float, int, dict[str, Scalar]]:
        """Evaluate x on the whole shard, or on those of all clients of this node.

        The answer is the reason where that fails or x is in other units.

        A ``Fleet`` asks here for F at points of its own, or for the parameters; a plan, for checks.
        """
        asked = [part.scalars for part in unbundled(config, [])]
        if len(asked) == 1:
            return self._evaluate_one(parameters, config)
        answers = [self._evaluate_one(parameters, one) for one in asked]
        samples = sum(count for _, count, _ in answers)
        return math.nan, samples, bundled([Encoded([], told) for _, _, told in answers]).scalars

    def _evaluate_one(self, parameters: NDArrays, config: Config) -> tuple[float, int, Config]:
        question = decode(Question, config)
        if asks_for_points(config) or asks_for_parameters(config):
            return math.nan, 0, self._fleet_answer(question, config)
        if question.snapshot:
            return math.nan, 0, self._snapshot_answer(question, parameters)
        try:
            self._permit_losses(1)
            if place := self._place_of(question.task):
                looked = place.evaluate(question, parameters[0])
                return looked.metrics["loss"], looked.samples, {**looked.metrics, STATE_DIGEST: looked.digest}
            objective = self._objective_of(question)
            check_fits(objective, parameters[0].shape[0], question.units)
            metrics = full_evaluation(objective, parameters[0])
        except ZofedhtError as error:
            return math.nan, 0, encode_no_metrics(error.cause, self._error_text(error))
        return metrics["loss"], len(objective), dict(metrics)

    def _snapshot_answer(self, question: Question, arrays: NDArrays) -> Config:
        try:
            if place := self._place_of(question.task):
                return place.snapshot(question, arrays)
            raise DataError.public("the run is not in place, and this client has no parameters to tell")
        except ZofedhtError as error:
            return encode_no_metrics(error.cause, self._error_text(error))

    def _fleet_answer(self, question: Question, config: dict[str, Scalar]) -> dict[str, Scalar]:
        try:
            objective = self._objective_of(question)
            if asks_for_parameters(config):
                return encode_parameters(parameters_of(objective, question.seed))
            check_fits(objective, question.dimension, question.units)
            points = decode_points(config, objective.dim)
            if asks_for_check(config):
                return self._looked(question, objective, points, config)
            self._permit_losses(len(points))
            return encode_answers(
                evaluate_points(objective, points, most_seconds=_MOST_SECONDS, error_text=self._error_text)
            )
        except ZofedhtError as error:
            return encode_no_metrics(error.cause, self._error_text(error))

    def _looked(self, question: Question, objective: Objective, points: Matrix, config: Config) -> Config:
        asked = decode(CheckQuestion, config)
        self._permit_check(asked.batch_size or len(objective))
        check_points(objective, points)
        told, findings = look(objective, points[0], asked, question.seed)
        self._found(findings)
        return encode(told).scalars


def _question(broadcast: Broadcast) -> Question:
    return Question(
        broadcast.client, broadcast.shard_index, broadcast.address.seed, broadcast.task, broadcast.x.shape[0]
    )

"""Sites that have joined over gRPC: the roster, door, TLS and health of ``serve``, and one question more."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from flwr.common import Code, EvaluateIns, EvaluateRes, GetPropertiesIns
from flwr.common import Parameters as NoArrays
from flwr.common.typing import Scalar

from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import FleetError, MessageError, ObjectiveError, ZofedhtError
from zofedht.common.objective.agreement import MOST_UNITS_BYTES, units_as_bytes, units_digest
from zofedht.common.objective.names import names_as_text
from zofedht.common.objective.parameters import Parameters
from zofedht.common.objective.points import Answer
from zofedht.common.plain_text import printable
from zofedht.common.terminal.logs import shown
from zofedht.common.tls import read_tls
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.checked import Checked, CheckQuestion, decode_checked
from zofedht.common.wire.clients import OWN_ROWS, Question
from zofedht.common.wire.codec import check_metrics, encode
from zofedht.common.wire.points import (
    MOST_POINTS,
    decode_answers,
    decode_parameters,
    encode_points,
    parameters_question,
)
from zofedht.server.admission.refusal import Expected, RefusalsTold
from zofedht.server.fleet.folder import About
from zofedht.server.fleet.listening import Listening
from zofedht.server.fleet.local import agreed_parameters
from zofedht.server.fleet.sites import Heard
from zofedht.server.grpc.conversation import LostClient
from zofedht.server.grpc.listener import Door
from zofedht.server.grpc.resident_proxy import ResidentProxy
from zofedht.server.grpc.roster import Roster
from zofedht.server.grpc.transport import JoinService

__all__ = ["NetworkSites"]

_log = logging.getLogger(__name__)

_MOST_BYTES = 4 * 2**20  # of an answer: reasons of MOST_POINTS points take 0.5 MB, parameters 24 bytes and a row each
_REMINDER_SECONDS = 30.0
_POLL = 0.05  # seconds between looks for sites that are not there
_LOOK_UP = 0.5  # seconds between looks whether the fleet was closed
_NOTHING = NoArrays([], "numpy.ndarray")


_telling = threading.Lock()


def _to_stderr(text: str) -> None:
    with _telling, shown():
        _log.info(text)


@dataclass
class _Asked:
    """What one site is asked: the points, how many of them are answered, and how many go at once."""

    points: Matrix
    done: int = 0
    at_once: int = MOST_POINTS

    @property
    def left(self) -> int:
        return len(self.points) - self.done

    @property
    def next(self) -> Matrix:
        return self.points[self.done : self.done + self.at_once]


def _metrics(result: EvaluateRes) -> dict[str, Scalar]:
    """Return what a site has told. Raises MessageError or ObjectiveError where it could not answer."""
    if result.status.code != Code.OK:
        raise MessageError(printable(result.status.message) or "the site answered with an error")
    check_metrics(result.metrics)
    return dict(result.metrics)


class NetworkSites:
    """Listens, lets in who may join, and asks them."""

    def __init__(self, listening: Listening, about: About | None, report: Callable[[str], None] | None = None) -> None:
        """``about`` is the fleet that goes on, if one does. Raises FleetError or DataError."""
        listening.check()
        if report is not None and not callable(report):
            raise FleetError(f"report must be a function of one text, got {report!r}")
        tls = None if listening.tls_dir is None else read_tls(listening.tls_dir, "server")
        self._listening, self._report = listening, report or _to_stderr
        config = RunConfig.from_mapping({"objective": "sites:own", "kernel": "numpy", "seed": listening.seed})
        self._task, self._preparation = config.task, config.preparation
        self._about, self._met, self._closing = about, False, threading.Event()
        self._gone: dict[str, float] = {}  # since when a site has been known not to be there
        self._roster = Roster(self._report)
        self._revoked = listening.revoked()
        service = JoinService(
            self._roster,
            self._hello,
            self._expected,
            lambda: _MOST_BYTES,
            refused=RefusalsTold(self._report),
            begun=lambda: self._about is not None,
        )
        address, health = listening.address, listening.health_address
        self._door = Door(address, service, self._roster, tls=tls, health_address=health)
        self.port = self._door.port
        self._report(f"listening on port {self.port}")

    @property
    def samples(self) -> Mapping[str, int]:
        return self._fleet().samples

    @property
    def parameters(self) -> Parameters:
        return self._fleet().parameters

    def ask(self, points: Mapping[str, Matrix], heard: Heard) -> None:
        self._meet()
        waiting = {name: _Asked(rows) for name, rows in points.items()}
        busy: dict[Future[EvaluateRes], str] = {}
        asked: dict[str, _Asked] = dict(waiting)
        arrived: queue.SimpleQueue[Future[EvaluateRes]] = queue.SimpleQueue()
        while (waiting or busy) and not self._closing.is_set():
            for name in list(waiting):
                proxy, missing = self._present(name)
                if proxy is not None:
                    future = self._begin(proxy, encode_points(waiting.pop(name).next), self._units)
                    busy[future] = name
                    future.add_done_callback(arrived.put)
                elif missing is not None:
                    heard(name, [missing] * waiting.pop(name).left)
            try:
                future = arrived.get(timeout=_POLL if waiting else _LOOK_UP)
            except queue.Empty:
                continue
            name = busy.pop(future)
            answers = self._answers(future, asked[name])
            if self._closing.is_set():  # what is lost by that is no answer
                break
            if answers:
                heard(name, answers)
            asked[name].done += len(answers)
            if asked[name].left:
                waiting[name] = asked[name]
        if self._closing.is_set():
            raise FleetError("the fleet was closed while it waited for answers")

    def check(self, x: Vector, asked: CheckQuestion) -> dict[str, Checked | ZofedhtError]:
        """Ask all sites at once to try their objectives out at x, (n,) in their units; an error for none."""
        of, question = self._fleet(), encode_points(x[None]) | encode(asked).scalars
        present = {name: proxy for name, proxy in self._roster.connected().items() if name in of.samples}
        begun = {name: self._begin(proxy, question, self._units) for name, proxy in present.items()}
        return {name: self._checked(future) for name, future in begun.items()}

    def _checked(self, future: Future[EvaluateRes]) -> Checked | ZofedhtError:
        try:
            return decode_checked(_metrics(future.result()), self.parameters.dim)
        except ZofedhtError as error:
            return error
        except LostClient as error:
            return ObjectiveError(str(error), cause="no-answer")

    def close(self, *, over: bool) -> None:
        self._closing.set()
        try:
            if over:
                self._roster.dismiss()
        finally:
            self._door.close()

    def _fleet(self) -> About:
        """Return who the fleet is; wait for it to come together where it is a new one."""
        if self._about is None:
            self._wait(self._listening.min_clients)
            present = self._roster.connected()
            told = {name: self._begin(proxy, parameters_question(), "") for name, proxy in present.items()}
            parameters = {
                name: self._parameters_of(name, future, present[name].hello.dimension) for name, future in told.items()
            }
            samples = {name: proxy.hello.examples for name, proxy in present.items()}
            self._about, self._met = About(samples, agreed_parameters(parameters)), True
        return self._about

    def _meet(self) -> None:
        """Wait for the sites of a fleet that goes on, once: the ledger alone has answered until now."""
        if not self._met:
            self._wait(min(self._listening.min_clients, len(self.samples)))
            self._met = True

    def _wait(self, clients: int) -> None:
        reminded = time.monotonic() - _REMINDER_SECONDS
        while (present := len(self._roster.connected())) < clients:
            if time.monotonic() - reminded > _REMINDER_SECONDS:
                reminded = time.monotonic()
                self._report(f"waiting for sites: {present} of {clients} connected")
            time.sleep(_POLL)

    def _present(self, name: str) -> tuple[ResidentProxy | None, Answer | None]:
        """Return the site; while it is not there, what is to be noted once it was waited for long enough."""
        proxy, now = self._roster.connected().get(name), time.monotonic()
        if proxy is not None and proxy.conversation.ready:
            self._gone.pop(name, None)
            return proxy, None
        if now - self._gone.setdefault(name, now) <= self._listening.rejoin:
            return None, None
        why = "it is not connected" if proxy is None else "it is still at work on an earlier question"
        return None, Answer.lost("absent", f"{why} within {self._listening.rejoin:g} seconds")

    def _answers(self, future: Future[EvaluateRes], asked: _Asked) -> list[Answer]:
        """Return what a site has answered to its next points; nothing where they are to be asked one by one."""
        count = len(asked.next)
        try:
            return decode_answers(_metrics(future.result()), count)
        except LostClient as error:
            if count > 1:  # one of them may be what ends the site: that one alone is lost
                asked.at_once = 1
                return []
            return [Answer.lost("no-answer", str(error))]
        except ZofedhtError as error:
            return [Answer.lost("refused", str(error))] * count
        except Exception as error:  # Flower's reader raises what it meets
            return [Answer.lost("refused", f"the answer cannot be read: {type(error).__name__}")] * count

    @property
    def _units(self) -> str:
        return units_digest(self.parameters.units, self.parameters.space)

    def _parameters_of(self, name: str, asked: Future[EvaluateRes], dimension: int) -> Parameters:
        try:
            return decode_parameters(_metrics(asked.result()), dimension)
        except (ZofedhtError, LostClient) as error:
            raise FleetError(f"site {name} could not say what its parameters are: {error}") from error

    def _begin(self, proxy: ResidentProxy, question: dict[str, Scalar], units: str) -> Future[EvaluateRes]:
        address = Question(proxy.hello.name, OWN_ROWS, self._listening.seed, self._task, proxy.hello.dimension, units)
        ins = EvaluateIns(_NOTHING, encode(address).scalars | question)
        return proxy.evaluate_later(ins, self._listening.timeout)

    def _hello(self) -> GetPropertiesIns:
        dimension = 0 if self._about is None else self._about.parameters.dim
        return GetPropertiesIns(
            encode(Question("", OWN_ROWS, self._listening.seed, self._preparation, dimension)).scalars
        )

    def _expected(self) -> Expected:
        """Return what a client must bring: what the fleet has, or the first site that has joined."""
        rule = {"shard_count": 0, "clients_hold_data": True, "black_box": True, "revoked": self._revoked.refuses}
        if self._about is not None:
            mine, samples = self._about.parameters, self._about.samples
            units, names = units_as_bytes(mine.units, MOST_UNITS_BYTES), names_as_text(mine.names)
            return Expected(mine.dim, units=units, names=names, roll=samples, **rule)  # type: ignore[arg-type]
        for name, proxy in self._roster.connected().items():
            hello = proxy.hello
            return Expected(hello.dimension, units=hello.units, names=hello.names, first=name, **rule)  # type: ignore[arg-type]
        return Expected(0, **rule)  # type: ignore[arg-type]

    def refuse(self, entries: Sequence[str]) -> None:
        """Refuse more names or certificates, read the file again, and end the streams of those that are named."""
        self._revoked.add(entries)
        self._roster.dismiss_revoked(self._revoked.refuses)

"""The Flower Server that asks, waits, re-sends a lost basis, draws lost slots again and retries.

``conduct`` drives; this class carries its messages with the strategy, in every engine that is Flower's.
What becomes of a lost slot is decided in one place: ``carry_round`` offers it to the coordinator for another
client while round-timeout lasts; then ``tell`` goes on with what there is, or has the round tried again.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from operator import itemgetter

from flwr.common import EvaluateIns, EvaluateRes, FitRes, Parameters, Scalar
from flwr.common import ndarrays_to_parameters as pack
from flwr.server import History, Server
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy

from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import MessageError, RoundError
from zofedht.common.shards import about_data, members_of
from zofedht.common.typing import Vector
from zofedht.common.wire.bundle import bundled
from zofedht.common.wire.clients import Member
from zofedht.common.wire.codec import Encoded
from zofedht.common.wire.message_size import fit_ins_size, fit_res_size
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.aggregation.screening import Failure
from zofedht.server.conduct import Result, conduct
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.state import ServerState
from zofedht.server.delivery.traffic import Traffic
from zofedht.server.evaluation.evaluate import Answer, central_evaluator, evaluate_clients
from zofedht.server.evaluation.full_evaluation import FullEvaluation, Metrics
from zofedht.server.evaluation.start import Start
from zofedht.server.flower.answers import agreed_start, answers_of, updates_of
from zofedht.server.flower.presence import Presence
from zofedht.server.flower.proxies import FIRST_ANSWER, evaluate_later, fit_later
from zofedht.server.flower.snapshots import Snapshots
from zofedht.server.flower.strategy import Asked, ZofedhtStrategy, by_node, lost, over_nodes
from zofedht.server.records.run_folder import RunFolder

__all__ = ["FlowerRounds"]

_log = logging.getLogger(__name__)

_SPARE_THREADS = 16  # a slot that was drawn again may start while the lost one still blocks its thread
_GRACE = 1.0  # seconds in which a proxy whose time is up tells so itself, and knows that its client is late
_Question = tuple[ClientProxy, dict[str, Scalar]]  # a logical client's node, and what asks it for an evaluation


class FlowerRounds(Server):
    """Runs the rounds of one config over the nodes of a ClientManager."""

    strategy: ZofedhtStrategy

    def __init__(
        self,
        config: RunConfig,
        client_manager: ClientManager,
        *,
        folder: RunFolder | None = None,
        state: ServerState | None = None,
        on_result: Callable[[Result], None] = lambda result: None,
        around: Callable[[], AbstractContextManager[object]] = nullcontext,
        show_progress: bool = True,
        homes: Callable[[], dict[Member, ClientProxy]] | None = None,
        patience: float | None = None,
        dimension: int = 0,
        traffic: Traffic | None = None,
        interrupted: threading.Event | None = None,
    ) -> None:
        """``homes`` tells who can be drawn now and where; unless given, all logical clients live on all nodes.

        ``patience`` is how many seconds to wait for somebody to be there; round-timeout unless given.
        ``around`` gives what the run, and ``on_result``, happen in.
        ``dimension`` is n where it is known: a client's sparse file may lack its last columns.
        ``traffic`` is where the proxies count their bytes; unless given, Flower's messages are counted here.
        ``interrupted`` is set by another thread that ends the run: the last finished round is kept.
        """
        super().__init__(client_manager=client_manager)
        self._config, self._folder, self._start = config, folder, state
        self._on_result, self._around, self._show_progress = on_result, around, show_progress
        self._homes = homes or (lambda: over_nodes(members_of(config), client_manager.all()))
        patience = config.round_timeout if patience is None else patience
        self._present = Presence(self._homes, patience, interrupted or threading.Event())
        # A node may have to start, and to load the app and the user's code, before it answers for the first time.
        self._first_answer = config.round_timeout if homes else max(config.round_timeout, FIRST_ANSWER)
        self._dimension = dimension
        self._traffic, self._counts = traffic or Traffic(), traffic is None
        self._central = central_evaluator(config)
        self._pool = ThreadPoolExecutor(config.most_slots + _SPARE_THREADS, thread_name_prefix="slot")
        self._snapshots = Snapshots(config, self._pool)

    def fit(self, num_rounds: int, timeout: float | None) -> tuple[History, float]:
        """Run to the end of the config; Flower calls this. The history is in the result folder."""
        began = time.perf_counter()
        try:
            with self._around():
                result = conduct(
                    self._config, self, folder=self._folder, state=self._start, show_progress=self._show_progress
                )
                self._on_result(result)
        finally:
            self._pool.shutdown(wait=False, cancel_futures=True)
        return History(), time.perf_counter() - began

    def start(self) -> Start:
        """Return n, the starting point and the units: known for a built-in model, else asked of the clients.

        Raises RoundError when nobody says it, ObjectiveError where two differ in n or in their units.
        """
        homes = self._present.wait()
        if self._central:
            return Start(self._central.dim, self._central.starting_point(), about=about_data(self._config))
        return agreed_start(self._config, homes, self._pool, self._dimension, self._first_answer)

    def attach(self, coordinator: Coordinator) -> None:
        """Put the strategy around the coordinator of this run."""
        coordinator.count_by(self._traffic)
        self.set_strategy(ZofedhtStrategy(coordinator, self._homes, self._central))
        self.parameters = self.strategy.initialize_parameters(self._client_manager)

    def carry_round(self) -> None:
        """One attempt at a round: FitIns out, FitRes in, a lost basis sent again, a lost slot drawn again.

        When all have answered, those whose slopes are along other directions than ours are asked for their move.
        """
        homes, state = self._present.wait(), self.strategy.coordinator.state
        self._snapshots.bring(homes, state.tensors, state.x)
        round_ = state.round + 1  # Flower counts from 1
        deadline = time.monotonic() + self._config.round_timeout
        pending: dict[Future[FitRes], Sequence[Asked]] = {}
        began: dict[Future[FitRes], float] = {}
        arrived: queue.SimpleQueue[Future[FitRes]] = queue.SimpleQueue()
        proxies: dict[str, ClientProxy] = {}

        def send(slots: Sequence[Asked], *, together: bool = True) -> bool:
            for bundle in by_node(slots, itemgetter(0)) if together else [[asked] for asked in slots]:
                sent = time.monotonic()
                future = self._fit(bundle, max(0.01, deadline - sent), round_)
                pending[future], began[future] = bundle, sent
                proxies.update({asked.broadcast.client: asked.proxy for asked in bundle})
                future.add_done_callback(arrived.put)
            return bool(slots)

        send(self.strategy.ask(homes))
        updates: list[Update] = []
        failures: list[Failure] = []
        while pending or send(self.strategy.recheck(updates, proxies)):
            try:
                future = arrived.get(timeout=max(0.0, deadline - time.monotonic()) + _GRACE)
            except queue.Empty:  # what still waits is lost, and there is no time to draw again
                late = TimeoutError(f"no answer within round-timeout = {self._config.round_timeout:g} seconds")
                failures.extend(lost(asked.broadcast, late) for bundle in pending.values() for asked in bundle)
                break
            self._present.check_interrupt()
            bundle = pending.pop(future)
            now = time.monotonic()
            in_time = now < deadline
            for asked in bundle:
                self.strategy.coordinator.timed(asked.broadcast.slot, (now - began[future]) / len(bundle))
            try:
                answers = self._updates([asked.broadcast for asked in bundle], future.result())
            except Exception as error:
                if len(bundle) > 1 and in_time:  # one of them may have ended the process of all
                    send(bundle, together=False)
                    continue
                failures.extend(lost(asked.broadcast, error) for asked in bundle)
                for failure in failures[-len(bundle) :]:
                    _log.debug("slot %d is lost by %s: %s", failure.slot, failure.client, failure.reason)
                # A malformed reply counts as the client's answer. A slot without an answer is drawn again.
                if not isinstance(error, MessageError) and in_time:
                    send([again for asked in bundle for again in self.strategy.redraw(asked.broadcast.slot)])
                continue
            updates += answers
            for update in answers:
                _log.debug(
                    "slot %d of %s: %s after %.3f s", update.slot, update.client, update.status, now - began[future]
                )
            send([again for pair in zip(bundle, answers, strict=True) for again in self.strategy.resend(*pair)])
        self._present.check_interrupt()  # what is lost by the end is no failure of the round
        self.strategy.coordinator.tell(updates, failures)

    def evaluate(self, x: Vector) -> FullEvaluation:
        """Evaluate x on all rows, or by asking every client for its shard.

        Some have round-timeout for all their tries together; as long as nobody has answered, each try has its own.
        """
        if self._central:
            return self._central.evaluation(x)
        if not self._config.clients_tell_losses:
            return FullEvaluation({"train_loss": math.nan})
        deadline, together = math.inf, True

        def ask(done: Collection[str]) -> dict[str, Answer]:
            nonlocal deadline, together
            if done and time.monotonic() >= deadline:
                return {}
            try:
                homes = self._present.wait()
            except RoundError:
                return {}  # what the rounds have reached is not lost because nobody is there to look at it
            self._snapshots.bring(homes, self.strategy.coordinator.state.tensors, x)
            if not done:
                deadline = time.monotonic() + self._config.round_timeout
            questions = [asked for asked in self.strategy.questions() if asked[1]["client"] not in done]
            groups = by_node(questions, itemgetter(0)) if together else [[asked] for asked in questions]
            together = False  # in another try, who ends the process of all evaluates alone
            parameters = pack([x])
            futures = [(group, self._evaluate(group, parameters, deadline)) for group in groups]
            answers: dict[str, Answer] = {}
            for group, future in futures:
                answers |= answers_of([str(asked["client"]) for _, asked in group], future)
            return {str(asked["client"]): answers[str(asked["client"])] for _, asked in questions}

        config = self._config
        found = evaluate_clients(ask, self._present.seen, max_retries=config.max_retries, on_error=config.on_error)
        self._present.check_interrupt()
        return found

    def test(self, x: Vector) -> Metrics:
        """Evaluate x on the test set, where the server has it."""
        return self._central.test(x) if self._central else {}

    def _evaluate(self, group: Sequence[_Question], parameters: Parameters, deadline: float) -> Future[EvaluateRes]:
        asked = bundled([Encoded([], config) for _, config in group]).scalars
        return evaluate_later(group[0][0], EvaluateIns(parameters, asked), deadline, self._pool)

    def _fit(self, bundle: Sequence[Asked], timeout: float, round_: int) -> Future[FitRes]:
        ins = self.strategy.fit_ins([asked.broadcast for asked in bundle])
        if self._counts:
            size = fit_ins_size(map(len, ins.parameters.tensors), ins.config)
            self._traffic.share([asked.broadcast.client for asked in bundle], down=size)
        return fit_later(bundle[0].proxy, ins, timeout, round_, self._pool)

    def _updates(self, broadcasts: Sequence[Broadcast], result: FitRes) -> list[Update]:
        """Return the answers to the slots of a message, counted and read once. Raises as ``updates_of``."""
        if self._counts:
            tensors, status = map(len, result.parameters.tensors), result.status
            size = fit_res_size(tensors, result.num_examples, result.metrics, status.code.value, status.message)
            self._traffic.share([broadcast.client for broadcast in broadcasts], up=size)
        return updates_of(broadcasts, result)

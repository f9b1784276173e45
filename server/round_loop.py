"""The Flower Server that asks, waits, re-sends a lost basis, retries, checkpoints and shows progress.

``conduct`` drives; this class carries its messages with the strategy, in every engine that is Flower's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from flwr.common import Code, EvaluateIns, EvaluateRes, FitIns, FitRes, GetParametersIns
from flwr.common import ndarrays_to_parameters as pack
from flwr.common import parameters_to_ndarrays as unpack
from flwr.server import History, Server
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy

from common.config import RunConfig
from common.errors import RoundError
from common.shards import client_names
from common.typing import Vector
from server.conduct import Result, conduct
from server.coordinator import Coordinator, Metrics
from server.evaluation import CentralEvaluator, mean_over_clients
from server.rounds import ServerState
from server.run_folder import RunFolder
from server.strategy import Instructions, SlotFailure, ZofedhtStrategy, question

__all__ = ["FlowerRounds"]

_Ins = TypeVar("_Ins")
_Res = TypeVar("_Res")
_MOST_THREADS = 64  # messages under way at once; the others wait for a thread


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
        show_progress: bool = True,
    ) -> None:
        super().__init__(client_manager=client_manager)
        self._config = config
        self._folder = folder
        self._start = state
        self._on_result = on_result
        self._show_progress = show_progress
        self._clients = client_names(config)
        self._central = None if config.objective else CentralEvaluator(config)
        self._pool = ThreadPoolExecutor(max_workers=_MOST_THREADS, thread_name_prefix="slot")

    def fit(self, num_rounds: int, timeout: float | None) -> tuple[History, float]:
        """Run to the end of the config; Flower calls this. The history is in the result folder."""
        began = time.perf_counter()
        try:
            result = conduct(
                self._config, self, folder=self._folder, state=self._start, show_progress=self._show_progress
            )
        finally:
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._on_result(result)
        return History(), time.perf_counter() - began

    def start(self) -> tuple[int, Vector | None]:
        """Return n and the starting point: known for a built-in model, else asked of the first client."""
        self._wait_for_nodes()
        if self._central:
            return self._central.dim, None
        node = min(self._client_manager.all().values(), key=lambda proxy: proxy.cid)
        ins = GetParametersIns(config=question(self._config, self._clients[0]))
        try:
            result = node.get_parameters(ins, timeout=self._config.round_timeout, group_id=0)
        except Exception as error:
            raise RoundError(f"client {self._clients[0]} could not say its starting point: {error}") from error
        if result.status.code != Code.OK:
            raise RoundError(f"client {self._clients[0]} could not say its starting point: {result.status.message}")
        x = unpack(result.parameters)[0]
        return x.shape[0], x

    def attach(self, coordinator: Coordinator) -> None:
        """Put the strategy around the coordinator of this run."""
        self.set_strategy(ZofedhtStrategy(coordinator, self._clients, self._central))
        self.parameters = self.strategy.initialize_parameters(self._client_manager)

    def carry_round(self) -> None:
        """One attempt at a round: FitIns out, FitRes in, a lost basis sent again."""
        self._wait_for_nodes()
        round_ = self.strategy.coordinator.state.round + 1  # Flower counts from 1
        instructions = self.strategy.configure_fit(round_, self.parameters, self._client_manager)
        results, failures = self._fit(instructions, round_)
        again = self.strategy.configure_resend(results, self._client_manager)
        more, more_failures = self._fit(again, round_)
        parameters, _ = self.strategy.aggregate_fit(round_, [*results, *more], [*failures, *more_failures])
        if parameters is not None:
            self.parameters = parameters

    def evaluate(self, x: Vector) -> Metrics:
        """Evaluate x on all rows, or by asking every client for its shard."""
        if self._central:
            return self._central(x)
        instructions = self.strategy.configure_evaluate(0, pack([x]), self._client_manager)
        answers = self._send(instructions, self._evaluate_one)
        good = [answer for answer in answers if not isinstance(answer, BaseException)]
        if not good:
            raise RoundError(f"no client could evaluate x: {answers[0]}")
        return mean_over_clients({f"train_{k}": float(v) for k, v in answer.metrics.items()} for answer in good)

    def test(self, x: Vector) -> Metrics:
        """Evaluate x on the test set, where the server has it."""
        return self._central.test(x) if self._central else {}

    def _wait_for_nodes(self) -> None:
        # Bounded: Flower's own wait lasts a day.
        deadline = time.monotonic() + self._config.round_timeout
        while not self._client_manager.all():
            if time.monotonic() > deadline:
                raise RoundError(f"no client connected within round-timeout = {self._config.round_timeout} seconds")
            time.sleep(0.05)

    def _fit(
        self, instructions: Instructions, round_: int
    ) -> tuple[list[tuple[ClientProxy, FitRes]], list[tuple[ClientProxy, FitRes] | BaseException]]:
        def one(proxy: ClientProxy, ins: FitIns) -> FitRes:
            return _usable(proxy.fit(ins, timeout=self._config.round_timeout, group_id=round_))

        results: list[tuple[ClientProxy, FitRes]] = []
        failures: list[tuple[ClientProxy, FitRes] | BaseException] = []
        for instruction, answer in zip(instructions, self._send(instructions, one), strict=True):
            if isinstance(answer, BaseException):
                failures.append(SlotFailure(instruction, answer))
            else:
                results.append((instruction[0], answer))
        return results, failures

    def _evaluate_one(self, proxy: ClientProxy, ins: EvaluateIns) -> EvaluateRes:
        result = proxy.evaluate(ins, timeout=self._config.round_timeout, group_id=0)
        if result.status.code != Code.OK:
            raise RoundError(result.status.message)
        return result

    def _send(
        self, instructions: Sequence[tuple[ClientProxy, _Ins]], verb: Callable[[ClientProxy, _Ins], _Res]
    ) -> list[_Res | BaseException]:
        """Return the answers in the order of the instructions, an exception in place of a lost one."""
        futures = [self._pool.submit(verb, proxy, ins) for proxy, ins in instructions]
        return [future.exception() or future.result() for future in futures]


def _usable(result: FitRes) -> FitRes:
    if result.status.code != Code.OK:
        raise RoundError(result.status.message or "the client answered with an error")
    return result

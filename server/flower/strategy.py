"""The Flower Strategy: keeps the trajectory buffer, computes Q every tau rounds, ships it in the fit config.

The numbers are the coordinator's (and so ``rounds.tell``'s); here is only translation to and from
Flower. The strategy also works under a stock ``flwr.server.Server``; our own (``round_loop``) adds the
re-send of a lost basis within the round and the retries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from flwr.common import EvaluateIns, EvaluateRes, FitIns, FitRes, Parameters, Scalar
from flwr.common import ndarrays_to_parameters as pack
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy

from zofedht.common.choices import WIRE_DTYPES
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import MessageError, cause_of
from zofedht.common.typing import Vector
from zofedht.common.wire.codec import decode_update, encode_basis, encode_broadcast, encode_question
from zofedht.common.wire.messages import MISSING, Broadcast, Member, Question, Update
from zofedht.common.wire.npy import decode_vectors
from zofedht.server.core.aggregation import Failure
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.figures import Metrics
from zofedht.server.core.selection import in_order, in_turn

__all__ = [
    "Instruction",
    "Instructions",
    "SlotFailure",
    "ZofedhtStrategy",
    "check_reply",
    "client_reply",
    "over_nodes",
    "question",
]

Instruction = tuple[ClientProxy, FitIns]
Instructions = list[Instruction]


_NOTHING = pack([])


class SlotFailure(Exception):  # noqa: N818  (Flower calls what did not answer a failure)
    """A slot whose message was lost, or answered with an exception."""

    def __init__(self, instruction: Instruction, error: BaseException) -> None:
        config = instruction[1].config
        reason = f"{type(error).__name__}: {error}".strip().rstrip(":")
        round_, slot = int(str(config["round"])), int(str(config["slot"]))
        self.failure = Failure(round_, slot, str(config["client"]), cause_of(error), reason)
        super().__init__(reason)


class ZofedhtStrategy(Strategy):
    """Algorithm 1's server on Flower."""

    def __init__(
        self,
        coordinator: Coordinator,
        homes: Callable[[], dict[Member, ClientProxy]],
        evaluate: Callable[[Vector], Metrics] | None = None,
    ) -> None:
        """``homes`` tells which logical clients can be drawn now, and on which node each lives."""
        self.coordinator = coordinator
        self._homes = homes
        self._evaluate = evaluate
        self._basis: tuple[str, bytes] = ("", b"")  # digest and bytes of Q, serialised once
        self._x: tuple[Vector, Parameters] | None = None  # x_r and its serialised form

    def initialize_parameters(self, client_manager: ClientManager) -> Parameters:
        """Return x of the coordinator's state: x_0, or where a resumed run stands."""
        return pack([self.coordinator.state.x])

    def configure_fit(self, server_round: int, parameters: Parameters, client_manager: ClientManager) -> Instructions:
        """Return this attempt's FitIns, a slot each; Q is in those whose node has not confirmed it."""
        homes = self._homes()
        return self._instructions(self.coordinator.ask(list(homes)), homes)

    def configure_resend(self, results: Sequence[tuple[ClientProxy, FitRes]]) -> Instructions:
        """Return the FitIns, now with Q, for the slots whose process has lost it."""
        # The others may hold moves, which are long to read.
        read, _ = _read([each for each in results if each[1].metrics.get("status") in MISSING])
        proxies = {update.client: proxy for proxy, update in read}
        broadcasts = self.coordinator.resend([update for _, update in read])
        return [self._instruction(proxies[broadcast.client], broadcast) for broadcast in broadcasts]

    def configure_recheck(self, results: Sequence[tuple[ClientProxy, FitRes]]) -> Instructions:
        """Return the FitIns that ask for a move, for the slots whose slopes are along other directions."""
        if not self.coordinator.rechecks:
            return []  # nothing is read, then
        read, _ = _read(results)
        proxies = {update.client: proxy for proxy, update in read}
        broadcasts = self.coordinator.recheck([update for _, update in read])
        return [self._instruction(proxies[broadcast.client], broadcast) for broadcast in broadcasts]

    def configure_redraw(self, failure: SlotFailure) -> Instructions:
        """Return the FitIns of a lost slot for another client that is connected now, or none."""
        homes = self._homes()
        broadcast = self.coordinator.redraw(failure.failure.slot, list(homes))
        return [] if broadcast is None else self._instructions([broadcast], homes)

    def aggregate_fit(
        self,
        server_round: int,
        results: list[tuple[ClientProxy, FitRes]],
        failures: list[tuple[ClientProxy, FitRes] | BaseException],
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        """Screen the replies, average, push the move, and every tau rounds compute Q.

        Returns (x, metrics), or (None, {}) when the round must be tried again.

        Raises RoundError when it has failed too often.
        """
        read, unreadable = _read(results)
        lost = [failure.failure for failure in failures if isinstance(failure, SlotFailure)]
        where = self.coordinator.state.round, -1, "unknown"
        others = [Failure(*where, "no-answer", str(f)) for f in failures if not isinstance(f, SlotFailure)]
        record = self.coordinator.tell([update for _, update in read], [*lost, *others, *unreadable])
        if record is None:
            return None, {}
        return pack([self.coordinator.state.x]), {
            "train_loss": record.train_loss,
            "evaluations": record.evaluations,
        }

    def configure_evaluate(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, EvaluateIns]]:
        """Return one EvaluateIns for each logical client, or none where the server can evaluate by itself."""
        if self._evaluate is not None:
            return []
        homes = self._homes()
        state = self.coordinator.state
        dimension, units = state.x.shape[0], "" if state.units is None else state.units.digest
        return [
            (homes[member], EvaluateIns(parameters, question(self.coordinator.config, member, dimension, units)))
            for member in in_turn(list(homes))
        ]

    def aggregate_evaluate(
        self,
        server_round: int,
        results: list[tuple[ClientProxy, EvaluateRes]],
        failures: list[tuple[ClientProxy, EvaluateRes] | BaseException],
    ) -> tuple[float | None, dict[str, Scalar]]:
        """Return the unweighted mean of the clients' losses, f = (1/N) sum_i f_i, over those that could evaluate."""
        # EvaluateRes.loss crosses the wire as float32; the metrics hold it in full, or the reason why there is none.
        losses = [
            float(result.metrics.get("loss", result.loss))
            for _, result in results
            if not isinstance(result.metrics.get("cause"), str)
        ]
        return (sum(losses) / len(losses), {}) if losses else (None, {})

    def evaluate(self, server_round: int, parameters: Parameters) -> tuple[float, dict[str, Scalar]] | None:
        """Evaluate x on all rows, where the server has the data set."""
        if self._evaluate is None:
            return None
        figures = self._evaluate(decode_vectors(parameters.tensors, "x")[0])
        return figures["train_loss"], dict(figures)

    def _instructions(self, broadcasts: Sequence[Broadcast], homes: dict[Member, ClientProxy]) -> Instructions:
        proxies = {member.name: proxy for member, proxy in homes.items()}
        return [self._instruction(proxies[broadcast.client], broadcast) for broadcast in broadcasts]

    def _instruction(self, proxy: ClientProxy, broadcast: Broadcast) -> Instruction:
        arrays, config = encode_broadcast(replace(broadcast, basis=None))
        if broadcast.trail is not None:
            parameters = _NOTHING
        else:
            if self._x is None or self._x[0] is not broadcast.x:
                self._x = (broadcast.x, pack(arrays))
            parameters = self._x[1]
        if broadcast.basis is not None:
            if self._basis[0] != broadcast.digest:
                self._basis = (broadcast.digest, encode_basis(broadcast.basis, broadcast.dtype))
            config["basis"] = self._basis[1]
        return proxy, FitIns(parameters, config)


def question(config: RunConfig, member: Member, dimension: int = 0, units: str = "") -> dict[str, Scalar]:
    """Return the config that asks one logical client for its start, or an evaluation of x in units of this digest; n
    where it is known."""
    return encode_question(Question(member.name, member.partition, config.seed, config.task, dimension, units))


def over_nodes(members: Sequence[Member], nodes: Mapping[str, ClientProxy]) -> dict[Member, ClientProxy]:
    """Spread logical clients over the nodes there are; a node keeps the basis for all that live on it.

    No number depends on where a client lives, and so on Flower's node ids.
    """
    if not nodes:
        return {}
    ordered = [nodes[cid] for cid in in_order(list(nodes))]
    homes = {}
    for index, member in enumerate(members):
        node = ordered[index % len(ordered)]
        homes[replace(member, host=node.cid, keeps_x=False)] = node
    return homes


def client_reply(result: FitRes) -> Update:
    """Read an Update from a FitRes.

    Raises MessageError when it is not one; nothing is allocated for what an array claims, and no pickle is read.
    """
    arrays = decode_vectors(result.parameters.tensors, "the move", dtypes=WIRE_DTYPES)
    return decode_update(arrays, result.num_examples, result.metrics)


def check_reply(ins: FitIns, result: FitRes) -> None:
    """Raise MessageError unless the result is an Update for the slot and in the name that were asked.

    Otherwise a client could answer for another.
    """
    update = client_reply(result)
    asked = ins.config["slot"], ins.config["client"]
    if (update.slot, update.client) != asked:
        raise MessageError(
            f"answered for slot {update.slot} of client {update.client[:64]!r},"
            f" asked was slot {asked[0]!r} of client {asked[1]!r}"
        )


def _read(
    results: Sequence[tuple[ClientProxy, FitRes]],
) -> tuple[list[tuple[ClientProxy, Update]], list[Failure]]:
    read, unreadable = [], []
    for proxy, result in results:
        try:
            read.append((proxy, client_reply(result)))
        except MessageError as error:
            told = [result.metrics.get(key) for key in ("round", "slot")]
            round_, slot = (each if isinstance(each, int) else -1 for each in told)
            unreadable.append(Failure(round_, slot, proxy.cid, error.cause, str(error)))
    return read, unreadable

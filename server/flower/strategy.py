"""The Flower Strategy: keeps the trajectory buffer, computes Q every tau rounds, ships it in the fit config.

The numbers are the coordinator's (and so ``tell``'s); here is only translation to and from
Flower. The strategy also works under a stock ``flwr.server.Server``; our own (``round_loop``) adds the
re-send of a lost basis within the round and the retries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from flwr.common import EvaluateIns, EvaluateRes, FitIns, FitRes, Parameters, Scalar
from flwr.common import ndarrays_to_parameters as pack
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy

from zofedht.common.choices import WIRE_DTYPES
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import MessageError, cause_of
from zofedht.common.plain_text import printable
from zofedht.common.typing import Vector
from zofedht.common.wire.arrays import decode_vectors, packed
from zofedht.common.wire.bundle import bundled, decode_updates
from zofedht.common.wire.clients import Member, Question
from zofedht.common.wire.codec import Encoded, encode
from zofedht.common.wire.fields import changed
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.aggregation.screening import Failure
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.selection import in_order, in_turn
from zofedht.server.evaluation.full_evaluation import Metrics
from zofedht.server.flower.proxies import PromptProxy, plainly

__all__ = ["Asked", "ZofedhtStrategy", "by_node", "client_replies", "lost", "over_nodes", "question"]

_Item = TypeVar("_Item")
_NOTHING = pack([])
_MOST_REASON = 500  # characters of why a slot was lost: mostly the server's own words


class Asked(NamedTuple):
    """A slot's broadcast, and the node that it goes to."""

    proxy: ClientProxy
    broadcast: Broadcast


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
        self._x: tuple[Vector, Vector, Parameters] | None = None  # x_r, as it is sent, and that serialised

    def initialize_parameters(self, client_manager: ClientManager) -> Parameters:
        """Return x of the coordinator's state: x_0, or where a resumed run stands."""
        return pack([self.coordinator.state.x])

    def ask(self, homes: dict[Member, ClientProxy] | None = None) -> list[Asked]:
        """Return this attempt's slots; Q goes to those whose node has not confirmed it."""
        homes = homes or self._homes()
        return self._asked(self.coordinator.ask(list(homes)), homes)

    def resend(self, asked: Asked, update: Update) -> list[Asked]:
        """Return the slot again, now with Q or x, where its process has lost that."""
        return [Asked(asked.proxy, broadcast) for broadcast in self.coordinator.resend([update])]

    def recheck(self, updates: Sequence[Update], proxies: Mapping[str, ClientProxy]) -> list[Asked]:
        """Return the slots that are to send a move, since their slopes are along other directions."""
        return [Asked(proxies[broadcast.client], broadcast) for broadcast in self.coordinator.recheck(updates)]

    def redraw(self, slot: int) -> list[Asked]:
        """Return a lost slot for another client that is connected now, or nothing."""
        homes = self._homes()
        broadcast = self.coordinator.redraw(slot, list(homes))
        return [] if broadcast is None else self._asked([broadcast], homes)

    def fit_ins(self, broadcasts: Sequence[Broadcast]) -> FitIns:
        """Return the slots of a node as Flower's message; x and Q are serialised once for all slots of a round."""
        arrays, config = bundled([self._encoded(broadcast) for broadcast in broadcasts])
        return FitIns(self._x[2] if arrays and self._x else _NOTHING, config)

    def _encoded(self, broadcast: Broadcast) -> Encoded:
        arrays, config = encode(broadcast if broadcast.basis is None else changed(broadcast, basis=None))
        if arrays and (self._x is None or self._x[0] is not broadcast.x):
            self._x = (broadcast.x, arrays[0], pack(arrays))
        if broadcast.basis is not None:
            if self._basis[0] != broadcast.basis_digest:
                self._basis = (broadcast.basis_digest, packed(broadcast.basis, broadcast.dtype))
            config["basis"] = self._basis[1]
        return Encoded([self._x[1]] if arrays and self._x else [], config)

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, FitIns]]:
        """Return this attempt's FitIns, a slot each."""
        return [(asked.proxy, self.fit_ins([asked.broadcast])) for asked in self.ask()]

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
        round_ = self.coordinator.state.round
        updates, failed = [], [Failure(round_, -1, "unknown", "no-answer", str(failure)) for failure in failures]
        for proxy, result in results:
            try:
                updates += client_replies(result)
            except MessageError as error:
                failed.append(Failure(round_, -1, proxy.cid, error.cause, str(error)))
        record = self.coordinator.tell(updates, failed)
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
        return [(proxy, EvaluateIns(parameters, asked)) for proxy, asked in self.questions()]

    def questions(self) -> list[tuple[ClientProxy, dict[str, Scalar]]]:
        """Return, for each logical client that is there, its node and what asks it for an evaluation of x."""
        homes, state = self._homes(), self.coordinator.state
        dimension, units = state.x.shape[0], state.units_digest
        return [
            (homes[member], question(self.coordinator.config, member, dimension, units))
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
        metrics = self._evaluate(decode_vectors(parameters.tensors, "x")[0])
        return metrics["train_loss"], dict(metrics)

    def _asked(self, broadcasts: Sequence[Broadcast], homes: Mapping[Member, ClientProxy]) -> list[Asked]:
        proxies = {member.name: proxy for member, proxy in homes.items()}
        return [Asked(proxies[broadcast.client], broadcast) for broadcast in broadcasts]


def question(config: RunConfig, member: Member, dimension: int = 0, units: str = "") -> dict[str, Scalar]:
    """Return the config that asks one logical client for its start, or an evaluation of x in units of this digest; n
    where it is known."""
    asked = Question(member.name, member.shard_index, config.seed, config.task, dimension, units)
    return encode(asked).scalars


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


def by_node(items: Sequence[_Item], proxy_of: Callable[[_Item], ClientProxy]) -> list[list[_Item]]:
    """Return the items in groups, of which each goes as one message: Flower starts a process for each message.

    A client that has a connection of its own answers each item as soon as it is done.
    """
    groups: dict[str, list[_Item]] = {}
    for index, item in enumerate(items):
        proxy = proxy_of(item)
        groups.setdefault(f"item {index}" if isinstance(proxy, PromptProxy) else f"node {proxy.cid}", []).append(item)
    return list(groups.values())


def client_replies(result: FitRes, slots: int = 1) -> list[Update]:
    """Read the Updates of a FitRes, one for each of so many slots.

    Raises MessageError when it holds anything else. Nothing is allocated for what an array claims, no pickle is read.
    """
    arrays = decode_vectors(result.parameters.tensors, "the move", most=slots, dtypes=WIRE_DTYPES)
    updates = decode_updates(result.metrics, arrays, result.num_examples, slots)
    return [changed(update, reason=printable(update.reason)) if update.reason else update for update in updates]


def lost(broadcast: Broadcast, error: BaseException) -> Failure:
    """Return the failure of a slot whose message was lost, or answered with an error."""
    said = plainly(error)
    named = f"{type(error).__name__}: {said}" if said == str(error) else said  # Flower's own words have no name
    reason = printable(named.strip().rstrip(":"), _MOST_REASON)
    return Failure(broadcast.round, broadcast.slot, broadcast.client, cause_of(error), reason)

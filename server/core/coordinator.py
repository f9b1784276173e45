"""One run, round by round, for any engine: ask, re-send, check, tell, retry, record.

An engine only carries messages:

    while not coordinator.finished:
        replies = carry(coordinator.ask(members))
        replies += carry(coordinator.resend(replies))
        replies += carry(coordinator.recheck(replies))
        coordinator.tell(replies)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ObjectiveError, RoundError
from zofedht.common.typing import Vector
from zofedht.common.wire.clients import Member
from zofedht.common.wire.message_size import broadcast_bytes, update_bytes
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.aggregation.screening import Failure, screen
from zofedht.server.auto import Intervention
from zofedht.server.core.ask import ask, given_to
from zofedht.server.core.attempt import Attempt
from zofedht.server.core.masking import Aside, first_calls, next_calls
from zofedht.server.core.mean_of_rows import sent_to_each
from zofedht.server.core.outcome import Outcome
from zofedht.server.core.round_record import Observer, RoundRecord, record_round
from zofedht.server.core.selection import redraw
from zofedht.server.core.state import ServerState, Totals
from zofedht.server.core.tell import tell
from zofedht.server.delivery.holdings import Holdings
from zofedht.server.delivery.traffic import Traffic
from zofedht.server.evaluation.full_evaluation import FullEvaluation
from zofedht.server.privacy import Account, drawing_seed

__all__ = ["Coordinator"]


_REASONS_SHOWN = 5


class Coordinator:
    """Drives a run; holds its state and the attempts at the current round."""

    def __init__(
        self,
        config: RunConfig,
        state: ServerState,
        *,
        evaluate: Callable[[Vector], FullEvaluation] | None = None,
        clock: Callable[[], float] = time.perf_counter,
        changes: Sequence[Intervention] = (),
    ) -> None:
        """``changes`` are those that were made before the first round; they are recorded with it."""
        self.config = config
        self.state = state
        self._evaluate = evaluate
        self._changes = tuple(changes)
        self.observers: list[Observer] = []
        self._clock = clock
        self._attempt = Attempt()
        self._failures: list[Failure] = []  # of the earlier attempts at this round
        memory = config.memory if config.weight and not config.in_place else 0  # of moves that the server has
        self._holdings = Holdings(config.downlink, memory, config.refresh)
        self._account = Account(config)
        self._aside = Aside()
        self._small = False  # whether this round is counted as drawn from fewer than all clients
        self._traffic, self._metered = Traffic(), False
        self._mark = clock()
        self.evaluation: FullEvaluation | None = None
        """The full evaluation of the state's x, where the latest round had one."""

    def close(self) -> None:
        """Let go of the engine, which refers to us: what both hold is freed as soon as nobody else needs it."""
        self._evaluate = None

    @property
    def finished(self) -> bool:
        """Whether all rounds are done or the budget is spent."""
        return self._finished(self.state)

    def _finished(self, state: ServerState) -> bool:
        if self.config.is_over(state.round, state.totals.evaluations) or (state.search and state.search.over):
            return True
        return not self._account.allows_round(state.exposure)

    def ask(self, members: Sequence[Member]) -> list[Broadcast]:
        """Return this attempt's broadcasts, each as its client must be sent it.

        Raises RoundError when there is nobody to ask.
        """
        members = [self._known(member) for member in self._aside.without(members)]
        self._expose_round(len(members))
        broadcasts = ask(self.state, self.config, members, self._attempt.number)
        by_name = {member.name: member for member in members}
        self._attempt = Attempt(self._attempt.number)
        for broadcast in broadcasts:
            self._give(broadcast, by_name[broadcast.client])
        if self.config.secure_aggregation:
            broadcasts = first_calls(self._attempt, [by_name[one.client] for one in broadcasts], self.config)
        return [self._send(broadcast) for broadcast in broadcasts]

    def redraw(self, slot: int, members: Sequence[Member]) -> Broadcast | None:
        """Return the broadcast of a slot whose client gave no answer, for another client that is there now.

        None when all of them have lost it, or it was lost more often than max-retries: then the round goes
        on without it, if min-replies is met.
        """
        if slot not in self._attempt.asked or self._attempt.masking is not None:
            return None  # the sum of a round goes on without a client that is gone
        lost = self._attempt.lose(slot)
        free = [one for one in members if self._account.allows_slot(self.state.exposure, one.name)]
        busy = [one.client for one in self._attempt.asked.values()] if self.config.asks_points else []  # it is a turn
        others = [member for member in free if member.name not in (*lost, *busy)]
        if len(lost) > self.config.max_retries:
            return None
        chosen = redraw(
            others,
            seed=drawing_seed(self.config, self.state.secret),
            round_=self.state.round,
            slot=slot,
            lost=len(lost),
        )
        if chosen is None:
            return None
        chosen = self._known(chosen)
        broadcast = given_to(self._attempt.asked[slot], chosen, sent_to_each(self.state, self.config), self.config)
        self._give(broadcast, chosen)
        return self._send(broadcast)

    def resend(self, updates: Sequence[Update]) -> list[Broadcast]:
        """Return the broadcasts, now with Q or with x and Q, of the slots whose client said that it has lost them.

        Once for a client and slot: one that loses it again has failed.
        """
        again = []
        for update in updates:
            broadcast = self._attempt.resend(update)
            if broadcast is not None:
                self._holdings.forget(update, self._attempt.hosts[update.slot])
                again.append(self._send(broadcast, with_basis=True))
        return again

    @property
    def rechecks(self) -> bool:
        """Whether replies may be slopes, and a move is taken where their directions are not the server's."""
        plain = self.config.privacy == "none" and not self.config.secure_aggregation
        return self.config.uplink == "slopes" and plain and not self.config.in_place

    def recheck(self, updates: Sequence[Update]) -> list[Broadcast]:
        """Return the broadcasts that ask for the move, where a client's slopes are not along the server's directions.

        ``updates`` are all replies of the attempt. Once for a slot; from its host no slopes are taken any more.
        Under secure aggregation these are the broadcasts of the next stage.
        """
        if self._attempt.masking is not None:
            return [self._send(call) for call in next_calls(self._attempt, self._attempt.masking, updates)]
        if not self.rechecks:
            return []
        attempt = self._attempt
        usable, _ = screen(attempt.final(updates), attempt.asked)
        again = []
        for wrong in attempt.replays.mismatches(usable, attempt.asked, self.state.basis, self.config.weighting):
            self._holdings.fallbacks.add(attempt.hosts[wrong.slot], wrong)
            again.append(self._send(attempt.recheck(wrong.slot)))
        return again

    def count_by(self, traffic: Traffic) -> None:
        """Take the bytes of the history from an engine that sees its messages on the wire."""
        self._traffic, self._metered = traffic, True

    def timed(self, slot: int, seconds: float) -> None:
        """Take how long a slot's client took to answer one question; the record has the sum."""
        self._attempt.seconds[slot] = self._attempt.seconds.get(slot, 0.0) + seconds

    def tell(self, updates: Sequence[Update], failures: Sequence[Failure] = ()) -> RoundRecord | None:
        """Finish the attempt: the record of the round, or None when it must be asked again.

        ``updates`` are all replies of the attempt, ``failures`` the slots that gave none. A slot that
        first answered "basis missing" counts by its later reply.

        Raises RoundError, listing the reasons, when the round has failed more than max-retries times;
        the state is then the one before the round. Raises ObjectiveError when an evaluation failed and on-error
        is stop.
        """
        if not self._metered:
            for update in updates:
                self._traffic.of(update.client).received(update_bytes(update))
        attempt = self._attempt
        worked = [update for update in updates if update.stage in ("", "masked")]
        final = attempt.final(worked)
        answers = [update for update in final if attempt.answered(update) is not None]
        self._holdings.fallbacks.check(answers, attempt.hosts)
        for update in answers:
            if update.slot in attempt.sent:  # under secure aggregation a client may fail before it is sent x
                self._holdings.confirm(update, attempt.sent[update.slot], attempt.hosts[update.slot])
        self._stop_on_error(answers)
        if attempt.masking is not None:
            final, masked = attempt.masking.unmasked(final, attempt.asked)
            lost = {failure.slot for failure in failures}
            failures = (*failures, *(failure for failure in masked if failure.slot not in lost))
        state, outcome = tell(self.state, final, attempt.asked, self.config, attempt.replays)
        outcome = replace(outcome, failures=(*failures, *outcome.failures))
        if state is None:
            self._try_again(outcome)
            return None
        return self._advance(state, outcome)

    def _known(self, member: Member) -> Member:
        """Return the member with what is known of its directions; private slots have no move to fall back to."""
        if self.config.privacy != "none" or self.config.in_place:
            return replace(member, moves_only="") if member.moves_only else member
        return self._holdings.fallbacks.known(member)

    def _expose_round(self, members: int) -> None:
        """Count a round of central privacy: once for all its attempts, and again at the first that draws from fewer.

        Raises RoundError where epsilon forbids it.
        """
        small = members < self.config.num_clients
        if self.config.privacy != "central" or (self._attempt.number and (self._small or not small)):
            return
        self._small = small
        if not self._account.allows_round(self.state.exposure, small=small):
            raise RoundError(
                f"round {self.state.round + 1} would spend more than epsilon = {self.config.epsilon:g}: {members} of"
                f" {self.config.num_clients} clients are there, and sampling counts only where all of them can be drawn"
            )
        self.state = replace(self.state, exposure=self.state.exposure.with_round(small=small))

    def _give(self, broadcast: Broadcast, member: Member) -> None:
        if self.config.privacy == "local":  # lost or refused, its answer may have left the client
            self.state = replace(self.state, exposure=self.state.exposure.with_slot(member.name))
        self._attempt.give(broadcast, member)
        self._holdings.meet(member, broadcast)

    def _send(self, broadcast: Broadcast, *, with_basis: bool = False) -> Broadcast:
        host, basis = self._attempt.hosts[broadcast.slot], self.state.basis
        origin = None if self.state.pool is None else self.state.pool.origin
        if broadcast.asks_steps:  # else it needs neither x nor Q
            broadcast = self._holdings.complete(broadcast, host, basis, origin=origin, with_basis=with_basis)
            self._attempt.sent[broadcast.slot] = broadcast
        if not self._metered:
            self._traffic.of(broadcast.client).sent(broadcast_bytes(broadcast))
        return broadcast

    def _stop_on_error(self, updates: Sequence[Update]) -> None:
        stopped = [update for update in updates if update.status == "stopped"]
        if stopped and self.config.on_error == "stop":
            first = min(screen(stopped, self._attempt.asked)[1], key=lambda failure: failure.slot)
            raise ObjectiveError(
                f"client {first.client}, slot {first.slot}: {first.sentence}; the run stops since on-error = stop, x is"
                " that of the round before, and it can be resumed (with another on-error, too)",
                cause=first.cause,
                step=first.step,
            )

    def _try_again(self, outcome: Outcome) -> None:
        self._failures.extend(outcome.failures)
        self._aside.hear(self._attempt)
        self._attempt = Attempt(self._attempt.number + 1)
        if self._attempt.number > self.config.max_retries:
            raise RoundError(
                f"round {self.state.round + 1} had fewer than min-replies = {self.config.min_replies} usable replies in"
                f" {self._attempt.number} attempts ({_reasons(self._failures)}); x is unharmed and the run can be"
                " resumed"
            )

    def _advance(self, state: ServerState, outcome: Outcome) -> RoundRecord:
        previous = self.state
        traffic = self._traffic.take()
        totals = self._totals(state.totals, traffic)
        following = replace(state, totals=totals)
        due = self._evaluate is not None and self._evaluation_is_due(following)
        evaluation = self.evaluation = self._evaluate(following.x) if self._evaluate and due else None
        if evaluation is not None:
            following = following.after_evaluation(evaluation, keeps_best=self.config.keeps_best)
        outcome = replace(
            outcome,
            failures=(*self._failures, *outcome.failures),
            interventions=(*self._changes, *outcome.interventions),
        )
        others = self._holdings.fallbacks.take()
        record = record_round(previous, self._attempt, outcome, totals, evaluation, others, traffic)
        record = replace(record, epsilon=self._account.epsilon(following.exposure))
        self._holdings.moved(next(iter(self._attempt.asked.values())), outcome.lengths, following.x)
        self._attempt, self._failures, self._changes = Attempt(), [], ()
        self._aside.next_round()
        for observer in self.observers:
            observer(following, record)
        # Last: a round that could not be evaluated and recorded is not done, and a resumed run repeats it.
        self.state = following
        return record

    def _totals(self, totals: Totals, traffic: Mapping[str, tuple[int, int]]) -> Totals:
        now = self._clock()
        elapsed, self._mark = now - self._mark, now
        up, down = (sum(counts[way] for counts in traffic.values()) for way in (0, 1))
        sums = {"bytes_up": totals.bytes_up + up, "bytes_down": totals.bytes_down + down}
        return replace(totals, **sums, seconds=totals.seconds + elapsed)

    def _evaluation_is_due(self, state: ServerState) -> bool:
        every = self.config.evaluate_every
        return self._finished(state) or (every > 0 and state.round % every == 0)


def _reasons(failures: Sequence[Failure]) -> str:
    distinct = list(dict.fromkeys(f"client {failure.client}: {failure.sentence}" for failure in failures))
    more = len(distinct) - _REASONS_SHOWN
    return "; ".join(distinct[:_REASONS_SHOWN]) + (f"; and {more} more" if more > 0 else "") or "no client answered"

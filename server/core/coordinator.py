"""One run, round by round, for any engine: ask, re-send, check, tell, retry, record.

An engine only carries messages:

    while not coordinator.finished:
        replies = carry(coordinator.ask(members))
        replies += carry(coordinator.resend(replies))
        replies += carry(coordinator.recheck(replies))
        coordinator.tell(replies)
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ObjectiveError, RoundError
from zofedht.common.typing import Vector
from zofedht.common.wire.codec import broadcast_bytes, update_bytes
from zofedht.common.wire.messages import MISSING, Broadcast, Member, Update
from zofedht.server.auto.interventions import Intervention
from zofedht.server.core.aggregation import Failure, screen
from zofedht.server.core.fallbacks import Fallbacks
from zofedht.server.core.figures import Evaluation
from zofedht.server.core.record import Observer, RoundRecord
from zofedht.server.core.replays import Replays
from zofedht.server.core.rounds import Outcome, ServerState, Totals, ask, given_to, tell, weight_now
from zofedht.server.core.selection import redraw
from zofedht.server.core.traffic import Traffic
from zofedht.server.core.trail import Trail

__all__ = ["Coordinator"]


_REASONS_SHOWN = 5


class Coordinator:
    """Drives a run; holds the state, the retries of the current round, and who holds which basis."""

    def __init__(
        self,
        config: RunConfig,
        state: ServerState,
        *,
        evaluate: Callable[[Vector], Evaluation] | None = None,
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
        self._attempt = 0
        self._asked: dict[int, Broadcast] = {}
        self._failures: list[Failure] = []  # of the earlier attempts at this round
        self._holdings: dict[str, str] = {}  # host -> digest of the basis it confirmed
        self._hosts: dict[int, str] = {}  # slot -> host of the client that was asked
        self._lost: dict[int, list[str]] = {}  # slot -> clients that lost it in this attempt
        self._resent: set[tuple[int, str]] = set()  # (slot, client) that were sent Q again in this attempt
        self._fallbacks = Fallbacks()
        self._rechecked: set[tuple[int, str]] = set()  # (slot, client) asked for its move after its slopes
        self._replays = Replays()
        self._trail = Trail()
        self._forgetful: set[str] = set()  # hosts that keep no x
        self._sent_x: set[int] = set()  # slots that were sent x in full
        self._traffic, self._metered = Traffic(), False
        self._mark = clock()
        self.evaluation: Evaluation | None = None
        """The full evaluation of the state's x, where the latest round had one."""

    def close(self) -> None:
        """Let go of the engine, which refers to us: what both hold is freed as soon as nobody else needs it."""
        self._evaluate = None

    @property
    def finished(self) -> bool:
        """Whether all rounds are done or the budget is spent."""
        return self._finished(self.state)

    def _finished(self, state: ServerState) -> bool:
        spent = self.config.budget > 0 and state.totals.evaluations >= self.config.budget
        return spent or (self.config.rounds > 0 and state.round >= self.config.rounds)

    def ask(self, members: Sequence[Member]) -> list[Broadcast]:
        """Return this attempt's broadcasts; Q goes with those whose host has not confirmed it.

        Raises RoundError when there is nobody to ask.
        """
        members = [self._fallbacks.known(member) for member in members]
        broadcasts = ask(self.state, self.config, members, self._attempt)
        by_name = {member.name: member for member in members}
        self._hosts = {b.slot: by_name[b.client].host for b in broadcasts}
        self._asked = {b.slot: b for b in broadcasts}
        self._lost, self._resent, self._rechecked, self._sent_x = {}, set(), set(), set()
        self._replays = Replays()
        for broadcast in broadcasts:
            self._note(broadcast, by_name[broadcast.client])
        return [self._send(b) for b in broadcasts]

    def redraw(self, slot: int, members: Sequence[Member]) -> Broadcast | None:
        """Return the broadcast of a slot whose client gave no answer, for another client that is there now.

        None when all of them have lost it, or it was lost more often than max-retries: then the round goes
        on without it, if min-replies is met.
        """
        if slot not in self._asked:
            return None
        lost = self._lost.setdefault(slot, [])
        lost.append(self._asked[slot].client)
        others = [member for member in members if member.name not in lost]
        if len(lost) > self.config.max_retries:
            return None
        chosen = redraw(others, seed=self.config.seed, round_=self.state.round, slot=slot, lost=len(lost))
        if chosen is None:
            return None
        chosen = self._fallbacks.known(chosen)
        self._hosts[slot] = chosen.host
        broadcast = given_to(self._asked[slot], chosen, self.config)
        self._asked[slot] = broadcast
        self._note(broadcast, chosen)
        return self._send(broadcast)

    def resend(self, updates: Sequence[Update]) -> list[Broadcast]:
        """Return the broadcasts, now with Q or with x and Q, of the slots whose client said that it has lost them.

        Once for a client and slot: one that loses it again has failed.
        """
        again = []
        for update in updates:
            broadcast = self._asked_of(update)
            if update.status not in MISSING or broadcast is None or (update.slot, update.client) in self._resent:
                continue
            self._resent.add((update.slot, update.client))
            self._forget(update)
            again.append(self._send(broadcast, with_basis=True))
        return again

    @property
    def rechecks(self) -> bool:
        """Whether replies may be slopes, whose directions are to be checked."""
        return self.config.uplink == "slopes"

    def recheck(self, updates: Sequence[Update]) -> list[Broadcast]:
        """Return the broadcasts that ask for the move, where a client's slopes are not along the server's directions.

        ``updates`` are all replies of the attempt. Once for a slot; from its host no slopes are taken any more.
        """
        if not self.rechecks:
            return []
        usable, _ = screen(self._final(updates), self._asked)
        again = []
        for wrong in self._replays.mismatches(usable, self._asked, self.state.basis, self.config.weighting):
            self._fallbacks.add(self._hosts[wrong.slot], wrong)
            self._rechecked.add((wrong.slot, wrong.client))
            self._asked[wrong.slot] = replace(self._asked[wrong.slot], uplink="move")
            again.append(self._send(self._asked[wrong.slot]))
        return again

    def count_by(self, traffic: Traffic) -> None:
        """Take the bytes of the history from an engine that sees its messages on the wire."""
        self._traffic, self._metered = traffic, True

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
                self._traffic.received(update_bytes(update))
        final = self._final(updates)
        self._fallbacks.check([u for u in final if self._asked_of(u) is not None], self._hosts)
        self._confirm(final)
        self._stop_on_error(final)
        state, outcome = tell(self.state, final, self._asked, self.config, self._replays)
        outcome = replace(outcome, failures=(*failures, *outcome.failures))
        if state is None:
            self._try_again(outcome)
            return None
        return self._advance(state, outcome)

    def _send(self, broadcast: Broadcast, *, with_basis: bool = False) -> Broadcast:
        host = self._hosts[broadcast.slot]
        derives = False
        if self.config.downlink == "slopes" and host not in self._forgetful and host not in self._fallbacks:
            memory = self.config.memory if self.config.weight else 0
            broadcast = replace(broadcast, x_digest=self._trail.digest(self.state.x), memory=memory)
            steps = self._trail.steps_for(host, broadcast)
            if steps is None:
                self._sent_x.add(broadcast.slot)
            else:
                derives = self._trail.derives_basis(host, broadcast)
                broadcast = replace(broadcast, trail=steps, x=np.empty(0), size=broadcast.dimension)
        if broadcast.needs_basis and (with_basis or not (derives or self._holds(broadcast))):
            broadcast = replace(broadcast, basis=self.state.basis)
        if not self._metered:
            self._traffic.sent(broadcast_bytes(broadcast))
        return broadcast

    def _final(self, updates: Sequence[Update]) -> list[Update]:
        """Leave out the replies that were followed by another question to the same client for the same slot."""
        done = [u for u in updates if u.status not in MISSING]
        answered = {u.slot for u in done}
        missing = {u.slot: u for u in updates if u.status in MISSING and u.slot not in answered}
        return [*(u for u in done if u.slopes is None or (u.slot, u.client) not in self._rechecked), *missing.values()]

    def _note(self, broadcast: Broadcast, member: Member) -> None:
        if not member.keeps_x:
            self._forgetful.add(member.host)
        if member.moves_only:
            self._fallbacks.add(member.host, Failure(broadcast.slot, broadcast.client, member.moves_only))

    def _asked_of(self, update: Update) -> Broadcast | None:
        """Return what an update answers, or None: its slot may have gone to another client since."""
        broadcast = self._asked.get(update.slot)
        return broadcast if broadcast is not None and broadcast.client == update.client else None

    def _holds(self, broadcast: Broadcast) -> bool:
        return self._holdings.get(self._hosts[broadcast.slot]) == broadcast.digest

    def _confirm(self, updates: Sequence[Update]) -> None:
        for update in updates:
            broadcast = self._asked_of(update)
            if broadcast is None:
                continue
            host = self._hosts[update.slot]
            if update.status == "ok":
                if broadcast.needs_basis:
                    self._holdings[host] = broadcast.digest
                self._trail.confirm(host, broadcast, had_x=update.slot in self._sent_x)
            elif update.status in MISSING:  # an engine without re-sends sends them next time
                self._forget(update)

    def _forget(self, update: Update) -> None:
        host = self._hosts[update.slot]
        self._holdings.pop(host, None)
        if update.status == "x-missing":
            self._trail.forget(host)

    def _stop_on_error(self, updates: Sequence[Update]) -> None:
        stopped = [u for u in updates if u.status == "stopped" and self._asked_of(u) is not None]
        if stopped and self.config.on_error == "stop":
            first = min(stopped, key=lambda u: u.slot)
            raise ObjectiveError(
                f"client {first.client}, slot {first.slot}: {first.reason}; the run stops since on-error = stop, x is"
                " that of the round before, and it can be resumed (with another on-error, too)"
            )

    def _try_again(self, outcome: Outcome) -> None:
        self._failures.extend(outcome.failures)
        self._attempt += 1
        if self._attempt > self.config.max_retries:
            raise RoundError(
                f"round {self.state.round} had fewer than min-replies = {self.config.min_replies} usable replies in"
                f" {self._attempt} attempts ({_reasons(self._failures)}); x is unharmed and the run can be resumed"
            )

    def _advance(self, state: ServerState, outcome: Outcome) -> RoundRecord:
        previous = self.state
        totals = self._totals(state.totals)
        following = replace(state, totals=totals)
        due = self._evaluate is not None and self._evaluation_is_due(following)
        evaluation = self.evaluation = self._evaluate(following.x) if self._evaluate and due else None
        figures = None if evaluation is None else evaluation.figures or None
        record = RoundRecord(
            round=previous.round,
            evaluations=totals.evaluations,
            train_loss=outcome.loss if figures is None else figures["train_loss"],
            train_loss_source="probes" if figures is None else "full",
            train_accuracy=None if figures is None else figures.get("train_accuracy"),
            step_size=_common_step(self._asked.values()),
            basis_version=previous.version if previous.rank else None,
            basis_rank=previous.rank,
            replies=outcome.usable,
            attempts=self._attempt + 1,
            bytes_up=totals.bytes_up,
            bytes_down=totals.bytes_down,
            seconds=totals.seconds,
            failures=[asdict(f) for f in (*self._failures, *outcome.failures)],
            skipped=[asdict(s) for s in outcome.skipped],
            subspace_weight=weight_now(previous, self.config),
            interventions=[asdict(i) for i in (*self._changes, *outcome.interventions)],
            fallbacks=[asdict(f) for f in self._fallbacks.take()],
            start_loss=outcome.start_loss,
            unevaluated=[] if evaluation is None else [asdict(one) for one in evaluation.missing],
        )
        self._attempt, self._failures, self._changes = 0, [], ()
        if self.config.downlink == "slopes":
            self._trail.add(next(iter(self._asked.values())), outcome.lengths, following.x)
        for observer in self.observers:
            observer(following, record)
        # Last: a round that could not be evaluated and recorded is not done, and a resumed run repeats it.
        self.state = following
        return record

    def _totals(self, totals: Totals) -> Totals:
        now = self._clock()
        elapsed, self._mark = now - self._mark, now
        up, down = self._traffic.take()
        return Totals(totals.evaluations, totals.bytes_up + up, totals.bytes_down + down, totals.seconds + elapsed)

    def _evaluation_is_due(self, state: ServerState) -> bool:
        # A black box's evaluations are the user's: between the first and the last round the probes must do.
        every = 0 if self.config.objective else self.config.evaluate_every
        return self._finished(state) or (every > 0 and state.round % every == 0)


def _common_step(asked: Iterable[Broadcast]) -> float:
    sizes = {broadcast.step_size for broadcast in asked}
    return sizes.pop() if len(sizes) == 1 else math.nan


def _reasons(failures: Sequence[Failure]) -> str:
    distinct = list(dict.fromkeys(f"client {failure.client}: {failure.reason}" for failure in failures))
    more = len(distinct) - _REASONS_SHOWN
    return "; ".join(distinct[:_REASONS_SHOWN]) + (f"; and {more} more" if more > 0 else "") or "no client answered"

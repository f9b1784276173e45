"""Rounds of evaluations: some clients are asked for F at the same points, and the search learns from their answers.

A slot is one client of a generation, which is one round. Pure.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import RoundError
from zofedht.common.random.streams import Address
from zofedht.common.wire.clients import Member
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.aggregation.combine import Outlier
from zofedht.server.aggregation.robust_rules import OUTLIER, usual_length
from zofedht.server.aggregation.robust_values import robust_table, spreads_of
from zofedht.server.aggregation.screening import Failure, screen, skipped_steps
from zofedht.server.auto import Intervention
from zofedht.server.core.outcome import Outcome
from zofedht.server.core.selection import in_turn
from zofedht.server.core.state import ServerState
from zofedht.server.minimizers.search import Left, Problem, Search, answer, ask, problem_of, tell
from zofedht.server.minimizers.words import about, why_changed

__all__ = ["ask_points", "search_about", "tell_points"]


def ask_points(state: ServerState, config: RunConfig, members: Sequence[Member]) -> list[Broadcast]:
    """Return the round's broadcasts, one for each client whose turn it is. Raises RoundError where nobody is there."""
    problem, search = _searched(state, config)
    asked = ask(problem, search)
    common = Broadcast(
        address=Address(config.seed, state.round, 0),
        spec=config.step_spec(step_size=0.0, local_steps=len(asked.points) * asked.repeats),
        client="",
        shard_index=0,
        task=config.task,
        units=state.units_digest,
        x=state.x,
        points=asked.points,
        repeats=asked.repeats,
    )
    chosen = _whose_turn(asked.sites, members, state.round)
    return [
        replace(
            common,
            address=replace(common.address, slot=slot),
            client=member.name,
            shard_index=member.shard_index,
        )
        for slot, member in enumerate(chosen)
    ]


def tell_points(
    state: ServerState, updates: Sequence[Update], asked: Mapping[int, Broadcast], config: RunConfig
) -> tuple[ServerState | None, Outcome]:
    """Tell the search the answers of a round, as ``tell`` does for local steps."""
    usable, failures = screen(updates, asked)
    assert state.search is not None
    if state.search.empty >= config.max_retries:  # no answer for so many rounds: then there must be one
        lost = [u for u in usable if u.values is not None and np.all(np.isnan(u.values))]
        if len(lost) == len(usable):
            usable, failures = (
                [],
                [*failures, *(Failure(u.round, u.slot, u.client, u.cause or "raised", u.reason) for u in lost)],
            )
    if not usable or len(usable) < min(config.min_replies, len(asked)):
        return None, Outcome(len(usable), tuple(failures))
    following = _told_values(state, config, usable)
    assert following.search is not None
    outliers, medians = _outlying_sites(state, usable)
    change = Intervention("method", state.search.doing, following.search.doing, "")
    if change.before != change.after:
        change = replace(change, why=why_changed(state.search, following.search))
    outcome = Outcome(
        usable=len(usable),
        failures=tuple(failures),
        loss=_mean_value(usable),
        skipped=skipped_steps(usable),
        interventions=(change,) if change.why else (),
        slots=frozenset(update.slot for update in usable),
        outliers=outliers,
    )
    return replace(following, lengths=medians), outcome


def _told_values(state: ServerState, config: RunConfig, usable: Sequence[Update]) -> ServerState:
    """Return the state after the round; a client that is missing in ``usable`` has lost its answers."""
    problem, search = _searched(state, config)
    asked = ask(problem, search)
    tables = np.full((asked.repeats, len(asked.sites), len(asked.points)), np.nan)
    for update in usable:
        assert update.values is not None
        tables[:, update.slot] = update.values.reshape(asked.repeats, -1)
    evaluations = state.totals.evaluations + sum(update.evaluations for update in usable)
    tables = np.array([robust_table(config.aggregation, table, config.tolerated) for table in tables])
    search = tell(problem, search, list(tables), _left(config, state, search.answers + asked.answers, evaluations))
    totals = replace(state.totals, evaluations=evaluations)
    return replace(state, round=state.round + 1, x=answer(problem, search), search=search, totals=totals)


def _outlying_sites(state: ServerState, usable: Sequence[Update]) -> tuple[tuple[Outlier, ...], tuple[float, ...]]:
    """Return the clients whose values spread over the points many times as far as usual, and the medians to remember.

    Steps of a descent are so short that sites may well differ by any factor: nobody is an outlier there.
    """
    rows = np.stack([update.values for update in usable if update.values is not None])
    if rows.shape[1] < 2 or (state.search is not None and state.search.doing == "lbfgs"):
        return (), state.lengths
    spreads = spreads_of(rows)
    usual, medians = usual_length(state.lengths, spreads.tolist())
    found = zip(usable, spreads.tolist(), strict=True)
    outliers = [
        Outlier(update.slot, update.client, min(spread / usual, sys.float_info.max))
        for update, spread in found
        if spread > OUTLIER * usual > 0.0
    ]
    return tuple(outliers), medians


def search_about(state: ServerState, config: RunConfig) -> dict[str, Any]:
    """Return what the search saw and did, as fields; empty where there is none."""
    return {} if state.search is None else about(*_searched(state, config))


def _searched(state: ServerState, config: RunConfig) -> tuple[Problem, Search]:
    assert state.search is not None
    start, robust = state.search.start, config.aggregates_robustly
    problem = problem_of(start, state.units, state.space, config.num_clients, config.seed, all_sites=robust)
    return problem, state.search


def _left(config: RunConfig, state: ServerState, answers: int, evaluations: int) -> Left:
    """Return what is left of rounds and budget; an answer takes as many evaluations as it did so far."""
    batches = config.rounds - state.round - 1 if config.rounds else math.inf
    if not config.budget:
        return Left(batches=batches)
    return Left((config.budget - evaluations) * answers / max(evaluations, 1), batches)


def _mean_value(usable: Sequence[Update]) -> float:
    """Return the mean of all values of F that were told; NaN where there are none."""
    values = [update.loss for update in usable if not np.isnan(update.loss)]
    return float(np.mean(values)) if values else np.nan


def _whose_turn(sites: Sequence[int], members: Sequence[Member], round_: int) -> list[Member]:
    """Return the clients with these numbers, each once; where a client is not there, the next one is in its place."""
    if not members:
        raise RoundError(f"round {round_ + 1} has no client to draw from")
    waiting = in_turn(members)
    chosen: list[Member] = []
    for site in sites:
        places = (waiting[(site + step) % len(waiting)] for step in range(len(waiting)))
        free = next((member for member in places if member not in chosen), None)
        chosen += [] if free is None else [free]
    return chosen

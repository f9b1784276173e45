"""What ended a run, whether it is a success, and the message that says so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from zofedht.common.checks.finding import Case
from zofedht.common.checks.radius import flat_advice, noise_advice
from zofedht.common.config.run_config import RunConfig
from zofedht.common.objective.user_traceback import USER_ERRORS, raised_by_objective
from zofedht.server.conduct import Result
from zofedht.server.core.state import ServerState
from zofedht.server.records.run_summary import count_lost, worth_skipping

__all__ = ["ended_by", "lost_notes", "outcome_of", "with_advice"]

_WORTH_A_CHECK = 2_000  # evaluations: the check for noise takes 3, and some 100 more where there is noise


def ended_by(config: RunConfig, state: ServerState, *, stopped: bool) -> str:
    """Return what ended the run."""
    if stopped:
        return "callback"
    if state.search is not None and state.search.over:
        return "converged"
    if config.is_spent(state.totals.evaluations):
        return "budget"
    return "epsilon" if 0 < state.round < config.rounds else "rounds"


def lost_notes(history: Sequence[dict[str, Any]], config: RunConfig) -> list[str]:
    """Return notes about slots that were lost and steps or values that were, if any, and the way out."""
    lost = count_lost(history, 0)
    counts = [f"{lost['slots']} of {lost['of_slots']} slots were lost"] if lost["slots"] else []
    what = "values were lost" if config.asks_points else "steps were skipped"
    counts += [f"{lost['steps']} {what}"] if lost["steps"] else []
    notes = [f"{' and '.join(counts)}, most often: {lost['reason']}"] if counts else []
    if worth_skipping(lost, config.on_error):
        notes.append("with on_error='skip-step' a failed evaluation costs its step and not its slot")
    return notes


def with_advice(message: str, case: Case, done: Result, sign: float) -> str:
    """Return the message with advice on an F that is flat or noisy at the start."""
    before, after = done.initial["train_loss"], done.last.metrics.get("train_loss")
    worth_a_check = done.state.totals.evaluations >= _WORTH_A_CHECK
    try:
        if after == before and (flat := flat_advice(case, farther=worth_a_check)):
            return f"the {_word(sign)} is still {sign * before:.4g}: {flat}"
        noise = noise_advice(case) if worth_a_check else ""
    except USER_ERRORS as error:  # an error of the user's code must not hide x
        return f"{message}; the check for noise failed: {raised_by_objective(error)}"
    return f"{message}; {noise}" if noise else message


def _word(sign: float) -> str:
    return "loss" if sign > 0.0 else "value"


def outcome_of(config: RunConfig, done: Result, why: str, sign: float) -> tuple[str, bool]:
    """Return the message, and whether the run is a success."""
    rounds, found, verdict = done.state.round, done.state.auto.step_found, done.verdict
    ended = {
        "callback": f"the callback has stopped the run after {rounds} round{'s' if rounds > 1 else ''}",
        "converged": "no step gains any more",
        "budget": f"the budget of {config.budget:,} evaluations is spent",
        "epsilon": f"another round would spend more than epsilon = {config.epsilon:g}; {rounds} rounds are done",
    }.get(why, f"all {config.rounds} rounds are done")
    if verdict.success:
        earlier = verdict.chosen.round < rounds
        return f"{ended}; x is the best that was evaluated, of round {verdict.chosen.round}" if earlier else ended, True
    compared = verdict.comparison
    kept = "; x is the start" if verdict.chosen.round == 0 else ""
    if not (done.last.metrics and verdict.most_sites_tell and compared is not None):
        done_so = "lowered the loss" if sign > 0.0 else "raised the value"
        return f"{ended}, but it is unknown whether they {done_so}{kept}", False
    before, after = done.initial["train_loss"], done.last.metrics.get("train_loss", math.nan)
    if done.state.auto.searching and not after < before:
        return (
            f"the search for a step (step_size = auto) took the whole run, {rounds} round{'s' if rounds > 1 else ''};"
            f" give the run {'a larger budget' if why == 'budget' else 'more rounds'}, or step_size as a number"
        ), False
    went = f"the {_word(sign)} went from {sign * before:.4g} to {sign * after:.4g}"
    if config.asks_points and not after < before:  # NaN too
        return f"{went}: no candidate of {rounds} rounds was better", False
    if after == before:
        return (
            f"the {_word(sign)} is still {sign * before:.4g}: no step led {'lower' if sign > 0.0 else 'higher'}; where"
            f" the function is flat as far as the radius ({config.radius:g}) reaches, a larger radius shows its slopes"
        ), False
    if verdict.which != "start" and compared.gain > 0.0 and compared.these_sites is not None:
        low, high = compared.these_sites
        return (
            f"{ended}, but the noise of the answers hides whether x is better than the start: the gain is"
            f" {compared.gain:.4g}, {low:.4g} to {high:.4g} (95%)"
        ), False
    if after < before:
        better = "lower" if sign > 0.0 else "higher"
        return (
            f"{went}, but evaluated once more the last x is not {better} than the start{kept}: the answers are noisy; a"
            " larger radius, a larger batch_size or the mean of several evaluations tells slopes from noise"
        ), False
    step, way_out = "", "a smaller step_size"
    if found is not None:
        step = f" with the step that step_size = auto found, {found:g}"
        way_out = "a number below that, or a larger radius where the function is noisy,"
    return f"{went}{step}{kept}; {way_out} usually cures this", False

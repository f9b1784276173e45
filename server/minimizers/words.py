"""What a search saw and did: as fields, and in words."""

from __future__ import annotations

from typing import Any

from zofedht.server.cma.search import Problem
from zofedht.server.minimizers.look import Look
from zofedht.server.minimizers.search import SHARE, Search, descent_of

__all__ = ["about", "sentence_of", "why_changed"]


def why_changed(before: Search, after: Search) -> str:
    """Return why the search does something else than before, for people; empty where it does not."""
    match before.doing, after.doing:
        case "look", _ if after.doing != "look":
            return "" if after.look is None else after.look.sentence
        case "cma-es", "lbfgs":
            return f"{SHARE:g} of the sites are asked, and F looked smooth"
        case "lbfgs", "cma-es" if descent_of(after).point is None:
            return "no step gains any more, and there may be other valleys"
        case "lbfgs", "cma-es":
            return "L-BFGS-B has taken half of what was left, and is not at its end"
    return ""


def about(problem: Problem, search: Search) -> dict[str, Any]:
    """Return what was seen and done, as fields."""
    look = search.look or Look()
    return {
        "method": search.method,
        "doing": search.doing,
        "over": search.over,
        "quiet": search.quiet,
        "smooth": look.smooth,
        "why": look.why,
        "gradients": search.gradients,
        "restarts": search.evolution.restarts + search.restarts,
        "sites": search.evolution.watch.sites(problem.sites),
        "of_sites": problem.sites,
        "sentence": sentence_of(problem, search),
    }


def sentence_of(problem: Problem, search: Search) -> str:
    """Return what was seen and done, for people."""
    parts = [f"L-BFGS-B took {search.gradients} gradients"] if search.gradients else []
    if search.method == "lbfgs":
        return parts[0] if parts else "nothing was asked"
    seen = "answers are equal when asked twice" if search.quiet else "answers are noisy"
    parts.insert(0, seen if search.look is None or search.look.why == "budget" else search.look.sentence)
    m = search.evolution.watch.sites(problem.sites)
    return "; ".join([*parts, f"the last generation was for {m} of {problem.sites} sites"])

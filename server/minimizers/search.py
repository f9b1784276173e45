"""A search for the least mean of F over sites, as pure functions of a frozen state.

``ask`` says which sites to ask about which points, ``tell`` takes their answers, and ``answer`` is where the search
would end now. Whoever carries the messages keeps nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from zofedht.common.machine.blas import one_thread
from zofedht.common.typing import Matrix, Vector
from zofedht.server.cma import search as cma
from zofedht.server.cma.search import Generation, Problem, State

__all__ = ["Generation", "Problem", "Search", "answer", "ask", "begin_search", "tell"]

_LARGEST = 1e100  # of a value that counts: squares of such values overflow


@dataclass(frozen=True)
class Search:
    """What is searched for, and where the search is."""

    problem: Problem
    evolution: State


def begin_search(problem: Problem) -> Search:
    """Return the search before the first question."""
    return Search(problem, cma.begin(problem))


def ask(search: Search) -> Generation:
    """Return what is to be asked now."""
    with one_thread():
        return cma.ask(search.problem, search.evolution)


def tell(search: Search, tables: Sequence[Matrix]) -> Search:
    """Return the search after the answers: one table, (sites, points), or two where it was asked twice."""
    with one_thread(), np.errstate(invalid="ignore"):
        tables = [np.where(np.abs(table) <= _LARGEST, table, np.nan) for table in tables]
        return replace(search, evolution=cma.tell(search.problem, search.evolution, tables))


def answer(search: Search) -> Vector:
    """Return where the search would end now, (n,), in search units."""
    return cma.answer(search.problem, search.evolution)

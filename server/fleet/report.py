"""The table of the sites: what each had at the start and has at the best x, how noisy it is, and what was lost."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from zofedht.common.objective.points import Answer
from zofedht.common.typing import Vector
from zofedht.common.wire.messages import vector_digest
from zofedht.server.fleet.candidates import Best
from zofedht.server.fleet.ledger import Ledger

__all__ = ["site_rows"]


def site_rows(sites: Sequence[str], ledger: Ledger, start: Vector, best: Best | None) -> list[list[str]]:
    """Return the lines of ``sites.csv``; what is not known is empty."""
    first, last = vector_digest(start), "" if best is None else vector_digest(best.x)
    rows = []
    for site in sites:
        answers = ledger.answers_of(site)
        every = [answer for each in answers.values() for answer in each]
        before, after = _mean(answers.get(first, ())), _mean(answers.get(last, ()))
        numbers = before, after, before - after, _noise(list(answers.values()))
        seconds = sum(answer.seconds for answer in every if not math.isnan(answer.seconds))
        lost = sum(answer.cause is not None for answer in every)
        told = ["" if math.isnan(number) else repr(number) for number in numbers]
        rows.append([site, *told, str(len(every) - lost), str(lost), repr(round(seconds, 6))])
    return rows


def _values(answers: Sequence[Answer]) -> list[float]:
    return [answer.value for answer in answers if answer.cause is None]


def _mean(answers: Sequence[Answer]) -> float:
    values = _values(answers)
    return sum(values) / len(values) if values else math.nan


def _noise(answers: Sequence[Sequence[Answer]]) -> float:
    """Return the standard deviation of answers to one x, over all x that were asked about again; else NaN."""
    again = [values for each in answers if len(values := _values(each)) > 1]
    freedom = sum(len(values) - 1 for values in again)
    if not freedom:
        return math.nan
    return math.sqrt(sum(float(np.sum((np.array(each) - np.mean(each)) ** 2)) for each in again) / freedom)

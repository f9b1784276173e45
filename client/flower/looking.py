"""Try this client's objective out where a server that plans a run asks for it; facts go out, sentences stay here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from zofedht.common.checks.check import check_code
from zofedht.common.checks.finding import Finding
from zofedht.common.checks.readings import BATCH_EVALUATIONS, batch_spread
from zofedht.common.machine.blas import one_thread
from zofedht.common.objective.base import Objective
from zofedht.common.objective.scaling import in_user_units
from zofedht.common.objective.user_traceback import USER_ERRORS
from zofedht.common.typing import Vector
from zofedht.common.wire.checked import Checked, CheckQuestion

__all__ = ["look"]

_WORST = ("ok", "warning", "error")
_BEGINNING = ("size", "units", "initial")  # of what a client has told when it joined: a failure now is one of F


def look(objective: Objective, x: Vector, asked: CheckQuestion, seed: int) -> tuple[Checked, Sequence[Finding]]:
    """Return what checks at x, (n,) in the user's units, tell the server, and what they tell this device."""
    with one_thread(), np.errstate(over="ignore", invalid="ignore"):
        report = check_code(
            in_user_units(objective),
            radius=asked.radius,
            batch_size=asked.batch_size,
            seed=seed,
            x0=x,
            most=asked.evaluations,
        )
        case, spent = report.case, report.evaluations
        numbers: dict[str, Any] = {}
        if (
            case is not None
            and asked.batch_size
            and len(objective) > 1
            and spent + BATCH_EVALUATIONS <= asked.evaluations
        ):
            spent += BATCH_EVALUATIONS
            with suppress(*USER_ERRORS):  # a batch that fails has no slope; the checks have said what fails
                numbers["batch_spread"] = np.array([batch_spread(case, asked.batch_size)])
    levels: dict[str, Any] = {}
    for finding in report.findings:
        if finding.level == "error" and finding.name in _BEGINNING:
            levels["value"] = "error"
        elif finding.name not in _BEGINNING:
            levels[finding.name] = max(finding.level, levels.get(finding.name, "ok"), key=_WORST.index)
        if finding.name == "repeats" and finding.level != "ok":
            numbers["spread"] = np.array([finding.number])
        if finding.places:
            numbers["steep" if finding.number == asked.radius else "flat"] = np.array(finding.places, dtype=np.float64)
    cause = next((finding.cause for finding in report.findings if finding.cause), None)
    told = Checked(**levels, **numbers, cause=cause, evaluations=min(spent, asked.evaluations))
    return told, report.findings

"""``zofedht-server plan``: look at the sites, here or over the network, and say what the run will take."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from zofedht.common.checks.check import check_code
from zofedht.common.checks.finding import Finding, clock_text
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError, ZofedhtError
from zofedht.common.objective.base import Objective
from zofedht.common.objective.loading import starting_point
from zofedht.common.objective.named import space_of
from zofedht.common.objective.parameters import Parameters
from zofedht.common.objective.points import Answer
from zofedht.common.objective.scaling import in_search_units, in_user_units, units_of
from zofedht.common.shards import objective_of
from zofedht.common.space.space import Space
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.checked import MOST_LOOKS, Checked, CheckQuestion
from zofedht.server.core.state import initial_vector
from zofedht.server.plan.advice import Advice, advised
from zofedht.server.plan.estimate import Estimate, estimated
from zofedht.server.plan.measure import AskedSite, SiteReading, evaluations_of_code, measured
from zofedht.server.plan.told import findings_of

__all__ = ["Plan", "plan_here", "plan_over"]

_SHOWN_ELSEWHERE = ("size", "units", "initial")
_FAILS = ("value", "error")

Ask = Callable[[Mapping[str, Matrix], Callable[[str, Sequence[Answer]], None]], None]

Check = Callable[[Vector, CheckQuestion], Mapping[str, Checked | ZofedhtError]]


@dataclass(frozen=True)
class Plan:
    """What the sites showed and what the run takes; printed, it is the text of the command."""

    config: RunConfig
    sites: tuple[SiteReading, ...]
    estimate: Estimate | None
    advice: tuple[Advice, ...]
    where: str

    @property
    def ok(self) -> bool:
        """Whether every site can run."""
        return all(site.ok for site in self.sites)

    def __str__(self) -> str:
        return "\n".join([*self._looked_at(), *self._takes(), *self._says(), self._verdict()])

    def _looked_at(self) -> list[str]:
        most = max(site.evaluations for site in self.sites)
        lines = [f"looked at {len(self.sites)} sites {self.where}, each with at most {most} calls of F near the start"]
        for site in self.sites:
            if site.error:
                lines.append(f"ERROR   site {site.name}: {site.error}")
                continue
            noise = f"noise {site.noise:.2g}" if site.noise else "no noise"
            samples = f"{site.samples:,} sample{'s' if site.samples > 1 else ''}"
            lines.append(f"site {site.name}: {samples}, {_clock(site)} for F on all of them, {noise}")
            lines += _checked(site)
            lines += [_line(finding) for finding in site.findings]
        timed = [site for site in self.sites if math.isfinite(site.seconds)]
        if len(timed) > 1:
            slow = max(timed, key=lambda site: site.seconds * site.samples)
            times = sorted(site.seconds * site.samples for site in timed)
            ratio = times[-1] / times[len(times) // 2] if times[len(times) // 2] else 1.0
            lines.append(f"slowest site: {slow.name}, {ratio:.2g} times the median")
        return lines

    def _takes(self) -> list[str]:
        if self.estimate is None:
            return []
        of = self.estimate
        most = "at most " if self.config.asks_points else ""  # of few sites; more sites take fewer rounds
        rounds = f"{most}{of.rounds:,} rounds" if of.rounds else "an unknown number of rounds"
        return [
            f"the run: {rounds}, about {of.evaluations:,} evaluations, and {of.full_evaluations:,} in full evaluations",
            f"time: a slot takes {clock_text(of.slot_seconds)} at the slowest site; the run takes at most"
            f" {clock_text(of.seconds)} where sites work at once, {clock_text(of.work)} one after another, and messages"
            " take theirs",
            f"bytes: about {of.bytes_up / 1e6:.3g} MB to the server, {of.bytes_down / 1e6:.3g} MB to the clients",
        ]

    def _says(self) -> list[str]:
        given = {"clients-per-round": self.config.clients_per_round, "local-steps": self.config.local_steps}
        given["batch-size"] = self.config.batch_size
        lines = []
        for one in self.advice:
            instead = "" if one.value == given[one.key] else f" instead of {given[one.key]}"
            lines.append(f"take {one.key} = {one.value}{instead}: {one.why}")
        changes = [f"{one.key}={one.value}" for one in self.advice if one.value != given[one.key]]
        return [*lines, *([f"all of it: --set {' '.join(changes)}"] if changes else [])]

    def _verdict(self) -> str:
        wrong = sum(not site.ok for site in self.sites)
        return f"cannot run: {wrong} of {len(self.sites)} sites to mend" if wrong else "can run"


def plan_here(config: RunConfig, *, most: int) -> Plan:
    """Plan a run over all clients of this process. Raises ZofedhtError where an objective cannot be made."""
    if not config.objective and not config.server_has_rows:
        raise ConfigError(["dataset = clients: the rows are the clients' own; plan with --address, where they join"])
    made: dict[str, Objective] = {str(index): objective_of(config.task, index) for index in range(config.num_clients)}
    first = next(iter(made.values()))
    fitted = config.fitted(first.dim, space_of(in_user_units(first)))
    own = starting_point(in_search_units(first), config.seed)
    x = initial_vector(fitted, first.dim, own)
    numbers: dict[str, Any] = {"radius": fitted.radius, "batch_size": fitted.batch, "seed": config.seed}
    search = fitted.asks_points
    sites = [_looked_here(name, in_user_units(each), x, numbers, most, search=search) for name, each in made.items()]
    return _planned(fitted, first.dim, space_of(in_user_units(first)), sites, "here")


def _looked_here(
    name: str, objective: Objective, x: Vector, numbers: dict[str, Any], most: int, *, search: bool
) -> SiteReading:
    code: tuple[Finding, ...] = ()
    spent = 0
    if allowed := evaluations_of_code(most):
        units = units_of(objective)
        start = x if units is None else units.to_user(x)
        report = check_code(objective, **numbers, x0=start, most=allowed)
        code, spent = _of_code(report.findings), report.evaluations
    reading = measured(name, objective, len(objective), x, **numbers, most=most, spent=spent, search=search)
    return replace(reading, code=code)


def plan_over(
    config: RunConfig, parameters: Parameters, samples: Mapping[str, int], ask: Ask, check: Check, *, most: int
) -> Plan:
    """Plan a run over sites that are asked by ``ask`` for F on their whole shards, all sites at once.

    ``check`` asks them first to try out their code. Raises ZofedhtError where the run does not fit the parameters.
    """
    config = config.replace(num_clients=len(samples), **_slots(config, len(samples)))
    fitted = config.fitted(parameters.dim, parameters.space)
    units = parameters.units
    own = parameters.start if units is None else units.to_search(parameters.start)
    x = initial_vector(fitted, parameters.dim, own)

    def asked(name: str, point: Vector) -> Answer:
        answers: list[Answer] = []
        ask({name: point[None]}, lambda _, told: answers.extend(told))
        return answers[0] if answers else Answer.lost("no-answer", "the site gave no answer")

    looked: Mapping[str, Checked | ZofedhtError] = {}
    if allowed := evaluations_of_code(most):
        question = CheckQuestion(min(allowed, MOST_LOOKS), fitted.radius, fitted.batch)
        looked = check(x if units is None else units.to_user(x), question)

    def look(name: str) -> SiteReading:
        told = looked.get(name)
        if isinstance(told, ZofedhtError):
            return SiteReading(name, samples[name], error=f"{told.cause}: {told}")
        site = AskedSite(parameters.dim, units, partial(asked, name))
        numbers: dict[str, Any] = {"radius": fitted.radius, "batch_size": 0, "seed": config.seed, "most": most}
        spent = 0 if told is None else told.evaluations
        reading = measured(name, site, samples[name], x, **numbers, spent=spent, search=fitted.asks_points)
        return reading if told is None else _with_told(reading, told, parameters.names)

    ask({}, lambda name, told: None)  # so that the sites' threads are there before ours ask at once
    with ThreadPoolExecutor(len(samples)) as pool:
        sites = list(pool.map(look, samples))
    return _planned(fitted, parameters.dim, parameters.space, sites, "over the network")


def _with_told(reading: SiteReading, told: Checked, names: Sequence[str]) -> SiteReading:
    spread = reading.batch_spread if told.batch_spread is None else float(told.batch_spread[0])
    return replace(reading, code=_of_code(findings_of(told, names)), batch_spread=spread)


def _slots(config: RunConfig, count: int) -> dict[str, int]:
    fits = config.asks_points or config.sampling == "with-replacement" or config.clients_per_round <= count
    return {} if fits else {"clients_per_round": count}


def _planned(config: RunConfig, dimension: int, space: Space | None, sites: list[SiteReading], where: str) -> Plan:
    can = [site for site in sites if not site.error]
    discrete = space is not None and space.is_discrete
    estimate = estimated(config, dimension, can, discrete=discrete) if len(can) == len(sites) else None
    return Plan(config, tuple(sites), estimate, tuple(advised(config, can)) if can else (), where)


def _of_code(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Leave out what an evaluation at the start shows again, with its reason, and what a site says when it joins."""
    return tuple(each for each in findings if each.name not in _SHOWN_ELSEWHERE and (each.name, each.level) != _FAILS)


def _checked(site: SiteReading) -> list[str]:
    fine = [finding.name for finding in site.code if finding.level == "ok"]
    head = [f"{'ok':7} code: {', '.join(fine)}"] if fine else []
    return [*head, *(_line(finding) for finding in site.code if finding.level != "ok")]


def _line(finding: Finding) -> str:
    return f"{finding.level if finding.level == 'ok' else finding.level.upper():7} {finding.name}: {finding.text}"


def _clock(site: SiteReading) -> str:
    return clock_text(site.seconds * site.samples)

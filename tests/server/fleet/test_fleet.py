"""A fleet of functions of this process."""

from __future__ import annotations

import csv
import doctest
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import differential_evolution, minimize

from tests.server.fleet.pump import Pump, Shut
from tests.waiting import run_to_end
from zofedht import BudgetError, CheckpointError, DataError, Fleet, FleetError, Objective, ObjectiveError, Shard
from zofedht.server.fleet import fleet as fleet_module
from zofedht.server.fleet import function as function_module

ROOT = Path(__file__).resolve().parents[3]
FAR = [0.2, 80.0]


def pumps(kind: type[Pump] = Pump, **options: Any) -> Fleet:
    return Fleet.local({name: kind(Shard(name)) for name in ("c0", "c1", "c2")}, **options)


def rows(folder: Path, name: str = "evaluations.csv") -> list[list[str]]:
    return list(csv.reader((folder / name).read_text().splitlines()))


class Noisy:
    """A function whose answers depend on how often it was called, by anybody."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng()  # other noise in each process, and in each object

    def __call__(self, x: np.ndarray) -> float:
        return float(x @ x + self.rng.standard_normal())


def never(x: np.ndarray) -> float:
    raise AssertionError("nothing must be asked")


def test_the_examples_of_the_docstrings_run() -> None:
    assert doctest.testmod(fleet_module).failed == doctest.testmod(function_module).failed == 0


def test_a_fleet_is_the_mean_of_its_sites() -> None:
    with pumps() as fleet:
        table = fleet.table([FAR, [0.5, 50.0]])
        assert table.shape == (3, 2)
        np.testing.assert_array_equal(fleet.many([FAR, [0.5, 50.0]]), (table[0] + table[1] + table[2]) / 3)
        assert isinstance(fleet(FAR), float)
        assert fleet.table([FAR], sites=["c2"])[0, 0] == table[2, 0]


def test_a_mean_does_not_depend_on_the_batch() -> None:
    sites = [lambda x, c=c: float(np.sum((x - c) ** 2)) for c in np.random.default_rng(2).standard_normal(40)]
    with Fleet.local(sites, x0=[0.0]) as fleet:
        points = np.random.default_rng(3).standard_normal((30, 1))
        assert fleet.many(points).tolist() == [fleet(point) for point in points]


def test_what_sites_declare_is_the_fleets() -> None:
    with pumps() as fleet:
        assert (fleet.names, fleet.bounds, fleet.x0.tolist()) == (
            ("valve", "pause"), [(0.0, 1.0), (1.0, 100.0)], [0.7, 3.3],
        )  # fmt: skip
    with Fleet.local([np.sum, np.max], x0=[1.0, 2.0]) as fleet:
        assert (fleet.names, fleet.sites, fleet.port) == (("x0", "x1"), ("site-0", "site-1"), 0)
        assert fleet.bounds == [(-np.inf, np.inf)] * 2
    with pumps(x0=[0.5, 7.0]) as fleet:
        assert fleet.x0.tolist() == [0.5, 7.0]


def test_a_lost_answer_is_nan_and_left_out(tmp_path: Path) -> None:
    with pumps(Shut, folder=tmp_path, max_retries=1) as fleet, pumps() as whole:
        table = fleet.table([[0.95, 50.0], [0.05, 50.0]])
        assert np.isnan(table).tolist() == [[False] * 2, [True] * 2, [False] * 2]
        np.testing.assert_array_equal(fleet.many([[0.95, 50.0]]), np.nanmean(table[:, :1], axis=0))
        assert fleet.best is None  # no x has been evaluated at all sites
        assert fleet.table([FAR]).tolist() == whole.table([FAR]).tolist()
        assert fleet.best.x.tolist() == FAR
    lost = [row for row in rows(tmp_path)[1:] if row[6]]
    assert {row[6]: row[7] for row in lost}.keys() == {"raised", "not-finite"}
    assert "a secret of the plant (pump.py, line" in lost[0][7]  # one's own process may be told


def test_all_sites_lost_is_nan() -> None:
    with Fleet.local([never], x0=[0.0]) as fleet:
        assert np.isnan(fleet([0.0]))


def test_on_error_stop_raises_and_asks_again(tmp_path: Path) -> None:
    broken = True

    def site(x: np.ndarray) -> float:
        if broken:
            raise TimeoutError("in maintenance")
        return 1.0

    for _ in range(2):
        options: dict[str, Any] = {"x0": [0.0], "folder": tmp_path, "on_error": "stop", "max_retries": 1}
        with Fleet.local([site], **options) as fleet, pytest.raises(ObjectiveError, match="raised TimeoutError"):
            fleet([0.0])
    broken = False
    with Fleet.local([site], **options) as fleet:
        assert fleet([0.0]) == 1.0
    with Fleet.local([never], **options) as fleet:
        assert fleet([0.0]) == 1.0


def test_a_killed_program_ends_in_the_same_x(tmp_path: Path) -> None:
    def run(folder: str, *kill_at: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "tests.server.fleet.program", "local", str(tmp_path / folder), *kill_at]
        return run_to_end(words, ROOT)

    whole = run("whole").stdout
    killed = run("killed", "50")
    assert (killed.returncode, killed.stdout) == (-9, "")
    again = run("killed", "50").stdout
    x, calls = whole.split(" calls ")
    assert again.split(" calls ")[0] == x
    assert int(again.split(" calls ")[1]) == int(calls) - 49  # none is asked twice
    seconds = 5
    for name in ("evaluations.csv", "candidates.csv"):
        kept, wanted = rows(tmp_path / "killed", name), rows(tmp_path / "whole", name)
        if name == "evaluations.csv":
            for row in kept + wanted:
                del row[seconds]
        assert sorted(kept) == sorted(wanted)


def test_resume_replays_noise(tmp_path: Path) -> None:
    ends = []
    for sites in ([Noisy(), Noisy()], [never, never]):
        with Fleet.local(sites, x0=[1.0, 2.0], folder=tmp_path) as fleet:
            fleet.compare([0.0, 0.0])
            ends.append((minimize(fleet, fleet.x0, method="COBYQA").x.tolist(), fleet.best[1:], fleet.evaluations))
    assert ends[0] == ends[1]


def test_the_same_question_gets_fresh_answers_in_order(tmp_path: Path) -> None:
    with Fleet.local([Noisy()], x0=[1.0], folder=tmp_path) as fleet:
        first = [fleet([1.0]) for _ in range(3)]
    assert len(set(first)) == 3
    with Fleet.local([Noisy()], x0=[1.0], folder=tmp_path) as fleet:
        assert [fleet([1.0]) for _ in range(3)] == first
        assert fleet([1.0]) not in first
    assert [row[3] for row in rows(tmp_path)[1:]] == ["0", "1", "2", "3"]


def test_a_larger_budget_goes_on(tmp_path: Path) -> None:
    points = [[float(index)] for index in range(6)]
    for budget, asked in ((7, 3), (13, 6)):
        with Fleet.local([np.sum, np.sum], x0=[0.0], folder=tmp_path, budget=budget) as fleet:
            answers = []
            try:
                for point in points:
                    answers.append(fleet(point))
            except BudgetError:
                pass
            assert answers == [point[0] for point in points[:asked]]
            assert fleet.best.x.tolist() == [0.0]


def test_a_batch_beyond_the_budget_asks_nothing() -> None:
    calls = Counter[str]()

    def site(x: np.ndarray) -> float:
        calls["site"] += 1
        return 1.0

    with Fleet.local([site], x0=[0.0], budget=3) as fleet:
        with pytest.raises(BudgetError):
            fleet.many(np.zeros((4, 1)))
        assert calls["site"] == fleet.evaluations == 0
        fleet.many(np.zeros((3, 1)))


def test_the_best_is_kept_in_the_folder(tmp_path: Path) -> None:
    with pumps(folder=tmp_path) as fleet:
        fleet.many([FAR, [0.4, 45.0]])
    with pumps(folder=tmp_path) as fleet:
        assert (fleet.best.x.tolist(), fleet.best.repeats) == ([0.4, 45.0], 1)
        fleet.many([FAR, [0.4, 45.0]])
        assert fleet.best.repeats == 1  # replayed, not asked again


def test_a_folder_goes_on_with_the_same_sites_alone(tmp_path: Path) -> None:
    with pumps(folder=tmp_path):
        pass

    class Longer(Pump):
        def __len__(self) -> int:
            return 2

    class Wider(Pump):
        bounds = ((0.0, 1.0), (1.0, 200.0))

    class Named(Pump):
        names = ("valve", "rest")

    for kind, reason in (
        (Longer, "site c0 has 2 samples now, and had 1 when .* was begun; choose another folder for other data"),
        (Wider, "has the upper bound 200.0 for parameter 1, the fleet that was begun there has 100.0"),
        (Named, "calls parameter 1 'rest', the fleet that was begun there 'pause'"),
    ):
        with pytest.raises(FleetError, match=reason), pumps(kind, folder=tmp_path):
            pass
    with pytest.raises(FleetError, match="has the sites c0, the fleet that was begun there c0, c1, c2"):
        Fleet.local({"c0": Pump(Shard("c0"))}, folder=tmp_path).x0  # noqa: B018
    with (
        pytest.raises(FleetError, match="has n = 1 parameters, the fleet that was begun there 2"),
        Fleet.local(dict.fromkeys(("c0", "c1", "c2"), np.sum), x0=[0.0], folder=tmp_path),
    ):
        pass
    with pumps(folder=tmp_path) as fleet:
        fleet(FAR)


def test_sites_must_agree() -> None:
    class Wider(Pump):
        bounds = ((0.0, 1.0), (1.0, 200.0))

    with pytest.raises(
        FleetError, match=r"site b1 has the upper bound 200\.0 for parameter 'pause', site a0 has 100\.0"
    ):
        Fleet.local({"a0": Pump(Shard("a0")), "b1": Wider(Shard("b1"))})
    with pytest.raises(FleetError, match="site s1 has 2 parameters, site s0 1"):
        Fleet.local({"s0": Line(), "s1": Pump(Shard("s1"))})


class Line(Objective):
    dim = 1

    def value(self, x: np.ndarray, batch: object) -> float:
        return float(x[0])


def test_a_folder_has_one_writer(tmp_path: Path) -> None:
    with pumps(folder=tmp_path), pytest.raises(DataError, match="is being written by another run"):
        pumps(folder=tmp_path)
    with pumps(folder=tmp_path):
        pass


def test_points_must_be_within_the_bounds() -> None:
    with pumps() as fleet:
        for point, reason in (
            ([0.5, 0.5], r"pause = 0.5 of point 0 lies outside of its bounds \(1.0, 100.0\)"),
            ([np.nan, 5.0], "valve = nan of point 0 must be a finite number"),
            ([0.5], r"the shape \(points, 2\), a row for each, got \(1, 1\)"),
            (["a", "b"], "points must hold 2 numbers each"),
        ):
            with pytest.raises(FleetError, match=reason):
                fleet(point)
        with pytest.raises(FleetError, match=r"fleet.many\(X.T\)"):
            fleet.many(np.full((2, 5), 0.5))
        with pytest.raises(FleetError, match="sites must be some of c0, c1, c2, got 'c7'"):
            fleet.table([FAR], ["c7"])
        assert fleet.evaluations == 0
    with pytest.raises(FleetError, match="is closed"):
        fleet(FAR)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"on_error": "skip"}, "on_error must be lost or stop, got 'skip'"),
        ({"budget": -1}, "budget must be a whole number of at least 0, got -1"),
        ({"max_retries": 1.5}, "max_retries must be a whole number"),
        ({"x0": [0.5, 1000.0]}, "x0 must hold 2 numbers within the bounds"),
        ({"maximize": 1}, "maximize must be True or False, got 1"),
        ({"names": ["a", "b"]}, "the Objective of site c0 says them itself"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(FleetError, match=reason):
        pumps(**options)


def test_torn_lines_are_cut_and_damaged_ones_named(tmp_path: Path) -> None:
    with pumps(folder=tmp_path) as fleet:
        fleet.many([FAR, [0.5, 50.0]])
    file = tmp_path / "evaluations.csv"
    text = file.read_text()
    file.write_text(text + "1,c0,7,0,1.25")
    with pumps(folder=tmp_path) as fleet:
        fleet.many([FAR, [0.5, 50.0]])
    assert file.read_text() == text
    file.write_text(text.replace("1,c1,0,0,", "1,c1,zero,0,"))
    with (
        pytest.raises(CheckpointError, match=r"evaluations.csv, line \d, is no answer of a site"),
        pumps(folder=tmp_path),
    ):
        pass
    (tmp_path / "fleet.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"fleet\.json cannot be read"):
        pumps(folder=tmp_path)


def test_the_sites_table_has_gain_noise_and_lost(tmp_path: Path) -> None:
    with pumps(Shut, folder=tmp_path, max_retries=0) as fleet:
        fleet.many([fleet.x0, [0.5, 45.0], [0.95, 50.0]])
        fleet.table([fleet.x0])
        first, last = fleet.table([fleet.x0, [0.5, 45.0]]).T
    header, *lines = rows(tmp_path, "sites.csv")
    assert header == ["site", "start", "final", "gain", "noise", "answers", "lost", "seconds"]
    for line, start, final in zip(lines, first, last, strict=True):
        assert [float(cell) for cell in line[1:5]] == [start, final, start - final, 0.0]
    assert [line[5:7] for line in lines] == [["6", "0"], ["5", "1"], ["6", "0"]]


def test_a_site_without_noise_has_none(tmp_path: Path) -> None:
    """The mean of three equal numbers can round to another number."""
    with Fleet.local([lambda x: float(x[0])], x0=[0.1], folder=tmp_path) as fleet:
        for _ in range(3):
            fleet.table([fleet.x0])
    assert np.mean([0.1] * 3) != 0.1
    assert [line[4] for line in rows(tmp_path, "sites.csv")[1:]] == ["0.0"]


def test_the_highest_mean_is_best_where_the_fleet_maximizes(tmp_path: Path) -> None:
    """All is that of the negative fleet, in the user's own sign."""

    def hill(x: np.ndarray) -> float:
        return 7.0 - float(x @ x)

    def use(folder: Path, sign: float) -> tuple[Any, ...]:
        sites = [lambda x, c=c: sign * (hill(x) + c) for c in (0.0, 1.0, 2.0)]
        with Fleet.local(sites, x0=[1.0, 2.0], folder=folder, maximize=sign > 0.0) as fleet:
            means = fleet.many([[1.0, 2.0], [0.5, 0.0], [3.0, 0.0]])
            return means, fleet.best, fleet.compare([0.5, 0.0]), fleet.minimize(maxfev=300)

    (up, most, rise, found), (down, least, fall, same) = (
        use(tmp_path / name, s) for name, s in (("up", 1.0), ("d", -1.0))
    )
    np.testing.assert_array_equal(up, -down)
    assert (most.x.tolist(), most.mean) == (least.x.tolist(), -least.mean) == ([0.5, 0.0], 7.75)
    assert (rise.gain, rise.wins, str(rise)) == (fall.gain, 3, str(fall))
    assert rise.gain == 4.75
    assert (found.x.tolist(), found.fun) == (same.x.tolist(), -same.fun)
    gains = [[float(row[3]) for row in rows(tmp_path / name, "sites.csv")[1:]] for name in ("up", "d")]
    assert gains[0] == gains[1]
    assert min(gains[0]) > 4.7
    with Fleet.local([hill], x0=[1.0, 2.0], folder=tmp_path / "one", maximize=True) as fleet:
        fleet([0.0, 0.0])
    with (
        pytest.raises(FleetError, match="seeks the lowest value, the fleet that was begun there the highest value"),
        Fleet.local([hill], x0=[1.0, 2.0], folder=tmp_path / "one"),
    ):
        pass


def test_candidates_are_told_by_name(tmp_path: Path) -> None:
    with pumps(folder=tmp_path) as fleet:
        mean = fleet(FAR)
        fleet.many([[0.5, 50.0], FAR])
    header, *lines = rows(tmp_path, "candidates.csv")
    assert header == ["candidate", "round", "valve", "pause", "mean", "sites"]
    assert [line[:4] for line in lines] == [
        ["0", "1", "0.2", "80.0"],
        ["1", "2", "0.5", "50.0"],
        ["0", "2", "0.2", "80.0"],
    ]
    assert lines[0][4:] == [repr(mean), "3"]


def test_map_asks_a_population_as_one_batch(tmp_path: Path) -> None:
    with pumps(folder=tmp_path) as fleet, pumps() as plain:
        options: dict[str, Any] = {"updating": "deferred", "polish": False, "seed": 1, "maxiter": 3, "popsize": 4}
        found = differential_evolution(fleet, fleet.bounds, workers=fleet.map, **options)
        same = differential_evolution(plain, plain.bounds, **options)
        columns = differential_evolution(lambda X: plain.many(X.T), plain.bounds, vectorized=True, **options)
    assert found.x.tolist() == same.x.tolist() == columns.x.tolist()
    assert int(rows(tmp_path, "candidates.csv")[-1][1]) == 4  # the first population and three more


def test_compare_asks_both_anew() -> None:
    with pumps() as fleet:
        fleet.many([FAR, fleet.x0])
        told = fleet.compare(FAR)
        assert fleet.evaluations == 2 * 3 + 4 * 3
        start, final = fleet.table([fleet.x0, FAR]).T
        np.testing.assert_allclose(told.gains, start - final)
        assert told.these_sites == (told.gain, told.gain)
        with pytest.raises(FleetError, match="repeats must be"):
            fleet.compare(FAR, repeats=0)


def test_threads_evaluate_sites_at_once_with_the_same_numbers() -> None:
    points = np.random.default_rng(3).uniform([0.0, 1.0], [1.0, 100.0], (20, 2))
    with pumps(threads=3) as fleet, pumps() as plain:
        np.testing.assert_array_equal(fleet.table(points), plain.table(points))


def test_a_local_fleet_loads_no_flower() -> None:
    script = (
        "import sys; from zofedht import Fleet\nwith Fleet.local([sum], x0=[0.0]) as fleet: fleet([1.0])\n"
        "print({'flwr', 'grpc', 'cryptography', 'ray'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("sites", "keys", "rule"),
    [
        (3, {}, "sites must be functions or Objectives, in a list or by name, got 3"),
        ("ab", {}, "sites must be functions or Objectives, in a list or by name, got 'ab'"),
        ([abs], {"folder": 3}, "folder must name a folder, got 3"),
    ],
)
def test_sites_and_folder_are_of_their_types(sites: Any, keys: dict[str, Any], rule: str) -> None:
    with pytest.raises(FleetError, match=rule):
        Fleet.local(sites, x0=[1.0], **keys)

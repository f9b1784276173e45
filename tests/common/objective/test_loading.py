"""How a factory is found and refused; starting points and full evaluations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zofedht
from tests.common.samples import Sum
from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.base import Shard
from zofedht.common.objective.loading import code_of, load_objective, starting_point
from zofedht.common.objective.points import full_evaluation
from zofedht.common.random.streams import stream
from zofedht.common.typing import Vector

Writer = Callable[[str, str], None]

_MODULE = """
    from zofedht.common.objective.base import Objective

    class Valve(Objective):
        def __init__(self, dim=3, samples=8):
            self.dim, self.samples = dim, samples
        def __len__(self):
            return self.samples
        def value(self, x, batch):
            return float(x @ x)

    class NoArguments(Valve):
        def __init__(self):
            super().__init__()

    class Unfinished(Objective):
        dim = 3

    class LenRaises(Valve):
        def __len__(self):
            raise KeyError("rows")

    def make(shard):
        valve = Valve()
        valve.shard = shard
        return valve

    def plain():
        return Valve()

    def _hidden():
        return Valve()

    def raises(shard):
        raise FileNotFoundError(f"no days of plant {shard.client}")

    number = 3
    """


def test_without_initial_there_is_no_starting_point() -> None:
    assert starting_point(Sum(), 0) is None
    np.testing.assert_array_equal(Sum().zeros(), np.zeros(3))


def test_initial_draws_from_the_runs_stream() -> None:
    class Random(Sum):
        def initial(self, rng: np.random.Generator) -> Vector:
            return rng.standard_normal(3)

    np.testing.assert_array_equal(starting_point(Random(), 5), stream(5, "initial").standard_normal(3))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("start", "complaint"),
    [
        (np.zeros(2), r"initial\(\) must be a vector of 3 finite numbers, got an array of shape \(2,\)"),
        (np.zeros((3, 1)), r"shape \(3, 1\)"),
        (np.array([0.0, np.nan, 0.0]), "got nan for parameter 1"),
        ("nonsense", "3 finite numbers, got 'nonsense'"),
    ],
)
def test_a_bad_starting_point_is_refused(start: Any, complaint: str) -> None:
    class Bad(Sum):
        def initial(self, rng: np.random.Generator) -> Vector:
            return start  # type: ignore[no-any-return]

    with pytest.raises(ObjectiveError, match=complaint):
        starting_point(Bad(), 0)


def test_full_evaluation_gives_floats() -> None:
    assert full_evaluation(Sum(), np.ones(3)) == {"loss": 12.0}


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ({"accuracy": 1.0}, "must return a dict with 'loss' in it, got accuracy"),
        ({}, "got none"),
        (None, "the objective raised AttributeError"),
        ({"loss": "high"}, "the objective raised ValueError"),
    ],
)
def test_a_failed_full_evaluation_gives_the_reason(answer: Any, complaint: str) -> None:
    class Bad(Sum):
        def evaluate(self, x: Vector) -> dict[str, float]:
            return answer  # type: ignore[no-any-return]

    with pytest.raises(ObjectiveError, match=complaint):
        full_evaluation(Bad(), np.ones(3))


def test_a_factory_gets_its_shard(write_module: Writer) -> None:
    write_module("valve_a", _MODULE)
    shard = Shard(client="2", index=2, count=5, seed=9)
    assert load_objective("valve_a:make", shard).shard is shard  # type: ignore[attr-defined]
    assert load_objective("valve_a:make").shard == Shard()  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["plain", "NoArguments", "_hidden"])
def test_classes_and_functions_without_arguments_are_factories(write_module: Writer, name: str) -> None:
    write_module("valve_b", _MODULE)
    assert len(load_objective(f"valve_b:{name}", Shard())) == 8


@pytest.mark.parametrize("text", ["", "valve", "valve:", ":make", ":"])
def test_an_objective_must_be_written_as_module_and_factory(text: str) -> None:
    with pytest.raises(ObjectiveError, match="must be written module:factory, got"):
        load_objective(text)


@pytest.mark.parametrize("text", ["valve:make:again", " valve : make ", "valve: again"])
def test_one_colon_and_no_space_are_in_an_objective(text: str) -> None:
    with pytest.raises(ObjectiveError, match=r"with one colon and no space, got .*; write valve:(make|again)$"):
        load_objective(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("./valve:make", "write valve:make, or set"),
        ("plants/valve.py:make", "write valve:make and run the command in plants"),
        ("valve.py:make", "write valve:make, or set"),
        ("C:\\plants\\valve.py:make", r"write valve:make and run the command in C:/plants"),
        ("/plants/valve:make", "write valve:make and run the command in /plants"),
    ],
)
def test_a_path_is_no_module(text: str, words: str) -> None:
    with pytest.raises(ObjectiveError, match=f"objective must name a module, not a file, got .*{words}"):
        load_objective(text)


def test_a_name_that_is_taken_is_told(write_module: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "json.py").write_text("class Pump: pass")
    with pytest.raises(ObjectiveError, match=r"the name 'json' is taken by .*, which comes before .*json\.py; rename"):
        load_objective("json:Pump")


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("mack", "has no callable 'mack'; it has .*Valve.*make"),
        ("number", "has no callable 'number'"),
        ("raises", "for client 4 raised FileNotFoundError: no days of plant 4"),
        ("Unfinished", "raised TypeError"),
    ],
)
def test_a_factory_that_is_missing_or_raises_is_named(write_module: Writer, name: str, complaint: str) -> None:
    write_module("valve_c", _MODULE)
    with pytest.raises(ObjectiveError, match=complaint):
        load_objective(f"valve_c:{name}", Shard(client="4"))


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("3", "must return an Objective .*, got int"),
        ("None", "got NoneType"),
        ("Valve(dim=0)", "dim must be a whole number of at least 1, got 0"),
        ("Valve(dim=2.0)", "got 2.0"),
        ("Valve(dim=True)", "got True"),
        ("Valve(samples=0)", "at least 1 sample, got 0"),
        ("LenRaises()", "raised KeyError: 'rows'"),
    ],
)
def test_an_objective_must_have_parameters_and_samples(write_module: Writer, body: str, complaint: str) -> None:
    write_module("valve_d", _MODULE + f"\n    def bad():\n        return {body}\n")
    with pytest.raises(ObjectiveError, match=complaint):
        load_objective("valve_d:bad")


def test_a_missing_import_of_the_module_is_named(write_module: Writer) -> None:
    write_module("valve_e", "import no_such_simulator")
    with pytest.raises(ObjectiveError, match="no module named 'no_such_valve'"):
        load_objective("no_such_valve:make")
    with pytest.raises(ObjectiveError, match="no module named 'no_such_simulator'"):
        load_objective("valve_e:make")


@pytest.mark.parametrize(("text", "kind"), [("1 / 0", "ZeroDivisionError"), ("def make(:", "SyntaxError")])
def test_an_error_of_the_import_is_named(write_module: Writer, text: str, kind: str) -> None:
    write_module("valve_f", text)
    with pytest.raises(ObjectiveError, match=f"importing valve_f raised {kind}"):
        load_objective("valve_f:make")


@pytest.mark.parametrize(("home", "told"), [("inside", False), ("above", True), ("search path", True)])
def test_under_flower_another_environment_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str, told: bool
) -> None:
    """`flwr run` may meet a SuperLink with the PYTHONPATH of somebody else's run; an app runs below FLWR_HOME."""
    package = Path(zofedht.__file__).resolve()
    monkeypatch.setenv("FLWR_HOME", str(package.parents[1] if home == "above" else tmp_path))
    if home == "search path":  # of a worker that has found the package in its working folder
        monkeypatch.syspath_prepend(str(tmp_path / "apps"))
    with pytest.raises(ObjectiveError, match="no module named 'no_such_pump'") as caught:
        load_objective("no_such_pump:make")
    assert ("FLWR_LOCAL_CONTROL_API_PORT" in str(caught.value)) == told


def test_a_function_of_named_parameters_is_no_factory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plant_of_two.py").write_text("def energy(valve, pause, shard):\n    return 0.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ObjectiveError, match="stands in its place with the config's `parameters`"):
        load_objective("plant_of_two:energy")


@pytest.mark.parametrize("name", ["plant_of_code.valve", "lone"])
def test_the_code_of_an_objective_is_that_of_its_imports_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """No module is run for it but the package that holds the objective's."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "plant_of_code").mkdir()
    texts = {
        "plant_of_code/__init__.py": "",
        "plant_of_code/valve.py": "from .parts import SCALE\nimport numpy\n",
        "plant_of_code/parts.py": "from far import AWAY as SCALE\n",
        "lone.py": "import plant_of_code.parts\nimport missing\n",
        "far.py": "raise SystemExit\n",
        "other.py": "",
    }
    for file, text in texts.items():
        (tmp_path / file).write_text(text)
    codes = {code_of(f"{name}:make")}
    for file in ("plant_of_code/parts.py", "far.py"):
        (tmp_path / file).write_text(texts[file] + "# changed\n")
        codes.add(code_of(f"{name}:make"))
    assert len(codes) == 3
    (tmp_path / "other.py").write_text("# nobody imports it\n")
    assert code_of(f"{name}:make") in codes

"""``zofedht-client check``: prints every finding, and its exit code says whether the objective can run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from zofedht.client.__main__ import main

Writer = Callable[[str, str], None]

_MODULE = """
    import numpy as np
    from zofedht.common.objective.base import Objective

    class Valve(Objective):
        dim = 3
        def __init__(self, shard):
            if shard.index > 7:
                raise OSError(f"there is no plant {shard.client} among {shard.count}")
            self.shard = shard
        def __len__(self):
            return 8
        def value(self, x, batch):
            return float(np.mean((x - 0.1) ** 2))

    class Single(Valve):
        def value(self, x, batch):
            return np.float32(super().value(x, batch))

    class Rounded(Valve):
        def value(self, x, batch):
            return float(np.float32(super().value(x, batch)))

    def pressure():
        raise RuntimeError("the valve is shut")

    class Shut(Valve):
        def value(self, x, batch):
            return pressure()

    class Says(Valve):
        def initial(self, rng):
            print("DATA", self.shard.data)
            print("SHARD", self.shard.client, self.shard.index, self.shard.count, self.shard.seed)
    """


def _check(*arguments: str) -> int:
    return main(["check", "--set", "memory=3", "--objective", *arguments])


def test_every_finding_has_a_line(write_module: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    write_module("valve_check", _MODULE)
    assert _check("valve_check:Valve") == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == "ok      size: 3 parameters, 8 samples"
    assert all(line.startswith("ok ") for line in lines[:-1])
    assert lines[-1] == "valve_check:Valve can run"
    assert not err


def test_an_error_exits_with_2_and_its_cause(write_module: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    write_module("valve_check", _MODULE)
    assert _check("valve_check:Single") == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].startswith("ERROR   value: the objective must return one float64 number, got float32")
    assert lines[-1] == "valve_check:Single cannot run: 1 to mend"


def test_a_warning_does_not_fail_the_check(write_module: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    write_module("valve_check", _MODULE)
    assert _check("valve_check:Rounded", "--set", "radius=1e-7") == 0
    out = capsys.readouterr().out
    assert "WARNING radius: " in out
    assert "valve_check:Rounded can run" in out


def test_set_and_client_reach_the_factory_and_the_checks(
    write_module: Writer, capsys: pytest.CaptureFixture[str]
) -> None:
    write_module("valve_check", _MODULE)
    assert (
        _check("valve_check:Says", "--client", "3", "--set", "seed=9", "num-clients=5", "--set", "local-steps=7") == 0
    )
    out = capsys.readouterr().out
    assert "SHARD 3 3 5 9" in out
    assert "for a slot of 7 steps" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("valve_check",), "objective must be written module:factory, got 'valve_check'"),
        (("no_such_valve:make",), "no module named 'no_such_valve' can be imported"),
        (("valve_check:make",), "has no callable 'make'; it has "),
        (("valve_check:Valve", "--set", "raduis=1"), "unknown key 'raduis'; did you mean 'radius'?"),
        (("valve_check:Valve", "--set", "radius"), "--set takes key=value, got 'radius'"),
        (("valve_check:Valve", "--set", "radius=0"), "radius must be greater than 0, got 0"),
    ],
)
def test_a_wrong_command_is_one_sentence(
    write_module: Writer, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    write_module("valve_check", _MODULE)
    assert _check(*arguments) == 2
    out, err = capsys.readouterr()
    assert not out
    assert len(err.splitlines()) == 1
    assert err.startswith("zofedht-client: error: ")
    assert sentence in err


def test_a_raising_factory_shows_the_users_traceback(write_module: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    write_module("valve_check", _MODULE)
    assert _check("valve_check:Valve", "--client", "30") == 2
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0].startswith(
        "ERROR   factory: the factory valve_check:Valve for client 30 raised OSError: there is no plant 30 among 31 (va"
    )
    assert lines[1] == "        Traceback (most recent call last):"
    assert 'valve_check.py", line 9, in __init__' in lines[2]
    assert "common/" not in out
    assert lines[-1] == "valve_check:Valve cannot run: 1 to mend"


def test_a_raising_value_shows_the_users_traceback(write_module: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    write_module("valve_check", _MODULE)
    assert _check("valve_check:Shut") == 2
    out = capsys.readouterr().out
    assert out.count("  File ") == 2
    assert "in value" in out
    assert "in pressure" in out
    assert "        RuntimeError: the valve is shut" in out.splitlines()


def test_a_memory_above_n_is_told(write_module: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    write_module("valve_check", _MODULE)
    assert _check("valve_check:Valve", "--set", "memory=7") == 0
    assert "memory: with 3 parameters the run takes memory = 3 instead of 7" in capsys.readouterr().out
    assert _check("valve_check:Valve", "--set", "memory=7", "algorithm=zofedavg-sgd") == 0
    assert "memory" not in capsys.readouterr().out


def test_the_file_given_with_data_reaches_the_factory(
    write_module: Writer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_module("valve_check", _MODULE)
    assert _check("valve_check:Says", "--data", "days.csv") == 0
    assert f"DATA {tmp_path / 'days.csv'}" in capsys.readouterr().out


def test_the_run_that_set_describes_is_estimated(write_module: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    write_module("valve_check", _MODULE)
    assert _check("valve_check:Valve", "--set", "rounds=70", "clients-per-round=3", "batch-size=4") == 0
    assert "a run of 70 rounds takes " in (out := capsys.readouterr().out)
    assert "if all 3 slots of a round are done here" in out
    assert _check("valve_check:Valve", "--set", "rounds=0", "budget=100000", "batch-size=4", "local-steps=10") == 0
    assert "a run of 250 rounds takes " in capsys.readouterr().out  # 5 slots of 10 steps of 2 x 4


def test_every_problem_of_the_config_has_its_line(write_module: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    write_module("valve_check", _MODULE)
    assert _check("valve_check:Valve", "--set", "radius=-1", "seed=x", "colour=red") == 2
    assert len(capsys.readouterr().err.splitlines()) == 3


@pytest.mark.parametrize("arguments", [[], ["join"], ["chekc"]])
def test_a_malformed_command_line_shows_the_usage(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: zofedht-client" in capsys.readouterr().err


def test_a_whole_config_is_checked(write_module: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_module("valve_config", _MODULE)
    file = tmp_path / "run.toml"
    file.write_text('objective = "valve_config:Valve"\nmemory = 3\nrounds = 7\nlocal-steps = 5\n')
    assert main(["check", "--config", str(file)]) == 0
    out = capsys.readouterr().out
    assert "size: 3 parameters, 8 samples" in out
    assert "a run of 7 rounds" in out
    assert main(["check", "--config", str(file), "--set", "rounds=9"]) == 0
    assert "a run of 9 rounds" in capsys.readouterr().out
    file.write_text('objective = "valve_config:Valve"\nmemmory = 3\nrounds = -7\n')
    assert main(["check", "--config", str(file)]) == 2
    problems = capsys.readouterr().err
    assert "unknown key 'memmory'" in problems
    assert "rounds must be at least 0" in problems


def test_a_config_without_an_objective_checks_its_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.toml"
    file.write_text('dataset = "digits"\nmodel = "logistic"\nnum-clients = 4\nclients-per-round = 2\n')
    assert main(["check", "--config", str(file)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "logistic on shard 0 of digits can run"


def test_rows_of_clients_need_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, rows = tmp_path / "run.toml", tmp_path / "rows.csv"
    file.write_text('dataset = "clients"\nmodel = "logistic"\npositive-labels = "1"\n')
    assert main(["check", "--config", str(file)]) == 2
    assert "give one's file as --data FILE" in capsys.readouterr().err
    rows.write_text("a,b,label\n" + "".join(f"{k},{k * k},{k % 2}\n" for k in range(40)))
    assert main(["check", "--config", str(file), "--data", str(rows)]) == 0
    assert "40 samples" in capsys.readouterr().out


def test_check_needs_something_to_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == 2
    assert "check needs --objective MODULE:FACTORY, or --config FILE" in capsys.readouterr().err

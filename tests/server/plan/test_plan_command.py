"""``zofedht-server plan``, here and over sites that are real processes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server.grpc.processes import Site
from zofedht.server.__main__ import main

_MODULE = """
    import numpy as np
    from zofedht import Objective

    class Bowl(Objective):
        dim = 3
        names = ["valve", "pause", "heat"]
        bounds = [(-9.0, 9.0), (-8.0, 8.0), (-7.0, None)]

        def __init__(self, shard):
            self.centre = 1.0 + shard.index
            if shard.index == 7:
                raise OSError("there is no plant 7")

        def __len__(self):
            return 30

        def value(self, x, batch):
            with open("calls.txt", "a") as file:
                file.write("x")
            return float(np.sum((x - self.centre) ** 2))

    class Odd(Bowl):
        calls = 0

        def value(self, x, batch):
            if self.centre == 2.0:
                x -= 1.0
            self.calls += self.centre == 1.0
            return super().value(np.array([x[0], 0.0, 0.0]) if self.centre == 3.0 else x, batch) + self.calls % 2

    class Broken(Bowl):
        def value(self, x, batch):
            if self.centre == 2.0:
                raise OSError("the valve is shut")
            return super().value(x, batch)
    """
KEYS = ["num-clients=3", "clients-per-round=2", "rounds=20", "local-steps=5", "memory=2", "step-size=0.05"]


def test_a_run_is_planned_here(
    write_module: Callable[[str, str], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    write_module("plan_module", _MODULE)
    assert main(["plan", "--set", "objective=plan_module:Bowl", *KEYS]) == 0
    out = capsys.readouterr().out
    most = int(re.search(r"looked at 3 sites here, each with at most (\d+) calls of F", out)[1])  # type: ignore[index]
    assert (tmp_path / "calls.txt").stat().st_size <= 3 * most
    for text in (
        "site 0: 30 samples",
        "ok      radius:",
        "slowest site: ",
        "the run: 20 rounds, about ",
        "bytes: about ",
    ):
        assert text in out
    assert out.splitlines()[-1] == "can run"
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == [
        "calls.txt",
        "plan_module.py",
    ]


def test_a_search_is_planned_without_a_radius(
    write_module: Callable[[str, str], None], capsys: pytest.CaptureFixture[str]
):
    write_module("plan_search", _MODULE)
    assert main(["plan", "--set", "objective=plan_search:Bowl", "num-clients=3", "budget=9000"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"the run: at most \d+ rounds, about 9,\d+ evaluations, and \d+ in full", out)
    assert "bytes: about " in out
    assert "radius:" not in out
    assert out.splitlines()[-1] == "can run"


def test_a_broken_site_is_named(write_module: Callable[[str, str], None], capsys: pytest.CaptureFixture[str]):
    write_module("plan_module", _MODULE)
    assert main(["plan", "--set", "objective=plan_module:Broken", *KEYS]) == 2
    out = capsys.readouterr().out
    assert "ERROR   site 1: raised: the objective raised OSError: the valve is shut" in out
    assert out.splitlines()[-1] == "cannot run: 1 of 3 sites to mend"


def test_few_calls_are_enough(
    write_module: Callable[[str, str], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    write_module("plan_module", _MODULE)
    assert main(["plan", "--calls", "5", "--set", "objective=plan_module:Bowl", *KEYS]) == 0
    assert (tmp_path / "calls.txt").stat().st_size == 3 * 5
    assert "not judged to the end" in capsys.readouterr().out
    assert main(["plan", "--calls", "2", "--set", "objective=plan_module:Bowl", *KEYS]) == 2


def test_built_in_models_are_planned(capsys: pytest.CaptureFixture[str]):
    assert main(["plan", "--set", "num-clients=2", "clients-per-round=2", "train-rows=200"]) == 0
    assert "the run: 100 rounds, about 1,280,000 evaluations" in capsys.readouterr().out


def test_sites_are_asked_and_come_back_to_the_run(site: Site, write_module: Callable[[str, str], None]):
    write_module("plan_sites", _MODULE)
    folder = Path.cwd()
    keys = ["objective=plan_sites:Bowl", *KEYS]
    words = ["plan", "--address", "127.0.0.1:0", "--insecure", "--min-clients", "3", "--set", *keys]
    plan = site.run("zofedht.server.__main__", words)
    site.port = int(plan.says(r"listening on port (\d+)")[1])
    options = ["--objective", "plan_sites:Bowl", "--partition"]
    clients = [site.client(f"c{i}", *options, f"{i}/3", folder=folder) for i in range(3)]
    assert plan.ends() == 0, plan.text
    assert "looked at 3 sites over the network, each with at most " in plan.text
    assert "site c2: 30 samples, " in plan.text
    assert "take batch-size = 64: slopes of batches of 64 differ by " in plan.text
    assert "the run: 20 rounds, " in plan.text
    assert plan.text.splitlines()[-1] == "can run"
    server = site.server(port=site.port, objective="plan_sites:Bowl", rounds=3, step_size=0.05)
    assert server.ends() == 0, server.text
    assert [client.ends() for client in clients] == [0, 0, 0]
    assert site.summary()["rounds"] == 3


def test_each_site_says_what_its_checks_found(site: Site, write_module: Callable[[str, str], None]):
    write_module("plan_odd", _MODULE)
    folder = Path.cwd()
    words = ["plan", "--address", "127.0.0.1:0", "--insecure", "--min-clients", "4"]
    plan = site.run("zofedht.server.__main__", [*words, "--set", "objective=plan_odd:Odd", *KEYS])
    site.port = int(plan.says(r"listening on port (\d+)")[1])
    options = ["--objective", "plan_odd:Odd", "--partition"]
    clients = [site.client(f"c{i}", *options, f"{i}/5", folder=folder) for i in range(3)]
    clients.append(site.client("c4", *options, "4/5", "--only-sums", folder=folder))
    assert plan.ends() == 2, plan.text
    told = re.split(r"^(?=site|ERROR   site)", plan.text, flags=re.MULTILINE)[1:]
    assert "WARNING repeats: different losses for the same x and batch, spread 1 (the site's own log" in told[0]
    assert "ERROR   arguments: a method changes its arguments" in told[1]
    assert (
        "WARNING parameters: F does not change with some parameters: parameter 'pause', parameter 'heat' at all"
        in told[2]
    )
    assert "ok      code: value, arguments, repeats, whole, pair, values\n" in told[2]
    assert told[3].startswith("ERROR   site c4: unusable: the client's own --only-sums allows no losses")
    assert "cannot run: 2 of 4 sites to mend" in plan.text
    clients[1].says(r"check arguments: value\(\) changes its argument x; work on a copy")
    for client in clients:
        client.kill()


def test_the_same_checks_are_made_here(write_module: Callable[[str, str], None], capsys: pytest.CaptureFixture[str]):
    write_module("plan_here", _MODULE)
    assert main(["plan", "--set", "objective=plan_here:Odd", *KEYS]) == 2
    out = capsys.readouterr().out
    assert "ERROR   arguments: value() changes its argument x; work on a copy" in out
    assert "WARNING repeats: different losses for the same x and batch (spread 1)" in out
    assert out.splitlines()[-1] == "cannot run: 1 of 3 sites to mend"


def test_an_address_needs_an_objective_of_the_sites(capsys: pytest.CaptureFixture[str]):
    assert main(["plan", "--address", "127.0.0.1:0", "--insecure"]) == 2
    assert "plan --address is for an objective of your own" in capsys.readouterr().err

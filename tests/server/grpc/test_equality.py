"""The same numbers as in process, bit for bit, over real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import VALVE
from tests.server.grpc.processes import SMALL, Process, Site
from tests.waiting import until
from zofedht import load_run
from zofedht.common.config.run_config import RunConfig
from zofedht.common.objective.base import Shard
from zofedht.common.objective.loading import load_objective
from zofedht.common.shards import own_objective, own_rows
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import sha256_of_x

LEFT_OUT = dict.fromkeys(("clients_per_round", "sampling", "memory", "kernel", "local_steps", "step_size"))
"""Keys of SMALL that are not for cma-es."""


def in_process(objectives: Any = None, **keys: Any) -> str:
    """Return the digest of the last x of the same config without any transport."""
    config = RunConfig.from_mapping(SMALL | {key.replace("_", "-"): value for key, value in keys.items()})
    return sha256_of_x(run_in_process(config, objectives).state.user_x)


def all_end_well(server: Process, clients: list[Process]) -> None:
    """Wait for the end; the clients are told that the run is over."""
    assert server.ends() == 0, server.text
    for client in clients:
        assert client.ends() == 0, client.text
        assert "the run is over" in client.text


def test_tls_run_equals_in_process_bit_for_bit(secure_site: Site):
    server = secure_site.server()
    all_end_well(server, secure_site.clients())
    assert secure_site.summary()["last_x_sha256"] == in_process()
    assert secure_site.failures() == []
    assert [row["round"] for row in secure_site.history()] == list(range(12))


def test_draws_with_replacement_equal_in_process_too(site: Site):
    keys = {"sampling": "with-replacement", "clients_per_round": 5, "weighting": "examples", "model": "mlp"}
    server = site.server(**keys, hidden_units=3)
    all_end_well(server, site.clients())
    assert site.summary()["last_x_sha256"] == in_process(**keys, hidden_units=3)


def test_the_history_equals_that_in_process(site: Site):
    server = site.server()
    all_end_well(server, site.clients())
    start_losses: list[float] = []
    result = run_in_process(
        RunConfig.from_mapping(SMALL), observers=[lambda _, row: start_losses.append(row.start_loss)]
    )
    assert [row["start_loss"] for row in site.history()] == start_losses
    # Names and reasons are a few bytes; x and Q are thousands.
    assert site.summary()["bytes_down"] == pytest.approx(result.state.totals.bytes_down, rel=0.02)


def test_best_x_and_verdict_equal_those_in_process(site: Site, monkeypatch: pytest.MonkeyPatch):
    keys = {"objective": "valve_to_judge:Starting", "step_size": 0.05, "evaluate_every": 2}
    folder = site.folder / "device"
    folder.mkdir()
    (folder / "valve_to_judge.py").write_text(VALVE)
    server = site.server(**keys)
    options = ["--objective", "valve_to_judge:Starting", "--partition"]
    all_end_well(server, [site.client(f"{i}", *options, f"{i}/3", folder=folder) for i in range(3)])
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    config = RunConfig.from_mapping(SMALL | {key.replace("_", "-"): value for key, value in keys.items()})
    result = run_in_process(config)
    monkeypatch.delitem(sys.modules, "valve_to_judge")
    summary = site.summary()
    assert summary["x_sha256"] == sha256_of_x(result.x)
    assert {key: summary[key] for key in result.verdict.about()} == json.loads(json.dumps(result.verdict.about()))
    assert summary["full_evaluations"] == result.state.totals.full_evaluations
    assert (site.out / "report.html").exists()


def test_the_server_needs_no_black_box(site: Site, monkeypatch: pytest.MonkeyPatch):
    keys = {"objective": "valve_of_plant:Starting", "step_size": 0.05}
    folder = site.folder / "device"
    folder.mkdir()
    (folder / "valve_of_plant.py").write_text(VALVE)
    server = site.server(**keys)
    options = ["--objective", "valve_of_plant:Starting", "--partition"]
    all_end_well(server, [site.client(f"c{i}", *options, f"{i}/3", folder=folder) for i in range(3)])
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    objectives = [load_objective("valve_of_plant:Starting", Shard(f"c{i}", i, 3, seed=3)) for i in range(3)]
    monkeypatch.delitem(sys.modules, "valve_of_plant")
    assert site.summary()["last_x_sha256"] == in_process(objectives, **keys)
    assert not list(site.folder.glob("*.py"))  # the server's working folder: it could not have imported it
    assert site.summary()["final_train_loss"] < site.summary()["initial_train_loss"]


def test_a_search_equals_in_process(site: Site, monkeypatch: pytest.MonkeyPatch):
    folder = site.folder / "device"
    folder.mkdir()
    (folder / "valve_to_search.py").write_text(VALVE)
    keys = {"algorithm": "cma-es", "objective": "valve_to_search:Bounded", "batch_size": 3}
    left_out = LEFT_OUT
    server = site.server(**keys, **left_out)
    options = ["--objective", "valve_to_search:Bounded", "--partition"]
    all_end_well(server, [site.client(f"c{i}", *options, f"{i}/3", folder=folder) for i in range(3)])
    assert site.failures() == []
    monkeypatch.syspath_prepend(folder)
    taken = {key.replace("-", "_"): value for key, value in SMALL.items()} | keys
    result = run_in_process(RunConfig().replace(**{key: taken[key] for key in taken if key not in left_out}))
    assert site.summary()["x_sha256"] == sha256_of_x(result.x)
    assert site.summary()["bytes_down"] == pytest.approx(result.state.totals.bytes_down, rel=0.05)
    assert site.summary()["final_train_loss"] < site.summary()["initial_train_loss"]


@pytest.mark.parametrize("algorithm", ["cma-es", "zofedht"])
def test_clients_tell_the_names_of_their_parameters(site: Site, algorithm: str, monkeypatch: pytest.MonkeyPatch):
    keys = {"algorithm": algorithm, "objective": "valve_by_name:ByName", "batch_size": 3}
    left_out = LEFT_OUT if algorithm == "cma-es" else {}
    folder = site.folder / "device"
    folder.mkdir()
    (folder / "valve_by_name.py").write_text(VALVE)
    server = site.server(**keys, **left_out)
    options = ["--objective", "valve_by_name:ByName", "--partition"]
    clients = [site.client(f"c{i}", *options, f"{i}/3", folder=folder) for i in range(3)]
    # So long a probe, half of each range, leads slopes nowhere: the run is done, and no better than its start.
    assert server.ends() == 0, server.text
    assert server.code == (0 if algorithm == "cma-es" else 3)
    assert [client.ends() for client in clients] == [0, 0, 0]
    monkeypatch.syspath_prepend(folder)
    taken = {key.replace("-", "_"): value for key, value in SMALL.items()} | keys
    result = run_in_process(RunConfig().replace(**{key: taken[key] for key in taken if key not in left_out}))
    assert site.summary()["x_sha256"] == sha256_of_x(result.x)
    assert load_run(site.out).settings == site.summary()["settings"]
    assert load_run(site.out).last_settings == result.state.settings
    assert list(result.state.settings) == ["flow", "pause", "teeth", "mode"]


def test_a_client_with_another_option_is_refused(site: Site):
    folder = site.folder / "device"
    folder.mkdir()
    (folder / "valve_by_name.py").write_text(VALVE)
    server = site.server(algorithm="cma-es", objective="valve_by_name:OtherMode", batch_size=3, **LEFT_OUT)
    options = ["--objective", "valve_by_name:OtherMode", "--partition"]
    for index in range(3):
        site.client(f"c{index}", *options, f"{index}/3", folder=folder)
    assert server.ends() != 0
    assert "client c2 has the parameter 'mode' as Choice(options=('a', 'b', '3')), client c0" in server.text


def test_code_that_ends_the_program_costs_no_client(site: Site, monkeypatch: pytest.MonkeyPatch):
    keys = {"objective": "valve_quits:Quitting", "step_size": 0.05, "on_error": "skip-step", "init": "ones"}
    folder = site.folder / "device"
    folder.mkdir()
    (folder / "valve_quits.py").write_text(VALVE)
    server = site.server(**keys)
    options = ["--objective", "valve_quits:Quitting", "--partition"]
    all_end_well(server, [site.client(f"c{i}", *options, f"{i}/3", folder=folder) for i in range(3)])
    monkeypatch.syspath_prepend(folder)
    assert site.summary()["x_sha256"] == in_process(**keys)
    assert site.summary()["lost"]["steps"] > 0
    assert "the objective raised SystemExit" in site.summary()["lost"]["reason"]


def test_a_file_of_parameters_serves_plain_functions(site: Site):
    """The table stands in run.toml, which both sides have; the clients have a function of keywords."""
    text = "def energy(flow, teeth, shard):\n    return (flow - .2 * shard.index) ** 2 + ((teeth - 30) / 8) ** 2\n"
    folder = site.folder / "device"
    folder.mkdir()
    (folder / "valve_function.py").write_text(text)
    rows = "flow = { lower = 0, upper = 1 }\nteeth = { lower = 8, upper = 40, integer = true }\n"
    (site.folder / "run.toml").write_text(f"[parameters]\n{rows}")
    keys = {"algorithm": "cma-es", "objective": "valve_function:energy", "rounds": 30}
    server = site.server("--config", str(site.folder / "run.toml"), **keys, **LEFT_OUT)
    options = ["--objective", "valve_function:energy", "--parameters", str(site.folder / "run.toml"), "--partition"]
    all_end_well(server, [site.client(f"c{i}", *options, f"{i}/3", folder=folder) for i in range(3)])
    found = load_run(site.out)
    assert found.settings["teeth"] == 30
    assert found.settings["flow"] == pytest.approx(0.2, abs=0.01)


def test_exports_are_in_the_clients_units(site: Site, monkeypatch: pytest.MonkeyPatch):
    keys = {"objective": "valve_with_bounds:Bounded", "step_size": 0.05, "memory": 9}  # more than its 6 parameters
    folder = site.folder / "device"
    folder.mkdir()
    (folder / "valve_with_bounds.py").write_text(VALVE)
    server = site.server(**keys)
    options = ["--objective", "valve_with_bounds:Bounded", "--partition"]
    all_end_well(server, [site.client(f"c{i}", *options, f"{i}/3", folder=folder) for i in range(3)])
    assert site.failures() == []
    assert "memory = 9 becomes 6" in server.text
    monkeypatch.syspath_prepend(folder)
    config = RunConfig.from_mapping(SMALL | {key.replace("_", "-"): value for key, value in keys.items()})
    x = run_in_process(config).x
    assert site.summary()["x_sha256"] == sha256_of_x(x)
    np.testing.assert_array_equal(load_run(site.out).x, x)
    assert x[4] == 0.0


@pytest.mark.parametrize("model", [{}, {"model": "mlp", "hidden_units": 3, "preprocess": "bias"}], ids=str)
def test_own_csv_files_equal_in_process(site: Site, model: dict[str, Any]):
    rng = np.random.default_rng(1)
    files = []
    for index in range(3):
        rows = np.column_stack([np.arange(20 + index) % 2, rng.standard_normal((20 + index, 4))])
        file = site.folder / f"rows{index}.csv"
        file.write_text("label,a,b,c,d\n" + "\n".join(",".join(f"{v:.17g}" for v in row) for row in rows) + "\n")
        files.append(file)
    keys = {"positive_labels": "1", **model}
    server = site.server(dataset="clients", **keys)
    all_end_well(server, [site.client(f"c{i}", "--data", file) for i, file in enumerate(files)])
    config = RunConfig.from_mapping(SMALL | {key.replace("_", "-"): value for key, value in keys.items()})
    objectives = [own_objective(config, own_rows(config, str(file))) for file in files]
    assert site.summary()["last_x_sha256"] == in_process(objectives, **keys)


def test_partition_auto_deals_the_same_on_resume(site: Site):
    server = site.server(rounds=4)
    all_end_well(server, [site.client(name) for name in ("ada", "bob", "eve")])
    dealt = json.loads((site.out / "run.json").read_text())["shards"]
    assert sorted(dealt.values()) == [0, 1, 2]
    # They come in another order, and a stranger comes first; names keep what they had.
    server = site.server("--min-clients", 4, resume=True, rounds=12)
    clients = [site.client("aaa")]
    clients[0].says("joined")
    clients += [site.client(name) for name in ("eve", "bob", "ada")]
    server.says("4 connected")
    until(lambda: "aaa" in json.loads((site.out / "run.json").read_text())["shards"], "a share for the stranger")
    for process in (server, *clients):
        process.kill()
    again = json.loads((site.out / "run.json").read_text())["shards"]
    assert {name: again[name] for name in dealt} == dealt


def test_partitions_dealt_give_the_same_x_as_in_process(site: Site):
    server = site.server()
    all_end_well(server, [site.client(name) for name in ("ada", "bob", "eve")])
    assert site.summary()["last_x_sha256"] == in_process()


def test_the_installed_commands_are_these(tmp_path: Path):
    commands = [Path(sys.executable).with_name(name) for name in ("zofedht-server", "zofedht-client")]
    if not all(command.exists() for command in commands):
        pytest.skip("the project is not installed here")
    for command, word in zip(commands, ("serve", "join"), strict=True):
        done = subprocess.run([command, word, "--help"], capture_output=True, text=True, check=False)
        assert done.returncode == 0
        assert "--tls-dir" in done.stdout

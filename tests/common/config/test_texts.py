"""Configs as texts: assignments, TOML files and the table of keys."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zofedht.common.config.run_config import RunConfig
from zofedht.common.config.texts import dump_toml, load_toml, parse_assignments
from zofedht.common.errors import ConfigError

_OTHER: dict[str, Any] = {
    "dataset": "mnist", "data_dir": "/data sets", "train_rows": 1000, "positive_labels": "1,3",
    "preprocess": "standardize", "standardize_by": "14.5:3.25,-1:0",
    "label_column": "answer", "features": "heat,flow", "csv_header": "yes", "svmlight_indices": "from-0",
    "partition": "dirichlet", "dirichlet_alpha": 1e-05, "model": "mlp", "hidden_units": 7, "mlp_bias": True,
    "l2": 1e-300, "objective": "valve:make", "in_place": True,
    "parameters": '{"valve": {"lower": 0.0, "upper": 1.0}, "mode \\u2713": {"options": ["a", 3, true]}}',
    "algorithm": "zofedavg-sgd", "covariance": "paper",
    "subspace_weight": 0.1, "memory": 9, "refresh": 3, "cone_angle": 1.25, "guide_decay": 0.5, "guide_floor": 0.25,
    "pool_size": 77, "subset_share": 0.25, "blocks": "3x2", "rank": 7, "slope": "forward", "probe": "sphere",
    "slopes_per_step": 4, "slope_scale": "spread", "correction": "control", "warm_up": 7, "shrink": 0.5,
    "kernel": "numpy", "radius": 1e-05, "step_size": 1e22,
    "step_schedule": "constant", "local_steps": 3, "batch_size": 0, "init": "ones", "num_clients": 100,
    "clients_per_round": 10, "sampling": "without-replacement", "weighting": "examples", "rounds": 0,
    "batch_growth": 0.5,
    "server_step": "adam", "server_rate": 0.5, "server_momentum": 0.25, "server_decay": 0.75, "server_floor": 0.5,
    "aggregation": "median", "tolerate": 2,
    "privacy": "local", "clip": 0.5, "noise_multiplier": 1.25, "epsilon": 8.0, "delta": 1e-06, "least_samples": 70,
    "secure_aggregation": True, "share_threshold": 9, "slope_range": 10.0,
    "budget": 10**12, "seed": 2**63 - 1, "uplink": "slopes", "directions": "shared", "downlink": "slopes",
    "wire_dtype": "float32", "snapshot_after": 9,
    "min_replies": 2, "max_retries": 0, "round_timeout": 0.1, "ray_address": "auto",
    "evaluate_every": 0, "return_x": "last", "checkpoint_every": 1, "out": "results", "on_error": "stop",
}  # fmt: skip
"""Every key with another value than its default."""

_TEXTS = [
    "", "plain", 'with "quotes"', "it's", "back\\slash", "C:\\new\\table", "\\", '"', "tab\tnew\nline\r",
    "# no comment", "a = b", "Zürich \u2713", "\U0001f600", "\x7f\x00\x1f", "'''", '"""',
]  # fmt: skip


def _reread(config: RunConfig, folder: Path) -> RunConfig:
    path = folder / "config.toml"
    path.write_bytes(dump_toml(config).encode())
    return RunConfig.from_mapping(load_toml(path))


def test_toml_round_trip_keeps_every_key(tmp_path: Path) -> None:
    fields = {field.name: field.default for field in dataclasses.fields(RunConfig)}
    assert set(_OTHER) == set(fields)
    assert not any(_OTHER[name] == default for name, default in fields.items())
    assert _reread(RunConfig(), tmp_path) == RunConfig()
    each = {"correction": "none", "batch_growth": 0.0, "in_place": False}
    plain = {"secure_aggregation": False} | each
    masked = {"weighting": "uniform", "aggregation": "mean", "privacy": "none"} | each
    plain_step = {"server_step": "default", "server_rate": 1.0}
    apart: tuple[dict[str, Any], ...] = (
        {"downlink": "x", "weighting": "uniform", "on_error": "drop-slot", "slope_scale": "none"} | plain,
        {"wire_dtype": "float64", "aggregation": "mean", "privacy": "none", "epsilon": 0.0} | plain_step | plain,
        {"wire_dtype": "float64", "epsilon": 0.0} | plain_step | masked,
        {"wire_dtype": "float64", "epsilon": 0.0, "secure_aggregation": False, "batch_size": 2}
        | (plain_step | masked | {"correction": "control", "batch_growth": 0.5}),
        {"wire_dtype": "float64", "epsilon": 0.0, "batch_size": 2, "in_place": True, "parameters": "", "init": "auto"}
        | {"probe": "rademacher", "step_size": 2.0, "slope_scale": "none"}
        | (plain_step | masked | {"secure_aggregation": False}),
    )
    for changes in apart:  # what does not go with another key's value
        config = RunConfig(**(_OTHER | changes))
        assert _reread(config, tmp_path) == config


def test_auto_survives_assignments_and_toml(tmp_path: Path) -> None:
    read = parse_assignments(["step-size=auto", "subspace-weight=auto"])
    config = RunConfig.from_mapping(read)
    assert (config.step_size, config.subspace_weight) == ("auto", "auto")
    assert _reread(config, tmp_path) == config


@pytest.mark.parametrize("text", _TEXTS)
def test_toml_round_trip_keeps_any_text(tmp_path: Path, text: str) -> None:
    assert _reread(RunConfig(out=text, data_dir=text), tmp_path).out == text


def test_missing_and_malformed_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"readable TOML file, got .*absent\.toml \(No such file"):
        load_toml(tmp_path / "absent.toml")
    with pytest.raises(ConfigError, match="readable TOML file"):
        load_toml(tmp_path)
    for number, content in enumerate((b"rounds = ", b"rounds = 1 2", b"\xff\xfe")):
        path = tmp_path / f"{number}.toml"
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=rf"must be a TOML file, but .*{number}\.toml is not: "):
            load_toml(path)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("rounds = 1\nseed = 2\nrounds = 3\n", r"'rounds' \(line 3\)"),
        ("[parameters]\n[parameters]\n", r"'\[parameters\]' \(line 2\)"),
    ],
)
def test_a_key_that_is_given_twice_is_named(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "twice.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=rf"must give each key once, but .*twice\.toml gives {named} twice"):
        load_toml(path)


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bom.toml"
    path.write_bytes(b"\xef\xbb\xbfrounds = 2\n")
    assert load_toml(path) == {"rounds": 2}
    path.write_bytes("rounds = 2\n".encode("utf-16"))
    with pytest.raises(ConfigError, match="it is UTF-16; save it as UTF-8"):
        load_toml(path)


def test_a_text_without_quotes_is_told(tmp_path: Path) -> None:
    path = tmp_path / "bare.toml"
    path.write_text("model = mlp\n")
    with pytest.raises(ConfigError, match="a text needs straight quotes, as in model = "):
        load_toml(path)


def test_tables_in_a_file_are_unknown_keys(tmp_path: Path) -> None:
    path = tmp_path / "nested.toml"
    path.write_text("[data]\nrounds = 3\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"unknown table \[data\]: write its keys above all tables of the file"):
        RunConfig.from_mapping(load_toml(path))


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("rounds=20", "rounds", 20),
        (" rounds = 20 ", "rounds", 20),
        ("rounds=2e1", "rounds", 20.0),
        ("radius=1e-3", "radius", 1e-3),
        ("radius=2", "radius", 2),
        ("mlp-bias=true", "mlp-bias", True),
        ("mlp-bias=False", "mlp-bias", False),
        ("mlp-bias=yes", "mlp-bias", "yes"),
        ("rounds=many", "rounds", "many"),
        ("positive-labels=5", "positive-labels", "5"),
        ("positive-labels=5-9", "positive-labels", "5-9"),
        ("out='my results'", "out", "my results"),
        ('out="my results"', "out", "my results"),
        ("out='", "out", "'"),
        ("out=", "out", ""),
        ("out=a=b", "out", "a=b"),
        ("no-such-key=1", "no-such-key", "1"),
    ],
)
def test_assignments_have_the_type_of_their_key(text: str, key: str, value: Any) -> None:
    read = parse_assignments([text])
    assert read == {key: value}
    assert type(read[key]) is type(value)


def test_the_last_of_two_assignments_counts() -> None:
    assert parse_assignments(["rounds=1", "seed=3", "rounds=2"]) == {"rounds": 2, "seed": 3}


def test_texts_that_assign_nothing_are_told_all_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_assignments(["rounds", "seed=1", "=3", ""])
    assert caught.value.problems == tuple(f"--set takes key=value, got {text!r}" for text in ("rounds", "=3", ""))


def test_assignments_are_checked_like_other_values() -> None:
    with pytest.raises(ConfigError) as caught:
        RunConfig.from_mapping(parse_assignments(["rounds=many", "radius=nan", "mlp-bias=yes", "seed=1.5"]))
    assert caught.value.problems == (
        "rounds must be a whole number or default, got 'many'",
        "radius must be a finite number or default, got nan",
        "mlp-bias must be true or false, got 'yes'",
        "seed must be a whole number, got 1.5",
    )


@pytest.mark.parametrize("table", [{}, 3, ["valve"]])
def test_parameters_are_a_table_with_rows(table: Any) -> None:
    with pytest.raises(ConfigError, match="parameters must be a table with at least one row, such as valve"):
        RunConfig.from_mapping({"objective": "plant:energy", "parameters": table})


def test_a_masked_value_is_no_number() -> None:
    with pytest.raises(ConfigError, match="l2 must be a finite number, got masked"):
        RunConfig.from_mapping({"l2": np.ma.masked})

"""The reference of the keys: a schema that takes what RunConfig takes, and refuses what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from zofedht.common.config.reference import json_schema, key_rows, key_table
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed (pip install 'zofedht[dev]')")


def takes(mapping: dict[str, Any]) -> bool:
    return bool(jsonschema.Draft202012Validator(json_schema()).is_valid(mapping))


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(json_schema())


def test_the_schema_takes_all_defaults():
    assert takes(RunConfig().to_mapping())
    assert takes({row.key: row.default for row in key_rows()})


@pytest.mark.parametrize(
    "mapping",
    [
        {"algorithm": "zofed-shrink"},
        {"step-size": 0.5},
        {"step-size": "auto"},
        {"memory": 3},
        {"rounds": 10, "secure-aggregation": False},
    ],
    ids=str,
)
def test_both_take_good_values(mapping: dict[str, Any]):
    RunConfig.from_mapping(mapping)
    assert takes(mapping)


@pytest.mark.parametrize(
    "mapping",
    [
        {"algorithm": "sgd"},
        {"step-size": -1.0},
        {"step-size": "fast"},
        {"num-clients": 0},
        {"num-clients": 2.5},
        {"no-such-key": 1},
        {"mlp-bias": "yes"},
        {"dirichlet-alpha": 0.0},
    ],
    ids=str,
)
def test_both_refuse_wrong_values(mapping: dict[str, Any]):
    with pytest.raises(ConfigError):
        RunConfig.from_mapping(mapping)
    assert not takes(mapping)


def test_the_table_has_a_row_for_each_key():
    assert len(key_table().splitlines()) == len(key_rows()) + 2

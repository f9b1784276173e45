"""What a server that resumes takes for a change."""

from __future__ import annotations

from pathlib import Path

import pytest

from zofedht.common.config.run_config import RunConfig
from zofedht.common.config.texts import load_toml
from zofedht.server.grpc.serve import _changes
from zofedht.server.records.run_folder import RunFolder

WRITTEN = """
objective = "valve:make"
rounds = 7
step-size = 0.1
[parameters]
gain = { lower = 0, upper = 1 }
pause = { lower = 1e-3, upper = 10, log = true }
"""


@pytest.mark.parametrize(("more", "changed"), [("", {}), ("teeth = { lower = 8, upper = 40, integer = true }", None)])
def test_the_same_file_is_no_change(tmp_path: Path, more: str, changed: dict[str, object] | None) -> None:
    file = tmp_path / "run.toml"
    file.write_text(WRITTEN)
    with RunFolder(tmp_path / "run") as folder:
        folder.begin(RunConfig.from_mapping(load_toml(file)), "grpc")
        file.write_text(WRITTEN + more)
        keys = load_toml(file)
        config = RunConfig.from_mapping(keys)
        expected = {"parameters": config.parameters} if changed is None else changed
        assert _changes(folder, config, keys) == expected

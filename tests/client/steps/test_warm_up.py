"""What compiles does so before the first slot: a client that has joined is timed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import black_box
from zofedht.client.join import resident
from zofedht.client.join.resident import JoinOptions, ResidentClient
from zofedht.client.plan import Plan
from zofedht.client.steps.warm_up import warm_up
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError
from zofedht.common.objective.base import Objective
from zofedht.common.random.kernels import runs_compiled
from zofedht.common.random.streams import Address
from zofedht.common.wire.clients import OWN_ROWS, Hello, Question
from zofedht.common.wire.codec import decode, encode
from zofedht.common.wire.messages import Broadcast

CONFIG = RunConfig.from_mapping({"local-steps": 30, "num-clients": 20, "batch-size": 16})


class Untouchable(Objective):
    """A black box that nobody has asked for yet."""

    dim = 100

    def value(self, x: Any, batch: Any) -> float:
        raise AssertionError("an evaluation is the user's: there is none before the run")


def client_of(**options: Any) -> ResidentClient:
    return ResidentClient(JoinOptions("ada", "1", **options), lambda text: None)


def hello_of(config: RunConfig) -> dict[str, Any]:
    return encode(Question("", OWN_ROWS, config.seed, config.preparation)).scalars


def slot_of(config: RunConfig, index: int, dimension: int) -> Broadcast:
    where = {"address": Address(0, 0, 0), "client": "ada", "shard_index": index, "task": config.task}
    return Broadcast(spec=config.step_spec(step_size=0.1), x=np.zeros(dimension), **where)  # type: ignore[arg-type]


def loops() -> dict[str, int]:
    """Return how many kinds of arguments each compiled loop of this process was compiled or loaded for."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name.startswith(("zofedht.common.random.", "zofedht.client.kernels.")):
            for key, value in vars(module).items():
                if hasattr(value, "signatures"):
                    found[f"{name}.{key}"] = len(value.signatures)
    return found


def slots_compile_nothing(keys: dict[str, Any], options: dict[str, Any], dimension: int) -> None:
    """Join and do a slot in this process, which has compiled nothing yet."""
    config = RunConfig.from_mapping(keys)
    client = client_of(**options)
    assert not any(loops().values())
    client.get_properties(hello_of(config))
    ready = loops()
    assert any(ready.values())
    arrays, message = encode(slot_of(config, 0, dimension))
    _, _, metrics = client.fit(arrays, message)
    assert metrics["status"] == "ok", metrics
    assert loops() == ready


@pytest.mark.slow
@pytest.mark.skipif(not runs_compiled("auto"), reason="the extra `fast` is not installed")
@pytest.mark.parametrize(
    ("keys", "options", "dimension"),
    [
        ({"num-clients": 5}, {}, 65),  # auto: the shard is not known yet
        ({"num-clients": 5, "probe": "rademacher"}, {"shard_index": 0, "shard_count": 5}, 65),
        ({"num-clients": 5, "model": "mlp", "hidden-units": 5, "batch-size": 0}, {}, 330),
    ],
    ids=["auto", "signs", "mlp"],
)
def test_the_first_slot_compiles_nothing(keys: dict[str, Any], options: dict[str, Any], dimension: int) -> None:
    call = f"slots_compile_nothing({keys!r}, {options!r}, {dimension})"
    script = f"from {__name__} import slots_compile_nothing; {call}"
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_client_is_warm_before_it_says_hello(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, str, int]] = []
    monkeypatch.setattr(
        resident, "warm_up", lambda config, objective: seen.append((config.kernel, config.slope, objective.dim))
    )
    client = client_of(shard_index=2, shard_count=20)
    config = CONFIG.replace(kernel="numpy", slope="forward")
    assert decode(Hello, client.get_properties(hello_of(config))).dimension == 65
    assert seen == [("numpy", "forward", 65)]
    client.get_properties(hello_of(config))  # it comes back over a new connection
    assert len(seen) == 1


def test_black_boxes_and_numpy_need_no_warm_up() -> None:
    assert warm_up(CONFIG.replace(objective="pump:Pump"), Untouchable()) is runs_compiled("auto")
    assert warm_up(CONFIG.replace(objective="pump:Pump"), None) is runs_compiled("auto")
    assert not warm_up(CONFIG.replace(kernel="numpy"), None)


@pytest.mark.skipif(not runs_compiled("auto"), reason="the extra `fast` is not installed")
def test_warm_up_meets_all_kinds_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    from zofedht.client.kernels import linear as compiled_linear
    from zofedht.client.kernels.column_groups import rows_of

    met: list[str] = []
    monkeypatch.setattr(
        compiled_linear,
        "rows_of",
        lambda objective: met.append(type(rows_of(objective)).__name__) or rows_of(objective),
    )
    assert warm_up(CONFIG, None)
    assert met == ["CompressedRows", "ColumnGroups"]
    samples: list[int] = []
    monkeypatch.setattr(Plan, "drawn", lambda plan, shard: samples.append(shard))
    assert warm_up(CONFIG.replace(objective="pump:Pump"), Untouchable())
    assert len(samples) == 1


def test_a_client_that_lacks_the_loops_does_not_join(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zofedht.common.random.kernels._is_installed", lambda: False)
    with pytest.raises(ConfigError, match="kernel = compiled needs numba"):
        client_of().get_properties(hello_of(CONFIG.replace(kernel="compiled")))


def test_the_factory_is_called_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = black_box(tmp_path, monkeypatch)
    (tmp_path / f"{module}.py").write_text(
        (tmp_path / f"{module}.py").read_text()
        + "\nMADE = []\ndef once(shard):\n    MADE.append(shard)\n    return Valve(shard)\n"
    )
    client = client_of(objective=f"{module}:once")
    config = CONFIG.replace(objective=f"{module}:once")
    client.get_properties(hello_of(config))
    for clients in (20, 3):
        arrays, message = encode(slot_of(config.replace(num_clients=clients, clients_per_round=1), -1, 6))
        assert client.fit(arrays, message)[2]["status"] == "ok"
    assert len(sys.modules[module].MADE) == 1
    arrays, message = encode(slot_of(config.replace(seed=9), -1, 6))
    client.fit(arrays, message)
    assert [shard.seed for shard in sys.modules[module].MADE] == [0, 9]

"""What a whole process needs at its peak: the parameters, the largest tensor and one forward pass."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

_TABLES, _ROWS, _WIDTH = 8, 30_000, 64
_MORE = 12e6
"""Bytes beside parameters and largest tensor: pieces, their draws, activations of 16 rows, and what Python keeps."""

_SLOT = """
import json, sys
from pathlib import Path
import numpy as np
import zofedht.onnx
from zofedht.client.plan import Plan
from zofedht.client.tensors.held import Held
from zofedht.client.tensors.place_steps import place_steps
from zofedht.common.config.run_config import RunConfig
from zofedht.common.directions.law import law_of
from zofedht.common.random.streams import Address
from zofedht.common.tensors.trail import TrailLaw

def net(path, rows):
    data = np.random.default_rng(0).integers(0, rows, (64, 4))
    loss = lambda net, batch: net(rows=batch)["logit"].astype(float) ** 2
    return zofedht.onnx.session(path, loss, data, threads=1)

def memory(key):
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(lines[key].split()[0])

def slot(objective):
    keys = {"objective": "net:make", "in-place": True, "radius": 1e-3, "step-size": 1e-3, "batch-size": 16}
    config = RunConfig.from_mapping({**keys, "local-steps": 3, "probe": sys.argv[1]})
    spec, law, held = config.step_spec(step_size=1e-3), TrailLaw.of_config(config), Held(objective, "disk")
    trail = np.full(law.slopes, 1e-3)
    held.go_to(trail, law)
    with held.changed():
        place_steps(objective, Plan(spec, law_of(spec, 0), Address(0, 1, 0)), held.directions(1, 0, trail, law))

slot(net("small.onnx", 2000))  # loads all code and compiled loops
before = memory("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
objective = net("net.onnx", int(sys.argv[2]))
loaded = memory("VmHWM")
Path("/proc/self/clear_refs").write_text("5")
slot(objective)
blocks = [block.bytes for block in objective.blocks]
told = {"load": loaded - before, "slot": memory("VmHWM") - before, "all": sum(blocks), "largest": max(blocks)}
print(json.dumps(told))
"""


def write(path: Path, rows: int) -> None:
    """Write a model: the sum over tables of the mean of the rows that a sample names."""
    onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
    make, kinds = onnx.helper, onnx.TensorProto
    nodes, names = [], [f"table{number}" for number in range(_TABLES)]
    for name in names:
        nodes.append(make.make_node("Gather", [name, "rows"], [f"{name}.rows"]))
        nodes.append(make.make_node("ReduceMean", [f"{name}.rows"], [f"{name}.mean"], axes=[1, 2], keepdims=0))
    nodes.append(make.make_node("Sum", [f"{name}.mean" for name in names], ["logit"]))
    weights = [onnx.numpy_helper.from_array(np.full((rows, _WIDTH), 0.1, np.float32), name) for name in names]
    given = [make.make_tensor_value_info("rows", kinds.INT64, ["b", 4])]
    found = [make.make_tensor_value_info("logit", kinds.FLOAT, ["b"])]
    graph = make.make_graph(nodes, "tables", given, found, weights)
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 13)], ir_version=8), path)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak is read as Linux tells it")
@pytest.mark.parametrize("probe", ["rademacher", "gaussian"])
def test_a_process_needs_its_parameters_and_the_largest_tensor(probe: str, tmp_path: Path):
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    write(tmp_path / "small.onnx", 2000)
    write(tmp_path / "net.onnx", _ROWS)
    words = [sys.executable, "-c", _SLOT, probe, str(_ROWS)]
    done = subprocess.run(words, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["all"] == 4 * _TABLES * _ROWS * _WIDTH > 5 * _MORE - 1e6
    assert told["load"] < 2 * told["all"] + _MORE  # the file as it is read, and what is made of it
    assert told["slot"] < told["all"] + told["largest"] + _MORE

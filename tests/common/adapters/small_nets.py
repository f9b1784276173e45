"""A tiny transformer: the example's graph with few small layers and random weights, and sentences of random words."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import zofedht.onnx

__all__ = ["EXAMPLE", "example_module", "minilm", "onnx_objective", "sentences", "torch_objective", "weights"]

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "sentences"


def example_module(name: str) -> ModuleType:
    """Return a module of the example, which imports its neighbours by their short names."""
    import importlib

    sys.path.insert(0, str(EXAMPLE))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(EXAMPLE))


@functools.cache
def minilm() -> tuple[Any, Any]:
    """Return the example's module of the net, and the sizes of the tiny one."""
    module = example_module("minilm")
    return module, module.Shape(words=50, places=16, width=16, inner=24, layers=2, heads=4)


def weights(seed: int = 0) -> dict[str, Any]:
    module, shape = minilm()
    rng = np.random.default_rng(seed)
    found = {name: rng.normal(0.0, 0.3, size).astype(np.float32) for name, size in module.shapes(shape).items()}
    return {name: numbers + np.float32(name.endswith("LayerNorm.weight")) for name, numbers in found.items()}


def sentences(count: int = 12, seed: int = 1) -> tuple[list[list[int]], Any]:
    rng = np.random.default_rng(seed)
    rows = [rng.integers(1, 50, rng.integers(3, 12)).tolist() for _ in range(count)]
    return rows, rng.choice([-1.0, 1.0], count)


def onnx_objective(folder: Path, data: Any, **more: Any) -> Any:
    module, shape = minilm()
    path = folder / "tiny.onnx"
    module.write_graph(path, weights(), shape)
    return zofedht.onnx.session(path, example_module("reviews").loss, data, threads=1, **more)


def torch_objective(data: Any, **more: Any) -> Any:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'zofedht[torch]'")
    import zofedht.torch

    net = example_module("net").Sentences(minilm()[1]).eval()
    net.load_state_dict({name: torch.from_numpy(numbers) for name, numbers in weights().items()})
    return zofedht.torch.module(net, example_module("yardsticks").torch_loss, data, **more)

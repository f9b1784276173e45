"""The examples in docstrings run and give the output beside them."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]


def _module(path: Path) -> str:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    return name if name.startswith("zofedht") else f"zofedht.{name}"


MODULES = [
    _module(path)
    for package in ("zofedht", "common", "client", "server", "experiments")
    for path in sorted((ROOT / package).rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_docstrings_run(name: str) -> None:
    ran = doctest.testmod(importlib.import_module(name), extraglobs={"np": np})
    assert (ran.failed, ran.attempted > 0) == (0, True)

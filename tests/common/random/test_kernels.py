"""Which loops run."""

from __future__ import annotations

import pytest

from zofedht.common.errors import ConfigError
from zofedht.common.random import kernels
from zofedht.common.random.kernels import runs_compiled


@pytest.mark.parametrize(("kernel", "installed", "wanted"), [
    ("auto", True, True), ("auto", False, False), ("compiled", True, True), ("numpy", True, False),
    ("numpy", False, False),
])  # fmt: skip
def test_compiled_loops_run_where_they_are_wanted_and_there(
    monkeypatch: pytest.MonkeyPatch, kernel: str, installed: bool, wanted: bool
) -> None:
    monkeypatch.setattr(kernels, "_is_installed", lambda: installed)
    assert runs_compiled(kernel) == wanted


def test_a_missing_extra_names_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_is_installed", lambda: False)
    with pytest.raises(ConfigError, match=r"needs numba.*pip install 'zofedht\[fast\]'"):
        runs_compiled("compiled")

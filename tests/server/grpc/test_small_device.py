"""What a joined client loads: each library that it does not need costs memory on a small device."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.grpc.processes import Site
from tests.waiting import PATIENCE

_SHOWING = """
import atexit, sys
from pathlib import Path

@atexit.register
def tell():
    Path("loaded.txt").write_text(" ".join(sys.modules))
"""
_OBJECTIVE = """
from zofedht import Objective

class Bowl(Objective):
    dim = 3
    def value(self, x, batch):
        return float((x - 1.0) @ (x - 1.0))
"""
_NEVER = {
    "sklearn", "scipy.stats", "scipy.optimize", "scipy.linalg", "scipy.sparse", "numba", "matplotlib", "pandas",
    "pyarrow",
}  # fmt: skip


def _join(site: Site, *options: str) -> set[str]:
    """Let one client that is a process of its own, not forked, run to the end; return the modules that it loaded."""
    (site.folder / "showing.py").write_text(_SHOWING + "from zofedht.client.__main__ import main\nsys.exit(main())\n")
    argv = ["join", "--server", f"127.0.0.1:{site.port}", "--insecure", "--name", "a", *options]
    root = str(Path(__file__).parents[3])
    subprocess.run(
        [sys.executable, "showing.py", *argv],
        cwd=site.folder,
        env={"PYTHONPATH": root},
        check=True,
        timeout=PATIENCE,
        capture_output=True,
    )
    return set((site.folder / "loaded.txt").read_text().split())


_ONE = {"num_clients": 1, "clients_per_round": 1, "rounds": 2}


@pytest.mark.parametrize("uplink", ["move", "slopes"])
def test_a_client_of_its_own_objective_loads_no_scipy(site: Site, uplink: str):
    (site.folder / "bowl.py").write_text(_OBJECTIVE)
    directions = "shared" if uplink == "slopes" else "default"
    site.server("--min-clients", "1", objective="bowl:Bowl", uplink=uplink, directions=directions, **_ONE)
    loaded = _join(site, "--objective", "bowl:Bowl")
    assert "zofedht.client.join.resident" in loaded
    assert loaded & {*_NEVER, "scipy"} == set()


def test_a_client_of_its_own_table_loads_scipy_special_alone(site: Site):
    (site.folder / "rows.csv").write_text("heat,flow,label\n1,2,0\n2,1,0\n3,5,1\n4,4,1\n")
    site.server("--min-clients", "1", dataset="clients", positive_labels="1", **_ONE)
    loaded = _join(site, "--data", "rows.csv")
    assert "scipy.special" in loaded
    assert loaded & _NEVER == set()

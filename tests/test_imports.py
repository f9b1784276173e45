"""Imports point one way: server -> common <- client, and only the Flower-facing modules import flwr."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FLOWER_FACING = {
    "server/flower/strategy.py",
    "server/flower/round_loop.py",
    "server/flower/app.py",
    "server/flower/simulation.py",
    "server/grpc/transport.py",
    "server/grpc/roster.py",
    "server/grpc/conversation.py",
    "server/grpc/serve.py",
    "server/grpc/fit_encoder.py",
    "server/fleet/network.py",
    "client/flower/numpy_client.py",
    "client/flower/app.py",
    "client/join/transport.py",
    "client/join/resident.py",
    "client/join/ledger.py",
}
ON_THE_NETWORK = {
    "server/grpc/transport.py",
    "server/grpc/health.py",
    "client/join/transport.py",
    "client/join/health.py",
}


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Return the top-level packages that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names.add(node.module or "")
    return {name.removeprefix("zofedht.").partition(".")[0] for name in names}


def users(name: str, *packages: str) -> set[str]:
    return {str(path.relative_to(ROOT)) for package in packages for path in modules(package) if name in imported(path)}


def test_there_are_modules_to_look_at():
    assert all(len(modules(package)) > 3 for package in ("common", "client", "server"))


@pytest.mark.parametrize("name", ["flwr", "grpc", "cryptography", "client", "server", "ray", "matplotlib"])
def test_common_imports_neither_side_nor_flower(name: str):
    assert users(name, "common") == set()


def test_the_client_does_not_import_the_server():
    assert users("server", "client") == set()


def test_the_server_imports_the_client_only_where_it_is_both_ends():
    assert users("client", "server") == {"server/inprocess.py", "server/flower/simulation.py"}


def test_only_the_flower_facing_modules_import_flwr():
    assert users("flwr", "common", "client", "server") == FLOWER_FACING


def test_only_the_transport_and_the_health_service_import_grpc():
    assert users("grpc", "common", "client", "server") == ON_THE_NETWORK
    assert users("grpc_health", "common", "client", "server") <= ON_THE_NETWORK


def test_only_make_certs_imports_cryptography():
    assert users("cryptography", "common", "client", "server") == {"server/grpc/certificates.py"}


def test_what_needs_no_flower_does_not_load_it():
    modules_of_in_process = ", ".join(
        f"zofedht.{name}" for name in ("server.inprocess", "server.__main__", "client.steps.worker", "client.__main__")
    )
    heavy = {"flwr", "grpc", "cryptography", "ray", "matplotlib"}
    script = f"import sys, {modules_of_in_process}; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_config_loads_no_machinery():
    """It is read by commands that answer at once, and on devices that only join."""
    heavy = {"scipy", "sklearn", "numba", "flwr", "zofedht.common.models", "zofedht.common.data"}
    script = f"import sys, zofedht.common.config.run_config; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"

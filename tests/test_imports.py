"""Imports point one way, from wing to wing, and only the Flower-facing modules import flwr.

A wing is a folder below common, client, server or experiments, or a module that lies there beside the folders.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FLOWER_FACING = {
    "server/flower/strategy.py",
    "server/flower/round_loop.py",
    "server/flower/answers.py",
    "server/flower/app.py",
    "server/flower/simulation.py",
    "server/flower/living_pool.py",
    "server/flower/presence.py",
    "server/flower/proxies.py",
    "server/flower/snapshots.py",
    "server/grpc/transport.py",
    "server/grpc/resident_proxy.py",
    "server/grpc/roster.py",
    "server/grpc/conversation.py",
    "server/grpc/service.py",
    "server/grpc/fit_encoder.py",
    "server/fleet/network.py",
    "client/flower/numpy_client.py",
    "client/flower/app.py",
    "client/flower/message_app.py",
    "server/flower/grid_nodes.py",
    "server/flower/grid_rounds.py",
    "server/flower/message_strategy.py",
    "server/aggregation/masked_sum.py",
    "client/privacy/masks.py",
    "client/join/answering.py",
    "client/join/transport.py",
    "client/join/resident.py",
    "client/join/ledger.py",
}
ON_THE_NETWORK = {
    "server/grpc/event_loop.py",
    "server/grpc/listener.py",
    "server/grpc/transport.py",
    "server/grpc/health.py",
    "client/join/connection.py",
    "client/join/transport.py",
    "client/join/health.py",
}
ARROWS = {
    "common": {
        "errors": "",
        "typing": "",
        "source_digest": "typing",
        "machine": "errors",
        "choices": "errors",
        "algorithms": "choices",
        "rules": "choices errors space typing",
        "keys": "algorithms choices rules",
        "config": "algorithms choices errors keys rules space",
        "random": "machine errors rules typing",
        "space": "errors typing",
        "objective": "machine errors plain_text random source_digest space typing",
        "files": "choices errors machine plain_text source_digest typing",
        "data": "choices errors files machine random source_digest typing",
        "models": "data errors machine objective typing",
        "directions": "choices machine config objective random typing",
        "wire": "choices config errors objective plain_text privacy random rules space surrogate tensors typing",
        "checks": "algorithms choices config errors machine objective random shards space tensors typing",
        "privacy": "errors typing",
        "replay": "directions objective random typing wire",
        "shards": "choices config data errors files models objective source_digest tensors typing wire",
        "surrogate": "random typing",
        "tasks": "errors objective space typing wire",
        "tensors": "config directions errors machine objective plain_text random typing",
        "adapters": "errors random tensors typing",
        "tls": "errors",
        "plain_text": "",
        "terminal": "config errors machine plain_text",
    },
    "client": {
        "not_done": "",
        "plan": "",
        "falls": "",
        "kernels": "falls plan",
        "privacy": "",
        "steps": "falls kernels not_done plan privacy",
        "tensors": "not_done plan steps",
        "work": "steps",
        "flower": "privacy steps tensors",
        "join": "flower privacy steps tensors",
        "cli": "",
        "__main__": "cli join",
    },
    "server": {
        "auto": "",
        "privacy": "",
        "aggregation": "privacy",
        "evaluation": "",
        "rows": "aggregation",
        "delivery": "aggregation",
        "core": "aggregation auto delivery evaluation minimizers privacy rows",
        "records": "aggregation auto core delivery evaluation privacy",
        "terminal": "core evaluation records",
        "report": "core evaluation records terminal",
        "plan": "core inprocess",
        "conduct": "auto core evaluation privacy records report terminal",
        "overdue": "",
        "inprocess": "overdue conduct core evaluation records",
        "flower": "aggregation conduct core delivery evaluation records terminal",
        "certificates": "",
        "admission": "delivery",
        "grpc": "admission conduct core delivery evaluation flower records",
        "results": "",
        "minimise": "conduct results core evaluation inprocess records",
        "optimizer": "aggregation core records",
        "estimators": "core inprocess",
        "cma": "",
        "minimizers": "cma results",
        "fleet": "admission core evaluation grpc minimizers records",
        "page": "records",
        "callbacks": "",
        "cli": "",
        "commands": "admission certificates cli conduct core fleet flower grpc inprocess page plan records report"
        " terminal",
        "__main__": "cli commands",
    },
    "experiments": {
        "study": "",
        "report": "study",
        "auto": "report study",
        "family": "report study",
        "theory": "report",
        "trust": "report",
        "cli": "family study",
        "__main__": "auto cli family report study theory trust",
    },
}
"""By package and wing: the wings of the same package that it may import. Client and server may import all of common,
and experiments everything."""


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
    bare = {name.partition(".")[0] for name in names} & set(ARROWS)
    assert not bare, f"{path} imports {bare} without zofedht: these are names of the users' own folders"
    return {name.removeprefix("zofedht.").partition(".")[0] for name in names}


def loaded(path: Path) -> Iterator[tuple[str, ...]]:
    """Yield the modules of ours that a file imports, as tuples of names; not those for type checkers alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("zofedht."):
            for alias in node.names:
                names = (*str(node.module).split(".")[1:], alias.name)
                there = ROOT.joinpath(*names)
                yield names if there.is_dir() or there.with_suffix(".py").exists() else names[:-1]
        elif isinstance(node, ast.Import):
            yield from (tuple(a.name.split(".")[1:]) for a in node.names if a.name.startswith("zofedht."))


def wing_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[1]


def users(name: str, *packages: str) -> set[str]:
    return {str(path.relative_to(ROOT)) for package in packages for path in modules(package) if name in imported(path)}


def test_there_are_modules_to_look_at():
    assert all(len(modules(package)) > 3 for package in ("common", "client", "server"))


@pytest.mark.parametrize("package", ARROWS)
def test_every_wing_has_a_place_in_the_table(package: str):
    assert {wing_of(path) for path in modules(package)} - {"__init__"} == set(ARROWS[package])


@pytest.mark.parametrize("package", ARROWS)
def test_wings_are_not_in_circles(package: str):
    TopologicalSorter({wing: below.split() for wing, below in ARROWS[package].items()}).prepare()


OURS = [(path, names) for package in (*ARROWS, "benchmarks") for path in modules(package) for names in loaded(path)]


@pytest.mark.parametrize("package", ARROWS)
def test_wings_import_what_the_table_allows(package: str):
    def allowed(path: Path, wing: str) -> bool:
        own = wing_of(path)
        return wing == own or wing in ARROWS[package].get(own, "").split()

    inside = [(path, names) for path, names in OURS if ROOT / package in path.parents and names[0] == package]
    assert inside
    assert [(str(path), names) for path, names in inside if len(names) > 1 and not allowed(path, names[1])] == []


def test_the_auto_rules_are_one_door():
    """Their insides may be replaced without anybody noticing."""
    rules = ROOT / "server" / "auto"
    used = {names for path, names in OURS if names[:2] == ("server", "auto") and rules not in path.parents}
    assert used == {("server", "auto")}


FOLDERS = sorted(path.parent for package in ARROWS for path in modules(package) if path.name == "__init__.py")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_every_folder_says_what_others_may_use(folder: Path):
    """The text of its __init__ names each module that another wing imports from."""
    about = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    assert about is not None
    here = folder.relative_to(ROOT).parts
    used = {names[-1] for path, names in OURS if folder not in path.parents and names[:-1] == here and len(here) == 2}
    assert {module for module in used if f"``{module}``" not in about} == set()


@pytest.mark.parametrize("name", ["flwr", "grpc", "cryptography", "client", "server", "ray", "matplotlib"])
def test_common_imports_neither_side_nor_flower(name: str):
    assert users(name, "common") == set()


def test_the_client_does_not_import_the_server():
    assert users("server", "client") == set()


def test_the_server_imports_the_client_only_where_it_is_both_ends():
    simulation = {"server/flower/simulation.py", "server/flower/living_pool.py"}
    assert users("client", "server") == {"server/inprocess.py", *simulation}


def test_only_the_flower_facing_modules_import_flwr():
    assert users("flwr", "common", "client", "server") == FLOWER_FACING


def test_only_the_transport_and_the_health_service_import_grpc():
    assert users("grpc", "common", "client", "server") == ON_THE_NETWORK
    assert users("grpc_health", "common", "client", "server") <= ON_THE_NETWORK


def test_only_certificates_and_masks_import_cryptography():
    assert users("cryptography", "common", "client", "server") == {
        "client/privacy/masks.py",
        "client/privacy/identity.py",
        "server/certificates.py",
        "server/admission/revoked.py",
    }


def test_what_needs_no_flower_does_not_load_it():
    modules_of_in_process = ", ".join(
        f"zofedht.{name}"
        for name in ("server.inprocess", "server.commands.table", "client.steps.worker", "client.__main__")
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


@pytest.mark.parametrize("argv", [["server", "--help"], ["server", "run", "--help"], ["client", "join", "--help"]])
def test_help_loads_no_machinery(argv: list[str]):
    """It answers at once: NumPy alone would take longer than all the rest."""
    heavy = {"numpy", "scipy", "sklearn", "flwr", "grpc", "rich", "asyncio"}
    script = f"import sys; from zofedht.{argv[0]}.__main__ import main\ntry: main({argv[1:]})\nexcept SystemExit: pass"
    script += f"\nprint('loaded:', {heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "usage:" in done.stdout
    assert "loaded: set()" in done.stdout


def test_a_run_without_data_loads_no_library_for_data():
    """A number that is too large is told within a second, which loading scikit-learn would take."""
    heavy = {"scipy", "sklearn", "flwr", "grpc", "rich", "pandas"}
    script = f"import sys, zofedht.server.commands.table; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"

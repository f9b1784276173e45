"""What is handed out: the sdist and its tests, the wheel in an environment of its own, the Flower bundle."""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import VALVE
from tests.own_folders import own_folders
from tests.waiting import run_to_end

pytestmark = [pytest.mark.slow, pytest.mark.engine]

_ROOT = Path(__file__).resolve().parents[1]
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
_PACKAGE_FOLDERS = {"zofedht": "zofedht", **_PROJECT["tool"]["setuptools"]["package-dir"]}
_LEFT_BEHIND = (
    ".*_cache",
    ".cache",
    ".git",
    ".hypothesis",
    ".venv",
    "*.egg-info",
    "__pycache__",
    "build",
    "dist",
    "runs",
)


def _run(*words: str | Path, cwd: Path, code: int = 0, **environment: str) -> str:
    """Return what a command prints that must end with this exit code; nothing of this checkout is on its path."""
    ended = run_to_end(words, cwd, environment={"PYTHONPATH": ""} | environment)
    said = ended.stderr + ended.stdout
    assert ended.returncode == code, said
    return said


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with what ``[build-system]`` requires."""
    folder = tmp_path_factory.mktemp("builder")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    _run(python, "-m", "pip", "install", "--quiet", *_PROJECT["build-system"]["requires"], cwd=folder)
    return python


@pytest.fixture(scope="module")
def sdist(builder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the unpacked sdist, built in a clean copy of this checkout."""
    folder = tmp_path_factory.mktemp("sdist")
    source = folder / "source"
    shutil.copytree(_ROOT, source, ignore=shutil.ignore_patterns(*_LEFT_BEHIND))
    _run(builder, "-c", "from setuptools import build_meta as b; b.build_sdist('../dist')", cwd=source)
    (file,) = (folder / "dist").iterdir()
    with tarfile.open(file) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    return unpacked


@pytest.fixture(scope="module")
def wheel(builder: Path, sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel that is built from the sdist, as pip does."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(sdist, source)
    _run(builder, "-c", "from setuptools import build_meta as b; b.build_wheel('../dist')", cwd=source)
    (file,) = (folder / "dist").iterdir()
    return file


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the commands of an environment that holds the wheel, and borrows the dependencies."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=True)
    _run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-deps", wheel, cwd=folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    # Folders that a .pth file names come after the environment's own, and .pth files in them are not obeyed.
    borrowed = [entry for entry in sys.path if entry.endswith("site-packages")]
    (packages / "borrowed.pth").write_text("\n".join(borrowed), encoding="utf-8")
    return folder / "bin"


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def _sources() -> Iterator[str]:
    """Give the files of this checkout that people wrote, relative to it."""
    generated = {"examples/device_settings/device", "examples/sensors_npz/test.npz"}
    ignored = shutil.ignore_patterns(*_LEFT_BEHIND)
    for folder, folders, files in os.walk(_ROOT):
        skipped = ignored(folder, [*folders, *files])
        folders[:] = [name for name in folders if name not in skipped and not name.startswith("site-")]
        for name in set(files) - skipped:
            path = str((Path(folder) / name).relative_to(_ROOT))
            if path not in generated and not path.endswith((".pyc", ".fab")):
                yield path


def test_the_sdist_holds_the_checkout(sdist: Path) -> None:
    assert set(_sources()) - _files(sdist) == set()
    assert os.access(sdist / "docker" / "prepare-folders", os.X_OK)


def test_the_sdist_passes_its_own_tests(sdist: Path) -> None:
    tests = ["tests/test_imports.py", "tests/common/directions"]
    script = "import zofedht, zofedht.server; print(zofedht.__file__, *zofedht.server.__path__)"
    assert _run(sys.executable, "-c", script, cwd=sdist).split() == [
        str(sdist / "zofedht" / "__init__.py"),
        str(sdist / "server"),
    ]
    told = _run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, cwd=sdist)
    assert " passed" in told
    assert "failed" not in told


def test_the_wheel_holds_the_package_alone(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (about,) = (name for name in names if name.endswith("/METADATA"))
        metadata = archive.read(about).decode()
    version = _PROJECT["project"]["version"]
    assert {name.partition("/")[0] for name in names} == {"zofedht", f"zofedht-{version}.dist-info"}
    modules = {
        f"{package.replace('.', '/')}/{path.relative_to(_ROOT / folder)}"
        for package, folder in _PACKAGE_FOLDERS.items()
        for path in (_ROOT / folder).rglob("*.py")
    }
    page = {f"zofedht/server/page/assets/{path.name}" for path in (_ROOT / "server" / "page" / "assets").iterdir()}
    assert page
    assert {name for name in names if name.startswith("zofedht/")} == modules | page | {"zofedht/py.typed"}
    assert "](docs/" not in metadata  # a package index knows no file of the repository
    assert "\nDescription-Content-Type: text/markdown\n" in metadata
    assert f"\nVersion: {version}\n" in metadata
    assert "\nClassifier: Typing :: Typed\n" in metadata


def test_the_installed_commands_run_beside_the_users_own_folders(installed: Path, tmp_path: Path) -> None:
    folder = own_folders(tmp_path)
    for program in ("server", "client"):
        version = _run(installed / f"zofedht-{program}", "--version", cwd=folder)
        assert version == _run(installed / "python", "-m", f"zofedht.{program}", "--version", cwd=folder)
        assert version.startswith(f"zofedht-{program} {_PROJECT['project']['version']} (flwr ")
    assert _run(installed / "zofedht-client", "check", "--objective", "valve:make", cwd=folder).endswith(" can run\n")
    keys = ["objective=valve:make", "num-clients=1", "rounds=3", "memory=2"]
    _run(installed / "zofedht-server", "run", "--set", *keys, "--out", "out", cwd=folder)
    script = "import zofedht, server, client, common; print(zofedht.load_run('out').x.size, zofedht.__file__)"
    size, file = _run(installed / "python", "-c", script, cwd=folder).split()
    assert int(size) == 2
    assert Path(file).is_relative_to(installed.parent)
    assert "table1" in _run(installed / "python", "-m", "zofedht.experiments", "--help", cwd=folder)


def test_an_installed_copy_hides_its_frames_and_shows_the_users(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "valve.py").write_text(VALVE, encoding="utf-8")
    link = tmp_path / "link"
    link.symlink_to(installed.parent)
    for folder in (installed, link / "bin"):
        words = ["check", "--objective", "valve:Broken"]
        told = _run(folder / "python", "-m", "zofedht.client", *words, cwd=tmp_path, code=2)
        frames = [line for line in told.splitlines() if line.lstrip().startswith('File "')]
        assert len(frames) == 1, told
        assert f'"{tmp_path / "valve.py"}"' in frames[0]


_TYPED = """
from zofedht import CheckReport, Objective, RunConfig, RunResult, Shard, check, load_run, run


class Valve(Objective):
    dim = 2

    def value(self, x, batch):  # type: ignore[no-untyped-def]
        return 1.0


def make(shard: Shard) -> Valve:
    return Valve()


config: RunConfig = RunConfig(rounds=3)
result: RunResult = run(make(Shard()), config=config)
report: CheckReport = check(make(Shard()))
size: int = load_run("out").x.size
reveal_type(result.fun)
reveal_type(report.ok)
run(3)
check(make(Shard()), sampels=3, bounds="none")
result.fun.upper()
from zofedht import minimise
"""


def test_a_type_checker_sees_the_types_of_the_installed_package(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(_TYPED, encoding="utf-8")
    mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", installed / "python", "--no-incremental"]
    told = _run(*mypy, "mine.py", cwd=tmp_path, code=1)
    complaints = [line.partition(": ")[2] for line in told.splitlines() if "mine.py:" in line]
    assert [text.partition(" [")[0] for text in complaints if text.startswith("note: Revealed")] == [
        'note: Revealed type is "float"',
        'note: Revealed type is "bool"',
    ]
    errors = [text for text in complaints if text.startswith("error: ")]
    assert [text.rpartition("[")[2] for text in errors] == ["arg-type]", "arg-type]", "attr-defined]", "attr-defined]"]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the unpacked Flower bundle."""
    folder = tmp_path_factory.mktemp("bundle")
    told = _run(Path(sys.executable).parent / "flwr", "build", "--app", _ROOT, cwd=folder)
    assert "missing" not in told  # of what Flower recommends for pyproject.toml
    (file,) = folder.glob("*.fab")
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


def test_the_bundle_holds_what_runs_and_no_more(bundle: Path) -> None:
    top = {path.name for path in bundle.iterdir()}
    assert top == {".info", "LICENSE", "README.md", "client", "common", "pyproject.toml", "server", "zofedht"}


def test_both_apps_load_from_the_bundle(bundle: Path, tmp_path: Path) -> None:
    script = (
        "import sys; from flwr.supercore.object_ref import load_app, validate\n"
        "for name in sys.argv[2:]:\n"
        "    assert validate(name, True, sys.argv[1]) == (True, None)\n"
        "    load_app(name, ValueError, sys.argv[1])\n"
        "ours = [module for name, module in sys.modules.items() if name.startswith('zofedht')]\n"
        "print(*{module.__file__ for module in ours if getattr(module, '__file__', None)}, sep='\\n')"
    )
    apps = _PROJECT["tool"]["flwr"]["app"]["components"].values()
    loaded = _run(sys.executable, "-c", script, bundle, *apps, cwd=tmp_path).splitlines()
    assert len(loaded) > 30
    assert [file for file in loaded if not Path(file).is_relative_to(bundle)] == []

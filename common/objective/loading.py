"""From ``module:factory`` to a checked objective, its starting point and its full evaluation."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import zofedht
from zofedht.common.errors import ObjectiveError
from zofedht.common.machine.memory import lacking, least_bytes
from zofedht.common.objective.base import Objective, Shard, checked_vector
from zofedht.common.objective.function import FunctionObjective, refuse_class
from zofedht.common.objective.named import of_coordinates
from zofedht.common.objective.names import checked_names
from zofedht.common.objective.user_traceback import USER_ERRORS, raised, raised_by_objective
from zofedht.common.random.streams import stream
from zofedht.common.source_digest import with_imports
from zofedht.common.space.space import Space
from zofedht.common.typing import Vector, is_whole

__all__ = ["checked_objective", "code_of", "factory_of", "load_objective", "made_by", "starting_point"]

_MOST_THREADS = 256
_FACTORY = (
    "a factory takes a Shard or nothing and returns an Objective; a function of named parameters stands in its place"
    " with the config's `parameters`"
)


def load_objective(path: str, shard: Shard | None = None, parameters: str = "") -> Objective:
    """Import ``module:factory`` and make the objective of one shard.

    Parameters
    ----------
    path : str
        ``module:factory``. The module lies in the working folder or on Python's path. The factory is a function or a
        class that takes a Shard, or nothing.
    shard : Shard, optional
        What the factory is told.
    parameters : str
        The rows of named parameters as JSON. ``module:factory`` is then the function of these itself, which may take
        ``shard`` besides, or an Objective that declares none.

    Raises
    ------
    ObjectiveError
        When the text is malformed, the module or the factory is missing, the factory raises, or its result is no
        Objective with parameters and samples.
    """
    factory = factory_of(path)
    shard = shard or Shard()
    space = Space.of_text(parameters) if parameters else None
    if space is not None and not isinstance(factory, type):
        return checked_objective(_of_function(factory, shard, space, path), path)
    made = _called(factory, shard, path)
    if space is not None and isinstance(made, Objective):
        if made.parameters is not None:
            raise ObjectiveError(f"{path} declares parameters itself; leave out the parameters of the run config")
        made.parameters = dict(space.parameters)
    return checked_objective(made, path)


def made_by(path: str, shard: Shard) -> Any:
    """Return what ``module:factory`` makes for a shard, unchecked. Raises ObjectiveError where it cannot be made."""
    return _called(factory_of(path), shard, path)


def factory_of(path: str) -> Callable[..., Any]:
    """Import the factory of ``module:factory``. Raises ObjectiveError where that cannot be had."""
    module_name, colon, name = path.partition(":")
    if not colon or not module_name or not name:
        raise ObjectiveError(f"objective must be written module:factory, got {path!r} (for example valve:make)")
    _refuse_path(module_name, name, path)
    if ":" in name or path.split() != [path]:
        written = "".join(path.split()).split(":")
        raise ObjectiveError(
            f"objective must be written module:factory, with one colon and no space, got {path!r}; write"
            f" {written[0]}:{written[-1]}"
        )
    return _find(module_name, name, path)


def _called(factory: Callable[..., Any], shard: Shard, path: str) -> Any:
    try:
        takes_shard = bool(inspect.signature(factory).parameters)
        return factory(shard) if takes_shard else factory()
    except USER_ERRORS as error:
        text = f"the factory {path} for client {shard.client} {raised(error)}"
        if isinstance(error, TypeError | AttributeError):
            text += f"; {_FACTORY}"
        raise ObjectiveError(text) from error


def _of_function(function: Callable[..., Any], shard: Shard, space: Space, path: str) -> Objective:
    """Return a function of named parameters as an objective; it may take ``shard``."""
    with suppress(TypeError, ValueError):  # some functions written in C have no signature
        if "shard" in inspect.signature(function).parameters and "shard" not in space.names:
            function = functools.partial(function, shard=shard)
    try:
        return FunctionObjective(function, parameters=dict(space.parameters))
    except ObjectiveError as error:
        raise ObjectiveError(f"objective {path!r}: {error}") from error


def code_of(path: str) -> bytes:
    """Return the text of the module of ``module:factory``, and of those beside it that it imports; none is imported.

    Empty where there is no such module.
    """
    _order_search_path()
    module = path.partition(":")[0]
    with suppress(ImportError, ValueError, OSError, AttributeError, IndexError):
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.origin is not None:
            return b"\0".join(file.read_bytes() for file in sorted(with_imports(Path(spec.origin), module.split("."))))
    return b""


def _refuse_path(module_name: str, name: str, path: str) -> None:
    """Raise ObjectiveError for a file's path in the place of a module's name."""
    if not (module_name.startswith(".") or module_name.endswith(".py") or set("/\\") & set(module_name + name)):
        return
    file, _, last = path.rpartition(":")
    folder, _, stem = file.replace("\\", "/").rpartition("/")
    stem = stem.removesuffix(".py")
    where = f" and run the command in {folder}" if folder not in ("", ".") else ""
    raise ObjectiveError(
        f"objective must name a module, not a file, got {path!r}; write {stem or 'module'}:{last}{where}, or set"
        " PYTHONPATH to the folder of the module"
    )


def _refuse_other_module(module: Any, module_name: str, path: str) -> None:
    """Raise ObjectiveError where the working folder has a module of this name, and Python has found another."""
    own = Path.cwd().joinpath(*module_name.split("."))
    candidates = [file for file in (own.with_suffix(".py"), own / "__init__.py") if file.is_file()]
    found = getattr(module, "__file__", None)
    if candidates and (found is None or Path(found).resolve() not in [file.resolve() for file in candidates]):
        raise ObjectiveError(
            f"objective {path!r}: the name {module_name!r} is taken by {found or 'a module of Python itself'}, which"
            f" comes before {candidates[0]}; rename that file"
        )


def _of_flower() -> str:
    """Return a word about whose environment this is, where Flower runs the app from its own folder."""
    home = Path(os.environ.get("FLWR_HOME") or Path.home() / ".flwr").resolve()
    # A worker of Ray's may have found the package in the folder that its SuperLink was started in.
    if not any(home in Path(place).resolve().parents for place in (zofedht.__file__, *sys.path)):
        return ""
    return (
        "; if PYTHONPATH is set, `flwr run` has met a SuperLink on its fixed port that an earlier run has left there,"
        " perhaps another user's, with the environment of that run: stop that flower-superlink, or set FLWR_HOME,"
        " FLWR_LOCAL_CONTROL_API_PORT and FLWR_LOCAL_SUPERLINK_HTTP_API_PORT to a folder and ports of your own"
    )


def _find(module_name: str, name: str, path: str) -> Callable[..., Any]:
    _order_search_path()
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ObjectiveError(
            f"objective {path!r}: no module named {error.name!r} can be imported (looked in {Path.cwd()} and the"
            " installed packages; run the command in the folder that holds the module, or set PYTHONPATH)"
            f"{_of_flower()}"
        ) from error
    except USER_ERRORS as error:
        raise ObjectiveError(f"importing {module_name} {raised(error)}") from error
    _refuse_other_module(module, module_name, path)
    factory: Any = getattr(module, name, None)
    if not callable(factory):
        public = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise ObjectiveError(
            f"objective {path!r}: {module_name} has no callable {name!r}; it has {', '.join(public) or 'none'}"
        )
    return factory  # type: ignore[no-any-return]


def _order_search_path() -> None:
    """Look for modules in the working folder first, and last where the folders of this program lie.

    In a checkout and in a Flower bundle ``common/`` and ``server/`` lie at the top; the user's own ``common`` must win.
    """
    here = str(Path.cwd())
    sys.path[:] = sorted(sys.path if here in sys.path else [here, *sys.path], key=_holds_this_program)


def _holds_this_program(folder: str) -> bool:
    return (Path(folder) / "zofedht" / "__init__.py").is_file() and (Path(folder) / "pyproject.toml").is_file()


def checked_objective(made: Any, path: str) -> Objective:
    """Return what the factory ``path`` made, as a function of coordinates where it declares named parameters.

    Raises ObjectiveError unless that is an Objective with parameters, samples and a number of threads.
    """
    if not isinstance(made, Objective):
        if hasattr(made, "state_digest") and hasattr(made, "blocks"):
            raise ObjectiveError(f"{path} returns an InPlaceObjective, which holds its parameters: set in-place = true")
        refuse_class(made, f"what the factory {path} returns")
        more = f"; {_FACTORY}" if callable(made) else ""
        raise ObjectiveError(
            f"the factory {path} must return an Objective (from zofedht import Objective), got {type(made).__name__}"
            + more
        )
    try:
        objective = of_coordinates(made)
    except ObjectiveError as error:
        raise ObjectiveError(f"{path}: {error}") from error
    dimension = getattr(objective, "dim", None)
    if not is_whole(dimension, 1):
        raise ObjectiveError(f"{path}: dim must be a whole number of at least 1, got {dimension!r}")
    if text := lacking(least_bytes(int(dimension)), f"n = {int(dimension):,} parameters"):
        raise ObjectiveError(f"{path}: {text}; make dim smaller")
    checked_names(objective.names, int(dimension))
    try:
        samples = len(objective)
    except USER_ERRORS as error:
        raise ObjectiveError(f"{path}: len() of the objective {raised(error)}") from error
    if samples < 1:
        raise ObjectiveError(f"{path}: the shard must hold at least 1 sample, got {samples}")
    threads = objective.concurrency
    if not is_whole(threads, 1) or threads > _MOST_THREADS:
        raise ObjectiveError(f"{path}: concurrency must be a whole number from 1 to {_MOST_THREADS}, got {threads!r}")
    return objective


def starting_point(objective: Objective, seed: int) -> Vector | None:
    """Return the objective's own starting point, (n,) float64, or None if it has none.

    Raises ObjectiveError when initial() raises, or returns anything but n finite numbers.
    """
    try:
        own = objective.initial(stream(seed, "initial"))
    except ObjectiveError:
        raise
    except USER_ERRORS as error:
        raise raised_by_objective(error, "initial() of the objective") from error
    return None if own is None else checked_vector("initial()", own, objective.dim)

"""The names that run config keys choose among, and the two texts that choose several.

Each tuple is named after its key. What a name stands for is in the module that uses it, so that a config can be
checked without loading any of them.
"""

from __future__ import annotations

import math
import re

from zofedht.common.errors import DataError

__all__ = [
    "AGGREGATIONS",
    "AUTO",
    "CLIENTS_HOLD_DATA",
    "CORRECTIONS",
    "COVARIANCES",
    "CSV_HEADERS",
    "DIRECTIONS",
    "DOWNLINKS",
    "INITS",
    "KERNELS",
    "LAWS",
    "MANY",
    "MODELS",
    "ON_ERROR",
    "PARTITIONS",
    "PLACE_LAWS",
    "PLACE_PROBES",
    "PREPROCESS",
    "PRIVACIES",
    "PROBE_LAWS",
    "RETURNED",
    "SAMPLINGS",
    "SERVER_STEPS",
    "SLOPES",
    "SLOPE_SCALES",
    "STEP_SCHEDULES",
    "SVMLIGHT_INDICES",
    "UNSAID",
    "UPLINKS",
    "WEIGHTINGS",
    "WIRE_DTYPES",
    "label_texts",
    "parse_columns",
    "parse_labels",
    "parse_shapes",
    "parse_transforms",
]

AUTO = "auto"
"""The value of a key under which the run, or the objective, decides."""

UNSAID = "default"
"""The value of a key whose number, or auto, follows from other keys."""

CLIENTS_HOLD_DATA = "clients"
"""The value of ``dataset`` under which the server has no rows."""

MANY = "many"
"""What a client tells in the place of more than 100 different labels."""

PREPROCESS = ("standardize", "bias", "unit-norm")
CSV_HEADERS = (AUTO, "yes", "no")
SVMLIGHT_INDICES = (AUTO, "from-0", "from-1")
PARTITIONS = ("iid", "sorted", "sorted-binary", "thirds", "dirichlet")
MODELS = ("logistic", "svm-hinge", "svm-squared-hinge", "mlp", "quadratic")
COVARIANCES = ("trace", "paper")
SLOPES = ("central", "forward", "three-point", "gradient", "surrogate")
LAWS = (
    "isotropic", "trajectory", "shrunk", "either", "cone", "diagonal", "pool", "weighted-pool", "subset", "lowrank",
    "subspace-core",
)  # fmt: skip
SLOPE_SCALES = ("none", "spread")
CORRECTIONS = ("none", "control", "svrg")
PROBE_LAWS = ("gaussian", "rademacher", "sphere", "frame")
PLACE_LAWS = ("isotropic", "trajectory", "shrunk", "pool", "lowrank", "subspace-core", "subset")
"""Laws of directions that clients can draw block by block, with a guide that they make from the trail."""

PLACE_PROBES = ("gaussian", "rademacher")
"""Laws whose numbers are independent: of parameters in place, v is drawn block by block."""

STEP_SCHEDULES = ("linear", "inverse-sqrt", "constant")
INITS = (AUTO, "zeros", "ones", "random")
SAMPLINGS = ("with-replacement", "without-replacement")
AGGREGATIONS = ("mean", "clipped", "trimmed-mean", "median", "krum", "multi-krum", "centered-clipping")
SERVER_STEPS = ("mean", "momentum", "adam", "yogi", "adagrad", "refined-adam", "tracking", "newton", "quasi-newton")
WEIGHTINGS = ("uniform", "examples")
KERNELS = (AUTO, "numpy", "compiled")
UPLINKS = ("move", "slopes")
DIRECTIONS = ("per-slot", "shared")
DOWNLINKS = ("x", "slopes")
WIRE_DTYPES = ("float64", "float32")
PRIVACIES = ("none", "local", "central")
ON_ERROR = ("drop-slot", "skip-step", "stop")
RETURNED = ("best", "last")

_NO_TRANSFORM = "none"
_LIKE_NUMBERS = re.compile(r"[-+.0-9\s]*")
_ITEM = re.compile(r"([+-]?[0-9]{1,15})(?:-([+-]?[0-9]{1,15}))?")
_SHAPE = re.compile(r"([1-9][0-9]{0,8})x([1-9][0-9]{0,8})")
_WIDEST = 10_000  # labels in one range; more is a typing error and would fill the memory


def parse_transforms(text: str) -> tuple[str, ...]:
    """Return the transforms in a comma-separated text; "none" gives (). Raises DataError for another name."""
    names = tuple(name.strip() for name in text.split(","))
    if names == (_NO_TRANSFORM,):
        return ()
    for place, name in enumerate(names):
        if name not in PREPROCESS:
            raise DataError(
                f"preprocess must name transforms among {', '.join(PREPROCESS)}, or be '{_NO_TRANSFORM}' alone,"
                f" got '{name}' in '{text}'"
            )
        if name in names[:place]:
            raise DataError(f"preprocess must name each transform once, got '{name}' twice in '{text}'; drop one")
    if "standardize" in names[1:]:
        raise DataError(f"preprocess must begin with standardize where it has it, got '{text}'")
    return names


def parse_columns(text: str) -> tuple[tuple[float, float], ...]:
    """Return the pairs (mean, standard deviation) that a text names; "auto" gives (). Raises DataError for another.

    Examples
    --------
    >>> parse_columns("14.1:3.5, 0:1")
    ((14.1, 3.5), (0.0, 1.0))
    """
    if text.strip() == AUTO:
        return ()
    pairs = []
    for item in text.split(","):
        try:
            mean, deviation = (float(number) for number in item.split(":"))
        except ValueError:
            mean = deviation = math.nan
        if not (math.isfinite(mean) and 0.0 <= deviation < math.inf):
            raise DataError(
                f"standardize-by must be '{AUTO}' or a mean:deviation for each column, such as '14.1:3.5,0:1', got"
                f" '{item.strip()[:40]}'"
            )
        pairs.append((mean, deviation))
    return tuple(pairs)


def label_texts(text: str) -> frozenset[str]:
    """Return the texts that ``positive-labels`` names, without case; none where it names numbers, or is "auto".

    Examples
    --------
    >>> sorted(label_texts("M, maybe"))
    ['m', 'maybe']
    >>> sorted(label_texts("5-7, -1"))
    []
    """
    items = [item.strip().casefold() for item in text.split(",")]
    if text.strip() == AUTO or not all(items) or all(_LIKE_NUMBERS.fullmatch(item) for item in items):
        return frozenset()
    return frozenset(items)


def parse_labels(text: str) -> frozenset[int]:
    """Return the labels that a text names: numbers and ranges joined by commas.

    "auto" gives the empty set: the labels of the data decide. Texts give 1: what reads the labels counts those that are
    named as 1, and all others as 0. Raises DataError for an item that is neither, for a range that runs backwards, and
    for a range of more than 10,000 labels.

    Examples
    --------
    >>> sorted(parse_labels("5-7, -1"))
    [-1, 5, 6, 7]
    >>> sorted(parse_labels("yes"))
    [1]
    """
    if text.strip() == AUTO:
        return frozenset()
    if label_texts(text):
        return frozenset({1})
    labels: set[int] = set()
    for item in text.split(","):
        match = _ITEM.fullmatch(item.strip())
        if match is None:
            raise DataError(
                f"positive-labels must be '{AUTO}', whole numbers and ranges such as '5-9' or '1,3,5', or texts,"
                f" got '{item.strip()}' in '{text}'"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if not 0 <= last - first < _WIDEST:
            raise DataError(
                f"positive-labels must have ranges that run upwards over at most {_WIDEST} labels, got"
                f" '{item.strip()}'; write the smaller label first, as in '5-9'"
            )
        labels.update(range(first, last + 1))
    return frozenset(labels)


def parse_shapes(text: str) -> tuple[tuple[int, int], ...]:
    """Return the shapes of matrices that a text names, as rows and columns; "auto" and "" give none.

    Raises DataError for any other text.

    Examples
    --------
    >>> parse_shapes("784x50,50x10")
    ((784, 50), (50, 10))
    """
    if text in ("", AUTO):
        return ()
    matches = [_SHAPE.fullmatch(part) for part in text.split(",")]
    if not all(matches):
        raise DataError(f"blocks must be '{AUTO}' or shapes such as '784x50,50x10', got '{text[:40]}'")
    return tuple((int(match[1]), int(match[2])) for match in matches if match)

"""Which tensors of a net are trained: ``trainable`` of the adapters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from zofedht.common.errors import ObjectiveError

__all__ = ["LowRank", "Trainable", "chosen"]


@dataclass(frozen=True)
class LowRank:
    """Train W + scale A B instead of W (Hu et al. 2021): A (rows, rank) begins at zero, B (rank, columns) at random.

    Attributes
    ----------
    rank : int
    matrices : str
        A regular expression for the names of the matrices W; by default all matrices with more rows and columns
        than ``rank``.
    whole : str
        A regular expression for tensors that are trained as they are, such as the head; by default none.
    scale : float
    """

    rank: int = 4
    matrices: str = ""
    whole: str = r"(?!)"
    scale: float = 1.0

    def adapts(self, name: str, shape: tuple[int, ...]) -> bool:
        """Return whether a tensor is trained by two thin matrices."""
        low = len(shape) == 2 and min(shape) > self.rank
        return low and bool(re.search(self.matrices, name)) and not re.search(self.whole, name)


Trainable = str | LowRank


def chosen(shapes: Mapping[str, tuple[int, ...]], trainable: Trainable) -> list[str]:
    """Return the names of the tensors that are trained, in their order.

    Parameters
    ----------
    shapes : mapping of names to shapes
    trainable : "all", "bias", regular expression or LowRank
        "bias": tensors whose name ends in ``bias``. A regular expression is searched in the names.

    Raises
    ------
    ObjectiveError
        Where there is no such tensor, or the text is no regular expression.
    """
    try:
        if isinstance(trainable, LowRank):
            whole = re.compile(trainable.whole)
            names = [name for name, shape in shapes.items() if trainable.adapts(name, shape) or whole.search(name)]
        else:
            pattern = re.compile({"all": "", "bias": "bias$"}.get(trainable, trainable))
            names = [name for name in shapes if pattern.search(name)]
    except re.error as error:
        raise ObjectiveError(f"trainable must be a regular expression, got {trainable!r} ({error})") from error
    if not names:
        some = ", ".join(list(shapes)[:5])
        raise ObjectiveError(f"trainable = {trainable!r} finds none of the {len(shapes)} tensors; some are {some}")
    return names

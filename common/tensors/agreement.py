"""What all clients of a run in place must agree on: the blocks, the start, and how numbers are added to it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from zofedht.common.errors import MessageError
from zofedht.common.plain_text import printable

__all__ = ["MOST_BLOCKS_TEXT", "Tensors", "tensors_mismatch"]

MOST_BLOCKS_TEXT = 2**20
_SHOWN = 120  # characters of a block's line


@dataclass(frozen=True)
class Tensors:
    """The parameters of an objective in place, as far as they are told.

    Attributes
    ----------
    dimension : int
        n.
    blocks : str
        ``blocks_as_text``.
    start : str
        The digest of the start.
    draws : str
        The digest of the start after one direction of each law was added: it shows the numbers that are drawn, and how
        a device rounds.
    stiff : str
        The digest of the stiff directions that it names.
    present, present_round : str, int
        The digest of the parameters when all clients were last evaluated, and the rounds until then.
    """

    dimension: int
    blocks: str
    start: str
    draws: str
    stiff: str = ""
    present: str = ""
    present_round: int = 0

    def text(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def of_text(cls, text: str) -> Tensors:
        """Read it back. Raises MessageError for another text."""
        try:
            made = cls(**dict(json.loads(text[:MOST_BLOCKS_TEXT])))
        except (ValueError, TypeError, RecursionError) as error:
            raise MessageError(f"a client's blocks cannot be read ({error})") from error
        texts = (made.blocks, made.start, made.draws)
        named = isinstance(made.stiff, str)
        whole = (
            named and isinstance(made.dimension, int) and not isinstance(made.dimension, bool) and made.dimension > 0
        )
        if not whole or not all(isinstance(part, str) and part for part in texts):
            raise MessageError("a client must tell its blocks, their number of parameters and two digests")
        return made


def tensors_mismatch(ours: Tensors, theirs: Tensors, who: str, other: str) -> str:
    """Return in what the parameters of ``who`` differ from those of ``other``, or an empty text."""
    if ours.blocks != theirs.blocks:
        mine, others = ours.blocks.split("\n"), theirs.blocks.split("\n")
        first = next((pair for pair in zip(mine, others, strict=False) if pair[0] != pair[1]), None)
        if first is None:
            return f"{who} has {len(mine)} blocks of parameters, {other} has {len(others)}; they must have the same"
        told, wanted = (printable(line)[:_SHOWN] for line in first)
        return f"{who} has a block {told!r} where {other} has {wanted!r}; all clients must have the same blocks"
    if ours.start != theirs.start:
        return (
            f"{who} begins with other parameters than {other} (digest {ours.start[:12]}, not {theirs.start[:12]}); give"
            " all clients the same weights"
        )
    if ours.draws != theirs.draws:
        return (
            f"{who} adds a direction to its parameters with other bits than {other} does; take the same NumPy"
            " and the same kind of device"
        )
    if ours.stiff != theirs.stiff:
        return f"{who} names other stiff directions than {other}; all clients must name the same in place"
    return ""

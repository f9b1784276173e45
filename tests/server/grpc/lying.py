"""A server that lies about the parties of secure aggregation: main([deed, folder of its own authority, arguments])."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from zofedht.client.privacy.identity import Identity, signed_text
from zofedht.common.privacy.masking import pack_parts, read_parts
from zofedht.common.tls import read_tls
from zofedht.common.wire.messages import Update
from zofedht.server.__main__ import main as serve
from zofedht.server.aggregation.masked_sum import MaskedSum

_SEED = 3  # of the tests' runs
Payloads = dict[int, bytes]


def _own_keys() -> tuple[bytes, bytes]:
    from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes

    mask, seal = (public_key_to_bytes(generate_key_pairs()[1]) for _ in range(2))
    return mask, seal


def _put_in(keys: dict[str, Any], theirs: Path) -> None:
    keys["masks"][1], keys["seals"][1] = _own_keys()


def _put_in_with_proof(keys: dict[str, Any], theirs: Path) -> None:
    _put_in(keys, theirs)
    identity = Identity(read_tls(theirs / "clients" / "c1", "client"))
    keys["proofs"][1] = identity.proof(signed_text(_SEED, 0, 1, keys["masks"][1], keys["seals"][1]))


def _swap(keys: dict[str, Any], theirs: Path) -> None:
    for part in ("masks", "seals", "proofs"):
        keys[part][1], keys[part][2] = keys[part][2], keys[part][1]


def _lower(keys: dict[str, Any], theirs: Path) -> None:
    keys["threshold"] = 1


_OF_KEYS: dict[str, Callable[[dict[str, Any], Path], None]] = {
    "own-keys": _put_in,
    "keys-of-another-authority": _put_in_with_proof,
    "swapped-keys": _swap,
    "low-threshold": _lower,
}


class _Lying:
    """``advance`` of a MaskedSum, and what the clients have said to the lies."""

    def __init__(self, deed: str, theirs: Path) -> None:
        self._deed, self._theirs = deed, theirs
        self._honest = MaskedSum.advance
        self._again = False

    def advance(self, masked_sum: MaskedSum, updates: Sequence[Update]) -> Payloads:
        stage = masked_sum.stage
        if stage == "unmask" and self._deed == "two-unmaskings":
            return self._second_unmasking(masked_sum, updates)
        told = self._honest(masked_sum, updates)
        if stage == "keys" and (lie := _OF_KEYS.get(self._deed)):
            return {slot: self._changed(payload, lie) for slot, payload in told.items()}
        if stage == "masked" and self._deed == "many-dropouts":
            return {slot: pack_parts(there=[slot]) for slot in told}
        return told

    def _changed(self, payload: bytes, lie: Callable[[dict[str, Any], Path], None]) -> bytes:
        parts = read_parts(payload, threshold=int, masks=dict, seals=dict, proofs=dict)
        lie(parts, self._theirs)
        return pack_parts(**parts)

    def _second_unmasking(self, masked_sum: MaskedSum, updates: Sequence[Update]) -> Payloads:
        """Ask for the shares of the mask key of a party whose seed is known already."""
        answered = [update.slot for update in updates if update.stage == "unmask"]
        if not self._again:
            self._again = True
            return {slot: pack_parts(there=[slot, (slot + 1) % 3]) for slot in answered}
        print(f"answers to both questions: {len(answered)}", file=sys.stderr, flush=True)
        masked_sum.stage = ""
        return {}


def main(argv: Sequence[str]) -> int:
    """Run ``zofedht-server`` with the lie; return its exit code."""
    deed, theirs, *rest = argv
    lying = _Lying(deed, Path(theirs))
    MaskedSum.advance = lambda *args: lying.advance(*args)  # type: ignore[method-assign]  # noqa: PLW0108  (binds)
    return serve(rest)

"""The server of secure aggregation: it passes on keys and sealed shares, and learns the sum of all numbers."""

from __future__ import annotations

import base64
import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from zofedht.common.errors import Cause, MessageError
from zofedht.common.privacy.masking import Words, expanded, mean_of, pack_parts, read_parts, read_words, slots_of
from zofedht.common.replay import SKETCH_SUMS, draw_digest
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.aggregation.screening import Failure

__all__ = ["MaskedSum"]

_log = logging.getLogger(__name__)

_LOSSES = 2  # numbers beside the slopes: the mean loss and the start loss


class MaskedSum:
    """One attempt at a round. ``stage`` is what is asked now; empty when there is a sum, or none can be had.

    Parameters
    ----------
    slots : sequence of int
    numbers : int
        Slopes of a slot.
    threshold : int
        Parties that must answer each stage; fewer of them, together with the server, learn the sum of the others.
    """

    def __init__(self, slots: Sequence[int], numbers: int, threshold: int) -> None:
        self.stage = "keys"
        self._asked, self._parties = list(slots), len(slots)
        self._numbers, self._threshold = numbers + _LOSSES, threshold
        self._masks: dict[int, bytes] = {}  # public keys
        self._sharing: list[int] = []  # who have given shares
        self._masked: dict[int, Words] = {}
        self._total: Words | None = None
        self._left_out: dict[int, tuple[Cause, str]] = {}
        self.doubted: dict[int, int] = {}
        """Slots whose shares too many others cannot open for a sum without these; and how many they are."""
        self.complaint = ""
        """Why there is no sum."""

    def advance(self, updates: Sequence[Update]) -> dict[int, bytes]:
        """Take all replies of this stage; return the payload of the next one for each slot, or nothing at the end."""
        replies = {u.slot: u for u in updates if u.stage == self.stage and u.status == "ok" and u.slot in self._asked}
        steps: dict[str, Callable[[Mapping[int, bytes]], tuple[str, dict[int, bytes]]]] = {
            "keys": self._keys,
            "shares": self._shares,
            "masked": self._collect,
            "unmask": self._unmask,
        }
        if not self.stage:
            return {}
        stage = self.stage
        if stage == "masked":
            self._hear([u for u in updates if u.status == "failed" and u.slot in self._asked])
        self.stage, following = steps[stage]({slot: replies[slot].payload for slot in sorted(replies)})
        if self.stage and len(following) < self._threshold:
            self.stage, following = "", {}
            self.complaint = (
                f"fewer than share-threshold = {self._threshold} clients came through the stage {stage!r} of secure"
                " aggregation"
            )
        self._asked = list(following)
        return following

    def unmasked(self, updates: Sequence[Update], asked: Mapping[int, Broadcast]) -> tuple[list[Update], list[Failure]]:
        """Return the updates with the mean of all in the place of masked numbers, and failures of those who have none.

        So each slot stands for the mean, and the mean of the slots is that of the sum.
        """
        whole = [u for u in updates if u.stage != "masked" and u.slot not in self.doubted]
        counted = [u for u in updates if u.stage == "masked" and u.slot in self._masked and self._total is not None]
        done = {u.slot for u in (*whole, *counted)}
        left_out = {slot: why for slot, why in self._left_out.items() if slot not in done}
        if self._total is None:
            why = self.complaint or "secure aggregation did not come to its end"
            left_out = {slot: ("no-answer", why) for slot in asked if slot not in done} | left_out
        failures = [Failure(asked[slot].round, slot, asked[slot].client, *why) for slot, why in left_out.items()]
        if self._total is None or not counted:
            return whole, failures
        spec = asked[counted[0].slot].spec
        mean = mean_of(self._total, len(self._masked), spec.slope_range)
        loss, start_loss = (math.nan, math.nan) if spec.privacy == "local" else map(float, mean[-_LOSSES:])
        parts = {"slopes": mean[:-_LOSSES], "sketch": np.zeros(SKETCH_SUMS), "loss": loss, "start_loss": start_loss}
        return [*whole, *(replace(u, stage="", payload=b"", **parts) for u in counted)], failures  # type: ignore[arg-type]

    def _keys(self, replies: Mapping[int, bytes]) -> tuple[str, dict[int, bytes]]:
        seals: dict[int, bytes] = {}
        proofs: dict[int, bytes] = {}
        for slot, payload in replies.items():
            found = self._read(slot, payload, mask=str, seal=str, draws=str, proof=str)
            if found is None:
                continue
            if found["draws"] != draw_digest():  # a sum could not tell whose directions are others
                self._left_out[slot] = "other-directions", "it draws other numbers than the server, and sends no move"
                continue
            mask, seal = (_public_key(found[name]) for name in ("mask", "seal"))
            if not mask or not seal or len({mask, seal, *self._masks.values(), *seals.values()}) < 2 * len(seals) + 2:
                self._left_out[slot] = "malformed", "its public keys cannot be used, or another client has the same"
                continue
            self._masks[slot], seals[slot], proofs[slot] = mask, seal, found["proof"].encode()
        told = pack_parts(threshold=self._threshold, masks=self._masks, seals=seals, proofs=proofs)
        return "shares", dict.fromkeys(seals, told)

    def _shares(self, replies: Mapping[int, bytes]) -> tuple[str, dict[int, bytes]]:
        whole: dict[int, dict[int, bytes]] = {}
        for slot, payload in replies.items():
            found = self._read(slot, payload, sealed=dict)
            if found and found["sealed"].keys() == self._masks.keys() - {slot}:
                whole[slot] = found["sealed"]
            else:
                self._left_out[slot] = "malformed", "it sent no shares for some parties of secure aggregation"
        self._sharing = list(whole)
        return "masked", {
            slot: pack_parts(sealed={source: texts[slot] for source, texts in whole.items() if source != slot})
            for slot in whole
        }

    def _collect(self, replies: Mapping[int, bytes]) -> tuple[str, dict[int, bytes]]:
        for slot, payload in replies.items():
            try:
                self._masked[slot] = read_words(payload, self._numbers)
            except MessageError as error:  # as if it were gone
                self._left_out[slot] = "malformed", str(error)
        return "unmask", dict.fromkeys(self._masked, pack_parts(there=list(self._masked)))

    def _hear(self, failed: Sequence[Update]) -> None:
        """Count who cannot open whose shares. Who names a slot that gave it no shares is not heard.

        A round does without as many clients as there are beyond the threshold. If no more than those lie, a slot that
        more clients accuse is accused by an honest one, too.
        """
        accused: Counter[int] = Counter()
        for update in failed:
            try:
                named = [] if update.accused is None else slots_of(update.accused)
            except MessageError:
                continue
            if set(named) <= set(self._sharing) - {update.slot}:
                accused.update(named)
        self.doubted = {slot: count for slot, count in accused.items() if count > self._parties - self._threshold}
        for slot, count in self.doubted.items():
            text = f"{count} of {self._parties} clients cannot open the shares that it sealed"
            self._left_out[slot] = "false-shares", text

    @property
    def proven(self) -> set[int]:
        """Those slots that more than half of the round's clients accuse: no minority can bring that about."""
        return {slot for slot, count in self.doubted.items() if 2 * count > self._parties}

    def _unmask(self, replies: Mapping[int, bytes]) -> tuple[str, dict[int, bytes]]:
        told = {slot: self._read(slot, text, seeds=dict, keys=dict) for slot, text in replies.items()}
        found = {slot: parts for slot, parts in told.items() if parts is not None}
        for liar in (None, *found):  # whose shares do not fit is found by doing without them
            self._total = self._sum([parts for slot, parts in found.items() if slot != liar])
            if self._total is not None:
                if liar is not None:
                    _log.warning("slot %d of secure aggregation sent shares that do not fit; the others suffice", liar)
                return "", {}
        self.complaint = (
            f"fewer than share-threshold = {self._threshold} clients sent shares that fit, so the sum of secure"
            " aggregation keeps its masks"
        )
        return "", {}

    def _sum(self, found: Sequence[Mapping[str, Mapping[int, bytes]]]) -> Words | None:
        """Return the sum without its masks; None where these shares do not suffice, or do not fit."""
        from flwr.common.secure_aggregation.crypto.symmetric_encryption import generate_shared_key
        from flwr.supercore.primitives.asymmetric import bytes_to_private_key, bytes_to_public_key

        gone = [slot for slot in self._sharing if slot not in self._masked]
        try:
            seeds = {slot: self._secret(slot, [parts["seeds"] for parts in found]) for slot in self._masked}
            keys = {slot: self._secret(slot, [parts["keys"] for parts in found]) for slot in gone}
            total = np.zeros(self._numbers, dtype=np.uint64)
            for slot, words in self._masked.items():
                total = total + words - expanded(seeds[slot], self._numbers)
                for other, key in keys.items():
                    agreed = generate_shared_key(bytes_to_private_key(key), bytes_to_public_key(self._masks[slot]))
                    mask = expanded(base64.urlsafe_b64decode(agreed), self._numbers)
                    total = total - mask if slot > other else total + mask
        except Exception:  # whatever the primitives raise at shares and keys that do not fit
            return None
        # A sum of numbers within the range is within it; masks that remain are beyond it, but for one time in 2^20.
        beyond = np.any(np.abs(mean_of(total, len(self._masked), 1.0)) > 1.0)
        return None if beyond else total

    def _secret(self, slot: int, held: Sequence[Mapping[int, bytes]]) -> bytes:
        from flwr.common.secure_aggregation.crypto.shamir import combine_shares

        shares = [shares[slot] for shares in held if slot in shares][: self._threshold]
        if len(shares) < self._threshold:
            raise ValueError
        return combine_shares(shares)

    def _read(self, slot: int, payload: bytes, **kinds: type) -> dict[str, Any] | None:
        try:
            return read_parts(payload, **kinds)
        except MessageError as error:
            self._left_out[slot] = "malformed", str(error)
            return None


def _public_key(text: str) -> bytes:
    """Return a public key as Flower's clients make it; empty for any other text, at which other clients would fail."""
    from flwr.supercore.primitives.asymmetric import bytes_to_public_key, generate_key_pairs, public_key_to_bytes

    try:
        key = bytes_to_public_key(text.encode())
        curve = generate_key_pairs()[1].curve.name
        return public_key_to_bytes(key) if key.curve.name == curve else b""
    except Exception:  # whatever the reader of keys raises at malformed text
        return b""

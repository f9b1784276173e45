"""One party of secure aggregation: its keys, the shares that it holds, and its masked numbers.

Key agreement, sealing and Shamir's shares are Flower's. A party lives for one slot of one round: each call of the
server is answered once and in order, so nobody gets both shares of a party, or two sums.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping

import numpy as np

from zofedht.client.privacy.identity import Identity, signed_text
from zofedht.common.errors import DataError, MessageError
from zofedht.common.privacy.masking import Words, expanded, pack_parts, read_parts, to_words
from zofedht.common.replay import draw_digest
from zofedht.common.wire.messages import Broadcast, Update

__all__ = ["Masks"]

_MOST_PARTIES = 10_000  # of a process; a server may name any client


class Masks:
    """The parties of a process, by client: the latest of each."""

    def __init__(self, identity: Identity | None = None) -> None:
        """``identity`` signs the public keys, and then those of all others must be signed, too."""
        self._identity = identity
        self._parties: dict[str, _Party] = {}

    def answer(self, call: Broadcast) -> Update:
        """Return what is answered to a call without work. Raises MessageError where it breaks the protocol."""
        if call.stage == "keys":
            self._parties.pop(call.client, None)
            while len(self._parties) >= _MOST_PARTIES:
                del self._parties[next(iter(self._parties))]
            self._parties[call.client] = _Party(call, self._identity)
        party = self._party(call)
        answers = {"keys": party.keys, "shares": party.shares, "unmask": party.unmask}
        payload = answers[call.stage](call.payload)
        return Update(call.round, call.slot, call.client, stage=call.stage, payload=payload)

    def masked(self, call: Broadcast, update: Update) -> Update:
        """Return an update whose numbers are masked: only their sum over all parties can be read.

        Where shares of others cannot be opened, return a failed one that names their slots.

        Raises MessageError where the call breaks the protocol, and DataError where a slope is too large.
        """
        if update.slopes is None:
            raise MessageError(f"uplink must be slopes under secure aggregation, got {call.spec.uplink!r}")
        largest = call.spec.slope_range
        beyond = np.abs(update.slopes).max(initial=0.0)
        if beyond > largest:
            raise DataError.public(f"a slope is beyond slope-range = {largest:g}; a larger slope-range allows it")
        losses = np.clip(np.nan_to_num([update.loss, update.start_loss], nan=0.0), -largest, largest)
        party = self._party(call)
        if accused := party.open_shares(call.payload):
            reason = f"the shares of slot {accused[0]} cannot be opened"
            reason = reason if len(accused) == 1 else f"{reason}, nor those of {len(accused) - 1} more"
            named = np.array(accused, dtype=np.float64)
            return Update(call.round, call.slot, call.client, "failed", "unusable", reason=reason, accused=named)
        words = party.masked(to_words(np.concatenate([update.slopes, losses]), largest))
        return Update(  # made anew: whatever else an update may hold stays here
            call.round,
            call.slot,
            call.client,
            examples=update.examples,
            evaluations=update.evaluations,
            stage=call.stage,
            payload=words.astype("<u8").tobytes(),
        )

    def _party(self, call: Broadcast) -> _Party:
        party = self._parties.get(call.client)
        if party is None or (party.round, party.slot) != (call.round, call.slot) or party.due != call.stage:
            raise MessageError(f"the stage {call.stage!r} of secure aggregation is out of order")
        return party


class _Party:
    def __init__(self, call: Broadcast, identity: Identity | None) -> None:
        self.round, self.slot, self.due = call.round, call.slot, "keys"
        self._seed_of_run, self._identity = call.address.seed, identity

    def _text(self, slot: int, mask: bytes, seal: bytes) -> bytes:
        return signed_text(self._seed_of_run, self.round, slot, mask, seal)

    def _check_holders(
        self, masks: Mapping[int, bytes], seals: Mapping[int, bytes], proofs: Mapping[int, bytes]
    ) -> None:
        """Raise MessageError unless each other party's keys are signed, each by a certificate of its own."""
        if self._identity is None:
            return
        holders = [
            self._identity.holder(proofs.get(slot, b""), self._text(slot, masks[slot], seals[slot])) for slot in masks
        ]
        if len(set(holders)) < len(holders):
            raise MessageError("two parties of secure aggregation have one certificate")

    def keys(self, payload: bytes) -> bytes:
        """Return the public keys: one that masks are agreed by, one that shares are sealed by."""
        from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes

        pairs = [generate_key_pairs() for _ in range(2)]
        self._mask_key, self._seal_key = (private for private, _ in pairs)
        self._public = [public_key_to_bytes(public) for _, public in pairs]
        self.due = "shares"
        proof = b"" if self._identity is None else self._identity.proof(self._text(self.slot, *self._public))
        mask, seal = (key.decode() for key in self._public)
        return pack_parts(mask=mask, seal=seal, draws=draw_digest(), proof=proof.decode())

    def shares(self, payload: bytes) -> bytes:
        """Return the shares of the mask key and of the seed, one sealed pair for every other party."""
        from cryptography.exceptions import UnsupportedAlgorithm
        from flwr.common.secure_aggregation.crypto.shamir import create_shares
        from flwr.common.secure_aggregation.crypto.symmetric_encryption import encrypt, generate_shared_key
        from flwr.common.secure_aggregation.secaggplus_utils import share_keys_plaintext_concat
        from flwr.supercore.primitives.asymmetric import bytes_to_public_key, private_key_to_bytes

        told = read_parts(payload, threshold=int, masks=dict, seals=dict, proofs=dict)
        self._threshold, masks, seals = told["threshold"], told["masks"], told["seals"]
        if masks.keys() != seals.keys() or [masks.get(self.slot), seals.get(self.slot)] != self._public:
            raise MessageError("the list of public keys lacks this client's own")
        if len({*masks.values(), *seals.values()}) != 2 * len(masks):
            raise MessageError("two parties of secure aggregation have one public key")
        self._check_holders(masks, seals, told["proofs"])
        if not len(masks) < 2 * self._threshold <= 2 * len(masks):
            # Else two halves could be told of different parties, and give both shares of one.
            raise MessageError(f"the threshold must be more than half of {len(masks)} parties, got {self._threshold}")
        try:
            self._masks = {slot: bytes_to_public_key(key) for slot, key in masks.items() if slot != self.slot}
            opened = {slot: bytes_to_public_key(key) for slot, key in seals.items() if slot != self.slot}
            self._sealed_by = {slot: generate_shared_key(self._seal_key, key) for slot, key in opened.items()}
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise MessageError("a public key of secure aggregation cannot be read") from error
        self._seed = os.urandom(32)
        seeds = create_shares(self._seed, self._threshold, len(masks))
        keys = create_shares(private_key_to_bytes(self._mask_key), self._threshold, len(masks))
        sealed = {}
        self._seeds, self._keys = {}, {}
        for slot, seed, key in zip(sorted(masks), seeds, keys, strict=True):
            if slot == self.slot:
                self._seeds[slot], self._keys[slot] = seed, key
            else:
                plain = share_keys_plaintext_concat(self.slot, slot, seed, key)
                sealed[slot] = encrypt(self._sealed_by[slot], plain)
        self.due = "masked"
        return pack_parts(sealed=sealed)

    def open_shares(self, payload: bytes) -> list[int]:
        """Keep the shares of the others; return the slots, in order, whose shares cannot be opened or are not for us.

        Where there are any, this party answers nothing more: to the others it is gone.
        """
        from cryptography.fernet import InvalidToken
        from flwr.common.secure_aggregation.crypto.symmetric_encryption import decrypt
        from flwr.common.secure_aggregation.secaggplus_utils import share_keys_plaintext_separate

        sealed = read_parts(payload, sealed=dict)["sealed"]
        if not sealed.keys() <= self._sealed_by.keys() or len(sealed) + 1 < self._threshold:
            raise MessageError(f"shares of at least {self._threshold - 1} other parties must come, got {len(sealed)}")
        accused = []
        for slot, text in sealed.items():
            try:
                source, target, seed, key = share_keys_plaintext_separate(decrypt(self._sealed_by[slot], text))
            except InvalidToken:
                source = target = -1
            if (source, target) == (slot, self.slot):
                self._seeds[slot], self._keys[slot] = seed, key
            else:
                accused.append(slot)
        if accused:
            self.due = ""
        return sorted(accused)

    def masked(self, words: Words) -> Words:
        """Return the numbers with this party's own mask, and with one for every other party that has given shares."""
        from flwr.common.secure_aggregation.crypto.symmetric_encryption import generate_shared_key

        total = words + expanded(self._seed, words.size)
        for slot in self._seeds.keys() - {self.slot}:
            agreed = base64.urlsafe_b64decode(generate_shared_key(self._mask_key, self._masks[slot]))
            mask = expanded(agreed, words.size)
            total = total + mask if self.slot > slot else total - mask
        self.due = "unmask"
        return total

    def unmask(self, payload: bytes) -> bytes:
        """Return for every party one share: of its seed where it has answered, of its mask key where it is gone."""
        there = read_parts(payload, there=list)["there"]
        if not set(there) <= self._seeds.keys() or self.slot not in there or len(set(there)) < self._threshold:
            raise MessageError(f"a sum must be of at least {self._threshold} parties, this one among them, got {there}")
        self.due = ""
        gone = self._keys.keys() - set(there)
        return pack_parts(
            seeds={slot: self._seeds[slot] for slot in there}, keys={slot: self._keys[slot] for slot in gone}
        )

"""Secure aggregation: the sum and nothing else, with drop-outs up to the threshold."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.common.secure_aggregation import secaggplus_utils
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from tests.helpers import broadcast
from zofedht.client.privacy.masks import Masks
from zofedht.common.errors import DataError, MessageError
from zofedht.common.privacy.masking import expanded, mean_of, pack_parts, read_parts, read_words, resolution, to_words
from zofedht.common.replay import draw_digest
from zofedht.common.typing import Vector
from zofedht.common.wire.codec import decode, encode
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.aggregation.masked_sum import MaskedSum

_SLOPES = 3
_SPEC = {"secure_aggregation": True, "uplink": "slopes", "slope_range": 100.0, "local_steps": _SLOPES}
_OWN = {slot: np.array([slot + 1.0, -2.5, 0.1 * slot]) for slot in range(5)}


class _Round:
    """Five parties and a server; ``loses`` says who is gone in which stage, ``bends`` changes what arrives."""

    def __init__(
        self,
        threshold: int = 3,
        loses: dict[str, Sequence[int]] | None = None,
        bends: Callable[[Update], Update] = lambda update: update,
    ) -> None:
        self.calls = {slot: broadcast(slot, str(slot), **_SPEC) for slot in _OWN}
        self.parties = {slot: Masks() for slot in _OWN}
        self.masking = MaskedSum(list(_OWN), _SLOPES, threshold)
        self.replies: list[Update] = []
        self.told: list[Broadcast] = []
        asked, stage = dict.fromkeys(_OWN, b""), "keys"
        while asked:
            arrived = []
            for slot, payload in asked.items():
                if slot in (loses or {}).get(stage, ()):
                    continue
                call = replace(self.calls[slot], stage=stage, payload=payload)
                self.told.append(call)
                arrived.append(bends(self._answer(call)))
            self.replies += arrived
            asked = self.masking.advance(self.replies)
            stage = self.masking.stage

    def _answer(self, call: Broadcast) -> Update:
        masks = self.parties[call.slot]
        if call.asks_steps:
            own = Update(call.round, call.slot, call.client, slopes=_OWN[call.slot], loss=call.slot, start_loss=1.0)
            return masks.masked(call, own)
        return masks.answer(call)

    @property
    def mean(self) -> Vector | None:
        worked = [update for update in self.replies if update.stage == "masked"]
        found, failures = self.masking.unmasked(worked, self.calls)
        if not found:
            assert self.masking.complaint in {failure.reason for failure in failures}
            assert {failure.slot for failure in failures} == set(_OWN)
            return None
        slopes = [update.slopes for update in found]
        assert all(np.array_equal(one, slopes[0]) for one in slopes)  # type: ignore[arg-type]
        return slopes[0]


def _expected(*slots: int) -> Vector:
    return np.mean([_OWN[slot] for slot in slots], axis=0)  # type: ignore[no-any-return]


def test_the_server_learns_the_mean() -> None:
    done = _Round()
    np.testing.assert_allclose(done.mean, _expected(0, 1, 2, 3, 4), atol=resolution(100.0))
    update = done.masking.unmasked([u for u in done.replies if u.stage == "masked"], done.calls)[0][0]
    assert (update.loss, update.start_loss) == pytest.approx((2.0, 1.0), abs=1e-9)


@pytest.mark.parametrize("stage", ["keys", "shares", "masked", "unmask"])
def test_the_round_goes_on_without_those_who_are_gone(stage: str) -> None:
    """Two of five may go in any stage, with a threshold of three. Who goes while unmasking is still in the sum."""
    done = _Round(loses={stage: (1, 3)})
    slots = (0, 1, 2, 3, 4) if stage == "unmask" else (0, 2, 4)
    np.testing.assert_allclose(done.mean, _expected(*slots), atol=resolution(100.0))


def test_clients_may_go_one_after_another() -> None:
    done = _Round(loses={"shares": (4,), "masked": (0,), "unmask": ()})
    np.testing.assert_allclose(done.mean, _expected(1, 2, 3), atol=resolution(100.0))


@pytest.mark.parametrize("stage", ["keys", "shares", "masked", "unmask"])
def test_below_the_threshold_nothing_is_unmasked(stage: str) -> None:
    done = _Round(loses={stage: (0, 1, 3)})
    assert done.mean is None
    assert "fewer than share-threshold = 3 clients" in done.masking.complaint


def test_what_arrives_looks_random() -> None:
    """One party's numbers: all bits of the words are used, twice the same slopes look different, and no sums remain."""
    one, two = ([u.payload for u in _Round().replies if u.stage == "masked"] for _ in range(2))
    for mine, again, slot in zip(one, two, _OWN, strict=True):
        words, plain = read_words(mine, _SLOPES + 2), to_words(_OWN[slot], 100.0)
        assert not np.any(words[:_SLOPES] == plain)
        assert mine != again
    bits = np.unpackbits(np.frombuffer(b"".join(one + two), dtype=np.uint8))
    assert abs(float(np.mean(bits)) - 0.5) < 5 * 0.5 / np.sqrt(len(bits))


def test_updates_hold_nothing_of_a_slot_beside_its_masked_numbers() -> None:
    for update in _Round().replies:
        assert update.slopes is update.sketch is update.move is None
        assert np.isnan(update.loss)
        assert np.isnan(update.start_loss)
        arrays, scalars = encode(update)
        assert arrays == []
        assert decode(Update, scalars, arrays, examples=update.examples).payload == update.payload


@pytest.mark.parametrize("stage", ["keys", "shares", "masked", "unmask"])
@pytest.mark.parametrize("payload", [b"", b"{}", b"\xff\xfe", b'{"sealed": 3}', b'{"seeds": {"0": "zz"}, "keys": {}}'])
def test_a_malformed_answer_is_as_if_its_client_were_gone(stage: str, payload: bytes) -> None:
    def bend(update: Update) -> Update:
        return replace(update, payload=payload) if (update.slot, update.stage) == (2, stage) else update

    done = _Round(bends=bend)
    slots = (0, 1, 2, 3, 4) if stage == "unmask" else (0, 1, 3, 4)
    np.testing.assert_allclose(done.mean, _expected(*slots), atol=resolution(100.0))


def _keys(mask: str, seal: str) -> bytes:
    return pack_parts(mask=mask, seal=seal, draws=draw_digest(), proof="")


def _pem(curve: ec.EllipticCurve) -> str:
    return public_key_to_bytes(ec.generate_private_key(curve).public_key()).decode()


@pytest.mark.parametrize(
    "payload",
    [
        _keys("no key", "no key"),
        _keys("\ud800", "\ud800"),
        _keys(_pem(ec.SECP256R1()), _pem(ec.SECP256R1())),
        _keys(_SAME := _pem(ec.SECP384R1()), _SAME),
    ],
    ids=["text", "surrogate", "other curve", "twice"],
)
def test_unusable_keys_cost_their_client_alone(payload: bytes) -> None:
    done = _Round(bends=lambda u: replace(u, payload=payload) if (u.slot, u.stage) == (2, "keys") else u)
    np.testing.assert_allclose(done.mean, _expected(0, 1, 3, 4), atol=resolution(100.0))
    (failure,) = done.masking.unmasked([u for u in done.replies if u.stage == "masked"], done.calls)[1]
    assert (failure.slot, failure.cause) == (2, "malformed")


def test_the_keys_of_another_client_cost_the_copier() -> None:
    first: list[bytes] = []

    def copy(update: Update) -> Update:
        if update.stage != "keys":
            return update
        first.append(update.payload)
        return replace(update, payload=first[0]) if update.slot == 2 else update

    np.testing.assert_allclose(_Round(bends=copy).mean, _expected(0, 1, 3, 4), atol=resolution(100.0))


def _with_shares(share: bytes, *liars: int) -> Callable[[Update], Update]:
    """Let these slots send this in the place of all shares."""

    def bend(update: Update) -> Update:
        if update.slot not in liars or update.stage != "unmask":
            return update
        told = read_parts(update.payload, seeds=dict, keys=dict)
        return replace(update, payload=pack_parts(seeds=dict.fromkeys(told["seeds"], share), keys={}))

    return bend


_FALSE = [b"", b"x" * 52, b"\x02\x00\x00\x00" + bytes(48)]


@pytest.mark.parametrize("share", _FALSE)
@pytest.mark.parametrize("gone", [(), (4,)])
def test_the_false_shares_of_one_are_done_without(share: bytes, gone: tuple[int, ...]) -> None:
    done = _Round(bends=_with_shares(share, 1), loses={"masked": gone})
    there = [slot for slot in _OWN if slot not in gone]
    np.testing.assert_allclose(done.mean, _expected(*there), atol=resolution(100.0))


@pytest.mark.parametrize("share", _FALSE)
def test_false_shares_leave_the_round_without_a_sum(share: bytes) -> None:
    """Masks that remain are seen: x does not follow noise."""
    done = _Round(bends=_with_shares(share, 0, 1))
    assert done.mean is None
    assert "sent shares that fit" in done.masking.complaint


def _sealing_garbage(liar: int, *others: int) -> Callable[[Update], Update]:
    """Let a slot seal what nobody can open for these others."""

    def bend(update: Update) -> Update:
        if (update.slot, update.stage) != (liar, "shares"):
            return update
        sealed = read_parts(update.payload, sealed=dict)["sealed"]
        return replace(update, payload=pack_parts(sealed=sealed | dict.fromkeys(others, b"garbage")))

    return bend


def _accusing(*slots: float, by: Sequence[int]) -> Callable[[Update], Update]:
    """Let these accuse these slots, in the place of their masked numbers."""

    def bend(update: Update) -> Update:
        if update.slot not in by or update.stage != "masked":
            return update
        return Update(update.round, update.slot, update.client, "failed", "unusable", accused=np.array(slots))

    return bend


def test_shares_that_few_cannot_open_cost_those_few() -> None:
    done = _Round(bends=_sealing_garbage(2, 0, 1))
    np.testing.assert_allclose(done.mean, _expected(2, 3, 4), atol=resolution(100.0))
    assert done.masking.doubted == {}
    named = {u.slot: u.accused for u in done.replies if u.accused is not None}
    assert named == {0: np.array([2.0]), 1: np.array([2.0])}


@pytest.mark.parametrize(
    ("threshold", "others", "proven"), [(3, (0, 1, 3), {2}), (3, (0, 1, 3, 4), {2}), (4, (0, 1), set())]
)
def test_who_seals_garbage_for_many_is_named(threshold: int, others: tuple[int, ...], proven: set[int]) -> None:
    """More than the round can do without; and for the run, more than half of its clients."""
    done = _Round(threshold, bends=_sealing_garbage(2, *others))
    worked = [u for u in done.replies if u.stage == "masked" or u.status == "failed"]
    found, failures = done.masking.unmasked(worked, done.calls)
    assert {u.status for u in found} == {"failed"}
    assert (done.masking.doubted, done.masking.proven) == ({2: len(others)}, proven)
    assert [f.cause for f in failures if f.slot == 2] == ["false-shares"]


def test_shares_for_another_are_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sealed so that their receiver can open them, and made for somebody else."""
    honest = secaggplus_utils.share_keys_plaintext_concat

    def concat(source: int, target: int, seed: bytes, key: bytes) -> bytes:
        return honest(source, 9 if source == 2 else target, seed, key)

    monkeypatch.setattr(secaggplus_utils, "share_keys_plaintext_concat", concat)
    assert _Round().masking.doubted == {2: 4}


def test_an_accuser_answers_nothing_more() -> None:
    done = _Round(bends=_sealing_garbage(2, 0))
    for stage in ("masked", "unmask"):
        call = replace(next(c for c in done.told if (c.stage, c.slot) == (stage, 1)), client="0")
        with pytest.raises(MessageError, match="out of order"):
            done.parties[0]._party(replace(call, address=replace(call.address, slot=0)))


@pytest.mark.parametrize("slots", [(2.0,), (0.0, 2.0, 3.0, 4.0)])
def test_a_lone_accuser_costs_its_own_slot(slots: tuple[float, ...]) -> None:
    done = _Round(bends=_accusing(*slots, by=[1]))
    np.testing.assert_allclose(done.mean, _expected(0, 2, 3, 4), atol=resolution(100.0))
    assert done.masking.doubted == {}


def test_no_minority_sets_a_client_aside_for_good() -> None:
    """Two of five at the highest threshold: they end the try, as by silence, and prove nothing."""
    masking = _Round(5, bends=_accusing(2.0, by=[0, 1])).masking
    assert (masking.doubted, masking.proven) == ({2: 2}, set())


@pytest.mark.parametrize("slots", [(2.0, 99.0), (0.0, 2.0), (2.5,), (), (np.nan,)])
def test_only_slots_of_the_round_are_accused(slots: tuple[float, ...]) -> None:
    """Of four accusers, slot 0 alone is not heard where it names itself; the others where they name no slot."""
    own = slots == (0.0, 2.0)
    assert _Round(bends=_accusing(2.0, by=[0, 1, 3, 4])).masking.doubted == {2: 4}
    assert _Round(bends=_accusing(*slots, by=[0, 1, 3, 4])).masking.doubted == ({0: 3, 2: 3} if own else {})


def test_other_directions_are_left_out_before_the_sum() -> None:
    def bend(update: Update) -> Update:
        if (update.slot, update.stage) != (2, "keys"):
            return update
        told = read_parts(update.payload, mask=str, seal=str, proof=str)
        return replace(update, payload=pack_parts(**told, draws="others"))

    done = _Round(bends=bend)
    np.testing.assert_allclose(done.mean, _expected(0, 1, 3, 4), atol=resolution(100.0))
    (failure,) = done.masking.unmasked([u for u in done.replies if u.stage == "masked"], done.calls)[1]
    assert (failure.slot, failure.cause) == (2, "other-directions")


# What a client refuses: a server that breaks the protocol learns nothing from it.


def _at(stage: str) -> tuple[Masks, Broadcast]:
    """Return a party that is due for a stage, and the honest call."""
    fresh = _Round(loses={stage: (0,)})
    call = next(call for call in fresh.told if call.slot == 1 and call.stage == stage)
    return fresh.parties[0], replace(call, address=replace(call.address, slot=0), client="0")


def test_a_threshold_of_half_is_refused() -> None:
    """Else a server could tell two halves of different drop-outs, and get both shares of a party."""
    party, call = _at("shares")
    told = read_parts(call.payload, threshold=int, masks=dict, seals=dict, proofs=dict)
    for threshold in (0, 1, 2, 6):
        with pytest.raises(MessageError, match=f"more than half of 5 parties, got {threshold}"):
            party.answer(replace(call, payload=pack_parts(**(told | {"threshold": threshold}))))


def test_a_list_without_its_own_keys_is_refused() -> None:
    party, call = _at("shares")
    told = read_parts(call.payload, threshold=int, masks=dict, seals=dict, proofs=dict)
    told["masks"][0], told["masks"][1] = told["masks"][1], told["masks"][0]
    with pytest.raises(MessageError, match="lacks this client's own"):
        party.answer(replace(call, payload=pack_parts(**told)))


def test_one_key_for_two_parties_is_refused() -> None:
    party, call = _at("shares")
    told = read_parts(call.payload, threshold=int, masks=dict, seals=dict, proofs=dict)
    told["masks"][2] = told["masks"][1]
    with pytest.raises(MessageError, match="two parties of secure aggregation have one public key"):
        party.answer(replace(call, payload=pack_parts(**told)))


@pytest.mark.parametrize("there", [[0], [0, 1], [1, 2, 3], [0, 0, 0], [0, 1, 99]])
def test_a_sum_of_too_few_is_refused(there: list[int]) -> None:
    party, call = _at("unmask")
    with pytest.raises(MessageError, match="a sum must be of at least 3 parties, this one among them"):
        party.answer(replace(call, payload=pack_parts(there=there)))


def test_nobody_gets_both_shares_of_a_party() -> None:
    for there in itertools.combinations(range(5), 3):
        party, call = _at("unmask")
        if 0 not in there:
            continue
        told = read_parts(
            party.answer(replace(call, payload=pack_parts(there=list(there)))).payload, seeds=dict, keys=dict
        )
        assert told["seeds"].keys() == set(there)
        assert told["keys"].keys() == set(range(5)) - set(there)
        with pytest.raises(MessageError, match="out of order"):
            party.answer(replace(call, payload=pack_parts(there=[0, 1, 2, 3, 4])))


def test_stages_come_in_order_and_once() -> None:
    party, call = _at("shares")
    with pytest.raises(MessageError, match="the stage 'unmask' of secure aggregation is out of order"):
        party.answer(replace(call, stage="unmask"))
    party.answer(call)
    with pytest.raises(MessageError, match="out of order"):
        party.answer(call)


def test_a_slope_beyond_the_range_is_refused() -> None:
    party, call = _at("masked")
    own = Update(call.round, 0, "0", slopes=np.array([1.0, -100.5, 0.0]))
    with pytest.raises(DataError, match="beyond slope-range = 100; a larger slope-range allows it"):
        party.masked(call, own)


def test_moves_cannot_be_masked() -> None:
    party, call = _at("masked")
    with pytest.raises(MessageError, match="uplink must be slopes"):
        party.masked(call, Update(call.round, 0, "0", move=np.zeros(3)))


def test_numbers_are_rounded_by_half_the_resolution() -> None:
    numbers = np.random.default_rng(0).uniform(-100.0, 100.0, 1000)
    back = mean_of(to_words(numbers, 100.0), 1, 100.0)
    assert 0.0 < np.max(np.abs(back - numbers)) <= resolution(100.0) / 2
    largest = np.full(1, 100.0)
    total = sum((to_words(-largest, 100.0) for _ in range(1000)), np.zeros(1, dtype=np.uint64))
    assert mean_of(total, 1000, 100.0)[0] == -100.0


def test_masks_follow_from_all_bits_of_a_key() -> None:
    """Flower's generator folds the words of a key: two keys with swapped words would have one mask."""
    key = bytes(range(32))
    swapped = key[4:8] + key[:4] + key[8:]
    assert np.array_equal(expanded(key, 4), expanded(key, 4))
    assert not np.any(expanded(key, 4) == expanded(swapped, 4))


def test_payloads_are_read_strictly() -> None:
    assert read_parts(pack_parts(a={3: b"\x01"}, b=[1, 2], c=4, d="x"), a=dict, b=list, c=int, d=str) == {
        "a": {3: b"\x01"}, "b": [1, 2], "c": 4, "d": "x",
    }  # fmt: skip
    wrong: list[tuple[dict[str, Any], dict[str, type]]] = [
        ({"a": {-1: b""}}, {"a": dict}), ({"a": [True]}, {"a": list}), ({"a": 1.5}, {"a": int}), ({}, {"a": str}),
    ]  # fmt: skip
    for parts, kinds in wrong:
        with pytest.raises(MessageError, match="cannot be read"):
            read_parts(pack_parts(**parts), **kinds)

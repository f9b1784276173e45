"""A server that puts in keys of its own: under TLS each client checks whose the others' keys are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import broadcast
from zofedht.client.privacy.identity import Identity, signed_text
from zofedht.client.privacy.masks import Masks
from zofedht.common.errors import MessageError
from zofedht.common.privacy.masking import pack_parts, read_parts
from zofedht.common.tls import TlsFiles, read_tls
from zofedht.common.wire.messages import Update
from zofedht.server.aggregation.masked_sum import MaskedSum
from zofedht.server.certificates import make_certificates

_SPEC = {"secure_aggregation": True, "uplink": "slopes", "slope_range": 100.0, "local_steps": 2}
_SLOTS = (0, 1, 2)
Keys = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    for authority in ("ours", "theirs"):
        make_certificates(folder / authority, ["127.0.0.1"], ["0", "1", "2"], 10.0)
    return folder


def files(folder: Path, slot: int, whose: str = "ours") -> TlsFiles:
    return read_tls(folder / whose / "clients" / str(slot), "client")


def call(slot: int, stage: str, payload: bytes = b"") -> Any:
    return replace(broadcast(slot, str(slot), **_SPEC), stage=stage, payload=payload)


class Server:
    """Asks three parties for their keys, and passes on what ``lie`` makes of them."""

    def __init__(self, identities: list[Identity | None]) -> None:
        self.parties = [Masks(identity) for identity in identities]
        told = [party.answer(call(slot, "keys")) for slot, party in enumerate(self.parties)]
        self.payloads = MaskedSum(list(_SLOTS), 2, 2).advance(told)

    def shares(self, slot: int, lie: Callable[[Keys], None] = lambda keys: None) -> Update:
        parts = read_parts(self.payloads[slot], threshold=int, masks=dict, seals=dict, proofs=dict)
        lie(parts)
        return self.parties[slot].answer(call(slot, "shares", pack_parts(**parts)))


def own_keys() -> tuple[bytes, bytes]:
    told = read_parts(Masks().answer(call(1, "keys")).payload, mask=str, seal=str)
    return told["mask"].encode(), told["seal"].encode()


def put_in(parts: Keys, proof: Callable[[bytes], bytes] | None = None) -> None:
    """Put keys that the server knows in the place of those of slot 1, with a proof where it can make one."""
    mask, seal = own_keys()
    parts["masks"][1], parts["seals"][1] = mask, seal
    if proof is not None:
        asked = call(1, "keys")
        parts["proofs"][1] = proof(signed_text(asked.address.seed, asked.round, 1, mask, seal))


def test_honest_keys_are_taken(folder: Path):
    server = Server([Identity(files(folder, slot)) for slot in _SLOTS])
    assert [server.shares(slot).stage for slot in _SLOTS] == ["shares"] * 3


def test_without_certificates_nothing_is_proven():
    """The protocol is then for a server that keeps to it."""
    assert Server([None, None, None]).shares(0, put_in).stage == "shares"


_LIES: dict[str, Any] = {
    "the old signature": (None, "a signature that is not its owner's"),
    "no proof": (lambda folder: lambda text: b"", "no proof by a client's certificate"),
    "a vast one": (lambda folder: lambda text: b"[" * 50_000, "it is too long"),
    "another authority": (lambda folder: Identity(files(folder, 1, "theirs")).proof, "of another authority"),
    "the server's": (lambda folder: Identity(read_tls(folder / "ours" / "server", "server")).proof, "not a client's"),
    "a friend's": (lambda folder: Identity(files(folder, 2)).proof, "two parties .* have one certificate"),
}


@pytest.mark.parametrize("lie", _LIES)
def test_a_server_cannot_put_in_its_own_keys(folder: Path, lie: str):
    proof, sentence = _LIES[lie]
    server = Server([Identity(files(folder, slot)) for slot in _SLOTS])
    with pytest.raises(MessageError, match=sentence):
        server.shares(0, lambda parts: put_in(parts, None if proof is None else proof(folder)))


def test_a_proof_holds_for_one_slot(folder: Path):
    identity = Identity(files(folder, 1))
    mask, seal = own_keys()
    proof = identity.proof(signed_text(0, 5, 1, mask, seal))
    assert identity.holder(proof, signed_text(0, 5, 1, mask, seal))
    for other in (signed_text(0, 6, 1, mask, seal), signed_text(0, 5, 2, mask, seal), signed_text(1, 5, 1, mask, seal)):
        with pytest.raises(MessageError, match="not its owner's"):
            identity.holder(proof, other)


def test_a_certificate_that_is_over_proves_nothing(folder: Path, tmp_path: Path):
    make_certificates(tmp_path, None, ["old"], -0.5)
    old = Identity(read_tls(tmp_path / "clients" / "old", "client"))
    with pytest.raises(MessageError, match="its certificate is not valid now"):
        old.holder(old.proof(b"text"), b"text")

"""Who a public key of secure aggregation is from: a signature by the key of a client's certificate.

A server passes the public keys on, and could put in its own. Under mutual TLS each client signs its two keys, and each
other client checks the signature and the certificate against the authority that it trusts itself.
"""

from __future__ import annotations

import base64
import datetime
import json
from dataclasses import dataclass
from typing import Any

from zofedht.common.errors import MessageError
from zofedht.common.tls import TlsFiles

__all__ = ["Identity", "signed_text"]

_MOST_BYTES = 16 * 1024  # of certificate and signature


def signed_text(seed: int, round_: int, slot: int, mask: bytes, seal: bytes) -> bytes:
    """Return what is signed: both public keys, and where they belong."""
    return json.dumps(["zofedht secure aggregation", seed, round_, slot, mask.decode(), seal.decode()]).encode()


@dataclass(frozen=True)
class Identity:
    """A client's certificate and key, and the authority by which it judges others."""

    files: TlsFiles

    def proof(self, text: bytes) -> bytes:
        """Return certificate and signature of a text, as JSON."""
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        key: Any = load_pem_private_key(self.files.key, None)
        signature = key.sign(text, *_scheme(key.public_key()))
        return json.dumps([self.files.certificate.decode(), base64.b64encode(signature).decode()]).encode()

    def holder(self, proof: bytes, text: bytes) -> str:
        """Return the serial number of the certificate that has signed a text.

        Raises MessageError unless it is a client's, valid now and of the authority, and the signature is its own.
        """
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature
        from cryptography.x509.oid import ExtendedKeyUsageOID

        try:
            if len(proof) > _MOST_BYTES:
                raise ValueError("it is too long")
            shown, signature = json.loads(proof)
            certificate = x509.load_pem_x509_certificate(shown.encode())
            now = datetime.datetime.now(datetime.UTC)
            if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
                raise ValueError("its certificate is not valid now")
            _check_issued(certificate, x509.load_pem_x509_certificates(self.files.authority))
            usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
            if ExtendedKeyUsageOID.CLIENT_AUTH not in usage:
                raise ValueError("its certificate is not a client's")
            key: Any = certificate.public_key()
            key.verify(base64.b64decode(signature, validate=True), text, *_scheme(key))
        except InvalidSignature:
            raise MessageError("a public key of secure aggregation has a signature that is not its owner's") from None
        except Exception as error:  # whatever the readers raise
            said = str(error) if isinstance(error, ValueError) and str(error).startswith("it") else type(error).__name__
            raise MessageError(
                f"a public key of secure aggregation has no proof by a client's certificate of this authority ({said})"
            ) from error
        return f"{certificate.serial_number:x}"


def _check_issued(certificate: Any, authorities: list[Any]) -> None:
    for authority in authorities:
        try:
            certificate.verify_directly_issued_by(authority)
        except Exception:
            continue
        return
    raise ValueError("its certificate is of another authority")


def _scheme(public_key: Any) -> tuple[Any, ...]:
    """Return what sign and verify take beside the text, by the kind of the key."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

    if isinstance(public_key, ec.EllipticCurvePublicKey):
        return (ec.ECDSA(hashes.SHA256()),)
    if isinstance(public_key, rsa.RSAPublicKey):
        return padding.PKCS1v15(), hashes.SHA256()
    return ()

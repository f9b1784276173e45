"""make-certs: an authority, a server certificate and one certificate per client.

Keys are elliptic-curve keys (P-256). A client's common name is its name; a client can join by this name only.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from zofedht.common.errors import DataError

__all__ = ["expand_names", "make_certificates"]

_CLOCK_SKEW = datetime.timedelta(days=1)  # a device without a battery clock may be late
_MOST_NAMES = 10_000
_THIS_MACHINE = ("localhost", "127.0.0.1")


def make_certificates(folder: Path, servers: Sequence[str] | None, clients: Sequence[str], days: float) -> list[Path]:
    """Write the missing certificates.

    The authority in ``folder``/authority is made once, so clients can be added later. Existing certificates stay.

    Parameters
    ----------
    folder : Path
    servers : sequence of str, or None
        Host names and IP addresses of the server. None for those of the existing certificate, or else of this machine.
    clients : sequence of str
        The names of the clients.
    days : float
        How long new certificates are valid.

    Returns
    -------
    list of Path
        The new folders for --tls-dir: server/ and clients/NAME/ below ``folder``.

    Raises
    ------
    DataError
        When a file cannot be read or written, or the existing server's certificate lacks a name of ``servers``.
    """
    certificate = folder / "server" / "server.crt"
    if is_there := certificate.exists():
        _check_names(certificate, servers or ())
    names = _THIS_MACHINE if servers is None else servers
    try:
        authority, key = _authority(folder / "authority", days)
        made = []
        if names and not is_there:
            made.append(_issue(certificate.parent, "server", "zofedht-server", names, authority, key, days))
        for name in clients:
            if not (folder / "clients" / name / "client.crt").exists():
                made.append(_issue(folder / "clients" / name, "client", name, [], authority, key, days))
    except (OSError, ValueError) as error:
        raise DataError(f"certificates cannot be made in {folder}: {error}") from error
    return made


def expand_names(text: str) -> list[str]:
    """Return the names in a text of names and ranges.

    Raises DataError for a malformed range or name.

    Examples
    --------
    >>> expand_names("pi, site-8..site-10")
    ['pi', 'site-8', 'site-9', 'site-10']
    """
    names: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        first, dots, last = part.partition("..")
        if not dots:
            names.extend([part] if part else [])
            continue
        stem, low = _numbered(first, part)
        other, high = _numbered(last, part)
        if stem != other or high < low or high - low > _MOST_NAMES:
            raise DataError(f"a range of names must be written client-1..client-5, got {part!r}")
        names.extend(f"{stem}{number}" for number in range(low, high + 1))
    bad = [name for name in names if "/" in name or name in {".", ".."} or not name.isprintable() or len(name) > 64]
    if bad:
        raise DataError(f"a client's name must have 1 to 64 printable characters and no slash, got {bad[0]!r}")
    return names


def _numbered(name: str, part: str) -> tuple[str, int]:
    stem = name.rstrip("0123456789")
    if stem == name:
        raise DataError(f"a range of names must be written client-1..client-5, got {part!r}")
    return stem, int(name[len(stem) :])


def _check_names(certificate: Path, servers: Sequence[str]) -> None:
    try:
        held = x509.load_pem_x509_certificate(certificate.read_bytes())
        names = held.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound) as error:
        raise DataError(f"{certificate} cannot be read: {error}; delete it to have a new one made") from error
    if missing := [name for name in servers if _host(name) not in names]:
        known = ", ".join(str(name.value) for name in names)
        raise DataError(
            f"{certificate} must be for {', '.join(missing)}, got {known}; delete it and run make-certs again: the new"
            " certificate is of the same authority, so the clients keep their certificates"
        )


def _authority(folder: Path, days: float) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    certificate_file, key_file = folder / "ca.crt", folder / "ca.key"
    if certificate_file.exists():
        key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{key_file} is not an elliptic-curve key")
        return x509.load_pem_x509_certificate(certificate_file.read_bytes()), key
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("zofedht authority")
    certificate = (
        _builder(name, name, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    _write(key_file, _pem(key), 0o600)  # first: a later run takes the certificate as a sign of both files
    _write(certificate_file, certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    return certificate, key


def _issue(
    folder: Path,
    side: str,
    common_name: str,
    hosts: Sequence[str],
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    days: float,
) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if side == "server" else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = (
        _builder(_name(common_name), authority.subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    certificate = builder.sign(authority_key, hashes.SHA256())
    _write(folder / f"{side}.key", _pem(key), 0o600)
    _write(folder / "ca.crt", authority.public_bytes(serialization.Encoding.PEM), 0o644)
    _write(folder / f"{side}.crt", certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    return folder


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, days: float
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - max(_CLOCK_SKEW, -datetime.timedelta(days=days) * 2))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(content)

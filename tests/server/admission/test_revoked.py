"""A client whose name or certificate is refused does not join, and leaves when that is decided during the run."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from cryptography import x509

from tests.server.grpc.processes import Site
from tests.waiting import until
from zofedht.common.errors import DataError
from zofedht.common.tls import read_tls
from zofedht.server.admission.revoked import Revoked, serial_of

RULE = "the server's operator refuses this client's name or certificate"


def certificate(certificates: Path, name: str) -> bytes:
    return (certificates / "clients" / name / "client.crt").read_bytes()


def test_serial_numbers_are_those_of_openssl(certificates: Path):
    pem = certificate(certificates, "c1")
    number = x509.load_pem_x509_certificate(pem).serial_number
    for entry in (
        f"{number:X}",
        f"0x{number:040x}",
        f"serial={number:X}",
        ":".join(number.to_bytes(20).hex(" ").split()),
    ):
        assert Revoked([entry]).refuses("c9", serial_of(pem))
        assert not Revoked([entry]).refuses("c9", serial_of(certificate(certificates, "c2")))
        assert not Revoked([entry]).refuses("c9", "")
    assert serial_of(b"") == ""


def test_a_file_holds_names_and_comments(tmp_path: Path):
    file = tmp_path / "refused"
    file.write_text("# stolen in May\nc1  # the north site\n\n  c2\n")
    revoked = Revoked(["c0"], file)
    assert [name for name in ("c0", "c1", "c2", "c3", "") if revoked.refuses(name, "")] == ["c0", "c1", "c2"]
    file.write_text("c3\n")
    revoked.read_again()
    assert [name for name in ("c0", "c1", "c2", "c3") if revoked.refuses(name, "")] == ["c0", "c3"]
    file.unlink()
    with pytest.raises(DataError, match=r"--refuse-file .* cannot be read"):
        revoked.read_again()
    assert revoked.refuses("c3", ""), "what was read before still counts"


def test_a_refused_client_stays_out_and_a_joined_one_leaves(secure_site: Site, certificates: Path):
    site, file = secure_site, secure_site.folder / "refused"
    file.write_text("")
    server = site.server("--min-clients", 2, "--refuse", "c2", "--refuse-file", file, rounds=100_000)
    clients = site.clients()
    assert clients[2].ends() == 2
    assert RULE in clients[2].text
    until(lambda: len(site.history()) > 2, "some rounds")
    shown = certificate(certificates, "c1")
    file.write_text(f"{serial_of(shown)}  # c1\n")
    server.send(signal.SIGHUP)
    server.says("left: c1")
    assert clients[1].ends() == 2
    assert RULE in clients[1].text
    before = len(site.history())
    until(lambda: len(site.history()) > before + 2, "the run to go on")
    file.unlink()
    server.send(signal.SIGHUP)
    server.says("--refuse-file .* cannot be read .*; the clients that were refused before are refused")
    assert server.code is None


def test_a_key_that_others_can_read_is_told(certificates: Path, tmp_path: Path):
    subprocess.run(["cp", "-r", str(certificates / "server"), str(tmp_path)], check=True)
    key = tmp_path / "server" / "server.key"
    key.chmod(0o600)
    read_tls(key.parent, "server")
    key.chmod(0o640)
    with pytest.warns(UserWarning, match=r"others than its owner may read or change .*server\.key"):
        read_tls(key.parent, "server")

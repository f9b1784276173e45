"""Mutual TLS: without a certificate of the authority, in one's own name, nobody gets in."""

from __future__ import annotations

import re
import shutil
import stat
from pathlib import Path

import grpc
import pytest
from cryptography import x509

from tests.server.grpc.processes import Process, Site
from tests.waiting import PATIENCE
from zofedht.common.errors import ConfigError, DataError
from zofedht.common.tls import check_plain_text, read_tls
from zofedht.server.__main__ import main
from zofedht.server.certificates import expand_names, make_certificates

HINT = "the certificates in --tls-dir must be valid and of the server's authority"


def stranger(site: Site, folder: Path, name: str = "c0", *options: str) -> Process:
    """Start a client with the certificates in ``folder``."""
    return site.client(name, "--tls-dir", folder, *options)


def turned_away(client: Process, server: Process, why: str = HINT) -> None:
    """Wait until the client has said why it does not get in; it goes on trying."""
    client.says(rf"no connection to .*{re.escape(why)}.*; trying again in")
    assert "joined" not in client.text + server.text


def test_another_authoritys_certificate_is_refused(secure_site: Site, tmp_path: Path):
    server = secure_site.server()
    make_certificates(tmp_path / "other", [], ["c0"], 10.0)
    # With the right ca.crt the client trusts the server; it is the server that must not trust the client.
    shutil.copy(secure_site.certificates / "server" / "ca.crt", tmp_path / "other" / "clients" / "c0" / "ca.crt")
    client = stranger(secure_site, tmp_path / "other" / "clients" / "c0")
    turned_away(client, server)


def test_a_client_refuses_another_authority(secure_site: Site, tmp_path: Path):
    server = secure_site.server()
    make_certificates(tmp_path / "other", [], ["c0"], 10.0)
    client = stranger(secure_site, tmp_path / "other" / "clients" / "c0")
    turned_away(client, server)


def test_an_expired_certificate_is_refused(site: Site, tmp_path: Path):
    site.certificates = tmp_path / "certs"
    make_certificates(site.certificates, ["127.0.0.1"], [], 10.0)
    make_certificates(site.certificates, [], ["c0"], -1.0)
    server = site.server()
    client = stranger(site, tmp_path / "certs" / "clients" / "c0")
    turned_away(client, server)


def test_an_expired_server_is_refused(site: Site, tmp_path: Path):
    site.certificates = tmp_path / "certs"
    make_certificates(site.certificates, [], ["c0"], 10.0)
    make_certificates(site.certificates, ["127.0.0.1"], [], -1.0)
    server = site.server()
    client = stranger(site, tmp_path / "certs" / "clients" / "c0")
    turned_away(client, server)


def test_another_server_name_must_be_given(site: Site, tmp_path: Path):
    site.certificates = tmp_path / "certs"
    make_certificates(site.certificates, ["trainer.example"], ["c0"], 10.0)
    server = site.server()
    client = stranger(site, tmp_path / "certs" / "clients" / "c0")
    client.says("the server's certificate does not hold the name '127.0.0.1'; give --server-name a name that is in it")
    assert "joined" not in server.text
    knowing = stranger(site, tmp_path / "certs" / "clients" / "c0", "c0", "--server-name", "trainer.example")
    knowing.says("joined")


def test_another_client_name_is_refused(secure_site: Site):
    secure_site.server()
    client = stranger(secure_site, secure_site.certificates / "clients" / "c0", "c1")
    assert client.ends() == 2
    assert "a client's name must be that of its certificate, 'c0', got 'c1'; use --name c0" in client.text
    assert "trying again" not in client.text


def test_the_servers_certificate_admits_no_client(secure_site: Site, tmp_path: Path):
    server = secure_site.server()
    (tmp_path / "stolen").mkdir()
    for name in ("ca.crt", "server.crt", "server.key"):
        shutil.copy(secure_site.certificates / "server" / name, tmp_path / "stolen" / name.replace("server", "client"))
    turned_away(stranger(secure_site, tmp_path / "stolen", "zofedht-server"), server, "")


@pytest.mark.parametrize("trusting", [True, False])
def test_without_a_certificate_there_is_no_answer(secure_site: Site, trusting: bool):
    secure_site.server()
    address = f"127.0.0.1:{secure_site.port}"
    authority = (secure_site.certificates / "server" / "ca.crt").read_bytes()
    channel = (
        grpc.secure_channel(address, grpc.ssl_channel_credentials(authority))
        if trusting
        else grpc.insecure_channel(address)
    )
    with channel:
        for method in ("/flwr.proto.FlowerService/Join", "/grpc.health.v1.Health/Watch"):
            with pytest.raises(grpc.RpcError) as caught:
                next(channel.stream_stream(method)(iter([b""]), timeout=PATIENCE))
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_plain_text_needs_an_option(tmp_path: Path):
    for address, where in (("127.0.0.1:1", ""), ("10.0.0.7:8080", ", which leaves this machine")):
        sentence = f"--tls-dir DIR is needed for {address}{where};.*--insecure sends all messages as plain text"
        with pytest.raises(ConfigError, match=sentence):
            check_plain_text(address, False, None)
        check_plain_text(address, True, None)
    with pytest.raises(ConfigError, match="exclude each other"):
        check_plain_text("127.0.0.1:1", True, tmp_path)


@pytest.mark.parametrize("command", ["serve", "join"])
def test_both_commands_refuse_plain_text_in_a_sentence(site: Site, command: str):
    if command == "serve":
        process = site.run("zofedht.server.__main__", ["serve", "--address", "127.0.0.1:0", "--out", "o"])
    else:
        process = site.run("zofedht.client.__main__", ["join", "--server", "127.0.0.1:1"])
    assert process.ends() == 2
    assert "--tls-dir DIR is needed for 127.0.0.1" in process.text


def test_a_missing_file_is_named(tmp_path: Path):
    make_certificates(tmp_path, ["localhost"], [], 1.0)
    (tmp_path / "server" / "server.key").unlink()
    with pytest.raises(DataError, match=r"server\.key cannot be read .*make-certs"):
        read_tls(tmp_path / "server", "server")


def test_keys_are_for_their_owner_alone(tmp_path: Path):
    make_certificates(tmp_path, ["localhost"], ["a", "b"], 1.0)
    keys = sorted(tmp_path.rglob("*.key"))
    assert len(keys) == 4
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}


def test_clients_can_be_added_later(tmp_path: Path):
    make_certificates(tmp_path, ["localhost"], ["a"], 1.0)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    made = make_certificates(tmp_path, ["localhost"], ["a", "b"], 1.0)
    assert made == [tmp_path / "clients" / "b"]
    assert {path: path.read_bytes() for path in before} == before
    authority = x509.load_pem_x509_certificate((tmp_path / "authority" / "ca.crt").read_bytes())
    added = x509.load_pem_x509_certificate((tmp_path / "clients" / "b" / "client.crt").read_bytes())
    added.verify_directly_issued_by(authority)
    assert (tmp_path / "clients" / "b" / "ca.crt").read_bytes() == (tmp_path / "authority" / "ca.crt").read_bytes()


def test_a_missing_server_name_is_refused(tmp_path: Path):
    make_certificates(tmp_path, ["localhost", "127.0.0.1"], ["a"], 1.0)
    with pytest.raises(DataError, match=r"server.crt must be for other.example, got localhost, 127.0.0.1; delete it"):
        make_certificates(tmp_path, ["other.example", "localhost"], ["b"], 1.0)
    assert not (tmp_path / "clients" / "b").exists()
    certificate = tmp_path / "server" / "server.crt"
    certificate.unlink()
    assert make_certificates(tmp_path, ["other.example"], [], 1.0) == [tmp_path / "server"]
    certificate.write_text("no certificate")
    with pytest.raises(DataError, match="cannot be read"):
        make_certificates(tmp_path, [], ["b"], 1.0)


def test_adding_clients_needs_no_server_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for options in (["--server-names", "other.example", "--clients", "a"], ["--clients", "b"]):
        assert main(["make-certs", "--out", str(tmp_path), *options]) == 0
    assert (tmp_path / "clients" / "b" / "client.crt").exists()
    assert main(["make-certs", "--out", str(tmp_path), "--server-names", "127.0.0.1"]) == 2
    assert "must be for 127.0.0.1, got other.example" in capsys.readouterr().err


def test_plain_text_to_a_tls_server_names_the_option(secure_site: Site):
    server = secure_site.server()
    client = secure_site.client("c0", "--insecure")
    turned_away(client, server, "a server that speaks TLS hangs up on --insecure: give --tls-dir instead")


def test_no_client_gets_the_authoritys_key(tmp_path: Path):
    [folder] = make_certificates(tmp_path, [], ["a"], 1.0)
    assert sorted(path.name for path in folder.iterdir()) == ["ca.crt", "client.crt", "client.key"]


def test_names_are_a_list_with_ranges():
    assert expand_names("a, b,client-8..client-11,") == ["a", "b", "client-8", "client-9", "client-10", "client-11"]
    for bad in ("client-1..other-2", "client-5..client-1", "a..b", "client-1..client-99999"):
        with pytest.raises(DataError, match="a range of names must be written"):
            expand_names(bad)
    for bad in ("../up", "..", "a/b", "x" * 65, "a\x07"):
        with pytest.raises(DataError):
            expand_names(bad)

"""What the page answers, and to whom."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.server.page.runs import begin, record, write
from tests.waiting import PATIENCE, free_port, until
from zofedht.common.errors import ConfigError, DataError
from zofedht.server.admission.revoked import serial_of
from zofedht.server.certificates import make_certificates
from zofedht.server.page.access import PageOptions
from zofedht.server.page.serving import show_page, watch
from zofedht.server.records.run_folder import RunFolder

EVERYWHERE = "0.0.0.0:0"


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    text: str


class Page:
    """A page that is served, and what it answers."""

    def __init__(self, folder: RunFolder, port: int, said: str) -> None:
        self.folder, self.port, self.said = folder, port, said

    def get(self, path: str = "/", method: str = "GET", **headers: str) -> Answer:
        connection = self._connect()
        with closing(connection):
            connection.request(method, path, headers=_named(headers))
            with connection.getresponse() as answer:
                return Answer(answer.status, answer.headers, answer.read().decode())  # type: ignore[arg-type]

    def events(self, **headers: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield id and content of each event."""
        connection = self._connect()
        connection.request("GET", "/events", headers=_named(headers))
        with closing(connection), connection.getresponse() as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            id_ = ""
            while line := answer.readline().decode():
                kind, _, value = line.rstrip("\n").partition(": ")
                if kind == "id":
                    id_ = value
                elif kind == "data":
                    yield id_, json.loads(value)

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@contextmanager
def served(folder: RunFolder, address: str = "127.0.0.1:0", **options: Path) -> Iterator[Page]:
    said: list[str] = []
    with show_page(folder.path, PageOptions(address, **options), said.append) as port:
        yield Page(folder, port, said[0])


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    folder = begin(tmp_path / "run")
    write(folder, record(0), record(1))
    with folder, served(folder) as page:
        yield page


def test_the_page_and_its_parts_are_there(page: Page):
    text = page.get().text
    assert "<h1>" in text
    for name in re.findall(r'(?:src|href)="/([\w.]+)"', text):
        assert page.get(f"/{name}").status == 200, name
    for name in re.findall(r'from "\./([\w.]+)"', page.get("/page.js").text):
        assert page.get(f"/{name}").status == 200, name
    assert page.said == f"page: http://127.0.0.1:{page.port}/"


def test_nothing_comes_from_elsewhere(page: Page):
    for name in ("", "page.css", "page.js", "chart.js", "tables.js"):
        text = page.get(f"/{name}").text
        assert not set(re.findall(r"https?://[\w.]+", text)) - {"http://www.w3.org"}, name
        assert "innerHTML" not in text  # what a client says is never read as markup
    rules = page.get().headers.get("content-security-policy", "")
    assert rules.startswith("default-src 'none';")
    assert "unsafe" not in rules
    assert not re.search(r" (style|on\w+)=", page.get().text)


def test_every_answer_has_the_headers(page: Page):
    for path in ("/", "/nothing", "/points", "/files/config.toml"):
        answer = page.get(path)
        assert answer.headers.get("x-content-type-options") == "nosniff"
        assert answer.headers.get("cache-control") == "no-store"
        assert "frame-ancestors 'none'" in answer.headers.get("content-security-policy", "")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_the_page_can_only_be_read(page: Page, method: str):
    assert page.get("/", method).status == 405


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "192.0.2.1:8088", ""])
def test_other_hosts_are_refused(page: Page, host: str):
    """A name that another site points at this machine gets nothing (DNS rebinding)."""
    assert page.get("/", Host=host).status == 421
    assert page.get("/events", Host=host).status == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "127.0.0.1", "[::1]:8088", "[::1]"])
def test_names_of_this_machine_are_answered(page: Page, host: str):
    assert page.get("/", Host=host).status == 200


def test_files_can_be_had_but_no_others(page: Page):
    answer = page.get("/files/history.jsonl")
    assert answer.text == page.folder.history_file.read_text()
    assert "attachment" in answer.headers.get("content-disposition", "")
    (page.folder.path / "secret").write_text("secret")
    for name in ("secret", "run.json", "run.lock", "..%2fsecret", "summary.json", "checkpoints/x"):
        assert page.get(f"/files/{name}").status == 404, name


def test_a_part_of_the_curve_can_be_asked_for(page: Page):
    assert [point[0] for point in json.loads(page.get("/points?from=1&to=9").text)] == [1]
    for query in ("", "?from=1", "?from=a&to=b"):
        assert page.get(f"/points{query}").status == 400


def test_rounds_arrive_as_they_are_written(page: Page):
    events = page.events()
    _, message = next(events)
    assert [point[0] for point in message["points"]] == [0, 1]
    write(page.folder, record(2))
    _, message = next(events)
    assert [point[0] for point in message["points"]] == [2]


def test_a_stream_resumes_by_its_last_id(page: Page):
    id_, _ = next(page.events())
    write(page.folder, record(2))
    with served(page.folder) as later:
        _, message = next(later.events(Last_Event_ID=id_))
    assert [point[0] for point in message["points"]] == [2]
    assert not message["reset"]


def test_the_last_news_arrives_before_the_end(tmp_path: Path):
    folder = begin(tmp_path / "run")
    with served(folder) as page:
        events = page.events()
        next(events)
        write(folder, record(0))
    assert [point[0] for _, message in events for point in message.get("points", [])] == [0]


def test_silent_connections_do_not_pile_up(page: Page, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("zofedht.server.page.careful_http._MOST_CONNECTIONS", 3)
    silent = [socket.create_connection(("127.0.0.1", page.port)) for _ in range(4)]
    silent[-1].settimeout(PATIENCE)
    with suppress(ConnectionError):
        assert silent[-1].recv(1) == b""
    for one in silent:
        one.close()
    until(lambda: _status(page) == 200, "an answer once the others are gone")


def _status(page: Page) -> int:
    try:
        return page.get().status
    except OSError:
        return 0


def test_who_says_nothing_is_hung_up_on(page: Page, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("zofedht.server.page.careful_http._SECONDS_TO_SPEAK", 0.1)
    with socket.create_connection(("127.0.0.1", page.port), timeout=PATIENCE) as silent:
        silent.sendall(b"GET / HTT")
        with suppress(ConnectionError):
            assert silent.recv(1) == b""


@pytest.mark.parametrize("address", [EVERYWHERE, "192.0.2.1:80", "example.org:80"])
def test_beyond_this_machine_a_key_is_needed(tmp_path: Path, address: str):
    with pytest.raises(ConfigError, match=r"leaves this machine, so it needs --page-token FILE, or --tls-dir"):
        PageOptions(address).check()


def test_an_address_in_use_is_one_sentence(page: Page):
    with (
        pytest.raises(ConfigError, match=r"--page 127.0.0.1:\d+ cannot be bound: Address already in use"),
        served(page.folder, f"127.0.0.1:{page.port}"),
    ):
        pass


def test_the_port_is_free_again_at_once(page: Page):
    port = free_port()
    for _ in range(2):
        with served(page.folder, f"127.0.0.1:{port}") as again:
            next(again.events())


def test_a_token_opens_the_page(tmp_path: Path):
    file = tmp_path / "token"
    with served(begin(tmp_path / "run"), EVERYWHERE, token_file=file) as page:
        token = file.read_text().strip()
        assert file.stat().st_mode & 0o077 == 0
        assert token not in page.said
        for path in ("/", "/events", "/points", "/files/config.toml", "/page.js", "/?token=wrong"):
            answer = page.get(path)
            assert answer.status == 401
            assert token not in answer.text
        assert page.get(authorization="Bearer " + token[:-1]).status == 401
        assert page.get(authorization=f"Bearer {token}").status == 200
        answer = page.get(f"/?token={token}")
        assert (answer.status, answer.headers.get("location")) == (303, "/")
        cookie = answer.headers.get("set-cookie", "")
        assert {"HttpOnly", "SameSite=strict"} <= set(cookie.split("; "))
        assert page.get(cookie=cookie.partition(";")[0]).status == 200
    with served(RunFolder(tmp_path / "run"), token_file=file) as page:
        assert page.get(authorization=f"Bearer {token}").status == 200


@pytest.mark.parametrize("text", ["", "short\n", "two words of a long text\n", "äöüäöüäöüäöüäöüäöü\n"])
def test_a_poor_token_is_refused(tmp_path: Path, text: str):
    (tmp_path / "token").write_text(text)
    with (
        pytest.raises(DataError, match=r"--page-token .* must hold one word of 16 or more"),
        served(begin(tmp_path / "run"), token_file=tmp_path / "token"),
    ):
        pass


def test_with_certificates_a_browser_shows_one(tmp_path: Path):
    make_certificates(tmp_path, ["127.0.0.1"], ["a"], 10.0)
    context = ssl.create_default_context(cafile=tmp_path / "server" / "ca.crt")
    with served(begin(tmp_path / "run"), EVERYWHERE, tls_dir=tmp_path / "server") as page:
        assert page.said.startswith("page: https://")
        with pytest.raises(OSError):  # noqa: PT011  (refused in the handshake, or after it)
            secure_status(page.port, context)
        context.load_cert_chain(tmp_path / "clients" / "a" / "client.crt", tmp_path / "clients" / "a" / "client.key")
        assert secure_status(page.port, context) == 200


def test_a_refused_certificate_sees_nothing(tmp_path: Path):
    """Not even on a connection that it has held since before it was refused."""
    make_certificates(tmp_path, ["127.0.0.1"], ["a", "b"], 10.0)
    refused: set[str] = set()
    contexts = {name: context_of(tmp_path, name) for name in ("a", "b")}
    serial = serial_of((tmp_path / "clients" / "b" / "client.crt").read_bytes())
    options = PageOptions(EVERYWHERE, tls_dir=tmp_path / "server")
    folder, said = begin(tmp_path / "run"), list[str]()
    with show_page(folder.path, options, said.append, lambda *holder: bool(refused & set(holder))) as port:
        held = socket.create_connection(("127.0.0.1", port))
        with contexts["b"].wrap_socket(held, server_hostname="127.0.0.1") as open_line:
            open_line.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert open_line.recv(12).startswith(b"HTTP/1.1")
            for entry in ("b", serial):
                refused.add(entry)
                with pytest.raises(OSError):  # noqa: PT011
                    secure_status(port, contexts["b"])
                assert secure_status(port, contexts["a"]) == 200
                if entry == "b":
                    open_line.settimeout(PATIENCE)
                    with suppress(ConnectionError):
                        while open_line.recv(65536):
                            pass
                refused.clear()


def context_of(certificates: Path, name: str) -> ssl.SSLContext:
    """Return what a browser with this client's certificate connects by."""
    context = ssl.create_default_context(cafile=certificates / "server" / "ca.crt")
    context.load_cert_chain(*(certificates / "clients" / name / f"client.{kind}" for kind in ("crt", "key")))
    return context


def secure_status(port: int, context: ssl.SSLContext) -> int:
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=PATIENCE)
    with closing(connection):
        connection.request("GET", "/")
        with connection.getresponse() as answer:
            return answer.status


def test_certificates_that_are_missing_are_named(tmp_path: Path):
    with (
        pytest.raises(DataError, match=r"--tls-dir .* must hold ca.crt, server.crt and server.key"),
        served(begin(tmp_path / "run"), EVERYWHERE, tls_dir=tmp_path),
    ):
        pass


def test_a_folder_without_a_run_is_not_watched(tmp_path: Path):
    with pytest.raises(DataError, match=r"holds no run"):
        watch(tmp_path, PageOptions("127.0.0.1:0"), lambda text: None, lambda name, serial: False)

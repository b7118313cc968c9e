"""HTTP of attackers, proxies and unusual clients: forwarded unchanged, or refused with one line."""

import json
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from plugins.record.conftest import recording
from plugins.record.standin import scripted
from plugins.record.test_proxy import raw

X = "/anthropic/x"


def ask(recorded, head, body=b"", *, close=True):
    """Send raw bytes, with `{host}` replaced by the recorder's; return the status and the bytes after the headers."""
    netloc = urlsplit(recorded.address).netloc
    text = head.replace("{host}", netloc) + ("\r\nConnection: close" if close else "") + "\r\n\r\n"
    answer = raw(recorded.address, text.encode("latin-1") + body)
    begin, _, rest = answer.partition(b"\r\n\r\n")
    return int(begin.split(b" ")[1]), rest


@pytest.fixture(scope="module")
def refusing(tmp_path_factory):
    """A recorder in front of a server that answers everything; refused requests are not recorded."""
    path = tmp_path_factory.mktemp("refused") / "c.jsonl"
    with (
        scripted(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nasked") as server,
        recording(path, f"anthropic={server}") as recorded,
    ):
        yield recorded


@pytest.mark.parametrize(
    ("head", "body", "status"),
    [
        ("POST /anthropic/x/echo HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
         b"0\r\n\r\nGET /anthropic/x/echo HTTP/1.1\r\n\r\n", 400),
        ("POST /anthropic/x/echo HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1\r\nContent-Length: 2", b"ab", 400),
        ("POST /anthropic/x/echo HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding : chunked", b"0\r\n\r\n", 400),
        ("GET /anthropic/x/echo HTTP/1.1\r\nHost: {host}\r\nHost: {host}", b"", 400),
        ("PRI * HTTP/2.0", b"SM\r\n\r\n", 505),
        ("GET /anthropic/x/echo HTTP/1.1\r\nHost: {host}\r\nOrigin: https://evil.example", b"", 403),
        ("GET /anthropic/x/echo HTTP/1.1\r\nHost: {host}\r\nOrigin: null", b"", 403),
        ("OPTIONS /anthropic/v1/messages HTTP/1.1\r\nHost: {host}\r\nOrigin: http://localhost:3000", b"", 403),
        ("GET http://evil.example/anthropic/x/echo HTTP/1.1\r\nHost: {host}", b"", 403),
        ("GET https://{host}/anthropic/x/echo HTTP/1.1\r\nHost: {host}", b"", 403),
        ("GET http://{host}@evil.example/anthropic/x/echo HTTP/1.1\r\nHost: {host}", b"", 403),
        ("GET //evil.example/anthropic HTTP/1.1\r\nHost: {host}", b"", 404),
        ("GET /@evil.example/ HTTP/1.1\r\nHost: {host}", b"", 404),
        ("GET /anthropic@evil.example/ HTTP/1.1\r\nHost: {host}", b"", 404),
        ("GET /anthropic:443@evil.example/ HTTP/1.1\r\nHost: {host}", b"", 404),
        ("GET /../anthropic/x/echo HTTP/1.1\r\nHost: {host}", b"", 404),
        ("OPTIONS * HTTP/1.1\r\nHost: {host}", b"", 403),
        ("GET /anthropic/v1/realtime HTTP/1.1\r\nHost: {host}\r\nUpgrade: WebSocket\r\nConnection: Upgrade", b"", 426),
        ("GET http://evil.example/ HTTP/1.1\r\nHost: evil.example", b"", 403),
        ("CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443", b"", 403),
        ("CONNECT evil.example:443 HTTP/1.1\r\nHost: {host}", b"", 403),
        ("GET /anthropic/x/echo HTTP/1.1\r\nHost: {host}.evil.example", b"", 403),
        ("GET /anthropic/x/echo HTTP/1.0\r\nX: y", b"", 403),
        ("POST /anthropic/x/echo HTTP/1.1\r\nHost: {host}\r\nSec-Fetch-Site: cross-site", b"", 403),
    ],
)  # fmt: skip
def test_ambiguous_or_foreign_request_is_refused(head, body, status, refusing):
    assert ask(refusing, head, body, close=False)[0] == status
    assert refusing.calls() == []


@pytest.mark.parametrize(("target", "sent"), [
    ("http://{host}/anthropic/x/echo", "/x/echo"),
    ("HTTP://{host}/anthropic/x/echo", "/x/echo"),
    ("/anthropic//evil.example/x", "//evil.example/x"),
    ("/anthropic/@evil.example:1/x", "/@evil.example:1/x"),
    ("/anthropic/http://evil.example/", "/http://evil.example/"),
    ("/anthropic/..%2f..%2fx%00%0d%0aHost:%20evil", "/..%2f..%2fx%00%0d%0aHost:%20evil"),
    ("/anthropic/../../x", "/x"),
    ("/anthropic?x#y", "/?x%23y"),
    ('/anthropic/{"a":"<b>"}', "/%7B%22a%22:%22%3Cb%3E%22%7D"),
])  # fmt: skip
def test_path_never_selects_another_server(target, sent, tmp_path):
    got, back = [], b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    with scripted(back, got=got) as server, recording(tmp_path / "c.jsonl", f"anthropic={server}") as recorded:
        assert ask(recorded, f"GET {target} HTTP/1.1\r\nHost: {{host}}") == (200, b"ok")
        assert recorded.last()[0]["url"].startswith(server + "/")
    assert got[0].split(b"\r\n")[0] == f"GET {sent} HTTP/1.1".encode()
    assert f"\r\nhost: {urlsplit(server).netloc}\r\n".encode() in got[0].lower()


def test_trailers_of_a_request_are_left_out(recorded, standin):
    chunks = b'3;name="x"\r\nabc\r\n2\r\nde\r\n0\r\nX-Checksum: 1\r\nTrailer-Two: 2\r\n\r\n'
    head = f"POST {X}/echo HTTP/1.1\r\nHost: {{host}}\r\nTransfer-Encoding: chunked\r\nTrailer: X-Checksum"
    assert ask(recorded, head, chunks) == (200, b"abcde")
    assert recorded.last()[0]["body"] == "abcde"
    assert not {b"trailer", b"x-checksum"} & standin.got[-1][2].keys()


def test_headers_beyond_the_limit_are_refused(tmp_path):
    got = []
    with (
        scripted(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", got=got) as server,
        recording(tmp_path / "c.jsonl", f"anthropic={server}") as recorded,
    ):
        head = "GET /anthropic/ HTTP/1.1\r\nHost: {host}\r\nX-Long: "
        assert ask(recorded, head + "y" * 300_000) == (200, b"ok")
        with suppress(ConnectionError):  # it closes before it has read all
            assert ask(recorded, head + "y" * 1_500_000, close=False)[0] == 400
    assert len(got) == 1
    assert len(got[0]) > 300_000


def test_answer_to_head_has_length_and_no_body(tmp_path):
    with (
        scripted(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n") as server,
        recording(tmp_path / "c.jsonl", f"anthropic={server}") as recorded,
    ):
        host = urlsplit(recorded.address).netloc.encode()
        answer = raw(recorded.address, b"HEAD /anthropic/ HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n")
        assert b"\r\ncontent-length: 500\r\n" in answer.lower()
        assert answer.endswith(b"\r\n\r\n")
        assert recorded.answer()[0]["ended"] == "complete"


def test_refusals_are_counted_and_reported_once(tmp_path):
    with recording(tmp_path / "c.jsonl", "anthropic=http://127.0.0.1:9") as recorded:
        for _ in range(3):
            status, body = ask(recorded, "GET /anthropic/v1/realtime HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket")
            assert (status, json.loads(body)["error"]["type"]) == (426, "lore_record")
        assert recorded.recorder.counts.refused == 3
        assert len([text for text in recorded.told if "WebSockets" in text]) == 1


@pytest.mark.parametrize(("answer", "status"), [
    (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n\x00\x01", 502),
    (b"HTTP/1.1 999 Own\r\nContent-Length: 2\r\n\r\nok", 502),
    (b"HTTP/1.0 200 OK\r\n\r\nuntil it closes", 200),
    (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\xff\xfe", 200),
])  # fmt: skip
def test_odd_answer_passes_or_is_a_502(answer, status, tmp_path):
    with scripted(answer) as server, recording(tmp_path / "c.jsonl", f"anthropic={server}") as recorded:
        found, body = ask(recorded, "GET /anthropic/ HTTP/1.1\r\nHost: {host}")
        assert found == status
        assert (recorded.answer()[0]["ended"] == "complete") == (status != 502)
        if status != 502:
            assert (
                body.replace(b"f\r\nuntil it closes\r\n0\r\n\r\n", b"until it closes")
                == answer.partition(b"\r\n\r\n")[2]
            )

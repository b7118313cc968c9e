"""The proxy forwards everything unchanged, names failures, and records before it forwards."""

import base64
import hashlib
import json
import socket
import threading
from urllib.parse import urlsplit

import httpx
import pytest

from lore_plugins.record import journal
from plugins.record.conftest import recording
from plugins.record.standin import StandIn, scripted, served, wait_until

X = "/anthropic/x"


@pytest.fixture(scope="module")
def client(recorded):
    with httpx.Client(base_url=recorded.address, timeout=60, trust_env=False) as made:
        yield made


def raw(address, data):
    """Send raw bytes; return everything until the other side closes."""
    url = urlsplit(address)
    with socket.create_connection((url.hostname, url.port), timeout=30) as connection:
        connection.sendall(data)
        found = b""
        while piece := connection.recv(65536):
            found += piece
        return found


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
def test_any_method_passes_with_path_and_query(method, client, standin, recorded):
    target = "/x/echo/200/%C3%A9%2F:a?alt=sse&key=SECRET&x="
    answer = client.request(method, f"/anthropic{target}", headers={"x-odd": "1, 2"})
    got = standin.got[-1]
    assert got[:2] == (method, target)
    assert got[2][b"x-odd"] == b"1, 2"
    assert answer.status_code == 200
    assert recorded.last()[0]["url"].endswith("?alt=sse&key=REDACTED&x")


def test_server_gets_its_own_host_header(client, standin, upstream):
    client.post(f"{X}/echo", content=b"{}", headers={"connection": "keep-alive, x-hop", "x-hop": "1", "te": "trailers"})
    headers = standin.got[-1][2]
    assert headers[b"host"].decode() == urlsplit(upstream).netloc
    assert not headers.keys() & {b"x-hop", b"te", b"connection", b"keep-alive", b"transfer-encoding"}


def test_errors_and_redirects_pass_to_the_client(client, recorded):
    for status in (204, 301, 307, 400, 429, 500, 529):
        answer = client.post(f"{X}/status/{status}", content=b"{}")
        assert answer.status_code == status
        assert (answer.headers["retry-after"], answer.headers["location"]) == ("3", "https://elsewhere.example/")
        assert (recorded.answer()[0]["status"], recorded.answer()[0]["ended"]) == (status, "complete")


def test_compressed_answer_passes_unchanged(client, recorded):
    with client.stream("GET", f"{X}/gzip") as answer:
        packed = b"".join(answer.iter_raw())
    assert packed[:2] == b"\x1f\x8b"
    assert recorded.answer()[1] == packed
    assert recorded.answer()[0]["headers"]["content-encoding"] == "gzip"
    with client.stream("GET", f"{X}/broken") as answer:
        assert b"".join(answer.iter_raw()) == b"\x1f\x8bnot gzip at all"


def test_chunk_passes_before_the_next_arrives(client, standin, recorded):
    standin.go.clear()
    with client.stream("POST", f"{X}/waits", content=b"{}") as answer:
        pieces = answer.iter_raw()
        assert next(pieces) == b"data: 1\n\n"  # the server sends the second after this
        wait_until(
            lambda: any(record.get("more") for record in recorded.calls()[-1][1:]), seconds=60
        )  # written meanwhile
        standin.go.set()
        assert b"".join(pieces) == b"data: 2\n\n"
    assert "".join(record.get("body", "") for record in recorded.last()[1:]) == "data: 1\n\ndata: 2\n\n"


def test_chunked_and_announced_bodies_pass(client, recorded):
    assert client.post(f"{X}/echo", content=iter([b"a", "é".encode(), b"b"])).content == "aéb".encode()
    assert recorded.last()[0]["body"] == "aéb"
    host = urlsplit(recorded.address).netloc.encode()
    head = b"POST /anthropic/x/echo HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n"
    answer = raw(recorded.address, head + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\nhi")
    assert answer.startswith(b"HTTP/1.1 100 ")
    assert answer.endswith(b"\r\n\r\nhi")


@pytest.mark.parametrize("answer", [
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nwhole\r\n0\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\n\r\n",
])  # fmt: skip
def test_answer_is_written_before_it_is_sent(answer, tmp_path, monkeypatch):
    """With a slow disk a crash could once lose an answer that the client had."""
    answered, early, append = threading.Event(), list[bool](), journal.Journal.append

    def slow(self, line):
        if b'"response"' in line:
            early.append(answered.wait(0.1))
        return append(self, line)

    monkeypatch.setattr(journal.Journal, "append", slow)
    with scripted(answer) as upstream, recording(tmp_path / "c.jsonl", upstream) as alone:
        httpx.post(f"{alone.address}/anthropic/v1/messages", json={}, trust_env=False, timeout=60)
        answered.set()
    assert early
    assert not any(early)


def test_large_bodies_pass_in_pieces(upstream, standin, tmp_path):
    chunk = bytes(range(256)) * 4096  # a megabyte that is no text
    whole = hashlib.sha256(chunk * 8).hexdigest()
    answer, longest = hashlib.sha256(), 0
    kept = {"request": hashlib.sha256(), "response": hashlib.sha256()}
    with recording(tmp_path / "c.jsonl", upstream) as large:
        url = f"{large.address}{X}/echo"
        with httpx.stream("POST", url, content=iter([chunk] * 8), trust_env=False, timeout=300) as stream:
            for piece in stream.iter_raw():
                answer.update(piece)
        with large.path.open("rb") as file:
            for line in file:
                record = json.loads(line)
                longest = max(longest, len(line))
                if "call" in record:
                    data = base64.b64decode(record.get("base64", "")) or record.get("body", "").encode()
                    kept[record["part"]].update(data)
    standin.got.pop()
    assert answer.hexdigest() == whole
    assert {side: found.hexdigest() for side, found in kept.items()} == dict.fromkeys(kept, whole)
    assert longest < 1024 * 1024  # a piece at a time is held, not a body


def test_slow_client_holds_its_server_back(recorded, standin):
    standin.sent, standin.left = 0, 0
    standin.gone.clear()
    url = urlsplit(recorded.address)
    with socket.create_connection((url.hostname, url.port)) as connection:
        connection.sendall(b"GET %s/endless HTTP/1.1\r\nHost: %s\r\n\r\n" % (X.encode(), url.netloc.encode()))
        seen = -1
        while seen != standin.sent or not seen:  # until it is held back
            seen = standin.sent
            threading.Event().wait(0.5)
        assert standin.sent < 64 * 1024 * 1024
    assert standin.gone.wait(60), "the server does not know that its client left"
    wait_until(lambda: recorded.calls()[-1][-1].get("ended") == "the client left", seconds=60)


def test_client_that_leaves_early_is_not_answered(recorded):
    url, before = urlsplit(recorded.address), len(recorded.calls())
    with socket.create_connection((url.hostname, url.port)) as connection:
        head = b"POST %s/echo HTTP/1.1\r\nHost: %s\r\nContent-Length: 99\r\n\r\n" % (X.encode(), url.netloc.encode())
        connection.sendall(head + b"half")
        wait_until(lambda: recorded.recorder.counts.open, seconds=60)
    wait_until(lambda: len(recorded.calls()) > before)
    assert recorded.last()[0].get("body", "") in ("", "half")
    assert recorded.last()[0]["ended"] == "the client left"


def test_unknown_path_is_answered_with_known_ones(tmp_path):
    with recording(tmp_path / "c.jsonl", "openai=http://127.0.0.1:9") as alone:
        answer = httpx.post(f"{alone.address}/v1/messages", json={}, trust_env=False)
        assert answer.status_code == 404
        assert "/openai/" in answer.json()["error"]["message"]
        assert alone.recorder.counts.refused == 1


def test_unreachable_server_is_a_502(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    with recording(tmp_path / "c.jsonl", address) as alone:
        answer = httpx.post(f"{alone.address}/anthropic/v1/messages", json={}, trust_env=False)
        assert answer.status_code == 502
        assert address in answer.json()["error"]["message"]
        assert [text for text in alone.told if address in text]
        request, response = alone.last()
        assert request["ended"] == response["ended"]
        assert response["ended"].startswith("no answer from the upstream")


@pytest.mark.parametrize(("end", "lines"), [(b"", 1), (b',"usage":{"prompt_tokens":9}', 0), (b',"usage":null', 1)])
def test_stream_without_usage_is_explained_once(end, lines, tmp_path):
    chunk = b'data: {"choices":[]' + end + b"}\n\ndata: [DONE]\n\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"
    answer = head + b"Content-Length: %d\r\n\r\n" % len(chunk) + chunk
    with scripted(answer) as upstream, recording(tmp_path / "c.jsonl", upstream) as alone:
        for _ in range(2):
            httpx.post(f"{alone.address}/openai/v1/chat/completions", json={"stream": True}, trust_env=False)
        alone.last()
    assert len([text for text in alone.told if "include_usage" in text]) == lines


HOSTILE = {
    "endless headers": lambda connection: [connection.sendall(b"X-A: " + b"y" * 60_000 + b"\r\n") for _ in range(9999)],
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "nothing": b"",
    "a status of its own": b"HTTP/1.1 999999 \x1b[31m\r\n\r\n",
    "control characters": b"HTTP/1.1 200 OK\r\nX-\x00: \x07\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_server_without_http_is_a_502(name, tmp_path):
    answer = HOSTILE[name]
    begin = b"" if isinstance(answer, bytes) else b"HTTP/1.1 200 OK\r\n"
    script = answer if isinstance(answer, bytes) else lambda connection: (connection.sendall(begin), answer(connection))
    with scripted(script) as upstream, recording(tmp_path / "c.jsonl", upstream) as alone:
        found = httpx.post(f"{alone.address}/anthropic/v1/messages", json={}, trust_env=False, timeout=60)
        assert found.status_code == 502
        assert alone.last()[-1]["ended"].startswith("no answer")
        assert "\x1b" not in "".join(alone.told)


@pytest.mark.parametrize("answer", [
    b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\nzz\r\n",
])  # fmt: skip
def test_broken_answer_breaks_off_for_the_client(answer, tmp_path):
    with scripted(answer) as upstream, recording(tmp_path / "c.jsonl", upstream) as alone:
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.post(f"{alone.address}/anthropic/v1/messages", json={}, trust_env=False)
        wait_until(lambda: "ended" in alone.calls()[-1][-1], seconds=60)
        assert alone.answer()[1] == b"short"
        assert alone.last()[-1]["ended"].startswith("the upstream broke off")


def test_answer_before_the_end_of_the_request_passes(client):
    assert client.post(f"{X}/early", content=b"x" * 10).status_code == 413


def test_full_disk_stops_no_request(tmp_path, monkeypatch):
    standin = StandIn()
    with served(standin) as upstream, recording(tmp_path / "c.jsonl", upstream) as full:
        with monkeypatch.context() as patched:

            def refuse(*_):
                raise OSError(28, "No space left on device")

            patched.setattr(journal.os, "write", refuse)
            for number in range(3):
                body = b'{"lost":%d}' % number
                answer = httpx.post(f"{full.address}{X}/echo", content=body, trust_env=False)
                assert answer.content == body
        assert httpx.post(f"{full.address}{X}/echo", content=b'{"kept":1}', trust_env=False).status_code == 200
        assert full.recorder.counts.lost == 3
        assert [text for text in full.told if "no space left on device; requests are still forwarded" in text]
        assert len(full.told) == 2
        assert [call[0]["body"] for call in full.calls()] == ['{"kept":1}']


def test_calls_share_no_cookie_or_credential(client, standin, recorded):
    body = json.dumps({"model": "m", "messages": []}).encode()
    for _ in range(2):
        answer = client.post("/anthropic/v1/messages", content=body, headers={"authorization": "Bearer SECRET-TOKEN"})
        assert answer.headers["set-cookie"] == "session=SECRET-COOKIE"
        client.cookies.clear()
        assert b"cookie" not in standin.got[-1][2]
        assert standin.got[-1][2][b"authorization"] == b"Bearer SECRET-TOKEN"
    assert "SECRET" not in recorded.path.read_text("utf-8")

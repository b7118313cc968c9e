"""Recordings of a web server: what a server may do, and what it may not make lore do."""

from __future__ import annotations

import gzip
import threading
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from random import Random

import pytest

from cli.running import lore, put, session
from lore.recording import corpus, filesystem, remote
from lore.recording.remote import web as remote_web
from lore.store import registry

pytest.importorskip("httpx")
pytestmark = pytest.mark.usefixtures("desk")
LOG = session() * 3000


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_args):
        """Say nothing."""

    def do_GET(self):
        self.server.seen.append((self.path, dict(self.headers)))
        self.server.answer(self)

    def send(self, status, body=b"", **headers):
        """Answer; `torn` says how many bytes of the body come."""
        torn = headers.pop("torn", None)
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            if value is not None:
                self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body[:torn])
        self.close_connection = torn is not None or "Content_Length" in headers


@pytest.fixture(scope="module")
def listening():
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # a client that gives up
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def web(listening, monkeypatch):
    monkeypatch.setattr(remote, "PAUSE", 0.001)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    remote._source.cache_clear()
    registry.say_once.cache_clear()
    listening.seen = []
    listening.url = f"http://127.0.0.1:{listening.server_address[1]}"
    listening.answer = lambda request: request.send(200, LOG, ETag='"1"')
    yield listening
    remote.source_of(remote.place_of(f"{listening.url}/x"))._client.close()
    remote._source.cache_clear()


def read(name: str) -> bytes:
    return b"".join(corpus.pieces(name))


def failure(name: str) -> str:
    with pytest.raises(remote.RemoteError) as caught:
        read(name)
    return f"{caught.value.message}\n{caught.value.hint}"


def test_commands_answer_as_over_a_file(web):
    put("s.jsonl", session())
    web.answer = lambda request: request.send(200, session())
    name = f"{web.url}/s.jsonl"
    for words in (("fold", "@", "--json"), ("assemble", "@#1"), ("check", "@", "--json")):
        there, local = (lore(*(word.replace("@", name) for word in words)) for name in (name, "s.jsonl"))
        assert there.code == local.code
        if words[0] != "check":  # whose fingerprints are made of the name
            assert there.out.replace(name, "s.jsonl") == local.out
    assert all("If-Match" not in headers for _, headers in web.seen)


def test_what_breaks_off_is_gone_on_with_where_it_broke(web):
    def answer(request):
        start = int(request.headers.get("Range", "bytes=0-")[6:-1])
        rest, about = LOG[start:], {"ETag": '"1"'}
        if start:
            about["Content_Range"] = f"bytes {start}-{len(LOG) - 1}/{len(LOG)}"
        torn = len(rest) // 2 if len(web.seen) < 3 else None
        request.send(206 if start else 200, rest, torn=torn, **about)

    web.answer = answer
    assert read(f"{web.url}/s.jsonl") == LOG
    assert [headers.get("If-Match") for _, headers in web.seen] == [None, '"1"', '"1"']


def test_without_a_tag_the_time_is_the_condition(web):
    when = formatdate(1_700_000_000, usegmt=True)

    def answer(request):
        if request.headers.get("If-Unmodified-Since") == when:
            request.send(412)
        else:
            request.send(200, LOG, torn=len(LOG) // 2, Last_Modified=when)

    web.answer = answer
    assert "it changed while it was read" in failure(f"{web.url}/s.jsonl")


def test_what_has_no_tag_and_no_ranges_and_breaks_off_is_an_error(web):
    web.answer = lambda request: request.send(200, LOG, torn=len(LOG) // 2)
    assert "s.jsonl" in failure(f"{web.url}/s.jsonl")
    assert len(web.seen) == 1
    web.answer = lambda request: request.send(200, LOG, torn=len(LOG) // 2, ETag='"1"')
    assert "its server gives no ranges" in failure(f"{web.url}/s.jsonl")


class Clock:
    """Time passes while the body is waited for: so many seconds for each part that comes."""

    def __init__(self, monkeypatch, seconds):
        self.now, self.seconds = 0.0, seconds
        monkeypatch.setattr(remote_web, "monotonic", self)

    def __call__(self):
        self.now += self.seconds
        return self.now


def test_a_server_that_drips_is_asked_again_a_few_times_and_given_up(web, monkeypatch):
    """One that sent a byte a second was read for days: only a minute without any byte ended it."""
    Clock(monkeypatch, 61)
    web.answer = lambda request: request.send(200, LOG, ETag='"1"')
    assert "its server gives no ranges" in failure(f"{web.url}/s.jsonl")
    assert len(web.seen) == 2

    def answer(request):
        start = int(request.headers.get("Range", "bytes=0-")[6:-1])
        length = len(LOG)
        rest = {"Content_Range": f"bytes {start}-{length - 1}/{length}"} if start else {}
        request.send(206 if start else 200, LOG[start:], ETag='"1"', **rest)

    web.seen.clear()
    web.answer = answer
    monkeypatch.setattr(remote, "SMALL", len(LOG) + 1)  # no progress that would count
    assert "bytes came in 61 seconds" in failure(f"{web.url}/s.jsonl")
    assert len(web.seen) == remote.TRIES


def test_a_compressed_body_that_drips_is_timed_as_it_comes(web, monkeypatch):
    Clock(monkeypatch, 61)
    noise = gzip.compress(Random(1).randbytes(remote.PIECE))
    web.answer = lambda request: request.send(200, noise, Content_Encoding="gzip")
    assert "bytes came in 61 seconds" in failure(f"{web.url}/s.jsonl")


def test_a_slow_line_is_read_to_its_end_and_a_slow_reader_waited_for(web, monkeypatch):
    clock = Clock(monkeypatch, 10)
    web.answer = lambda request: request.send(200, LOG)
    came = b""
    for piece in corpus.pieces(f"{web.url}/s.jsonl"):
        came += piece
        clock.now += 1000
    assert came == LOG
    assert len(web.seen) == 1


def test_what_came_whole_is_read_however_long_it_took(web, monkeypatch):
    Clock(monkeypatch, 61)
    web.answer = lambda request: request.send(200, session())
    assert read(f"{web.url}/s.jsonl") == session()


def test_a_server_that_is_busy_is_asked_again_when_it_says(web, monkeypatch):
    waits = []
    monkeypatch.setattr(remote.time, "sleep", waits.append)
    answers = iter([(429, {"Retry_After": "3"}), (503, {}), (200, {})])

    def answer(request):
        status, headers = next(answers)
        request.send(status, LOG if status == 200 else b"", **headers)

    web.answer = answer
    assert read(f"{web.url}/s.jsonl") == LOG
    assert waits[0] == 3
    web.answer = lambda request: request.send(429, Retry_After="99999999")
    assert "answers 429" in failure(f"{web.url}/s.jsonl")
    assert max(waits) <= remote.LONGEST_PAUSE


@pytest.mark.parametrize(
    ("status", "says"), [(401, "not allowed"), (403, "not allowed"), (404, "no such object"), (418, "answers 418")]
)
def test_a_refusal_is_said_and_not_repeated(web, status, says):
    web.answer = lambda request: request.send(status)
    told = failure(f"{web.url}/s.jsonl?X-Amz-Signature=hunter2&part=7")
    assert says in told
    assert "hunter2" not in told
    assert len(web.seen) == 1


def test_a_signed_name_is_masked_in_every_answer(web):
    web.answer = lambda request: request.send(200, session())
    name = f"{web.url}/s.jsonl?X-Amz-Signature=hunter2#1"
    for words in (("check", name), ("check", name, "--json"), ("fold", name, "--json"), ("simulate", name, "-v"),
                  ("assemble", name, "-v"), ("diff-prefix", name, name, "--json"), ("lint", name),
                  ("compare", name, name),
                  ("convert", name, "--to", "lore"), ("report", name, "--format", "trace")):  # fmt: skip
        ran = lore(*words)
        assert "hunter2" not in ran.out + ran.err, words


# redirects


def moved(web, to, *, times=99):
    def answer(request):
        if len(web.seen) <= times:
            request.send(302, Location=to)
        else:
            request.send(200, LOG)

    web.answer = answer


def test_a_redirect_is_followed_and_the_last_host_is_told(web, capsys):
    moved(web, web.url.replace("127.0.0.1", "localhost") + "/other.jsonl", times=1)
    assert read(f"{web.url}/s.jsonl") == LOG
    assert "was read from localhost" in capsys.readouterr().err


@pytest.mark.parametrize(
    "to",
    ["file:///etc/passwd", "ftp://h/x", "http://169.254.169.254/latest/meta-data/", "http://[fe80::1]/x",
     "http://[::ffff:169.254.169.254]/", "http://user:pw@localhost/x", "gopher://x/", "//169.254.169.254/x"],
)  # fmt: skip
def test_a_redirect_leads_neither_to_another_protocol_nor_to_metadata(web, to):
    moved(web, to)
    assert "its server sends to" in failure(f"{web.url}/s.jsonl")
    assert len(web.seen) == 1


def test_a_server_elsewhere_leads_into_no_network_of_this_machine(web, monkeypatch):
    real = remote_web.addresses
    monkeypatch.setattr(
        remote_web, "addresses", lambda host, port: ["93.184.216.34"] if host == "127.0.0.1" else real(host, port)
    )
    for inner in ("localhost", "10.0.0.7", "192.168.1.1", "[::1]", "0.0.0.0", "127.1"):
        moved(web, f"http://{inner}:{web.server_address[1]}/x")
        assert "an address of this network" in failure(f"{web.url}/s.jsonl"), inner


def test_a_name_that_changes_its_address_is_found_out_behind_the_connection(web, monkeypatch):
    """What was looked up is public, and what then answers is this machine: nothing of its answer is read."""
    monkeypatch.setattr(remote_web, "addresses", lambda host, port: ["93.184.216.34"])
    moved(web, f"http://localhost:{web.server_address[1]}/x", times=1)
    assert "an address of this network" in failure(f"{web.url}/s.jsonl")


def test_a_ring_of_redirects_ends(web):
    moved(web, web.url + "/s.jsonl")
    assert "more than 5 times" in failure(f"{web.url}/s.jsonl")
    assert len(web.seen) == 6


# bodies


def test_a_body_without_end_ends(web, monkeypatch):
    monkeypatch.setattr(remote_web, "LARGEST", 1024 * 1024)

    def answer(request):
        request.send_response(200)
        request.send_header("Connection", "close")
        request.end_headers()
        request.close_connection = True
        for _ in count():
            request.wfile.write(session() * 100)

    web.answer = answer
    assert "and no length was said" in failure(f"{web.url}/s.jsonl")


def test_what_comes_compressed_is_unpacked_and_other_encodings_are_refused(web):
    web.answer = lambda request: request.send(200, gzip.compress(LOG), Content_Encoding="gzip")
    assert read(f"{web.url}/s.jsonl") == LOG
    web.answer = lambda request: request.send(200, b"x", Content_Encoding="br\x1b[31m")
    assert "encoding" in failure(f"{web.url}/s.jsonl")
    web.answer = lambda request: request.send(200, b"no gzip", Content_Encoding="gzip")
    assert "s.jsonl" in failure(f"{web.url}/s.jsonl")


def test_a_wrong_length_is_an_error(web):
    web.answer = lambda request: request.send(200, LOG, Content_Length=len(LOG) + 5)
    assert "s.jsonl" in failure(f"{web.url}/s.jsonl")
    web.answer = lambda request: request.send(200, LOG, Content_Length="-5")
    failure(f"{web.url}/s.jsonl")


def test_a_folder_and_a_pattern_are_none(web):
    assert "lists no folder" in lore("check", f"{web.url}/logs/").err
    assert not web.seen
    web.answer = lambda request: request.send(200, session())
    assert lore("check", f"{web.url}/s[1].jsonl?x=1*2").code == 0, (
        "what is a sign of patterns elsewhere is none in a URL"
    )


def test_a_file_is_read_anywhere(web):
    def answer(request):
        start = int(request.headers.get("Range", "bytes=0-")[6:-1])
        about = {"Content_Range": f"bytes {start}-{len(LOG) - 1}/{len(LOG)}"} if start else {}
        request.send(206 if start else 200, LOG[start:], ETag='"1"', **about)

    web.answer = answer
    with filesystem.opened(f"{web.url}/s.jsonl") as file:
        file.seek(-10, 2)
        assert file.read() == LOG[-10:]
        file.seek(5)
        assert file.read(20) == LOG[5:25]
        assert file.readline() == LOG[25 : LOG.index(b"\n", 25) + 1]


@pytest.mark.parametrize(
    "name", ["http://", "https:///x", "http://h" + "x" * 100_000, "http://[::1", "http://h:99999/x", "http://h\n/x",
             "http://127.0.0.1:1/" + "x" * 100_000, "http://user:hunter2@h/x", "http://a b/x"]
)  # fmt: skip
def test_a_name_that_is_none_is_an_error(name, monkeypatch):
    monkeypatch.setattr(remote, "PAUSE", 0.001)
    ran = lore("fold", name)
    assert ran.code == 2
    assert "hunter2" not in ran.err
    assert len(ran.err) < 2000

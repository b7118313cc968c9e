"""The summariser that asks a model, against a server that speaks the protocol, well and badly."""

import json
import sys
import time

import pytest

from compaction.server import answer, completion, serving
from helpers.each import each
from helpers.strategies.talks import talk
from lore.asking import GivenUpError, SummaryError, SummaryRequest
from lore.compaction.settings import Compaction
from lore.compaction.summarizers import PAUSES, OpenAISummarizer, summarizer_of
from lore.endpoints import display_url
from lore.errors import LoreError
from lore.model.limits import ANSWER_BYTES

KEY = "the-secret-of-the-test"
ENVIRON = {"KEY": KEY, "HTTP_PROXY": "http://127.0.0.1:1", "http_proxy": "http://127.0.0.1:1"}
REQUEST = SummaryRequest(talk(4), previous="before", tokens=99)


class Model:
    """A summariser of a server, with its notes and pauses."""

    def __init__(self, url, **more):
        self.told, self.pauses = [], []
        settings = {"key_env": "KEY", "environ": ENVIRON, "seconds": 20.0, **more}
        self.summarizer = OpenAISummarizer(url, "m", pause=self.pauses.append, tell=self.told.append, **settings)

    def ask(self, request=REQUEST):
        return self.summarizer.summarize(request)

    def fails(self, match, kind=SummaryError):
        with pytest.raises(kind, match=match) as caught:
            self.ask()
        output = f"{caught.value.message} {caught.value.hint} {self.told}"
        assert KEY not in output
        assert "\n" not in caught.value.message
        return caught.value


def test_openai_request_has_the_documented_shape():
    with serving(answer(completion(" the summary\n"))) as server:
        assert Model(server.url).ask() == ("the summary", False)
    (request,) = server.asked
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert (request.body["model"], request.body["max_tokens"], request.body["stream"]) == ("m", 99, False)
    system, user = request.body["messages"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert "99 tokens" in system["content"]
    assert "before" in user["content"]
    assert "[assistant]\nmessage 3" in user["content"]


@pytest.mark.parametrize(("body", "text"), [
    (completion("<think>hm\nhm</think>\n\nthe summary"), "the summary"),
    (completion([{"type": "text", "text": "in "}, {"type": "text", "text": "parts"}]), "in parts"),
    (completion("x", reasoning_content="not this"), "x"),
    (completion("é\ud83d"), "é\\ud83d"),
])  # fmt: skip
def test_reasoning_is_removed_from_answers(body, text):
    with serving(answer(body)) as server:
        assert Model(server.url).ask().text.encode("utf-8", "backslashreplace").decode() == text


def test_newer_limit_name_is_used_after_refusal():
    refused = json.dumps({"error": {"message": "Unsupported parameter: use 'max_completion_tokens' instead."}}).encode()
    with serving(answer(refused, 400), answer(completion("x"))) as server:
        model = Model(server.url)
        assert (model.ask().text, model.ask().text) == ("x", "x")
    assert [("max_tokens" in request.body, request.body.get("max_completion_tokens")) for request in server.asked] == [
        (True, None), (False, 99), (False, 99),
    ]  # fmt: skip


@pytest.mark.parametrize(("read", "is_reported"), [(50, True), (900, False), (None, False), ("many", False)])
def test_partly_read_prompt_is_reported(read, is_reported):
    body = json.loads(completion("x")) | {"usage": {"prompt_tokens": read}}
    with serving(answer(json.dumps(body).encode())) as server:
        model = Model(server.url)
        model.ask(SummaryRequest(talk(8, 500)))
    assert bool(model.told) == is_reported
    assert all("read 50 tokens of about 1,0" in note for note in model.told)


@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_busy_server_is_asked_again(status):
    with serving(answer(b"busy", status), answer(b"busy", status), answer(completion("x"))) as server:
        model = Model(server.url)
        assert model.ask().text == "x"
    assert model.pauses == list(PAUSES[:2])
    assert model.told[0].endswith(f"answers {status}: busy; asked again")


def test_retry_after_is_obeyed_within_a_bound():
    busy = [answer(b"", 429, retry_after=text) for text in ("5", "9999", "Wed, 21 Oct 2026 07:28:00 GMT")]
    with serving(*busy, answer(completion("x"))) as server:
        model = Model(server.url)
        model.ask()
    assert model.pauses == [5.0, 30.0, PAUSES[2]]


def test_absent_server_is_given_up():
    with serving(answer(b"")) as server:
        url = server.url
    model = Model(url)
    model.fails(f"{url}: .*refused.*, 4 times", GivenUpError)
    assert model.pauses == list(PAUSES)


def hang_up(handler):
    """Close the connection without a word."""
    handler.close_connection = True


def cut(handler):
    """Promise more than is sent."""
    body = completion("half")
    handler.send_response(200)
    handler.send_header("content-length", str(len(body) + 100))
    handler.end_headers()
    handler.wfile.write(body)
    handler.close_connection = True


@pytest.mark.parametrize("lost", [hang_up, cut])
def test_lost_connection_is_tried_again(lost):
    with serving(lost, answer(completion("x"))) as server:
        assert Model(server.url).ask().text == "x"
    assert len(server.asked) == 2


def test_refused_request_is_final_and_names_the_reason():
    body = json.dumps({"error": {"message": f"Incorrect API key: {KEY}\n\x1b[31m"}}).encode()
    with serving(answer(body, 401)) as server:
        error = Model(server.url).fails(r"answers 401: Incorrect API key: \*\*\*", GivenUpError)
    assert "key_env" in error.hint
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_is_refused(status):
    with (
        serving(answer(completion("stolen"))) as elsewhere,
        serving(answer(b"", status, location=f"{elsewhere.url}/chat/completions")) as server,
    ):
        Model(server.url).fails(f"redirects elsewhere \\({status}\\)", GivenUpError)
    assert elsewhere.asked == []
    assert len(server.asked) == 1


@each([
    b"", b"garbage", b"null", b"[]", b"{}", b'{"choices": []}', b'{"choices": {}}', b'{"choices": [null]}',
    b'{"choices": [{"message": "text"}]}', b'{"choices": [{"message": {"content": 3}}]}', b"\xff\xfe",
    b"[" * 100_000,
    b"<html>a proxy's page</html>", b'{"choices": [{"message": {"content": "x"}}', b'"choices"',
])  # fmt: skip
def test_invalid_completion_is_an_error(body):
    with serving(answer(body)) as server:
        Model(server.url).fails("not a chat completion|not text")


def endless(handler):
    """Send a body without end."""
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b" " * 65_536)


def test_endless_answer_is_cut_off():
    with serving(endless) as server:
        Model(server.url).fails(f"more than {ANSWER_BYTES:,} bytes", GivenUpError)


def test_compressed_answer_is_refused():
    with serving(answer(b"\x1f\x8b\x08" + b"\0" * 64, content_encoding="gzip")) as server:
        Model(server.url).fails("not a chat completion")
    assert server.asked[0].headers["accept-encoding"] == "identity"


def test_silent_server_is_given_up():
    def silent(handler):
        server.done.wait(20)

    with serving(silent) as server:
        Model(server.url, seconds=0.9).fails(r"no whole answer after 0\.9 s", GivenUpError)
        server.done.set()
    assert len(server.asked) == 1


def drips(begin, pieces, sent_pieces):
    """Send pieces, each in time, until the client hangs up, and note them."""

    def drip(handler):
        handler.wfile.write(begin)
        for piece in pieces:
            handler.wfile.write(piece)
            sent_pieces.append(piece)
            time.sleep(0.02)

    return drip


HEADERS = b"HTTP/1.1 200 OK\r\nconnection: close\r\n"


@pytest.mark.parametrize(("begin", "pieces"), [
    (HEADERS + b"\r\n", [b" "] * 1_000 + [completion("late")]),
    (HEADERS, [b"x-slow: 1\r\n"] * 1_000 + [b"\r\n", completion("late")]),
    (b"", [b"HTTP/1.1 102 Processing\r\n\r\n"] * 1_000 + [HEADERS + b"\r\n", completion("late")]),
], ids=["body", "headers", "informational"])  # fmt: skip
def test_slow_answer_is_given_up(begin, pieces):
    sent_pieces = []
    with serving(drips(begin, pieces, sent_pieces)) as server:
        Model(server.url, seconds=0.9).fails(r"no whole answer after 0\.9 s", GivenUpError)
    assert len(server.asked) == 1
    assert len(sent_pieces) < len(pieces) // 2


@pytest.mark.parametrize("before", ["y" * 190, "y " * 98, " " * 990])
@pytest.mark.parametrize("status", [401, 503])
@each("is_json", [True, False])
def test_cut_error_shows_no_part_of_the_key(before, status, is_json):
    body = json.dumps({"error": {"message": before + KEY}}) if is_json else before + KEY
    with serving(answer(body.encode(), status)) as server:
        model = Model(server.url)
        error = model.fails(f"answers {status}")
    assert KEY[:4] not in f"{error.message} {model.told}"


@pytest.mark.parametrize(("endpoint", "environ", "why"), [
    ("http://256.256.256.256/v1", {}, "Invalid IPv4 address"),
    ("http://a..b/v1", {}, "idna"),
    ("http://192.0.2.1/v1", {"ALL_PROXY": "socks5://127.0.0.1:1"}, "socksio"),
    ("http://192.0.2.1/v1", {"ALL_PROXY": "odd://me:pass-word@h"}, "Unknown scheme for proxy URL"),
    ("https://192.0.2.1/v1", {"SSL_CERT_FILE": "/nowhere"}, "No such file"),
])  # fmt: skip
def test_unusable_host_or_proxy_is_an_error(monkeypatch, endpoint, environ, why):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    error = Model(endpoint).fails(f"cannot be asked: .*{why}", GivenUpError)
    assert "pass-word" not in error.message


@each(["", "localhost:1/v1", "ftp://h/v1", "http://", "http:///v1", "http://h:x/v1", "http://[::1", "http://h/ü"])
def test_invalid_endpoint_is_refused(endpoint):
    with pytest.raises(LoreError, match="not an http or https URL"):
        OpenAISummarizer(endpoint, "m", environ={})


def test_endpoint_credentials_are_hidden():
    url = "http://me:pass-word@127.0.0.1:1/v1?api-key=hidden#x"
    assert display_url(url) == "http://127.0.0.1:1/v1"
    error = Model(url).fails("http://127.0.0.1:1/v1: ")
    assert "pass-word" not in error.message
    assert "hidden" not in error.message


@pytest.mark.parametrize(
    ("value", "match"), [(None, "not set"), (" ", "not set"), ("a\nb", "not a key"), ("ké", "not a key")]
)
def test_invalid_key_is_refused_without_showing_it(value, match):
    with pytest.raises(LoreError, match=match) as caught:
        OpenAISummarizer("http://h/v1", "m", key_env="KEY", environ={} if value is None else {"KEY": value})
    assert "a\nb" not in caught.value.message
    assert "ké" not in caught.value.message


def test_missing_httpx_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(LoreError, match="needs httpx") as caught:
        OpenAISummarizer("http://h/v1", "m", environ={})
    assert ".[http]" in caught.value.hint


def test_settings_select_the_openai_summarizer():
    with serving(answer(completion("x"))) as server:
        settings = Compaction(summarizer="openai", endpoint=server.url, model="small", key_env="KEY")
        assert summarizer_of(settings, ENVIRON).summarize(REQUEST).text == "x"
    assert server.asked[0].body["model"] == "small"


@pytest.mark.parametrize(
    ("endpoint", "is_reported"),
    [("http://models.example/v1", True), ("https://models.example/v1", False), ("http://127.0.0.1:1/v1", False)],
)
def test_unencrypted_key_is_reported(endpoint, is_reported):
    notes: list[str] = []
    OpenAISummarizer(endpoint, "m", key_env="KEY", environ={"KEY": "k" * 20}, tell=notes.append)
    assert ["unencrypted" in note for note in notes] == [True] * is_reported
    assert "kkkk" not in "".join(notes)

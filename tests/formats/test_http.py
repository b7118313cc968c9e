"""One recorded call: when it is an exchange, a problem, or neither."""

import gzip
import json
import zlib

import pytest

from formats.calls import ASKED, SAID, URL, exchange, judged, text
from helpers.each import each
from lore.formats.contents import NO_CONTENT, Content, content_of
from lore.formats.http import headers_of, status_of
from lore.model.events import Usage
from model.making import dumps


def packed(data: bytes) -> Content:
    import base64

    return Content(dumps(base64.b64encode(data).decode()), "base64")


def test_text_is_unescaped_once():
    inner = '{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a\\n\\"b\\" \\ud83d é"}]}'
    assert exchange(request=text(inner)).body == inner.encode()


def test_lone_surrogate_remains_an_escape():
    messages = rb"[{\"role\":\"user\",\"content\":\"\ud83d\"}]"
    raw = rb'"{\"model\":\"m\",\"max_tokens\":1,\"messages\":' + messages + b'}"'
    assert b'"content":"\\ud83d"' in exchange(request=Content(raw, "text")).body


@pytest.mark.parametrize(("status", "answer", "quote"), [
    (400, {"error": {"message": "temperature is too high"}}, " (HTTP 400): temperature is too high"),
    (403, {"error": "no such key: sk-ant-api03-" + "k" * 40}, " (HTTP 403): no such key: sk-a" + "*" * 49),
    (404, {"Message": "x" * 400}, " (HTTP 404): " + "x" * 300 + "…"),
    (422, [{"error": {"status": "INVALID", "message": "line\none"}}], " (HTTP 422): line one"),
    (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, " (HTTP 422): field required"),
    (400, {"success": False, "errors": [{"code": 7, "message": "no route"}]}, " (HTTP 400): no route"),
    (413, "Payload too large", " (HTTP 413): Payload too large"),
])  # fmt: skip
def test_refusal_quotes_the_answer_masked_and_shortened(status, answer, quote):
    response = text(answer) if isinstance(answer, str) else content_of(dumps(answer))
    request, refused = judged(status=status, response=response)
    assert request.call.status == status
    assert (refused.code, refused.message) == ("LORE231", "api.anthropic.com/v1/messages refused a request" + quote)


_TOO_MANY = {"type": "error", "error": {"type": "invalid_request_error", "message": "at most 4 breakpoints"}}
_ROUTED = {"error": {"code": 400, "message": "Provider returned error", "metadata": {"raw": "at most 4 breakpoints"}}}


@each("response, status", [
    (_TOO_MANY, None), (_ROUTED, 200), (f"event: error\ndata: {json.dumps(_TOO_MANY)}\n\n", 200),
    ([_TOO_MANY], 200),
])  # fmt: skip
def test_error_without_its_status_is_a_refusal(response, status):
    request, refused = judged(status=status, response=content_of(dumps(response)))
    assert request.call.status == 400
    assert refused.message.endswith("at most 4 breakpoints")


@each("error", [None, {"code": "server_error"}, {"type": "overloaded_error", "message": "busy"}])
def test_error_that_is_no_refusal_is_not_reported(error):
    (request,) = judged(status=200, response=content_of(dumps({"error": error, "output": []})))
    assert request.call.status in (200, 529)


@pytest.mark.parametrize("status", [200, 408, 429, 529])
def test_requests_sent_again_are_no_refusals(status):
    assert len(judged(status=status, response=text("busy"))) == 1


@pytest.mark.parametrize("method", ["GET", "OPTIONS", "DELETE"])
def test_other_methods_are_ignored(method):
    assert judged(method=method) == []


@pytest.mark.parametrize("url", [
    "https://example.com/telemetry", "https://api.openai.com/v1/embeddings", "https://x.test/v1beta/cachedContents",
    f"{URL}/count_tokens", "https://x.test/v1beta/models/g:countTokens", "https://api.openai.com/v1/threads/t1/messages",
    "https://bedrock-runtime.us-east-1.amazonaws.com/model/amazon.titan-embed-text-v2:0/invoke",
    "https://bedrock-runtime.eu.amazonaws.com/model/canvas/invoke", "https://api.braintrust.dev/v1/function/f1/invoke",
    "https://bedrock-runtime.us-east-1.amazonaws.com/model/cohere.rerank-v3-5%3A0/invoke",
])  # fmt: skip
def test_other_endpoints_are_ignored(url):
    bodies = {"telemetry": {"events": []}, "ount": ASKED, "titan": {"inputText": "hi"}, "canvas": {"taskType": "DRAW"}}
    body = next((body for word, body in bodies.items() if word in url), {"model": "m", "input": "hi"})
    assert judged(url=url, request=text(body)) == []


def test_chat_of_cloudflare_names_its_model_in_the_path():
    url = "https://api.cloudflare.com/client/v4/accounts/a1/ai/run/@cf/meta/llama-4"
    assert exchange(url=url, request=text({"messages": ASKED["messages"]}))
    assert judged(url=url, request=text({"text": "to embed"})) == []


def test_call_without_its_body_counts_with_its_tokens():
    problem, call = judged(request=text("[REDACTED]"), response=text(SAID))
    assert (problem.code, call.usage, call.response_id) == ("LORE222", Usage(3, 20, 7, 5), "msg_1")


@each("content, code", [
    (NO_CONTENT, "LORE223"),
    (Content(form="elsewhere"), "LORE223"),
    (text("not JSON"), "LORE222"),
    (text("[REDACTED]"), "LORE222"),
    (text({"what": 1}), "LORE222"),
    (text({"model": "gpt-5", "prompt": {"id": "pmpt_1", "variables": {"city": "Rome"}}}), "LORE223"),
    (Content(b'"!"', "base64"), "LORE222"),
    (packed(b"\x1f\x8bbroken"), "LORE222"),
    (packed(gzip.compress(b"a" * 5_000_000)), "LORE220"),
    (Content(b'"' + b"a" * 25 * 1024 * 1024 + b'"', "text"), "LORE220"),
])  # fmt: skip
def test_model_request_without_body_is_a_problem(content, code):
    assert [problem.code for problem in judged(request=content)] == [code]


@pytest.mark.parametrize("content", [NO_CONTENT, Content(form="elsewhere"), text("x"), packed(b"\x1f\x8bbroken")])
def test_unreadable_body_elsewhere_is_ignored(content):
    assert judged(url="https://example.com/", request=content) == []


RAW = json.dumps(ASKED).encode()


@each("data, encoding", [
    (gzip.compress(RAW), "gzip"),
    (gzip.compress(RAW), ""),
    (gzip.compress(RAW) + b"\r\n", "gzip"),
    (gzip.compress(RAW[:9]) + gzip.compress(RAW[9:]), "gzip"),
    (zlib.compress(RAW), "deflate"),
    (zlib.compress(RAW)[2:-4], "deflate"),
    (RAW, "gzip"),
    (RAW, "br"),
])  # fmt: skip
def test_compressed_bodies_are_decompressed(data, encoding):
    assert exchange(request=packed(data), headers={"content-encoding": encoding}).body == RAW


def test_unreadable_response_keeps_its_request():
    values = judged(response=packed(b"\x0b\x02\x80"), response_headers={"content-encoding": "br"})
    assert (values[0].body, values[0].usage, values[1].code) == (RAW, None, "LORE224")


def test_date_of_the_response_replaces_missing_time():
    dated = exchange(response_headers={"date": "Mon, 02 Mar 2026 09:00:01 GMT"})
    assert (dated.at, dated.answered) == (1772442001.0, 1772442001.0)
    call = exchange(response=text({"id": "r", "created": 1772442000, "choices": []}))
    assert (call.at, call.answered) == (1772442000.0, 1772442000.0)
    assert exchange(response_headers={"date": "soon"}).at is None


@pytest.mark.parametrize("raw", [
    b'{"X-A": "1", "B": ["2", "3"], "c": 4, "d": null}',
    b'[{"name": "X-A", "value": "1"}, {"name": "b", "value": "2"}, {"name": 1}, 5]',
    b'[["x-a", "1"], ["B", "2"], ["c"]]',
])  # fmt: skip
def test_headers_are_read_in_every_layout(raw):
    assert headers_of(raw) == {"x-a": "1", "b": "2"}


@each([b"", b"null", b"5", b'"x"', b"{", b"[1]"])
def test_headers_of_other_types_are_ignored(raw):
    assert headers_of(raw) == {}


@each("raw, status", [
    (b"200", 200),
    (b'"429"', 429),
    (b'"200 OK"', 200),
    (b'{"code": 500, "message": "x"}', 500),
    (b'"OK"', None),
    (b"-1", None),
    (b"null", None),
    (b"", None),
])  # fmt: skip
def test_status_is_read_in_every_layout(raw, status):
    """go-vcr writes `200 OK`: a refused request looked like one that was answered."""
    assert status_of(raw) == status


@each("wrapped", [{"text": "{}", "charset": "utf-8"}, {"text": "{}"}, {"mimeType": "application/json", "text": "{}"}])
def test_text_beside_its_type_is_the_content(wrapped):
    assert content_of(dumps(wrapped)) == Content(b'"{}"', "text")


def test_lower_count_of_record_is_of_a_part():
    used = exchange(response=text(json.dumps(SAID)), usage=Usage(1, 0, 0, 5)).usage
    assert (used.uncached_tokens, "in the response, 1, 0" in used.contradiction) == (3, True)


def test_session_affinity_selects_the_server():
    assert exchange(headers={"x-session-affinity": "s1"}).call.route == "x-session-affinity: s1"

"""Documents and logs of recorded calls: each format by its contract, its fixtures, and the real files."""

import base64
import gzip
import json
from pathlib import Path

import pytest

from formats.calls import ASKED, SAID, URL, har, pair
from helpers.each import each
from helpers.recognising import recognise
from lore.formats.captures import layouts
from lore.formats.captures.recorders import Cassette, ClaudeTap, Har, ProxyLines, ProxyList
from lore.formats.captures.vcr import Vcr
from lore.model.codes import Problem
from lore.model.turn import Exchange
from lore.recording.corpus import open_head
from lore.testing import ReaderContract, everything
from model.making import body, dumps

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "captures"


def fixtures(format):
    return tuple(file.read_bytes() for file in sorted((FIXTURES / format).iterdir()))


class TestHar(ReaderContract):
    """HAR."""

    reader = Har
    samples = (*fixtures("har"), har(ASKED, ASKED), har(ASKED)[:-20], har())


class TestClaudeTap(ReaderContract):
    """Exports of claude-tap."""

    reader = ClaudeTap
    samples = fixtures("claude-tap")


class TestCassette(ReaderContract):
    """Cassettes in JSON."""

    reader = Cassette
    samples = (*fixtures("cassette"), dumps({"entries": [pair()]}))


def test_segments_of_googles_replays_are_bodies():
    url = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent"
    asked, said = (
        {"contents": [{"parts": [{"text": "hi"}], "role": "user"}]},
        {"usageMetadata": {"promptTokenCount": 3}},
    )
    sides = {"request": {"method": "POST", "url": url, "body_segments": [asked]}, "response": {"body_segments": [said]}}
    (item,) = everything(Vcr(), dumps({"replay_id": "r", "interactions": [sides]}))
    assert (json.loads(item.value.body), item.value.usage.uncached_tokens) == (asked, 3)


def test_entries_of_azures_test_proxy_are_calls():
    entry = {"RequestUri": URL, "RequestMethod": "POST", "RequestHeaders": {}, "RequestBody": ASKED,
             "StatusCode": 200, "ResponseHeaders": {}, "ResponseBody": SAID}  # fmt: skip
    other = {**entry, "RequestMethod": "GET", "RequestBody": None}
    data = json.dumps({"Entries": [entry, other], "Variables": {}}, indent=2).encode()
    assert recognise(data) is Cassette
    (item,) = everything(Cassette(), data)
    assert (json.loads(item.value.body), item.value.response_id) == (ASKED, "msg_1")


class TestProxy(ReaderContract):
    """Logs of proxies."""

    reader = ProxyLines
    samples = (
        *fixtures("proxy"),
        dumps(pair()) + b"\n{}\n" + dumps(pair())[:-9],
        dumps(pair()) + b"\n" + dumps(pair()) * 2 + b"\n",
    )


class TestProxyList(ReaderContract):
    """The same in one array."""

    reader = ProxyList
    samples = (*fixtures("proxy-list"), dumps([pair(), 5, None, pair()]))


def buffer(value: object) -> dict[str, object]:
    """A body as Node.js writes its bytes."""
    return {"type": "Buffer", "data": [*dumps(value)]}


def based(value: object) -> str:
    """A body in base64, without a word that says so."""
    return base64.b64encode(dumps(value)).decode()


AT, BODIES = "2026-03-02T09:00:0", {"reqBody": ASKED, "resBody": SAID}
MAPPING = {  # WireMock
    "request": {"url": URL, "headers": {}, "bodyPatterns": [{"equalToJson": dumps(ASKED).decode()}]},
    "response": {"status": 200, "body": dumps(SAID).decode()},
}
EXVCR = {
    "request": {"url": URL, "body": "", "request_body": dumps(ASKED).decode()},
    "response": {"status_code": 200, "body": dumps(SAID).decode()},
}
HOVERFLY = {
    "request": {
        "path": [{"matcher": "exact", "value": "api.anthropic.com/v1/messages"}],
        "body": [{"matcher": "json", "value": dumps(ASKED).decode()}],
    },
    "response": {"status": 200, "body": dumps(SAID).decode(), "headers": {}},
}
NOCK = {
    "scope": "https://api.anthropic.com:443", "method": "POST", "path": "/v1/messages", "body": ASKED, "status": 200,
    "response": SAID, "rawHeaders": ["Date", "Mon, 02 Mar 2026 09:00:00 GMT"],
}  # fmt: skip


@pytest.mark.parametrize(("reader", "data"), [
    (ProxyLines, dumps({"kind": "response", "ts": AT + "0Z", "url": URL, "method": "POST", "status": 200, **BODIES})),
    (ProxyLines, dumps({"req": {"url": URL, "body": ASKED}, "res": {"statusCode": 200, "body": SAID}})),
    (ProxyLines, dumps({"request": {"uri": URL, "payload": ASKED}, "response": {"code": 200, "payload": SAID}})),
    (ProxyLines, dumps({"request": {"url": URL, "json": ASKED}, "response": {"status": 200, "json": SAID}})),
    (ProxyLines, dumps({"request": {"url": URL, "content": dumps(ASKED).decode()},
                        "response": {"status": 200, "content": dumps(SAID).decode()}})),
    (ProxyLines, dumps({"url": URL, "requestBody": ASKED, "status": 200, "response": SAID})),
    (ProxyLines, dumps({"request": {"url": URL, "body": buffer(ASKED)}, "res": {"status": 200, "body": buffer(SAID)}})),
    (ProxyLines, dumps({"request": {"url": URL, "body": based(ASKED)},
                        "response": {"status": 200, "body": based(SAID)}})),
    (ProxyLines, dumps({"request": {"url": URL, "body_base64": based(ASKED)},
                        "response": {"status": 200, "bodyBase64": based(SAID)}})),
    (ProxyList, dumps([MAPPING])),
    (ProxyList, dumps([MAPPING | {"response": {"status": 200, "jsonBody": SAID}}])),
    (ProxyLines, dumps(MAPPING | {"request": {"urlPath": URL, "bodyPatterns": MAPPING["request"]["bodyPatterns"]}})),
    (ProxyList, dumps([MAPPING | {"response": {"status": 200, "base64Body": based(SAID)}}])),
    (ProxyList, dumps([MAPPING | {"request": {"url": URL, "headers": {}, "bodyPatterns": [{"equalToJson": ASKED}]}}])),
    (ProxyList, dumps([HOVERFLY])),
    (ProxyLines, dumps(EXVCR)),
    (ProxyLines, dumps({"request": {"url": URL, "body": ASKED},  # llama-stack
                        "response": {"status": 200, "body": {"__type__": "Message", "__data__": SAID}}})),
    (ProxyList, dumps([NOCK])),
    (ProxyList, dumps([NOCK | {"response": [gzip.compress(dumps(SAID)).hex()], "rawHeaders": []}])),
])  # fmt: skip
def test_recorders_with_other_member_names_are_read(reader, data):
    assert recognise(data) is reader
    (first,) = (item.value for item in everything(reader(), data))
    assert (first.call.endpoint, first.call.status) == ("api.anthropic.com/v1/messages", 200)
    assert (json.loads(first.body), first.response_id, first.usage.read_tokens) == (ASKED, "msg_1", 20)


@pytest.mark.parametrize(("data", "code"), [
    (har(ASKED, ASKED)[:-200], "LORE202"),
    (har(ASKED).replace(b'"startedDateTime"', b"NaN"), "LORE201"),
    (b'{"log": {"creator": 1}}', "LORE201"),
    (b"[1]", "LORE201"),
])  # fmt: skip
def test_damaged_har_is_a_problem(data, code):
    assert code in [item.value.code for item in everything(Har(), data) if isinstance(item.value, Problem)]


def test_cost_in_header_of_gateway_is_recorded():
    response = {"status": 200, "headers": {"X-LiteLLM-Response-Cost": "0.25"}, "body": SAID}
    record = {"request": {"url": URL, "body": ASKED}, "response": response}
    (call,) = (item.value for item in everything(ProxyLines(), dumps(record)))
    assert call.usage.recorded_dollars == 0.25


def test_pieces_of_compressed_pollyjs_response_are_joined():
    entry = json.loads(har(ASKED))
    packed, content = gzip.compress(dumps(SAID)), entry["log"]["entries"][0]["response"]["content"]
    pieces = [base64.b64encode(packed[at : at + 50]).decode() for at in range(0, len(packed), 50)]
    content |= {"encoding": "base64", "text": dumps(pieces).decode()}
    (call,) = (item.value for item in everything(Har(), dumps(entry)))
    assert call.usage.read_tokens == 20


def test_entry_over_the_limit_is_skipped(monkeypatch):
    monkeypatch.setattr(Har, "longest", 3000)
    items = everything(Har(), har(ASKED, body("x" * 5000), ASKED))
    assert [getattr(read.value, "code", "exchange") for read in items] == ["exchange", "LORE220", "exchange"]


@each([
    b'{"name": "pkg", "version": "1.0.0", "scripts": {"request": "x"}}',
    b'{"entries": [{"key": 1}]}',
    b'{"log": {"level": "debug"}}',
    b'{"packets": 5, "method": 1, "request": 2}',
    b'[{"id": 1}, {"id": 2}]',
    b'["a"]',
    b"version: '3'\nservices:\n  web:\n    image: x\n",
    b"# interactions:\nname: x\n",
    b"interactions are fun\n",
    b"log,entries\n",
])  # fmt: skip
def test_similar_files_are_not_recognised(head):
    assert recognise(head) is None


REAL = ("capture/claude-tap*.json", "capture/braintrust*.json", "capture/vibe*.jsonl", "vcr/*.yaml")


@pytest.mark.corpus
def test_real_captures_are_read_with_usage(corpus):
    files = [file for pattern in REAL for file in sorted(corpus.glob(pattern))]
    assert len(files) == 22
    for file in files:
        opened = open_head(str(file))
        kind = recognise(opened.head)
        assert kind is not None, file
        reader = kind()
        values = [read.value for read in reader.read(opened.data)]
        exchanges = [value for value in values if isinstance(value, Exchange)]
        is_agent_sdk = "claude-agent-sdk" in file.name
        assert {value.code for value in values if isinstance(value, Problem)} <= (
            {"LORE223"} if is_agent_sdk else {"LORE224"}
        )
        assert exchanges or is_agent_sdk
        billed = [value for value in exchanges if value.usage is not None]
        assert len(billed) == len(exchanges) or "openai-codex" in file.name, file


def test_impossible_wait_is_unknown():
    """A HAR with a `wait` of 1e25 ms made `lore convert` fail."""
    assert layouts._wait_seconds(b'{"wait":1e25}') is None  # noqa: SLF001
    assert layouts._wait_seconds(b'{"wait":250}') == 0.25  # noqa: SLF001

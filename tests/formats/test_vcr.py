"""VCR cassettes in YAML and JSON, of Python and of Ruby."""

import copy
import gzip
import json

import pytest
import yaml

from formats.calls import ASKED, SAID, URL
from formats.test_captures import fixtures
from helpers.each import each
from helpers.fed import pieces
from helpers.recognising import recognise
from lore.formats.captures import vcr
from lore.formats.captures.vcr import Vcr
from lore.model.codes import Problem
from lore.testing import ReaderContract, everything

STATUS = {"code": 200, "message": "OK"}


def call(request, response):
    return {"request": {"method": "POST", "uri": URL, **request}, "response": {"status": STATUS, **response}}


def cassette(*calls, **more):
    return yaml.safe_dump({"interactions": list(calls), "version": 1, **more}, sort_keys=False).encode()


TEXT = call({"body": json.dumps(ASKED)}, {"body": {"string": json.dumps(SAID)}})
PARSED = call({"parsed_body": ASKED}, {"parsed_body": SAID})
JSON = call({"body_type": "json", "body_json": ASKED}, {"body_type": "json", "body_json": SAID})  # ReqCassette (Elixir)
PACKED = call(
    {"body": gzip.compress(json.dumps(ASKED).encode())}, {"body": {"string": gzip.compress(json.dumps(SAID).encode())}}
)
INDENTED = (
    "# a comment\n---\nversion: 1\ninteractions:\n\n  - request:\n      method: POST\n"
    f"      uri: {URL}\n      body: '{json.dumps(ASKED)}'\n    response: {{}}\nrecorded_with: x\n"
).encode()


class TestContract(ReaderContract):
    reader = Vcr
    samples = (
        *fixtures("vcr"),
        cassette(TEXT, PARSED, JSON, PACKED),
        INDENTED,
        cassette(TEXT).replace(b"\n", b"\r\n"),
        b"interactions: \n",
    )


def read(data):
    return [item.value for item in everything(Vcr(), data)]


def test_documents_of_mocks_are_calls():
    calls = [
        {
            "when": {"path": "/v1/messages", "method": "POST", "header": [], body: json.dumps(ASKED)},
            "then": {"status": 200, "header": [{"name": "x", "value": "y"}], "body": json.dumps(SAID)},
        }
        for body in ("body", "json_body_str")
    ]
    sides = {"Request": {"method": "POST", "url": URL, "body": json.dumps(ASKED)}}, {"Response": calls[0]["then"]}
    request = {"url": URL, "method": "POST", "bodyPatterns": [{"equalToJson": json.dumps(ASKED)}]}
    mapping = {"id": "5b08", "name": "v1", "request": request, "response": calls[0]["then"]}
    # httpmock, surf-vcr, WireMock
    for documents in (calls, [[dict(side) for side in sides] for _ in calls], [mapping, copy.deepcopy(mapping)]):
        data = yaml.safe_dump_all(documents, sort_keys=False).encode()
        assert recognise(data) is Vcr
        items = everything(Vcr(), data)
        assert [(item.value.fidelity, item.value.response_id, item.line) for item in items] == [
            ("wire", "msg_1", 1), ("wire", "msg_1", data.count(b"\n", 0, data.index(b"---")) + 1),
        ]  # fmt: skip


def test_list_of_requests_before_their_responses_is_read():
    first, second, last = copy.deepcopy(TEXT), copy.deepcopy(TEXT), copy.deepcopy(TEXT)
    lists = {"requests": [first["request"], second["request"], last["request"]],
             "responses": [first["response"], second["response"]]}  # fmt: skip
    data = yaml.safe_dump(lists, sort_keys=False).encode()
    assert recognise(data) is Vcr
    items = everything(Vcr(), data)
    assert [(item.value.response_id, item.line) for item in items] == [("msg_1", 2), ("msg_1", 6), ("", 10)]


PHP = call({"body": json.dumps(ASKED)}, {"body": json.dumps(SAID)})


@each("begin, calls", [
    (b"\n", yaml.safe_dump([PHP], sort_keys=False) * 2),
    (b"", f"-\n    request: {json.dumps(PHP['request'])}\n    response: {json.dumps(PHP['response'])}\n".replace(
        "request: {", "request:\n        {") * 2),
    (b"!tape\nname: x\n", yaml.safe_dump({"interactions": [PHP, dict(PHP)]}, sort_keys=False)),
])  # fmt: skip
def test_cassettes_of_other_languages_are_read(begin, calls):
    data = begin + calls.encode()
    assert recognise(data) is Vcr
    assert [(call.response_id, json.loads(call.body)) for call in read(data)] == [("msg_1", ASKED)] * 2


def test_interaction_cut_in_its_request_is_reported():
    data = cassette(TEXT, json.loads(json.dumps(TEXT)))
    cut = data[: data.rindex(b"uri:")]
    assert [getattr(value, "code", "call") for value in read(cut)] == ["call", "LORE202"]


def test_number_as_key_becomes_text():
    """`1` was spelled `true`, for the two are equal in Python."""
    assert vcr.to_json(b"{true: a, 1: b, false: c, 0: d}", {}) == b'{"true":"a","1":"b","false":"c","0":"d"}'


def test_text_that_looks_like_an_interaction_is_text():
    body = json.dumps({**ASKED, "system": "a\n- request:\n- b"}, indent=1)
    data = cassette(call({"body": body}, {"body": {"string": "a\n- request:\n\n- b\n"}}), TEXT)
    assert [json.loads(exchange.body)["messages"] for exchange in read(data)] == [ASKED["messages"]] * 2


def test_alias_of_another_interaction_is_read():
    shared = {"content-type": ["x"]}
    data = yaml.dump({"interactions": [{**TEXT, "h": shared}, {**TEXT, "h": shared}]}).encode()
    assert b"&id" in data
    assert len(read(data)) == 2


def test_binary_body_of_ruby_is_read():
    data = cassette(PACKED)
    assert data.count(b"!!binary") == 2
    assert [call.usage for call in read(data.replace(b"!!binary", b"!binary"))] == [call.usage for call in read(data)]


@pytest.mark.parametrize("kind", ["object/apply:multidict._multidict.istr", "object/new:multidict.istr"])
def test_header_names_of_aiohttp_are_read_as_text(kind):
    data = cassette(call({"body": json.dumps(ASKED), "headers": {"NAME": ["a/b"]}}, {}))
    data = data.replace(b"NAME:\n      - ", b"? !!python/%b\n      - content-type\n      : - " % kind.encode())
    assert b"istr" in data
    assert [json.loads(exchange.body)["messages"] for exchange in read(data)] == [ASKED["messages"]]


def test_bodies_named_body_json_are_read():
    (call,) = read(json.dumps({"version": "1.0", "interactions": [JSON]}).encode())
    assert json.loads(call.body)["messages"] == ASKED["messages"]
    assert call.usage is not None


BOMB = b"a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"    a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 9)
)
REFUSED = {
    "an alias bomb": b"interactions:\n- request:\n    " + BOMB,
    "a tag of Python": b"interactions:\n- request: !!python/object/apply:os.system ['true']\n",
    "a tag of its own": b"interactions:\n- !thing {request: 1}\n",
    "an alias of nothing": b"interactions:\n- request: *none\n",
    "deep nesting": b"interactions:\n- request: " + b"[" * 1000 + b"\n",
    "no YAML": b"interactions:\n- request: 'x\n  y: [\n",
    "bytes that are no text": b"interactions:\n- request: \xff\xfe\n",
    "control characters": b"interactions:\n- request: \x00\n",
    "a table for a key": b"interactions:\n- {{a: 1}: 2}\n",
    "too many values": b"interactions:\n- [" + b"a," * 6_000 + b"]\n",
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_yaml_hides_no_later_interaction(what, monkeypatch):
    if what == "too many values":
        monkeypatch.setattr(vcr, "YAML_VALUES", 5_000)
    good = cassette(TEXT).removeprefix(b"interactions:\n")
    values = read(REFUSED[what] + good)
    assert [value.code if isinstance(value, Problem) else len(value.body) for value in values] == [
        "LORE221",
        len(json.dumps(ASKED)),
    ]


def test_unreadable_download_is_no_problem(monkeypatch):
    monkeypatch.setattr(vcr, "YAML_BYTES", 5000)
    weights = call({"method": "GET", "uri": "https://huggingface.co/m/model.safetensors"}, {"body": "x" * 9000})
    binary = b"- request:\n    uri: https://huggingface.co/m/config.bin\n  response: \x01\n"
    values = read(cassette(TEXT, weights, sort=1).replace(b"sort: 1", b"") + binary)
    assert [getattr(value, "code", "exchange") for value in values] == ["exchange"]


def test_interaction_over_the_limit_is_skipped(monkeypatch):
    monkeypatch.setattr(vcr, "YAML_BYTES", 5000)
    data = cassette(TEXT, call({"body": "x" * 9000}, {}), PARSED)
    for size in (1, 700, 10**6):
        reader = Vcr()
        items = list(reader.read(pieces(data, size)))
        assert [getattr(item.value, "code", "exchange") for item in items] == ["exchange", "LORE220", "exchange"]


@pytest.mark.parametrize("data", [
    b"interactions:\n", b"interactions: []\n", b"interactions:\nversion: 1\n",
    b"interactions:\n- 5\n- request: 5\n- []\n", b"interactions:\n  5e1f:\n  - text: a\n",
])  # fmt: skip
def test_cassette_without_calls_is_empty(data):
    assert read(data) == []


def test_real_cassette_is_read_whole(corpus):
    file = corpus / "vcr" / "test_anthropic_thinking_agui_0_1_10_drops_prefix.yaml"
    calls = read(file.read_bytes())
    parsed = [call["request"]["parsed_body"] for call in yaml.safe_load(file.read_text("utf-8"))["interactions"]]
    assert [json.loads(call.body) for call in calls] == parsed

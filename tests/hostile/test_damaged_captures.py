"""Captures of requests that are damaged, wrong or meant to hurt: a problem or exit 2, never a crash."""

import json
from collections.abc import Callable

import pytest

from helpers.matrix import crossed
from hostile.captured import ANSWERS, SECOND, WRITERS, capture, folder, named, sse
from hostile.making import assert_refused

JUDGED = (("check", "--json"), ("diff-prefix", "--json", "--no-tokens"))


def _ends_well(ended) -> None:
    assert ended.code in (0, 1, 2, 3)
    if ended.code == 2 and not ended.err.startswith("not judged: "):  # it was read, and holds no whole request
        assert_refused(ended)


@pytest.mark.parametrize("format", WRITERS)
def test_undamaged_captures_are_read(lore, desk, format):
    """The tests below would say nothing if the whole captures were refused."""
    (desk / named(format)).write_bytes(capture(format))
    ended = lore("check", named(format), "--json")
    assert ended.code in (0, 1), ended.err
    assert json.loads(ended.out)["summary"]["turns"] == 2


ODD = [
    None, True, 5, -1.5e300, "", "text", "{", [], [1], [[]], {}, {"a": 1}, {"messages": 5},
    {"messages": [5, None, "x"]}, {"model": [], "messages": [{"role": 5, "content": 5}]},
    {"usage": 5}, {"text": 5}, {"kind": 5, "value": []},
    {"model": "m", "system": 5, "tools": 5, "messages": [{"role": "user", "content": {"a": 1}}]},
]  # fmt: skip


TEXTS = {
    "a NUL": "a\x00b",
    "a lone surrogate": "a\ud83db",
    "a BOM": "\ufeffx",
    "separators": "a\u2028b\u0085c",
    "escapes": "\x1b[31m",
    "bidi": "\u202ea",
    "a quote": "\"'\\",
    "a canary of YAML": "!!python/object/apply:os.system ['x']",
    "tabs": "\t: - #",
}


def _text(format: str, text: str) -> bytes:
    messages = [*SECOND["messages"], {"role": "user", "content": [{"type": "text", "text": text}]}]
    return capture(format, second={**SECOND, "messages": messages})


def _body(format: str, value: object) -> bytes:
    """Return a capture with another value for a body, as text in formats that store text."""
    stored = json.dumps(value) if format in ("har", "vcr") and not isinstance(value, dict) else value
    return capture(format, second=stored)


def _answer(format: str, value: object) -> bytes:
    return capture(format, answer=value)


ANSWERED = ({"usage": {"input_tokens": "x", "cache_read_input_tokens": -5, "cache_creation": 3}}, sse(ANSWERS[1]))
DAMAGES: dict[str, tuple[Callable[..., bytes], object]] = {
    **{f"with {name}": (_text, text) for name, text in TEXTS.items()},
    **{f"body {value!r}": (_body, value) for value in ODD},
    **{f"answer {str(value)[:60]!r}": (_answer, value) for value in (*ODD, *ANSWERED)},
}


@crossed("format, name", WRITERS, DAMAGES)
def test_damaged_capture_stops_no_command(lore, desk, format, name):
    damaged, value = DAMAGES[name]
    (desk / named(format)).write_bytes(damaged(format, value))
    for command in JUDGED:
        _ends_well(lore(*command, named(format)))


@pytest.mark.parametrize(
    "body", [b"", b"{", b"null", b"[]", b"\x00", b"\xff\xfe{", b"[" * 5000, b'{"messages":5}'], ids=repr
)
def test_folder_of_odd_requests_stops_no_command(lore, desk, body):
    folder(desk / "requests", body=body)
    folder(desk / "responses", answer=body)
    for name in ("requests", "responses"):
        _ends_well(lore("check", "--json", name))


def test_folder_of_odd_names_stops_no_command(lore, desk):
    folder(desk / "pairs")
    for name in (
        "a.request.json.response.json",
        ".request.json",
        "..response.json",
        "x\n.request.json",
        "é.request.json",
    ):
        (desk / "pairs" / name).write_bytes(b"{}")
    (desk / "pairs" / "sub.request.json").mkdir()
    (desk / "pairs" / "loop.request.json").symlink_to("loop.request.json")
    _ends_well(lore("check", "--json", "pairs"))


# bodies outside JSON: compressed, encoded, streamed

BASE64 = ("====", "AAAA=AAA", "\x00", "not base64 at all!", "e30", "e30=\n", "W10=", "H4sIAAAAAAAA/w==")


@pytest.mark.parametrize("text", BASE64, ids=repr)
def test_base64_that_is_none_stops_no_command(lore, desk, text):
    content = {"mimeType": "application/json", "text": text, "encoding": "base64"}
    for how in ({"answer": content}, {"second": content}):
        (desk / "capture.har").write_bytes(capture("har", **how))
        for command in JUDGED:
            _ends_well(lore(*command, "capture.har"))
    yaml = capture("vcr").replace(b"      string: ", b"      string: !!binary ", 1)
    (desk / "capture.yaml").write_bytes(yaml)
    for command in JUDGED:
        _ends_well(lore(*command, "capture.yaml"))


STREAMS = {
    "no data": "event: message_start\n\n",
    "no JSON": "data: {\n\n",
    "an array": "data: []\n\n",
    "NUL": "data: \x00\n\n",
    "cut": sse(ANSWERS[1])[:150],
    "half an event": sse(ANSWERS[1]) + 'data: {"type":',
    "CR": sse(ANSWERS[1]).replace("\n", "\r"),
    "CRLF": sse(ANSWERS[1]).replace("\n", "\r\n"),
    "done": "data: [DONE]\n\n",
    "an index of minus one": sse(ANSWERS[1]).replace('"index": 0', '"index": -1'),
    "an index of a billion": sse(ANSWERS[1]).replace('"index": 0', '"index": 1000000000'),
    "deltas of what never began": sse(ANSWERS[1]).partition("event: content_block_delta")[2],
}


@crossed("format, name", ["har", "vcr", "claude-trace", "claude-tap", "cassette", "vibe-proxy", "records"], STREAMS)
def test_odd_stream_stops_no_command(lore, desk, format, name):
    stream = STREAMS[name]
    (desk / named(format)).write_bytes(capture(format, answer=stream))
    for command in JUDGED:
        _ends_well(lore(*command, named(format)))

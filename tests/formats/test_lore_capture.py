"""Captures of `lore record`: by the contract, put together from their records, damaged, made to fill a memory."""

import base64
import gzip
import json

import brotli
import pytest
import zstandard

from formats.captures import codes, exchanges
from formats.test_captures import fixtures
from helpers.each import each
from helpers.fed import fed
from helpers.recognising import recognise
from lore.commands.main import main
from lore.formats.captures import lore_capture
from lore.formats.captures.lore_capture import LoreCapture
from lore.testing import ReaderContract, everything


def line_of(record, body=b""):
    """Write a record with a piece of a body, as text if it is UTF-8."""
    try:
        piece = {"body": body.decode()} if body else {}
    except UnicodeDecodeError:
        piece = {"base64": base64.b64encode(body).decode()}
    return json.dumps({**record, **piece}, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


OPENING = line_of({"lore_capture": 1, "at": "2026-11-23T17:00:00.000Z", "lore": "0.1.0", "upstreams": {}})
BODY = json.dumps(
    {"model": "claude-opus-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hé 🙂"}]}, ensure_ascii=False
).encode()
ANSWER = json.dumps(
    {"id": "msg_1", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "ñ"}],
     "usage": {"input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 3}}, ensure_ascii=False
).encode()  # fmt: skip


def request(call="a-1", body=BODY, **more):
    return line_of(
        {"call": call, "part": "request", "at": "2026-11-23T17:00:01.000Z", "method": "POST",
         "url": "https://api.anthropic.com/v1/messages", "headers": {}, **more}, body
    )  # fmt: skip


def response(call="a-1", body=ANSWER, **more):
    record = {"call": call, "part": "response", "at": "2026-11-23T17:00:02.500Z", "status": 200, "headers": {}}
    return line_of({**record, "ended": "complete", **more}, body)


class TestContract(ReaderContract):
    reader = LoreCapture
    samples = (
        *fixtures("lore-capture"),
        OPENING + request() + request("a-2") + response("a-2") + response(),
        OPENING + request() + OPENING + request()[:-20],
        OPENING,
    )


def test_capture_of_unreachable_server_reports_failed_calls(tmp_path, capsys):
    reason = "no answer from the upstream: name not known"
    failed = request(body=b"", ended=reason) + line_of({"call": "a-1", "part": "response", "ended": reason})
    (tmp_path / "calls.jsonl").write_bytes(OPENING + failed + failed)
    assert main(["check", str(tmp_path / "calls.jsonl"), "--json"]) == 0
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    message = f"a request to api.anthropic.com/v1/messages failed: {reason} (and 1 more like it)"
    assert (finding["code"], finding["line"], finding["message"]) == ("LORE231", 2, message)


def test_call_is_read_byte_for_byte():
    data = OPENING + request(account="0123456789ab") + response(headers={"request-id": "req_1"})
    assert recognise(data) is recognise(data.partition(b"\n")[2]) is LoreCapture
    (read,) = everything(LoreCapture(), data)
    assert (read.line, read.byte) == (2, len(OPENING))
    assert bytes(read.value.body) == BODY
    assert read.value.fidelity == "wire"
    assert (read.value.at, read.value.answered) == (1795453201.0, 1795453202.5)
    assert read.value.usage.read_tokens == 7
    assert (read.value.call.endpoint, read.value.call.status) == ("api.anthropic.com/v1/messages", 200)
    assert read.value.call.account == "0123456789ab"


@each([1, 2, 3, 5, 7, 64])
def test_body_in_pieces_is_joined(size):
    def records(part, head, body):
        pieces, at = [], 0
        while at < len(body):
            piece = body[at : at + size]
            piece = piece.decode(errors="ignore").encode() or body[at : at + 4]
            pieces.append(piece)
            at += len(piece)
        for number, piece in enumerate(pieces):
            more = {"more": True} if number + 1 < len(pieces) else {} if part == "request" else {"ended": "complete"}
            yield line_of({"call": "c", "part": part, **(head if not number else {}), **more}, piece)

    data = OPENING + b"".join((
        *records("request", {"method": "POST", "url": "https://api.anthropic.com/v1/messages", "headers": {}}, BODY),
        *records("response", {"status": 200, "headers": {}}, ANSWER),
    ))  # fmt: skip
    (call,) = exchanges(LoreCapture, data)
    assert bytes(call.body) == BODY
    assert call.usage.read_tokens == 7


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [("gzip", gzip.compress), ("br", brotli.compress), ("zstd", zstandard.ZstdCompressor().compress)],
)
def test_compressed_bodies_are_read(encoding, pack):
    headers = {"content-encoding": encoding}
    data = OPENING + request(body=pack(BODY), headers=headers) + response(body=pack(ANSWER), headers=headers)
    (call,) = exchanges(LoreCapture, data)
    assert bytes(call.body) == BODY
    assert call.usage.read_tokens == 7


def test_binary_pieces_are_joined():
    packed = gzip.compress(BODY)
    first = request(body=packed[:30], headers={"content-encoding": "gzip"}, more=True)
    remaining = line_of({"call": "a-1", "part": "request"}, packed[30:])
    (call,) = exchanges(LoreCapture, OPENING + first + remaining + response())
    assert bytes(call.body) == BODY


def test_call_without_end_is_read_at_next_run():
    reader = LoreCapture()
    assert fed(reader, OPENING + request()) == []
    assert [read.line for read in fed(reader, OPENING + request("b-1"))] == [2]
    assert [read.line for read in reader.end()] == [2]


def test_stream_cut_by_a_crash_has_usage():
    event = b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":4}}}\n\n'
    data = OPENING + request() + line_of({"call": "a-1", "part": "response", "status": 200, "more": True}, event)
    (call,) = exchanges(LoreCapture, data + request()[:50])
    assert call.usage.uncached_tokens == 4
    assert codes(LoreCapture, data + request()[:50]) == ["LORE202"]


def test_unfinished_request_is_a_problem():
    unfinished = request(body=BODY[:20], ended="the client left")
    end = line_of({"call": "a-1", "part": "response", "ended": "the client left"})
    assert exchanges(LoreCapture, OPENING + unfinished + end) == []
    assert codes(LoreCapture, OPENING + unfinished + end) == ["LORE203"]


@each("line, code", [
    (response("nobody"), "LORE226"),
    (b'{"call":"a","part":"other"}\n', "LORE203"),
    (b'{"part":"request"}\n', "LORE203"),
    (b'{"lore_capture":99}\n', "LORE212"),
    (request(body=b"") + response(), "LORE223"),
    (request().replace(b'"body":"', b'"base64":"') + response(), "LORE222"),
    (request() + response(body=b"\xff\xfe"), "LORE224"),
])  # fmt: skip
def test_wrong_record_is_a_problem(line, code):
    assert codes(LoreCapture, OPENING + line) == [code]


def test_memory_for_open_calls_is_bounded(monkeypatch):
    monkeypatch.setattr(lore_capture, "CAPTURED_BYTES", 10 * len(BODY))
    monkeypatch.setattr(lore_capture, "CAPTURED_CALLS", 4)
    reader = LoreCapture()
    for number in range(50):
        fed(reader, request(f"a-{number}"))
        assert len(reader._calls) <= 4
    monkeypatch.setattr(lore_capture, "CAPTURED_CALLS", 1000)
    for number in range(50):
        fed(reader, request(f"b-{number}"))
        assert reader._held <= 10 * len(BODY)


def test_body_over_the_limit_is_skipped(monkeypatch):
    monkeypatch.setattr(lore_capture, "BODY_BYTES", 1000)
    monkeypatch.setattr("lore.formats.contents.BODY_BYTES", 1000)
    piece = line_of({"call": "a-1", "part": "request", "more": True}, b"x" * 400)
    reader = LoreCapture()
    fed(reader, request(more=True) + piece * 100)
    assert reader._held < 3000
    problem, call = (read.value for read in fed(reader, response()))
    assert (problem.code, call.usage is None) == ("LORE220", False)


def test_small_body_that_decompresses_large_is_refused():
    for pack in (brotli.compress, zstandard.ZstdCompressor().compress):
        data = OPENING + request(body=pack(b" " * 10_000_000), headers={"content-encoding": "br"}) + response()
        assert codes(LoreCapture, data) == ["LORE220"]


def test_damaged_body_is_a_problem():
    for encoding, pack in (("br", brotli.compress), ("zstd", zstandard.ZstdCompressor().compress)):
        packed = bytearray(pack(BODY))
        packed[6:12] = b"\xff" * 6
        data = OPENING + request(body=bytes(packed), headers={"content-encoding": encoding}) + response()
        assert codes(LoreCapture, data) == ["LORE222"]

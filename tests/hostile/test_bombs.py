"""Captures that are small and want to be huge: YAML, archives, compressed bodies, streams. Never more than 200 MB."""

import base64
import functools
import gzip
import io
import json
import os
import struct
import sys
import zipfile
import zlib

import pytest

from helpers.matrix import crossed, some
from hostile.captured import ANSWERS, SECOND, TURNS, archive, capture, inspect, members, named, sse
from hostile.child import MEGABYTE, lore
from hostile.making import main

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the peak of a process is asked for as POSIX does")
MOST = 200 * MEGABYTE


def judged(name: str) -> None:
    """Run `lore check` in a separate process: it ends with an answer and stays small."""
    took = lore("check", name, "--json")
    assert took.code in (0, 1, 2, 3), took.err
    assert took.peak < MOST, f"{took.peak / MEGABYTE:.0f} MB"
    if took.code == 2:
        assert took.err.startswith(("error: ", "not judged: "))


# YAML


def _laughs(levels: int, width: int = 9) -> str:
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]" for level in range(1, levels)]
    return "\n".join(lines) + "\n"


_HEAD = "interactions:\n- request:\n    method: POST\n    uri: https://api.anthropic.com/v1/messages\n"
_TAIL = "  response:\n    status: {code: 200}\n    body: {string: '{}'}\nversion: 1\n"
YAML = {
    "laughs before": _laughs(9) + _HEAD + "    body: *a8\n" + _TAIL,
    "laughs parsed": _laughs(9) + _HEAD + "    parsed_body: {model: claude-x, messages: *a8}\n" + _TAIL,
    "laughs inside": _HEAD
    + "    parsed_body:\n"
    + "".join(f"      {line}\n" for line in _laughs(9).splitlines())
    + "      model: claude-x\n      messages: *a8\n"
    + _TAIL,
    "merges": _HEAD
    + "    parsed_body:\n      a0: &a0 {x0: 1, y0: 2}\n"
    + "".join(
        f"      a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}, *a{n - 1}, *a{n - 1}], x{n}: 1}}\n" for n in range(1, 24)
    )
    + _TAIL,
    "a ring": _HEAD + "    parsed_body: &ring {model: claude-x, messages: [*ring]}\n" + _TAIL,
    "deep flow": _HEAD + "    parsed_body: " + "[" * 50_000 + "]" * 50_000 + "\n" + _TAIL,
    "deep blocks": _HEAD + "    parsed_body:\n" + "".join(" " * (6 + n) + f"a{n}:\n" for n in range(1500)) + _TAIL,
    "many anchors": _HEAD + "    parsed_body:\n" + "".join(f"      k{n}: &n{n} [x]\n" for n in range(20_000)) + _TAIL,
    "a complex key": _HEAD + "    ? [a, {b: c}]\n    : d\n    parsed_body: {? {a: b} : c}\n" + _TAIL,
    "a key of a ring": _HEAD + "    parsed_body: &r {? *r : c}\n" + _TAIL,
    "an impossible date": _HEAD + "    parsed_body: {model: m, at: 2026-99-99, messages: []}\n" + _TAIL,
    "a huge integer": _HEAD + "    parsed_body: {model: m, messages: [], max_tokens: " + "9" * 200_000 + "}\n" + _TAIL,
}


@pytest.mark.parametrize("name", some(YAML, 8))
def test_yaml_that_grows_stays_small(desk, name):
    (desk / "capture.yaml").write_text(YAML[name])
    judged("capture.yaml")


TAGS = {
    "apply": "!!python/object/apply:os.mkdir ['pwned']",
    "new": "!!python/object/new:os.mkdir ['pwned']",
    "module": "!!python/module:os",
    "name": "!!python/name:os.mkdir",
    "tuple": "!!python/tuple [a]",
    "eval": "!!python/object/apply:eval [\"__import__('os').mkdir('pwned')\"]",
    "verbatim": "!<tag:yaml.org,2002:python/object/apply:os.mkdir> ['pwned']",
    "binary": "!!binary '####'",
    "int": "!!int x",
    "timestamp": "!!timestamp x",
}


@crossed("name, place", TAGS, ["body", "parsed_body", "top", "response"])
def test_yaml_tag_runs_nothing(desk, name, place):
    tag = TAGS[name]
    text = {
        "body": _HEAD + f"    body: {tag}\n" + _TAIL,
        "parsed_body": _HEAD + f"    parsed_body: {tag}\n" + _TAIL,
        "top": f"x: {tag}\n" + _HEAD + _TAIL,
        "response": _HEAD + "    body: '{}'\n" + f"  response: {tag}\n",
    }[place]
    (desk / "capture.yaml").write_text(text)
    assert main(["check", "capture.yaml"]) in (0, 1, 2, 3)
    assert not (desk / "pwned").exists()


# archives

_SAMPLE = json.dumps(json.loads(inspect(TURNS))["samples"][0]).encode()


NAMES = (
    "../../out.json",
    "/tmp/lore-out.json",
    "samples/../../out.json",
    "samples/..\\..\\out.json",
    "C:\\out.json",
    "samples/\x00.json",
    "samples/" + "x" * 60_000 + ".json",
    "samples//a.json",
    "samples/a_epoch_1.json/",
)


@pytest.mark.parametrize("name", NAMES, ids=[repr(name)[:30] for name in NAMES])
def test_archive_members_are_never_written(desk, name):
    work = desk / "deep" / "er"
    work.mkdir(parents=True)
    os.chdir(work)
    (work / "capture.eval").write_bytes(archive({**members(_SAMPLE), name: _SAMPLE}))
    before = sorted(str(path) for path in desk.rglob("*"))
    assert main(["check", "capture.eval"]) in (0, 1, 2, 3)
    assert sorted(str(path) for path in desk.rglob("*")) == before
    assert not os.path.exists("/tmp/lore-out.json")


def _overlapping(count: int, size: int) -> bytes:
    """Write an archive whose members all are the same compressed bytes: counted once each, they are huge."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("samples/r0_epoch_1.json", b'{"a":"' + b"x" * size + b'"}')
    data = whole.getvalue()
    begin = data.index(b"PK\x01\x02")
    local, entry = data[:begin], data[begin : data.index(b"PK\x05\x06")]
    directory = b"".join(entry.replace(b"r0", b"%02d" % (n % 100)) for n in range(count))
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, len(directory), begin, 0)
    return local + directory + end


ARCHIVES = {
    "overlapping": lambda: _overlapping(1000, 2 * MEGABYTE),
    "sizes that lie": lambda: archive(members(_SAMPLE)).replace(
        struct.pack("<L", len(_SAMPLE)), struct.pack("<L", 0xFFFFFFF0)
    ),
    "sizes that are small": lambda: archive(members(_SAMPLE * 2000)).replace(
        struct.pack("<L", len(_SAMPLE) * 2000), struct.pack("<L", 9)
    ),
    "checksums that lie": lambda: archive(members(_SAMPLE)).replace(b"PK\x03\x04\x14", b"PK\x03\x04\x63"),
    "an end that counts too many": lambda: (
        b"PK\x03\x04" + b"PK\x05\x06" + struct.pack("<4H2LH", 0, 0, 65535, 65535, 9, 0, 0)
    ),
    "encrypted": lambda: (
        archive(members(_SAMPLE))
        .replace(b"PK\x03\x04\x14\x00\x00", b"PK\x03\x04\x14\x00\x01")
        .replace(b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01")
    ),
    "samples that are no JSON": lambda: archive(members(b"{")),
    "samples that are an array": lambda: archive(members(b"[1]")),
    "samples that are deep": lambda: archive(members(b"[" * 100_000)),
}


@pytest.mark.parametrize("name", some(ARCHIVES, 6))
def test_archive_with_false_sizes_stays_small(desk, name):
    (desk / "capture.eval").write_bytes(ARCHIVES[name]())
    judged("capture.eval")


# bodies that are compressed, and streams


def _zeros(megabytes: int) -> bytes:
    """Return a body of `megabytes`, compressed by gzip as one member: a repeated block."""
    begin, block, end = b'{"model":"claude-x","messages":[{"role":"user","content":"', b"0" * MEGABYTE, b'"}]}'
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = [deflate.compress(piece) + deflate.flush(zlib.Z_FULL_FLUSH) for piece in (begin, block)]
    packed = [packed[0], packed[1] * megabytes, deflate.compress(end) + deflate.flush()]
    crc = functools.reduce(lambda crc, piece: zlib.crc32(piece, crc), [begin, *[block] * megabytes, end], 0)
    size = len(begin) + megabytes * MEGABYTE + len(end)
    return b"\x1f\x8b\x08\0\0\0\0\0\2\xff" + b"".join(packed) + struct.pack("<II", crc, size % 2**32)


@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("side", ["second", "answer"])
def test_gzip_bomb_in_har_stays_small(desk, side, twice):
    bomb = gzip.compress(_zeros(250)) if twice else _zeros(250)
    content = {"mimeType": "application/json", "encoding": "base64", "text": base64.b64encode(bomb).decode()}
    (desk / "capture.har").write_bytes(capture("har", **{side: content}))
    judged("capture.har")


@pytest.mark.parametrize("side", ["body: ", "string: "])
def test_gzip_bomb_in_cassette_stays_small(desk, side):
    bomb = base64.b64encode(_zeros(250)).decode()
    lines = capture("vcr").decode().split("\n")
    at = [number for number, line in enumerate(lines) if line.strip().startswith(side)][-1]
    lines[at] = lines[at].partition(side)[0] + side + f"!!binary {bomb}"
    (desk / "capture.yaml").write_text("\n".join(lines))
    judged("capture.yaml")


def _cassette() -> bytes:
    head, _, rest = capture("vcr").partition(b"\n")
    one = rest.removesuffix(b"version: 1\n")
    return head + b"\n" + one * (2 * MEGABYTE // len(one)) + b"version: 1\n"


def _nested() -> bytes:
    inner = archive(members(_SAMPLE))
    for _ in range(5):
        inner = archive({**members(_SAMPLE), "samples/nested_epoch_1.json": inner, "nested.eval": inner})
    return inner


def _bombs() -> bytes:
    bomb = {"mimeType": "application/json", "encoding": "base64", "text": base64.b64encode(_zeros(60)).decode()}
    entry = json.loads(capture("har", second=bomb, answer=bomb))["log"]["entries"][1]
    return json.dumps({"log": {"version": "1.2", "creator": {}, "entries": [entry] * 20}}).encode()


def _stream(said: str, count: int) -> str:
    """Return the stream of an answer with this event a number of times."""
    kind = json.loads(said % 0)["type"]
    start, _, rest = sse(ANSWERS[1]).partition("event: content_block_delta")
    events = (f"event: {kind}\ndata: {said % number}\n\n" for number in range(count))
    return start + "".join(events) + "event: content_block_delta" + rest


DELTA = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%d"}}'
BLOCK = '{"type":"content_block_start","index":%d,"content_block":{"type":"text","text":""}}'
BIG = b'{"a":"' + b"x" * (20 * MEGABYTE) + b'"}'
BOMBS = {
    "cassette of many interactions": ("yaml", _cassette),
    "archive that grows a thousandfold": ("eval", lambda: archive(
        members(_SAMPLE.replace(b'"row"', b'"' + b"x" * (100 * MEGABYTE) + b'"')), compresslevel=9)),
    "archive of many members": ("eval", lambda: archive(
        members(_SAMPLE) | {f"samples/row_epoch_{number}.json": b"{}" for number in range(30_000)})),
    "archive of many growing members": ("eval", lambda: archive(
        members(_SAMPLE) | {f"samples/r{number}_epoch_1.json": BIG for number in range(12)})),
    "archive inside archives": ("eval", _nested),
    "bombs in every entry": ("har", _bombs),
    "stream of many events": ("har", lambda: capture("har", answer=_stream(DELTA, 200_000))),
    "stream of many blocks": ("jsonl", lambda: capture("claude-trace", answer=_stream(BLOCK, 100_000))),
}  # fmt: skip


@pytest.mark.parametrize("name", some(BOMBS, 4))
def test_growing_capture_stays_small(desk, name):
    end, made = BOMBS[name]
    (desk / f"capture.{end}").write_bytes(made())
    judged(f"capture.{end}")


@pytest.mark.parametrize("format", some(["har", "cassette", "claude-tap", "inspect"], 2))
def test_document_over_100_mb_stays_small(desk, format):
    """One value over the whole file, its list of calls long: it is read call by call."""
    whole = capture(format, second={**SECOND, "metadata": {"user_id": "MORE"}})
    head, _, tail = whole.partition(b"MORE")
    with open(named(format), "wb") as file:
        file.write(head + b"x" * 100)
        for _ in range(120):
            file.write(b"y" * MEGABYTE)
        file.write(tail)
    judged(named(format))


@pytest.mark.parametrize("format", some(["records", "bodies", "claude-trace", "vibe-proxy", "litellm", "otel"], 2))
def test_many_lines_that_go_on_stay_small(desk, format):
    line = capture(format).splitlines(keepends=True)[1]
    with open(named(format), "wb") as file:
        file.writelines(line for _ in range(2 * MEGABYTE // len(line)))
    judged(named(format))


def test_folder_of_huge_requests_stays_small(desk):
    (desk / "pairs").mkdir()
    for number in range(4):
        with open(f"pairs/{number}.request.json", "wb") as file:
            file.write(b'{"model":"claude-x","max_tokens":5,"messages":[{"role":"user","content":"')
            file.writelines(b"x" * MEGABYTE for _ in range(80))
            file.write(b'"}]}')
    judged("pairs")

"""A line that is no record: the same problem, whatever the format."""

import json
import tracemalloc
from itertools import chain, repeat

import pytest

from helpers.each import each
from helpers.recognising import recognise
from lore.formats import lines
from lore.formats.base import Reader
from lore.formats.builder import DocumentReader
from lore.formats.captures.recorders import Documents
from lore.formats.claude.reader import ClaudeCode
from lore.formats.lines import LineCutter, LineReader, find_whole_records, read_records
from lore.formats.lore_log import LoreLog
from lore.formats.registry import READERS
from lore.model.codes import Problem
from lore.model.events import CacheReset
from lore.model.jsonslice import is_json
from lore.testing import everything
from model.making import dumps

OWN = [reader for reader in READERS.values() if reader.__module__.startswith("lore.")]
BY_LINES = [
    reader for reader in OWN if issubclass(reader, LineReader) and not issubclass(reader, DocumentReader | Documents)
]
LADDER = (
    (b'{"a":\n{}\n', "LORE201", 1), (b'{}\n{"a":', "LORE202", 2), (b"{}\n{} {}\n", "LORE209", 2),
    (b"{}\n" + b"x" * 200 + b"\n", "LORE217", 2), (b"{}\n\xff\n", "LORE201", 2),
    (b"{}\n" + b"[" * 3000 + b"\n", "LORE201", 2),
)  # fmt: skip


@pytest.mark.parametrize(("data", "code", "line"), LADDER)
@each(BY_LINES)
def test_unreadable_line_is_same_problem_for_all_readers(
    reader: type[Reader], data: bytes, code: str, line: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(LineCutter, "limit", 48 if code == "LORE217" else 4096)
    problems = {(read.value.code, read.line) for read in everything(reader(), data) if isinstance(read.value, Problem)}
    assert (code, line) in problems


def test_joined_records_after_nan_are_read():
    """Python's `json.dumps` writes NaN: the rest of the line was lost."""
    log = (
        b'{"kind":"session_started","v":1,"session_id":"s"}\n{"kind":"x","v":NaN}{"kind":"cache_reset","reason":"r"}\n'
    )
    values = [read.value for read in everything(READERS["lore"](), log)]
    assert any(isinstance(value, CacheReset) for value in values)


def test_records_on_one_line_have_their_own_bytes():
    reset = b'{"kind":"cache_reset","reason":"a"}'
    log = b"%b\n[%b,%b]\n" % (reset, reset, reset)
    reads = [read for read in everything(LoreLog(), log) if isinstance(read.value, CacheReset)]
    assert [(read.line, read.byte) for read in reads] == [(1, 0), (2, 37), (2, 73)]


LOG = ({"kind": "session_started", "session_id": "s"}, {"kind": "cache_reset", "reason": "first"})
RECORD = {"kind": "cache_reset", "reason": "second"}
STUB = b'{"kind":"append","item":{"type":"user_message","uuid":"u","te'


def reasons(damaged: bytes) -> tuple[list[str], list[str]]:
    """Return the reasons of resets in a log with a damaged line, and the codes of its problems."""
    log = b"".join(dumps(record) + b"\n" for record in LOG) + damaged + b'\n{"kind":"cache_reset","reason":"last"}\n'
    values = [read.value for read in everything(LoreLog(), log)]
    resets = [value.reason for value in values if isinstance(value, CacheReset)]
    return resets, [value.code for value in values if isinstance(value, Problem)]


@each([
    STUB + dumps(RECORD), dumps(RECORD) + STUB, b"\0" * 40 + dumps(RECORD), dumps(RECORD) + b"\0" * 40,
    STUB + b"\0\0" + dumps(RECORD) + STUB, STUB + dumps(RECORD) + b"\0\0",
])  # fmt: skip
def test_torn_record_hides_no_record_after_it(damaged: bytes):
    assert reasons(damaged) == (["first", "second", "last"], ["LORE201"])


def test_nested_object_of_torn_record_is_no_record():
    torn = b'{"kind":"mystery","data":[{"kind":"cache_reset","reason":"quoted"},{"ki'
    assert reasons(torn) == (["first", "last"], ["LORE201"])


def test_many_objects_of_torn_record_hide_no_record():
    torn = b'{"kind":"mystery","data":[' + b'{"a":{"b":1}},' * 40 + b'"te'
    assert reasons(torn + dumps(RECORD)) == (["first", "second", "last"], ["LORE201"])


def test_record_cut_by_line_feeds_is_whole():
    cut = b'{"kind":"cache_reset","reason":"one\n\nand\r\ntwo"}'
    assert reasons(cut) == (["first", "one\n\nand\ntwo", "last"], ["LORE209"])


@each("text", ["void f()\n{\n  x;\n}\nend", '{}\n{ }\n{\\"a\\": 1}\n\\"}', "\n".join(["if (a) { b(); }"] * 300)])
def test_cut_record_may_hold_code(text):
    cut = b'{"kind":"cache_reset","reason":"%b"}' % text.encode()
    assert reasons(cut) == (["first", text.replace("\\", ""), "last"], ["LORE209"])


def test_empty_object_in_text_of_cut_record_is_text():
    cut = b'{"type":"user","uuid":"b","sessionId":"s","message":{"role":"user","content":"f()\n{}\nend"}}\n'
    assert [
        value.code for value in (read.value for read in everything(ClaudeCode(), cut)) if isinstance(value, Problem)
    ] == ["LORE209"]


@each("text", ["one\ttwo", "one\x07two", "one\ttwo\nthree"])
def test_control_characters_in_text_are_read(text):
    record = b'{"kind":"cache_reset","reason":"%b"}' % text.encode()
    assert reasons(record) == (["first", text, "last"], ["LORE209"])
    values = [read.value for read in everything(LoreLog(), b"\n".join([record, dumps(RECORD)]))]
    assert [value.reason for value in values if isinstance(value, CacheReset)] == [text, "second"]


def test_first_record_cut_by_line_feeds_is_whole():
    cut = b'{"kind":"cache_reset","reason":"one\r\ntwo"}\n' + dumps(RECORD)
    values = [read.value for read in everything(LoreLog(), cut)]
    assert [value.reason for value in values if isinstance(value, CacheReset)] == ["one\ntwo", "second"]
    assert values[0].code == "LORE209"


def test_record_of_few_known_keys_follows_stub():
    records = [b'{"call":"1","part":"request","at":1,"url":"x","more":true}', b'{"call":"1","part":"request","at":2}']
    assert find_whole_records(records[0][:30] + records[1], json.loads(records[0])) == records[1:]
    assert find_whole_records(b'{"a":{"part":"request","at":2}', json.loads(records[0])) == []


@each("stub", [
    b'{"a":"te', b'{"a":1,', b'{"a":1', b'{"a', b"{", b'{"a":tr', b'{"a":"x\\', b'{"a":["q', b'{"a":[{"b":"q',
])  # fmt: skip
def test_record_with_other_keys_follows_stub(stub):
    assert find_whole_records(stub + b'{"type":1}', ["x", "y"]) == [b'{"type":1}']
    assert find_whole_records(b'{"a":[1,{"type":1}', ["x", "y"]) == []


def test_records_of_other_keys_follow_a_stub():
    line = b'{"id":"u","at":"20{"id":"u"}\0{"m":{"a":1}}'
    assert find_whole_records(line, ["x"]) == [b'{"id":"u"}', b'{"m":{"a":1}}']


def test_record_after_nul_bytes_follows_torn_line():
    assert reasons(STUB + b"\n" + b"\0" * 40 + dumps(RECORD)) == (["first", "second", "last"], ["LORE201"] * 2)


def test_too_long_line_is_no_part_of_record(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(LineCutter, "limit", 200)
    cut = b'{"kind":"cache_reset","reason":"one\n' + b"x" * 300 + b'\ntwo"}'
    assert reasons(cut) == (["first", "last"], ["LORE201", "LORE217", "LORE201"])


def test_keys_of_long_record_are_read_once(monkeypatch: pytest.MonkeyPatch):
    records = list[bytes]()
    monkeypatch.setattr("lore.formats.lines.raw_members", records.append)
    reasons(b"x\n" * 100)
    assert len(records) == 1


def test_each_broken_line_before_record_is_reported():
    assert reasons(STUB + b"\nnot json") == (["first", "last"], ["LORE201", "LORE201"])


@pytest.mark.parametrize("indent", [1, 4])
def test_records_printed_over_lines_are_recognised_and_read(indent: int):
    records = [*LOG, RECORD]
    printed = "\n".join(json.dumps(record, indent=indent) for record in records).encode()
    assert recognise(printed) is LoreLog
    plain = b"".join(dumps(record) + b"\n" for record in records)
    expected = [read.value for read in everything(LoreLog(), plain)]
    assert [read.value for read in everything(LoreLog(), printed)] == expected
    lines = [read.line for read in everything(LoreLog(), printed)]
    assert lines == [1, 5, 9]


TORN_RECORD = '{\n "kind": "cache_reset",\n "reas'
TAIL = 'he, she",\n "chain": {\n  "a": "b"\n }\n}'


def test_printed_record_glued_to_torn_one_is_read():
    printed = [json.dumps(record, indent=1) for record in (*LOG, RECORD, RECORD)]
    printed[2] = TORN_RECORD + printed[2]
    values = [read.value for read in everything(LoreLog(), "\n".join(printed).encode())]
    assert [value.reason for value in values if isinstance(value, CacheReset)] == ["first", "second", "second"]


@pytest.mark.parametrize("indent", [1, None])
@pytest.mark.parametrize("place", [0, 2])
@each("damaged", [TORN_RECORD, TORN_RECORD + '"\n}', TORN_RECORD + 'on": [', '{"kind":"cac', TAIL])
def test_damaged_printed_record_hides_no_other(indent: int | None, place: int, damaged: str):
    texts = [json.dumps(record, indent=indent) for record in (*LOG, RECORD, RECORD, RECORD)]
    log = "\n".join([*texts[:place], damaged, *texts[place:]]).encode()
    reads = everything(LoreLog(), log)
    resets = [read.value.reason for read in reads if isinstance(read.value, CacheReset)]
    assert resets == ["first", "second", "second", "second"]
    first = "\n".join([*texts[:place], ""]).count("\n") + 1
    assert min(read.line for read in reads if isinstance(read.value, Problem)) == first


def test_list_printed_without_indentation_is_one_record():
    text = json.dumps([{"a": [n]} for n in range(3000)], indent=0).encode()
    assert [line.data for lines in read_records([text]) for line in lines] == [text]


def test_printed_list_is_parsed_a_few_times_only(monkeypatch: pytest.MonkeyPatch):
    """Each line that begins with a closing bracket had the whole list parsed: 4,000 entries took 12 seconds."""
    parsed: list[int] = []
    monkeypatch.setattr(lines, "is_json", lambda data: not parsed.append(len(data)) and is_json(data))
    text = json.dumps([{"a": [n]} for n in range(500)], indent=0).encode()
    assert [line.data for batch in read_records([text]) for line in batch] == [text]
    assert sum(parsed) <= 4 * len(text)


def test_blank_lines_inside_printed_record_are_not_held(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(LineCutter, "limit", 2**16)
    tracemalloc.start()
    try:
        list(read_records(chain((b"{\n",), repeat(b"\n" * 2**16, 256))))
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_too_long_printed_record_is_one_problem(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(LineCutter, "limit", 400)
    long = {"kind": "cache_reset", "reason": ["long"] * 100}
    log = "\n".join(json.dumps(record, indent=1) for record in (*LOG, long, RECORD)).encode()
    reads = everything(LoreLog(), log)
    assert [read.value.reason for read in reads if isinstance(read.value, CacheReset)] == ["first", "second"]
    assert [(read.value.code, read.line) for read in reads if isinstance(read.value, Problem)] == [("LORE217", 9)]

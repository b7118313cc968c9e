"""Expensive files take work in proportion to their bytes. Calls are counted; no time is measured.

A function call costs about as much as parsing 20 bytes: the budget is about one call a byte. YAML's parser is itself
Python: its budget is 20 times the parser's calls.
"""

from random import Random

import pytest

from helpers.fed import pieces
from helpers.matrix import some
from helpers.work import calls
from hostile import costly
from hostile.captured import WRITERS, capture
from hostile.formats import FORMATS, recording
from lore.formats.registry import READERS, reader_of
from lore.model.codes import Code, Problem
from lore.model.jsonslice import is_deep
from lore.model.limits import BEGINNING_BYTES, RECORD_LEVELS
from lore.testing import everything

SIZE = 30_000
TINY = (
    "lines of ", "nothing for", "small ", "texts for", "spans without", "malformed events", "a body of braces",
    "objects for events",
)  # fmt: skip
TINY_CALLS = 60  # calls a byte in a file of tiny lines: each is looked at like a record
APART = 3_000  # calls that a file takes whatever it holds: readers are imported, patterns compiled
LINES = [name for name in costly.files(100) if name.startswith("lines of")]
OTHERS = [name for name in costly.files(100) if name not in LINES]


@pytest.mark.parametrize("name", [*some(OTHERS, 12), *some(LINES)])
def test_costly_file_takes_one_call_a_byte(name):
    files = [costly.files(size)[name] for size in (SIZE, 2 * SIZE)]
    costly.reading(files[0])()  # the first use imports and compiles
    first, second = (calls(costly.reading(data)) for data in files)
    most = len(files[0]) * (TINY_CALLS if name.startswith(TINY) else 2)
    if name.endswith("YAML"):
        most = costly.BUDGET * calls(costly.parsing(files[0]))
    assert first <= most + APART
    assert second <= 2.1 * first + APART


@pytest.mark.parametrize("kind", some(FORMATS, 2))
def test_short_lines_between_records_cost_few_calls(kind):
    chance, short = Random(kind), list(costly.SHORT.values())
    lines = FORMATS[kind].strip().replace(b"%s", b"1").splitlines(keepends=True)
    data = b"".join(line.rstrip(b"\n") + b"\n" + b"".join(chance.choices(short, k=2_000)) for line in lines)
    costly.reading(data)()
    assert calls(costly.reading(data)) <= TINY_CALLS * len(data) + APART


def problems(data: bytes, name: str | None = None) -> list[Problem]:
    """Return the problems that a file's reader reports."""
    reader = reader_of(data[: 256 * 1024]) if name is None else READERS[name]()
    assert reader is not None
    return [read.value for read in everything(reader, data) if isinstance(read.value, Problem)]


NESTED = {f"{kind}, {what}": pair for kind in FORMATS for what, pair in {
    "lists": (kind, b"[", b"]"), "objects": (kind, b'{"a":', b"}")}.items()}  # fmt: skip


@pytest.mark.parametrize(("kind", "begin", "end"), NESTED.values(), ids=NESTED)
def test_record_nested_over_1000_levels_is_a_problem(kind, begin, end):
    """It was the parser that refused, at a depth of its own: 1,024 here, another one under another Python."""
    whole = recording(kind, value=begin * 900 + b"1" + end * 900)
    deep = recording(kind, value=begin * RECORD_LEVELS + b"1" + end * RECORD_LEVELS)
    assert problems(whole) == []
    assert [one.message for one in problems(deep) if one.code == Code.UNREADABLE_LINE] == [
        "unreadable line: nested more than 1,000 levels deep"
    ]


@pytest.mark.parametrize("kind", sorted(WRITERS.keys() - {"vcr", "vcr-parsed", "eval", "litellm", "otel"}))
def test_capture_nested_over_1000_levels_is_a_problem(kind):
    body = {"model": "claude-x", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}], "metadata": "DEEP"}
    data = capture(kind, second=body)
    for quoted in (b'\\"DEEP\\"', b'"DEEP"'):
        data = data.replace(quoted, b"[" * RECORD_LEVELS + b"]" * RECORD_LEVELS)
    found = problems(data)
    assert len(found) == 1
    assert "nested more than 1,000 levels deep" in found[0].message


# text next to a bracket, and its own depth
BESIDE = [(b"", 0), (b"", 0), (b"1,", 0), (b'"[[\\""', 0), (b"[],", 1), (b"{[]},", 2)]


@pytest.mark.parametrize("seed", range(20))
def test_depth_equals_a_count_of_each_bracket(seed, monkeypatch):
    monkeypatch.setattr("lore.model.jsonslice.RECORD_LEVELS", 20)
    monkeypatch.setattr("lore.model.jsonslice._STRETCH", 17)
    chance = Random(seed)
    for _ in range(100):
        data, depth, deepest = b"[", 1, 1
        while depth:
            opens = chance.random() < 0.52 and len(data) < 400
            beside, height = chance.choice(BESIDE)
            depth += 1 if opens else -1
            deepest = max(deepest, depth + height)
            data += (b"[" if opens else b"]") + beside
        assert is_deep(data) is (deepest > 20)


def test_depth_near_the_limit_takes_few_calls():
    """Brackets were followed one run after another: a list of empty lists cost 30 times a parser."""
    for teeth in (b"[],", b"[[[]]],", b'{"a":[]},'):
        data = b"[" * 990 + teeth * 20_000 + b"1" + b"]" * 990
        assert calls(lambda data=data: is_deep(data)) < 1_000


@pytest.mark.parametrize(("name", "list"), [("har", "log.entries"), ("claude-tap", "packets"), ("inspect", "samples")])
@pytest.mark.parametrize("piece", [BEGINNING_BYTES, 3 * BEGINNING_BYTES])
def test_list_beginning_after_4_mib_is_reported_missing(name, list, piece):
    """It was passed over in silence: a file with `--format har` gave no turns and no problem."""
    data = b'{"x":"' + b"x" * (BEGINNING_BYTES + 10) + b'","log":{"entries":[{}]},"packets":[{}],"samples":[{}]}'
    found = [*READERS[name]().read(pieces(data, piece))]
    assert [(one.value.message, one.line, one.byte) for one in found] == [
        (f"a document without {list} within 4 MiB", 1, 0)
    ]


def test_document_that_is_not_a_list_is_reported():
    assert [one.message for one in problems(b'{"a": 1}', "proxy-list")] == ["a document without a list"]


def test_session_without_list_of_messages_is_reported():
    data = b'{"x":"' + b"x" * (BEGINNING_BYTES + 10) + b'","messages":[]}'
    (found,) = problems(data, "gemini-cli-json")
    assert found.message == "a document without messages within 4 MiB"

"""Law 2: nothing is dropped silently. Every line of a recording becomes an event, an exchange or a problem."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import ROOT
from helpers.each import each
from helpers.recognising import recognise
from helpers.strategies import body_files, claude_logs, conversations, lore_logs, read_all, write
from hostile.wrong import WRONG, places, replaced
from lore.commands.main import main
from lore.formats.captures.bodies import Bodies
from lore.formats.claude.reader import ClaudeCode
from lore.formats.claude.records import METADATA
from lore.formats.lore_log import LoreLog
from lore.model.codes import Problem
from lore.model.events import Append, OpaqueEvent
from lore.model.turn import Exchange

SILENT = METADATA | {"system"}  # known lines that the model never sees


def _numbers(data: bytes) -> dict[int, bytes]:
    """Return the lines of a file that are not blank, by number."""
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return {number: line for number, line in enumerate(lines, 1) if line.strip(b" \t\r")}


def _is_content(line: bytes) -> bool:
    """Return whether the model could have seen a line of a Claude Code log."""
    try:
        record = json.loads(line)
    except ValueError:
        return True
    return not isinstance(record, dict) or (
        record.get("type") not in SILENT and not record.get("isVisibleInTranscriptOnly")
    )


@given(lore_logs())
def test_every_line_of_lore_log_is_reported(log):
    assert {read.line for read in read_all(LoreLog(), log.data)} == set(_numbers(log.data))


@given(claude_logs())
def test_every_line_of_claude_log_is_reported(data):
    numbers = {number for number, line in _numbers(data).items() if _is_content(line)}
    assert numbers - {read.line for read in read_all(ClaudeCode(), data)} == set()


@pytest.mark.parametrize("content", ["5", "true", '{"a":1}', '{"type":"text","text":"hello"}'])
@each(["user", "assistant"])
def test_unknown_claude_content_is_kept_and_reported(kind, content):
    line = f'{{"type":"{kind}","uuid":"u","sessionId":"s","message":{{"id":"m","content":{content}}}}}\n'.encode()
    values = [read.value for read in read_all(ClaudeCode(), line)]
    assert any(isinstance(value, Problem) for value in values)
    assert any(isinstance(value, OpaqueEvent) and bytes(value.record) == line.strip() for value in values)


def test_attachment_between_boundary_and_summary_is_reported():
    lines = [
        b'{"type":"user","uuid":"u","sessionId":"s","message":{"role":"user","content":"hi"}}',
        b'{"type":"system","uuid":"b","parentUuid":null,"sessionId":"s","subtype":"compact_boundary"}',
        b'{"type":"attachment","uuid":"a","parentUuid":"b","sessionId":"s","attachment":{"type":"file"}}',
        b'{"type":"user","uuid":"c","sessionId":"s","isCompactSummary":true,"message":{"content":"sum"}}',
    ]
    assert 3 in {read.line for read in read_all(ClaudeCode(), b"\n".join(lines))}


AGENTS = ("claude-code", "codex", "copilot", "deepseek-harness", "gemini-cli", "kimi-code", "pi", "qwen-code")
LOGS = [path for agent in AGENTS for path in sorted((ROOT / "fixtures" / agent).rglob("*.jsonl"))]


@given(st.sampled_from(LOGS), st.data())
def test_member_of_wrong_type_hides_no_record(log, data):
    lines = log.read_bytes().splitlines()
    at = data.draw(st.integers(0, len(lines) - 1))
    record = json.loads(lines[at])
    path = data.draw(st.sampled_from([path for path in places(record) if path[-1] != "type"]))
    lines[at] = write(replaced(record, path, data.draw(st.sampled_from(WRONG))))
    reader = recognise(log.read_bytes())()
    problems = [read.value.message for read in read_all(reader, b"\n".join(lines)) if isinstance(read.value, Problem)]
    assert not [message for message in problems if message.startswith("Expected `")]


@given(body_files())
def test_every_line_of_body_file_is_reported(data):
    reads = read_all(Bodies(), data)
    whole = len(reads) == 1 and isinstance(reads[0].value, Exchange)
    assert whole or {read.line for read in reads} == set(_numbers(data))


@given(conversations())
def test_damaged_first_line_hides_no_later_body(request_bodies):
    lines = [write(body) for body in request_bodies]
    data = b"\n".join([lines[0][: len(lines[0]) // 2], *lines]) + b"\n"
    reads = read_all(Bodies(), data)
    assert [read.value.body for read in reads if isinstance(read.value, Exchange)] == lines
    assert [read.line for read in reads if isinstance(read.value, Problem)] == [1]


@given(lore_logs())
def test_unreadable_lines_become_problems_with_line_and_byte(log):
    for read in read_all(LoreLog(), log.data):
        if isinstance(read.value, Problem):
            start = log.data[: read.value.byte].rfind(b"\n") + 1
            assert (read.value.line, read.value.byte) == (log.data[:start].count(b"\n") + 1, start)


def test_problems_are_counted_in_reports(desk, capsys):
    (desk / "log.jsonl").write_bytes(b'{"kind":"session_started","session_id":"s"}\n' + b"{\n" * 30)
    main(["check", "log.jsonl", "--json"])
    assert json.loads(capsys.readouterr().out)["summary"]["problems"] == 30


def test_every_line_of_recording_is_reported(recording):
    data = recording.read_bytes()
    reader = recognise(data[: 1 << 18])()
    numbers = {
        number for number, line in _numbers(data).items() if not isinstance(reader, ClaudeCode) or _is_content(line)
    }
    assert numbers - {read.line for read in read_all(reader, data)} == set()


def test_escaped_kind_is_read_despite_lone_surrogate():
    item = b'{"type":"user_message","uuid":"u","text":"cut \\ud83d"}'
    header = b'{"kind":"session_started","session_id":"s"}\n'
    (read,) = read_all(LoreLog(), header + b'{"kind":"\\u0061ppend","item":' + item + b"}")[1:]
    assert isinstance(read.value, Append)

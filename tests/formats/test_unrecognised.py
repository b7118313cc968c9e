"""Files that no reader takes."""

import sqlite3

import pytest

from formats.pi import plain
from helpers.each import each
from helpers.recognising import recognise
from lore.formats.unrecognised import FOREIGN_FILES, describe, find_foreign_file, members_of, tables_of
from lore.model.canonical import encode


def database(folder, *statements):
    path = folder / "made.db"
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return path.read_bytes()


DATABASES = {
    "a file of Cursor": ("CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB)", "CREATE TABLE meta (key, value)"),
    "a Cursor state store": ("CREATE TABLE ItemTable (key, value)", "CREATE TABLE cursorDiskKV (key, value)"),
    "Zed's store of threads": ("CREATE TABLE IF NOT EXISTS threads (id, summary, updated_at, data_type, data BLOB)",),
    "a Crush session store": (
        "CREATE TABLE sessions (id, prompt_tokens, completion_tokens, cost, summary_message_id)",
        "CREATE TABLE messages (id, parts, is_summary_message)",
    ),
    "a Goose session store": (
        "CREATE TABLE sessions (id, input_tokens, accumulated_input_tokens)",
        "CREATE TABLE messages (message_id, role, content_json)",
    ),
    "a database of OpenCode 2": ("CREATE TABLE session_v2 (id)", "CREATE TABLE session_message (id, data)"),
    "Copilot CLI's store of usage": ('CREATE TABLE "assistant_usage_events" (id, session_id)',),
}


@pytest.mark.parametrize("what", DATABASES)
def test_foreign_database_is_recognised_by_its_tables(tmp_path, what):
    match = find_foreign_file(database(tmp_path, *DATABASES[what]), "any.db")
    assert match is not None
    assert match.what == what


FILES = [
    ("T-1.json", {"v": 3, "id": "T-8d1c", "created": 1, "messages": []}, "a file of Amp"),
    ("s.jsonl", {"type": "session_start", "id": "x", "title": "t", "cwd": "/w"}, "a file of Droid"),
    (
        "updates.jsonl",
        {"method": "session/update", "params": {"update": {"sessionUpdate": "x"}}},
        "a file of Grok Build",
    ),
    ("meta.json", {"session_id": "s", "stats": {"session_prompt_tokens": 1}}, "a file of Mistral Vibe"),
    (
        "transcript.jsonl",
        {"v": 1, "agent": "claude-code", "cli_version": "0.8.42", "type": "user"},
        "a transcript that",
    ),
    ("old.jsonl", {"working_dir": "/w", "description": "d", "message_count": 2}, "a Goose session"),
]


@pytest.mark.parametrize(("name", "record", "what"), FILES)
def test_foreign_file_is_recognised_by_its_members(name, record, what):
    match = find_foreign_file(encode(record) + b"\n", name)
    assert match is not None
    assert match.what.startswith(what)


def test_log_of_droid_is_of_no_other_agent():
    stored = encode({"type": "session_start", "id": "x", "title": "t"}) + b"\n" + encode(plain().lines[1])
    assert recognise(stored) is recognise(encode({"type": "system", "subtype": "init", "session_id": "x"})) is None


@pytest.mark.parametrize(("name", "agent"), [
    ("/p/.aider.llm.history", "aider"),
    ("/home/me/.grok/sessions/%2Fw/1/chat_history.jsonl", "grok"),
    ("C:\\Users\\me\\.factory\\sessions\\-w\\x.jsonl", "droid"),
    ("/home/me/.codewhale/sessions/a.json", "codewhale"),
    ("fixtures/simple.txtar", "txtar"),
])  # fmt: skip
def test_other_foreign_file_is_recognised_by_its_path(name, agent):
    match = find_foreign_file(b"TO LLM 2026-01-01\n", name)
    assert match is not None
    assert match.agent == agent


# A request that quotes an Amp thread, or has members of the same names further below, is a request.
@pytest.mark.parametrize("body", [
    {"model": "m", "messages": [{"role": "user", "content": '{"v":1,"id":"T-1","created":1}'}]},
    {"model": "m", "messages": [{"v": 1, "id": "T-1", "created": 1, "role": "user", "content": ""}]},
    {"model": "m", "metadata": {"method": "x", "params": {}}, "messages": ["sessionUpdate"]},
])  # fmt: skip
def test_nested_members_do_not_make_a_foreign_file(body):
    assert find_foreign_file(encode(body), "b.json") is None


def test_unknown_database_is_described_by_its_tables(tmp_path):
    data = database(tmp_path, "CREATE TABLE one (a)", 'create table "two" (b)')
    assert find_foreign_file(data, "x.db") is None
    assert tables_of(data) == ["one", "two"]
    assert describe(data)[0] == "a SQLite database with the tables one, two"


@each("head, what", [
    (b'{"a":1}\n{"a":2}\n', "JSON Lines with the members a"),
    (b'{\n  "a": {"x": [1]},\n  "b": "}"\n}', "a JSON object with the members a, b"),
    (b"\xef\xbb\xbf [1]", "a JSON array"),
    (b"hello\n", "plain text"),
    (b"\x7fELF\x00\x00", "a binary file"),
    (b"\x1f\x8b\x08", "a gzip archive"),
    (b"%PDF-1.7", "a PDF document"),
    (b"{" + b'"k":1,' * 9, "a JSON object with the members k"),
    (b"{" + b",".join(b'"k%d":1' % n for n in range(9)), "a JSON object with the members k0, k1, k2, k3, k4, k5, …"),
    (b'{"messages":[{"role":"user","content":"a"}]}\n{"messages":[{"role":"user","content":"b"}]}\n',
     "a data set: conversations without a response, usage, time, model or id"),
    (b"{{{{[[[", ""),
    (b"", "plain text"),
])  # fmt: skip
def test_unknown_file_is_described_by_its_beginning(head, what):
    assert describe(head)[0] == what


def test_members_of_a_cut_object_are_found():
    assert list(members_of(b'{"a":{"b":1},"c":"x\\"","d":[{"e":')) == ["a", "c", "d"]
    assert members_of(b'x {"a":1}') == {}


def test_every_foreign_file_has_a_mark():
    assert len(FOREIGN_FILES) <= 20
    assert all(row.tables or row.members or row.ends or row.folder for row in FOREIGN_FILES)

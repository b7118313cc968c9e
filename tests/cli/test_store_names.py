"""Every command that names a session accepts a stored one: `URL#SESSION_ID`, `URL#SESSION_ID#TURN`."""

import json
import os
import re
from contextlib import closing
from pathlib import Path

import pytest

from cli.running import lore, put, session
from cli.storing import answered, appended, each_store, exported
from helpers.schemas import valid
from lore.errors import LoreError
from lore.model.events import CacheReset
from lore.recording.corpus import Name, parse_name
from lore.run.outputs import appending
from lore.store.base import SessionDelta
from lore.store.registry import open_store
from model.making import header, log, record, user

pytestmark = pytest.mark.usefixtures("desk")

_FINGERPRINT = re.compile(r'"fingerprint":"[0-9a-f]+",')
BREAKING = session(record("session_changed", system="other"), record("turn_started", turn=3))


@pytest.fixture(autouse=True)
def files(desk):
    put("s.jsonl", session())


def stored(url, *names):
    for name in names or ("s.jsonl",):
        answered("import", name, url=url)
    return f"{url}#s-1"


def same_answer(url, *args):
    """Run a command on the file and on the stored session; the answers differ by the name only."""
    name = stored(url)
    for more in ((), ("--json",)):
        from_file, other = lore(*args, "s.jsonl", *more), lore(*args, name, *more)
        answers = [_FINGERPRINT.sub("", result.out) for result in (from_file, other)]  # it is made of the name, too
        assert (other.code, answers[1].replace(name, "s.jsonl"), other.err) == (
            from_file.code,
            answers[0],
            from_file.err,
        )
        assert from_file.out


@each_store
@pytest.mark.parametrize("args", [
    ("fold",),
    ("fold", "--unpruned"),
    ("diff-prefix", "--no-tokens"),
    ("check",),
    ("simulate",),
    ("knowledge", "list"),
])  # fmt: skip
def test_stored_session_gives_the_answers_of_its_log(url, args):
    same_answer(url, *args)


@each_store
@pytest.mark.parametrize("turn", ["", "#1", "#2", "#main:1"])
def test_turn_of_a_stored_session_follows_its_id(url, turn):
    name = stored(url)
    from_file, other = lore("assemble", f"s.jsonl{turn}"), lore("assemble", f"{name}{turn}")
    assert (other.code, other.out) == (0, from_file.out)
    assert lore("convert", name).out == lore("convert", "s.jsonl").out


@each_store
def test_diff_prefix_compares_stored_and_other_logs(url):
    name = stored(url)
    result = lore("diff-prefix", "s.jsonl", name, "--no-tokens", "--json")
    size = len(session())
    assert result.json["file"] == {"left_bytes": size, "right_bytes": size, "common_prefix_bytes": size}
    assert result.json["relation"] == "identical"
    turns = lore("diff-prefix", f"{name}#1", f"{name}#2", "--no-tokens", "--json").json
    assert (turns["file"], turns["relation"]) == (None, "extension")
    put("t.jsonl", BREAKING)
    assert lore("diff-prefix", "t.jsonl", name, "--no-tokens", "--json").json["file"] == {
        "left_bytes": len(BREAKING), "right_bytes": size, "common_prefix_bytes": size,
    }  # fmt: skip


def test_id_that_looks_like_a_turn_is_found():
    for name in ("x", "x#3", "x#main:1"):
        put("one.jsonl", log(header(session_id=name)))
        answered("import", "one.jsonl", url="sqlite:s.db")
    assert parse_name("sqlite:s.db#x#3") == Name("sqlite:s.db#x#3")
    assert parse_name("sqlite:s.db#x#main:1") == Name("sqlite:s.db#x#main:1")
    assert parse_name("sqlite:s.db#x#4") == Name("sqlite:s.db#x", None, 4)
    assert parse_name("sqlite:s.db#x#3#5") == Name("sqlite:s.db#x#3", None, 5)
    assert lore("fold", "sqlite:s.db#x#3", "--json").json["session"]["id"] == "x#3"


def test_id_with_wildcards_is_not_a_pattern():
    put("s.jsonl", log(header(session_id="[a]*")))
    stored("jsonl:s")
    assert lore("check", "jsonl:s#[a]*", "--json").json["summary"]["files"] == 1


@each_store
def test_check_of_a_store_judges_each_session(url):
    put("t.jsonl", BREAKING.replace(b'"s-1"', b'"t"'))
    stored(url, "s.jsonl", "t.jsonl")
    result = lore("check", url, "--json")
    valid(result.json, "check")
    assert result.json["summary"]["files"] == 2
    assert {finding["path"] for finding in result.json["findings"]} <= {f"{url}#s-1", f"{url}#t"}
    assert lore("check", url, "--json", "--jobs", "2").out == result.out
    assert lore("check", "s.jsonl", "t.jsonl", "--json").json["summary"] == result.json["summary"]


def test_baseline_keeps_stored_sessions():
    put("t.jsonl", BREAKING, {"kind": "append"})  # a record without its fields is a finding
    stored("sqlite:s.db", "t.jsonl")
    assert lore("check", "sqlite:s.db").code == 1
    lore("check", "sqlite:s.db", "--baseline", "known.json", "--update-baseline")
    assert '"sqlite:s.db#s-1"' in Path("known.json").read_text()
    assert lore("check", "sqlite:s.db", "--baseline", "known.json").code == 0
    lore("check", "s.jsonl", "--baseline", "known.json", "--update-baseline")  # looked at another file alone
    assert '"sqlite:s.db#s-1"' in Path("known.json").read_text()


@each_store
def test_empty_or_missing_store_is_an_error(url):
    stored(url)
    answered("delete", "s-1", url=url, schema="store-written")
    result = lore("check", url)
    assert (result.code, f"no recordings in {url}" in result.err) == (2, True)
    for name in ("sqlite:none.db", "sqlite:none.db#x", "jsonl:none#x", "jsonl:none#x#1"):
        for command in ("check", "fold", "assemble", "convert"):
            result = lore(command, name)
            assert (result.code, result.out) == (2, ""), (command, name)
    assert not list(Path().glob("none*"))


@each_store
def test_unknown_session_error_names_the_store(url):
    name = stored(url)
    result = lore("fold", f"{name}2")
    assert (result.code, result.err) == (
        2, f"error: {url} has no session 's-12'\nhint: `lore store list --store {url}` names those it has\n",
    )  # fmt: skip
    whole = lore("fold", url)
    assert (whole.code, f"error: {url} is a store, not a session\n" in whole.err) == (2, True)


@each_store
def test_knowledge_of_a_stored_session_is_changed(url):
    name = stored(url)
    assert lore("knowledge", "add", name, "abcdef", "--title", "t").out == "abcdef\n"
    assert lore("knowledge", "update", name, "abcde", "--content", "more").code == 0
    added = [json.loads(line) for line in exported("s-1", url)[len(session()) :].splitlines()]
    assert [(entry["kind"], entry["op"], entry["id"]) for entry in added] == [
        ("knowledge", "add", "abcdef"), ("knowledge", "update", "abcdef"),
    ]  # fmt: skip
    listed = lore("knowledge", "list", name, "--json").json
    assert [(entry["id"], entry["content"]) for entry in listed["knowledge"]] == [("abcdef", "more")]
    assert lore("knowledge", "remove", name, "abcdef").code == 0
    assert lore("knowledge", "list", name, "--json").json["knowledge"] == []
    info = answered("show", "s-1", url=url)["session"]
    assert (info["events"], info["updated_at"] is not None) == (session().count(b"\n") + 3, True)


@each_store
def test_assemble_persists_in_the_store(url):
    entry = record("knowledge", op="add", id="abcdef1", title="One", content="first")
    late = (record("append", item=user("u3", "third")), record("turn_started", turn=3))
    put("s.jsonl", session(entry, *late))
    put("file.jsonl", session(entry, *late))
    name = stored(url)
    from_file, other = (lore("assemble", path, "--persist") for path in ("file.jsonl", name))
    assert (other.code, other.out) == (from_file.code, from_file.out) == (0, from_file.out)
    assert exported("s-1", url) == Path("file.jsonl").read_bytes() != session(entry, *late)
    assert lore("assemble", name, "--persist").out == from_file.out
    assert exported("s-1", url) == Path("file.jsonl").read_bytes()


@each_store
def test_append_after_another_writer_is_a_conflict(url):
    stored(url)
    with appending(f"{url}#s-1") as append:
        with closing(open_store(url)) as other:
            delta = SessionDelta(base=other.load("s-1").head, new_events=(b'{"kind":"cache_reset","reason":"theirs"}',))
            other.save_delta("s-1", delta)
        with pytest.raises(LoreError, match="the store holds event") as caught:
            append([CacheReset(reason="mine")])
    assert caught.value.hint == "nothing was written: run the command again"
    assert exported("s-1", url).endswith(b'"theirs"}\n')
    for reset in ([], [CacheReset(reason="one")]):
        with appending(f"{url}#s-1") as append:
            assert not append(reset)
    assert exported("s-1", url).endswith(b'"theirs"}\n{"kind":"cache_reset","reason":"one"}\n')


def test_password_is_shown_nowhere():
    name = "postgresql://me:hunter2@127.0.0.1:1/none#s"
    commands = (
        ["fold", name], ["check", name], ["diff-prefix", name, "s.jsonl"], ["store", "list", "--store", name],
        ["knowledge", "add", name, "k", "--title", "t"], ["fold", name.replace("postgresql", "mysql")],
    )  # fmt: skip
    for args in commands:
        result = lore(*args)
        assert result.code == 2, args
        assert "hunter2" not in result.out + result.err, args


def test_incomplete_save_is_reported_once():
    stored("jsonl:s")
    appended("s-1", b'{"kind":"cache_reset","reason":"x"}', url="jsonl:s")
    file = next(path for path in Path("s").glob("*.jsonl") if b'"s-1"' in path.read_bytes())
    os.truncate(file, file.stat().st_size - 5)
    result = lore("fold", "jsonl:s#s-1")
    assert result.code == 0
    assert result.err.count("bytes are an incomplete save, and are left out") == 1
    assert lore("assemble", "jsonl:s#s-1").out == lore("assemble", "s.jsonl").out

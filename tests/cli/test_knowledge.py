"""`lore knowledge`: entries of a session are listed, added, changed, removed."""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from cli.running import lore, put, session
from formats.claude import answered, asked, log_bytes, text
from helpers.matrix import some
from helpers.schemas import valid
from lore.store import open_store
from lore.testing.stores import begin
from model.making import body, dumps, header, log, record

SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz"
KNOWN = (
    record("knowledge", op="add", id="abcdef1", category="c", title="One", content="first"),
    record("knowledge", op="add", id="abcdef2", title="Two"),
    record("knowledge", op="add", id="zzzzz-9", content="last"),
)

pytestmark = pytest.mark.usefixtures("desk")


@pytest.fixture(autouse=True)
def files(desk):
    put("s.jsonl", session())
    put("k.jsonl", session(*KNOWN))


def added(name="s.jsonl", base=None):
    """Return the records that were appended."""
    data = Path(name).read_bytes()
    base = session() if base is None else base
    assert data.startswith(base)
    return [json.loads(line) for line in data[len(base) :].splitlines()]


def knowledge(*words):
    return lore("knowledge", *words)


def test_entry_is_added_under_its_id():
    result = knowledge("add", "s.jsonl", "abc", "--category", "c", "--title", "t", "--content", "x\ny")
    assert (result.code, result.out, result.err) == (0, "abc\n", "")
    assert added() == [
        {"kind": "knowledge", "id": "abc", "op": "add", "category": "c", "title": "t", "content": "x\ny"}
    ]


def test_derived_id_depends_on_the_text_only():
    ids = [knowledge("add", name, "--title", "t", "--content", "x").out for name in ("s.jsonl", "k.jsonl")]
    assert ids[0] == ids[1]
    assert len(ids[0].strip()) == 12
    assert knowledge("add", "s.jsonl", "--title", "tx").out != ids[0]


def test_known_entry_is_not_written_again():
    knowledge("add", "s.jsonl", "abc", "--title", "t")
    result = knowledge("add", "s.jsonl", "abc", "--title", "t")
    assert (result.code, result.out, len(added())) == (0, "abc\n", 1)
    assert "the session knows that already; nothing was written" in result.err
    assert knowledge("update", "s.jsonl", "abc", "--title", "t").code == 0
    assert len(added()) == 1


def test_add_of_a_known_id_updates_it():
    knowledge("add", "k.jsonl", "abcdef1", "--content", "new")
    entry = next(fact for fact in knowledge("list", "k.jsonl", "--json").json["knowledge"] if fact["id"] == "abcdef1")
    assert (entry["title"], entry["content"]) == ("One", "new")


def test_content_comes_from_standard_input():
    assert lore("knowledge", "add", "s.jsonl", "abc", "--content", "-", stdin="naïve\r\n".encode()).code == 0
    assert added()[0]["content"] == "naïve"


def test_update_changes_one_field():
    result = knowledge("update", "k.jsonl", "abcdef1", "--content", "new")
    assert (result.code, result.out) == (0, "abcdef1\n")
    assert added("k.jsonl", session(*KNOWN)) == [
        {"kind": "knowledge", "id": "abcdef1", "op": "update", "content": "new"}
    ]


def test_field_can_be_emptied():
    knowledge("update", "k.jsonl", "abcdef1", "--content", "")
    entry = next(fact for fact in knowledge("list", "k.jsonl", "--json").json["knowledge"] if fact["id"] == "abcdef1")
    assert (entry["title"], entry["content"]) == ("One", "")


def test_entries_are_removed_by_prefix():
    result = knowledge("remove", "k.jsonl", "zzzzz", "abcdef2", "zzzzz-9")
    assert (result.code, result.out) == (0, "zzzzz-9\nabcdef2\n")
    assert [entry["id"] for entry in added("k.jsonl", session(*KNOWN))] == ["zzzzz-9", "abcdef2"]
    assert [entry["id"] for entry in knowledge("list", "k.jsonl", "--json").json["knowledge"]] == ["abcdef1"]


@pytest.mark.parametrize("words", [["update", "k.jsonl"], ["remove", "k.jsonl", "zzzzz-9"]])
@pytest.mark.parametrize(("name", "message"), [
    ("abcdef", "'abcdef' is the beginning of 2 ids"),
    ("zzzz", "the nearest id is zzzzz-9"),
    ("abcdef3", "the nearest id is abcdef"),
    ("abcdfe1", "the nearest id is abcdef1"),
    ("", "the session knows no entry ''"),
    # The beginning of an id that was too short was said to be unknown, as if nothing were like it.
    ("zzzz", "'zzzz' is too short: give at least 5 characters of an id, or all of it"),
])  # fmt: skip
def test_unknown_entry_is_an_error_that_writes_nothing(words, name, message):
    result = knowledge(*words, name, *(["--title", "t"] if words[0] == "update" else []))
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert added("k.jsonl", session(*KNOWN)) == []


def test_entry_is_found_by_the_id_in_prompts():
    """System 000, "Short ids never change once shown": what the model reads as [abcde] was called ambiguous here."""
    put("k.jsonl", log(header(), KNOWN[0], record("turn_started", turn=1), record("turn_completed", turn=1), KNOWN[1]))
    assert knowledge("update", "k.jsonl", "abcde", "--content", "new").out == "abcdef1\n"
    assert knowledge("remove", "k.jsonl", "abcde").out == "abcdef1\n"
    removal = knowledge("remove", "k.jsonl", "abcde")  # the prefix of abcdef2 alone, and shown as another entry
    assert (removal.code, "'abcde' was the entry abcdef1, which was removed" in removal.err) == (2, True)


# The nearest id was proposed for any name, however different.
@pytest.mark.parametrize("name", ["quux", "", "\ud800", "1" * 5000])
def test_name_unlike_every_id_has_no_nearest(name):
    result = knowledge("remove", "k.jsonl", name)
    assert (result.code, "hint: `lore knowledge list` shows all" in result.err, "nearest" in result.err) == (
        2,
        True,
        False,
    )


def test_session_without_knowledge_says_so():
    assert "it knows nothing yet" in knowledge("remove", "s.jsonl", "abcde").err


@pytest.mark.parametrize(("words", "message"), [
    (["add", "s.jsonl", "abc"], "the entry has no text"),
    (["add", "s.jsonl", "abc", "--title", ""], "the entry has no text"),
    (["add", "s.jsonl", "a b", "--title", "t"], "is not a valid id"),
    (["add", "s.jsonl", "", "--title", "t"], "is not a valid id"),
    (["add", "s.jsonl", "a\x1b", "--title", "t"], "is not a valid id"),
    (["add", "s.jsonl", "a" * 201, "--title", "t"], "is not a valid id"),
    (["add", "s.jsonl", "abc", "--title", "\udcff"], "the title is not UTF-8 text"),
    (["add", "s.jsonl", "\udcff", "--title", "t"], "is not UTF-8 text"),
    (["update", "s.jsonl", "abc"], "nothing to update"),
    (["add", "s.jsonl#1", "abc", "--title", "t"], "knowledge belongs to a session"),
    (["list", "s.jsonl#1"], "knowledge belongs to a session"),
    (["add", "nowhere.jsonl", "abc", "--title", "t"], "cannot read nowhere.jsonl"),
    (["remove", "s.jsonl"], "Missing argument"),
    (["forget", "s.jsonl"], "no such command: lore knowledge forget"),
    (["add", "s.jsonl", "abc", "--title", "t", "--format", "claude-code"], "knowledge is added to lore logs"),
])  # fmt: skip
def test_mistake_is_an_error_that_writes_nothing(words, message):
    result = knowledge(*words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert added() == []


@pytest.mark.parametrize(("data", "message"), [
    (b"x" * (2**20 + 1), "standard input holds more than 1 MiB"),
    (b"\xff\xfe\xfd", "standard input is not UTF-8 text"),
])  # fmt: skip
def test_content_that_is_no_short_text_is_refused(data, message, monkeypatch):
    monkeypatch.setattr("lore.commands.knowledge.LONGEST", 2**20)
    result = lore("knowledge", "add", "s.jsonl", "abc", "--content", "-", stdin=data)
    assert (result.code, message in result.err) == (2, True)


@pytest.mark.parametrize(
    "words", [["add", "abc", "--title", "t"], ["update", "abcde", "--title", "t"], ["remove", "abcde"]]
)
def test_only_lore_logs_are_written_to(words):
    put("c.jsonl", log_bytes(asked("u", "x"), answered("a", "r", text("y"), "u")))
    put("b.jsonl", dumps(body("x")) + b"\n")
    for name in ("c.jsonl", "b.jsonl"):
        before = Path(name).read_bytes()
        result = knowledge(words[0], name, *words[1:])
        assert (result.code, Path(name).read_bytes()) == (2, before)
        assert "lore convert" in result.err
    assert knowledge(words[0], "-", *words[1:]).code == 2


def test_json_answer_names_the_written_entries():
    result = knowledge("add", "s.jsonl", "abc", "--title", "t", "--json")
    valid(result.json, "knowledge-written")
    assert result.json == {"schema": 2, "op": "add", "ids": ["abc"], "written": 1}
    assert knowledge("remove", "s.jsonl", "abc", "--json").json["op"] == "remove"


# the list


def test_list_shows_which_entries_prompts_hold():
    put(
        "l.jsonl",
        log(
            record("session_started", v=1, session_id="s-9", model="gpt-4o"),
            record("knowledge", op="add", id="early1", category="c", title="Pinned", content="from the start"),
            record("turn_started", turn=1),
            record("knowledge", op="add", id="later1", title="Told", content="in a delta"),
            record("append", item={"type": "user_message", "uuid": "u", "text": "And now?"}),
            record("turn_started", turn=2),
            record("knowledge", op="add", id="waits1", title="Waits", content="for a turn"),
        ),
    )
    result = knowledge("list", "l.jsonl", "--json")
    valid(result.json, "knowledge")
    states = {entry["id"]: entry["state"] for entry in result.json["knowledge"]}
    assert states == {"early1": "pinned", "later1": "delta", "waits1": "waiting"}
    assert result.json["session"] == "s-9"
    text = knowledge("list", "l.jsonl").out
    assert text.splitlines()[-1] == "session s-9: 3 entries known"
    assert "pinned   early1  c  Pinned: from the start" in text


def test_entries_that_do_not_fit_wait():
    """The ids of what did not fit were once named, the rest counted, and no later delta held them."""
    facts = [f"Service {n} belongs to team {n}, listens on port {9000 + n} and restarts at night." for n in range(40)]
    turn_lines = [
        (
            record("append", item={"type": "user_message", "uuid": f"u{n}", "text": "Which?"}),
            record("turn_started", turn=n),
        )
        for n in range(1, 9)
    ]
    entries = [record("knowledge", op="add", id=f"{n:02}-service", content=fact) for n, fact in enumerate(facts)]
    start = [record("session_started", v=1, session_id="s-9", model="claude-opus-5"), *turn_lines[0], *entries]
    for turns, waiting in ((2, 27), (3, 14), (4, 1), (5, 0)):
        put("m.jsonl", log(*start, *(line for turn in turn_lines[1:turns] for line in turn)))
        states = [entry["state"] for entry in knowledge("list", "m.jsonl", "--json").json["knowledge"]]
        assert states.count("waiting") == waiting
        assert len(states) == states.count("waiting") + states.count("delta")
    prompt = lore("assemble", "m.jsonl").out
    assert all(fact in prompt for fact in facts)


def test_content_is_masked_without_control_characters():
    knowledge("add", "s.jsonl", "abc", "--content", f"{SECRET} \x1b[31m")
    for options in ([], ["--json"]):
        out = knowledge("list", "s.jsonl", *options).out
        assert SECRET not in out
        assert "\x1b" not in out


def test_add_with_a_known_title_adds_another_entry():
    """It overwrote the entry of the same title: "Bob is allergic to nuts" became "the door code is 12"."""
    result = knowledge("add", "k.jsonl", "--category", "c", "--title", "One", "--content", "second")
    entries = {entry["id"]: entry["content"] for entry in knowledge("list", "k.jsonl", "--json").json["knowledge"]}
    assert (entries["abcdef1"], entries[result.out.strip()], len(entries)) == ("first", "second", 4)


@pytest.mark.parametrize("url", some(["sqlite:sessions.db", "jsonl:sessions"]))
def test_four_parallel_adds_to_one_store_succeed(url):
    with closing(open_store(url)) as store:
        begin(store)
    add = [sys.executable, "-m", "lore", "knowledge", "add", f"{url}#s"]
    writers = [subprocess.Popen([*add, f"k{number}", "--content", f"fact {number}"]) for number in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    with closing(open_store(url)) as store:
        assert store.load("s").head.number == 5

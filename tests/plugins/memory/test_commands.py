"""`lore memory users, list, show, delete, wipe, export, audit, extract, dream`."""

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from cli.running import Ran, lore, process, put
from cli.storing import appended, each_store, store
from helpers.each import each
from helpers.schemas import valid
from lore.store.registry import open_store
from model.making import dumps, header, log, record, said, user

WORDS = "I prefer tabs over spaces. My name is Ann. We need to fix the login test."
ONE = {"facts": 1, "preferences": 1, "decisions": 1, "tasks": 1, "open_items": 0, "topics": 0}


def memory(command: str, *args: str, url: str) -> Ran:
    return lore("memory", command, *args, "--store", url)


def run_json(command: str, *args: str, url: str, schema: str = "memory", code: int = 0):
    ran = memory(command, *args, "--json", url=url)
    assert ran.code == code, ran.err
    valid(ran.json, schema)
    return ran.json


def begin_store(url: str, *, settings: bytes = b'[memory]\nsystem = "structured"\n', **fields):
    """Make a store with a session of Ann's, and settings with memory."""
    put("lore.toml", settings)
    items = [user("u1", WORDS), said("a1", "Which runner?"), user("u2", "Let's go with pytest.")]
    put("s.jsonl", log(header(**{"session_id": "s1", "user_id": "ann", **fields}),
                       *(record("append", item=item) for item in items)))  # fmt: skip
    assert store("import", "s.jsonl", url=url).code == 0


def fill_store(url: str):
    begin_store(url)
    assert memory("extract", "s1", url=url).code == 0
    assert memory("dream", "--user", "ann", url=url).code == 0


@each_store
def test_extract_and_dream_write_topics(url):
    begin_store(url)
    result = run_json("extract", "s1", url=url, schema="memory-extracted")
    assert (result["user"], result["agent"], result["failure"]) == ("ann", "main", None)
    assert result["added"] == {"facts": 1, "preferences": 1, "decisions": 1, "tasks": 1}
    skipped = "nothing was said since the session was last learned from"
    assert memory("extract", "s1", url=url).out == f"nothing new from session s1 by agent main of user ann: {skipped}\n"
    assert memory("extract", "s1", "--again", url=url).out.startswith("remembered nothing from session s1")
    dreamt = run_json("dream", "--user", "ann", url=url, schema="memory-dreamt")
    assert dreamt["topics"] == ["decisions_made", "known_facts", "open_tasks", "user_preferences"]
    assert memory("dream", "--user", "ann", url=url).out == "no dream: nothing was extracted since the last dream\n"


def test_deleted_task_returns_only_with_again():
    url = "sqlite:s.db"
    fill_store(url)
    texts = run_json("show", "--user", "ann", url=url)["agents"][0]["texts"]
    assert memory("delete", *[text["id"] for text in texts], "--user", "ann", url=url).code == 0
    again = memory("extract", "s1", url=url)
    assert again.err == "note: --again learns from the whole session, including items closed or deleted since\n"
    assert run_json("extract", "s1", url=url, schema="memory-extracted")["skipped"] is not None
    assert run_json("extract", "s1", "--again", url=url, schema="memory-extracted")["added"]["tasks"] == 1


def test_extract_without_matches_suggests_a_model():
    put("lore.toml", b'[memory]\nsystem = "structured"\n')
    put("s.jsonl", log(header(session_id="s1", user_id="ann"), record("append", item=user("u1", "Ich mag Tabs."))))
    assert store("import", "s.jsonl", url="sqlite:s.db").code == 0
    ran = memory("extract", "s1", url="sqlite:s.db")
    assert (ran.code, ran.out) == (0, "remembered nothing from session s1 by agent main of user ann\n")
    assert ran.err.startswith("note: without a model only plain English sentences are recognised; for other languages")
    assert 'summarizer = "openai"' in ran.err


@each_store
def test_users_and_show_print_memory(url):
    fill_store(url)
    assert run_json("users", url=url, schema="memory-users")["users"] == [
        {"user": "ann", "agents": ["main"], "counts": {**ONE, "topics": 4}}
    ]
    text = memory("show", "--user", "ann", url=url).out
    assert text.startswith("agent main  1 fact, 1 preference, 1 decision, 1 task, 4 topics\n")
    agent = run_json("show", "--user", "ann", url=url)["agents"][0]
    assert (agent["counts"], agent["last_failure"]) == ({**ONE, "topics": 4}, None)
    assert [row["text"] for row in agent["texts"] if row["kind"] == "facts"] == ["My name is Ann."]
    assert "    - I prefer tabs over spaces.\n" in memory("show", "user_preferences", "--user", "ann", url=url).out
    assert memory("users", url=url).out.splitlines()[-1] == f"1 user remembered in {url}"


def test_show_prints_only_the_named_user():
    url = "sqlite:s.db"
    fill_store(url)
    assert run_json("show", url=url)["agents"] == []
    assert run_json("show", "--user", "Ann", url=url)["agents"] == []
    assert memory("show", "--user", "ann", "--agent", "other", url=url).out.endswith(
        f"nothing is remembered of user ann in {url}\n"
    )


def test_similar_user_names_print_differently():
    url = "sqlite:s.db"
    for number, name in enumerate(("ann", "ann ", "a\u0301nn", "ánn")):
        begin_store(url, session_id=f"s{number}", user_id=name)
        assert memory("extract", f"s{number}", url=url).code == 0
    printed = {line.partition("  ")[0] for line in memory("users", url=url).out.splitlines()[:-1]}
    assert printed == {"ann", '"ann "', '"a\\u0301nn"', "ánn"}
    assert memory("wipe", "--yes", "--user", "ann ", url=url).out.startswith('wiped user "ann ": 4 entries of 1 ')
    assert len(run_json("users", url=url, schema="memory-users")["users"]) == 3


@each_store
def test_delete_names_topics_that_contain_the_text(url):
    fill_store(url)
    (name,) = [text["id"] for text in run_json("show", "--user", "ann", url=url)["agents"][0]["texts"]
               if text["kind"] == "facts"]  # fmt: skip
    result = run_json("delete", name, "--user", "ann", url=url, schema="memory-deleted")
    assert (result["deleted"], result["counts"]["facts"], result["still_in"]) == ([name], 1, ["known_facts"])
    assert memory("dream", "--user", "ann", url=url).out.startswith("superseded known_facts\n")
    assert "Ann" not in json.dumps(memory("export", "--user", "ann", url=url).json["agents"])
    ran = memory("delete", "user_preferences", name, "--user", "ann", url=url)
    assert (ran.code, ran.err.splitlines()[0]) == (2, f"error: nothing is remembered as '{name}'")
    assert memory("delete", "user_preferences", "--user", "ann", url=url).out == "deleted user_preferences\n"


@each_store
def test_wipe_prints_counts_then_zeros(url):
    fill_store(url)
    assert run_json("wipe", "--yes", "--user", "ann", "--agent", "x", url=url, schema="memory-wiped")["agents"] == {}
    result = run_json("wipe", "--yes", "--user", "ann", url=url, schema="memory-wiped")
    assert result["counts"] == {**ONE, "topics": 4}
    assert (result["entries"], result["sessions"]) == (8, 1)
    assert memory("wipe", "--yes", "--user", "ann", url=url).out == (
        "wiped user ann: 0 entries of 0 sessions "
        "(0 facts, 0 preferences, 0 decisions, 0 tasks, 0 open items, 0 topics)\n"
    )
    assert run_json("users", url=url, schema="memory-users")["users"] == []
    assert [entry["op"] for entry in run_json("audit", "--user", "ann", url=url, schema="memory-audit")["entries"]] == [
        "extract", "dream", "wipe",
    ]  # fmt: skip


def test_audit_marks_deleted_sessions():
    url = "sqlite:s.db"
    fill_store(url)
    store("delete", "s1", url=url)
    entry = run_json("audit", "--user", "ann", url=url, schema="memory-audit")["entries"][0]
    assert (entry["session_id"], entry["session_deleted"]) == ("s1", True)
    assert "extract agent main, session s1 (deleted since): +1 fact," in memory("audit", "--user", "ann", url=url).out


def test_export_equals_show_as_json():
    url = "sqlite:s.db"
    fill_store(url)
    assert memory("export", "--user", "ann", "-o", "out.json", url=url).out == ""
    exported = json.loads(Path("out.json").read_bytes())
    valid(exported, "memory")
    assert exported == memory("export", "--user", "ann", url=url).json == run_json("show", "--user", "ann", url=url)
    assert memory("export", "--user", "ann", "-o", "out.json", url=url).code == 2


@each("settings, args, error", [
    (b"", ("s1",), "nothing is remembered: memory is off"),
    (b'[memory]\nsystem = "structured"\nagents = ["x"]\n', ("s1",), "agent 'main' is not opted in"),
    (b'[memory]\nsystem = "structured"\n', ("s1", "--agent", "x"), "agent 'x' is not opted in"),
    (b'[memory]\nsystem = "structured"\n', ("s1", "--user", "bob"), "session 's1' belongs to user 'ann'"),
    (b'[memory]\nsystem = "structured"\n', ("s1", "--agent", "null"), "'null' is reserved and cannot be used as agent"),
    (b'[memory]\nsystem = "structured"\n', ("none",), "the store has no session 'none'"),
    (b'[memory]\nsystem = "structured"\n', ("lore.memory/ann",), "session 'lore.memory/ann' holds memory"),
    (b'[memory]\nsystem = "other"\n', ("s1",), "memory.system"),
])  # fmt: skip
def test_extract_refuses_other_users_and_agents(settings, args, error):
    begin_store("sqlite:s.db", settings=settings)
    before = Path("s.db").read_bytes()
    ran = memory("extract", *args, url="sqlite:s.db")
    assert (ran.code, ran.out) == (2, "")
    assert error in ran.err.splitlines()[0]
    assert Path("s.db").read_bytes() == before


def test_session_without_user_uses_the_default():
    begin_store("sqlite:s.db", user_id=None, agent_id="main")
    memory("extract", "s1", url="sqlite:s.db")
    assert memory("show", url="sqlite:s.db").out.splitlines()[-1] == "user default: 1 agent in sqlite:s.db"


def summariser(*lines: str) -> str:
    """Return settings with a summariser command that runs these lines."""
    put("answer.py", "\n".join(("import json, sys", "asked = json.load(sys.stdin)", *lines)).encode())
    command = json.dumps([sys.executable, str(Path("answer.py").resolve())])
    return f'[memory]\nsystem = "structured"\n[compaction]\nsummarizer = "command"\ncommand = {command}\n'


def test_configured_summariser_is_asked_for_json():
    answer = (
        "print('```json', json.dumps({'facts': [str(asked['tokens']), str('My name is Ann' in asked['transcript'])]}))"
    )
    begin_store("sqlite:s.db", settings=summariser(answer).encode())
    assert run_json("extract", "s1", "--config", "lore.toml", url="sqlite:s.db", schema="memory-extracted")[
        "added"
    ] == {"facts": 2}
    agent = run_json("show", "--user", "ann", url="sqlite:s.db")["agents"][0]
    assert [text["text"] for text in agent["texts"]] == ["4096", "True"]


def test_unapproved_summariser_is_refused():
    fill_store("sqlite:s.db")
    put("lore.toml", summariser("open('ran.txt', 'w')").encode())
    for args in (("extract", "s1", "--again"), ("dream", "--user", "ann")):
        ran = memory(*args, url="sqlite:s.db")
        assert (ran.code, "you have not approved this file" in ran.err) == (2, True)
    assert not Path("ran.txt").exists()


def test_memory_needs_no_approval_of_context_sources():
    sources = '[[compaction.context_sources]]\nname = "news"\ncommand = ["news"]\n'
    begin_store("sqlite:s.db", settings=f'[memory]\nsystem = "structured"\n{sources}'.encode())
    assert memory("extract", "s1", url="sqlite:s.db").code == 0


def test_nested_extraction_is_refused(monkeypatch):
    fill_store("sqlite:s.db")
    monkeypatch.setenv("LORE_NESTED", "summarizer")
    for args in (("extract", "s1"), ("dream", "--user", "ann")):
        ran = memory(*args, url="sqlite:s.db")
        assert (ran.code, "cannot use memory" in ran.err) == (2, True)


def test_failing_summariser_is_shown():
    fill_store("sqlite:s.db")
    put("lore.toml", summariser("print('I summed it up.')").encode())
    again = ("--again", "--config", "lore.toml")
    result = run_json("extract", "s1", *again, url="sqlite:s.db", schema="memory-extracted", code=3)
    assert result["failure"] == "the answer is not a JSON object, also when asked again"
    listed = run_json("show", "--user", "ann", url="sqlite:s.db")["agents"][0]
    assert (listed["counts"], listed["last_failure"]["failure"]) == ({**ONE, "topics": 4}, result["failure"])
    assert (
        ": the answer is not a JSON object, also when asked again\n"
        in memory("show", "--user", "ann", url="sqlite:s.db").out
    )
    ran = memory("extract", "s1", *again, url="sqlite:s.db")
    assert (ran.code, ran.out.startswith("nothing was remembered ")) == (3, True)
    assert "note: agent main of user ann remembered nothing" in ran.err


def test_read_only_store_fails_with_one_line(monkeypatch):
    from lore.store.base import StoreError
    from lore.store.sqlite import Sqlite

    fill_store("sqlite:s.db")

    def refused(*_, **__):
        raise StoreError("sqlite:s.db cannot be written: attempt to write a readonly database")

    with monkeypatch.context() as patch:
        for name in ("create", "save", "save_delta", "delete"):
            patch.setattr(Sqlite, name, refused)
        for args in (("wipe", "--yes", "--user", "ann"), ("delete", "known_facts", "--user", "ann")):
            ran = memory(*args, url="sqlite:s.db")
            assert (ran.code, ran.out) == (2, "")
            assert ran.err == "error: sqlite:s.db cannot be written: attempt to write a readonly database\n"
    assert run_json("show", "--user", "ann", url="sqlite:s.db")["agents"][0]["counts"] == {**ONE, "topics": 4}


@each_store
def test_memory_sessions_are_hidden_by_default(url):
    fill_store(url)
    assert [session["session_id"] for session in store("list", "--json", url=url).json["sessions"]] == ["s1"]
    assert len(store("list", "--memory", "--json", url=url).json["sessions"]) == 5
    assert lore("check", url, "--json").json["summary"]["files"] == 1
    assert store("import", url, url="sqlite:other.db").out.splitlines()[-1].startswith("1 session, ")
    assert store("show", "lore.memory/ann", url=url).code == 0
    assert store("verify", url=url).out.startswith("5 sessions, ")


@pytest.mark.parametrize("name", ["lore.memory/ann", "lore.memory.audit/ann"])
def test_reserved_session_ids_are_refused(name):
    url = "sqlite:s.db"
    begin_store(url)
    memory("extract", "s1", url=url)
    line = dumps(header(session_id=name))
    child = dumps(header(session_id="x", parent_session_id=name))
    put("child.jsonl", child + b"\n")
    put("own.jsonl", line + b"\n")
    before = store("list", "--memory", "--json", url=url).out
    tries = (
        appended(name, line, url=url),
        appended("x", child, url=url),
        store("import", "own.jsonl", url=url),
        store("import", "s.jsonl", "--id", name, url=url),
        store("import", "child.jsonl", url=url),
        lore("knowledge", "add", f"{url}#{name}", "--content", "x"),
        lore("assemble", f"{url}#{name}", "--persist"),
    )
    for ran in tries:
        assert ran.code == 2, ran
        assert "keeps memory" in ran.err
    assert store("list", "--memory", "--json", url=url).out == before


def test_wipe_keeps_the_users_sessions():
    fill_store("sqlite:s.db")
    memory("wipe", "--yes", "--user", "ann", url="sqlite:s.db")
    with closing(open_store("sqlite:s.db")) as sessions:
        assert [session.session_id for session in sessions.list()] == ["lore.memory.audit/ann", "s1"]


def test_missing_store_is_not_created():
    assert memory("wipe", "--yes", url="sqlite:none.db").code == 2
    assert not Path("none.db").exists()


def test_wipe_without_terminal_needs_yes():
    fill_store("sqlite:s.db")
    wipe = ("memory", "wipe", "--user", "ann", "--store", "sqlite:s.db")
    ran = process(*wipe, stdin=b"y\n")
    assert (ran.code, ran.out) == (2, "")
    assert "hint: --yes wipes without a question" in ran.err
    assert memory("users", url="sqlite:s.db").out.startswith("ann  ")
    ran = process(*wipe, "--yes")
    assert ran.code == 0
    assert ran.out.startswith("wiped user ann: 8 entries of 1 session (1 fact, 1 preference, ")
    assert memory("users", url="sqlite:s.db").out.startswith("0 users")


@pytest.mark.skipif(os.name != "posix", reason="a terminal of POSIX")
@pytest.mark.parametrize(
    ("typed", "code"),
    [("\n", 2), ("y\n", 0), *(pytest.param(typed, 2, marks=pytest.mark.soak) for typed in ("n\n", "\x04"))],
)
def test_wipe_on_a_terminal_asks_first(typed, code):
    fill_store("sqlite:s.db")
    command = [sys.executable, "-m", "lore", "memory", "wipe", "--user", "ann", "--store", "sqlite:s.db"]
    ours, theirs = os.openpty()
    with closing(os.fdopen(ours, "r+b", buffering=0)) as terminal:
        running = subprocess.Popen(command, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, text=True)
        os.close(theirs)
        output = b""
        while b"[y/N] " not in output:
            output += terminal.read(1_000)
        terminal.write(typed.encode())
        out, _ = running.communicate(timeout=60)
    assert b"wipe user ann: 8 entries of 1 session (1 fact, 1 preference, " in output
    assert (running.returncode, memory("users", url="sqlite:s.db").out.startswith("ann  ")) == (code, code > 0)
    assert out.startswith("wiped user ann: 8 entries of 1 session") is (code == 0)

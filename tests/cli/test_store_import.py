"""`lore store import` and `export`: sessions into a store, only their new events, and out again with their bytes."""

import json
import os
from pathlib import Path

import pytest

from cli.running import lore, put, session
from cli.storing import answered, each_store, exported, fed, store
from formats.claude import answered as reply
from formats.claude import asked, log_bytes, text
from helpers.schemas import valid
from lore.commands.store import writing
from lore.commands.store.writing import import_sessions
from lore.recording.opening import Options
from lore.store.base import StoreError
from lore.store.sqlite import Memory
from model.making import body, dumps, header, log, record, user

CLAUDE = log_bytes(
    asked("u", "x"), reply("a", "r", text("y"), "u"), asked("v", "z", "a"), reply("b", "q", text("w"), "v")
)
ODD = (
    b'{ "kind": "session_started", "v": 1, "session_id": "s-1", "mine": [1.0, 1e3] }\r\n'
    b'{"kind":"append","item":{"type":"userMessage","uuid":"u1","text":"\\u00e9\xc3\xa9 \\ud83d"}}\n'
    b'{"kind":"theirs","id":"x"}\n'
    b'{"kind":"append","id":4,"item":{"type":"user_message","uuid":"u2","text":"b"}}\n'
)

pytestmark = pytest.mark.usefixtures("desk")


def states(answer):
    return [(session["session_id"], session["state"], session["new_events"]) for session in answer["sessions"]]


@each_store
def test_own_log_is_exported_with_its_bytes(url):
    put("odd.jsonl", ODD)
    assert states(answered("import", "odd.jsonl", url=url)) == [("s-1", "created", 4)]
    assert exported("s-1", url) == ODD
    assert store("export", "s-1", url=url).out.encode() == ODD


@each_store
def test_import_appends_new_events_only(url):
    put("s.jsonl", session())
    number = session().count(b"\n")
    assert states(answered("import", "s.jsonl", url=url)) == [("s-1", "created", number)]
    assert states(answered("import", "s.jsonl", url=url)) == [("s-1", "unchanged", 0)]
    put("s.jsonl", session(record("cache_reset", reason="x"), record("cache_reset", reason="y")))
    assert states(answered("import", "s.jsonl", url=url)) == [("s-1", "extended", 2)]
    put("s.jsonl", session())
    assert states(answered("import", "s.jsonl", url=url)) == [("s-1", "unchanged", 0)]
    assert exported("s-1", url).count(b"\n") == number + 2


@each_store
def test_imported_transcript_folds_like_the_file(url):
    put("c.jsonl", CLAUDE)
    assert states(answered("import", "c.jsonl", url=url))[0][:2] == ("s", "created")
    assert exported("s", url).decode() == lore("convert", "c.jsonl").out
    from_file, other = lore("fold", "c.jsonl", "--json").json, lore("fold", f"{url}#s", "--json").json
    assert other == from_file


def test_growing_transcript_is_extended_at_every_line():
    """A transcript that stops within a turn is stored with the turn closed: later lines were a conflict."""
    lines = CLAUDE.splitlines(keepends=True)
    for number in range(1, len(lines) + 1):
        put("c.jsonl", b"".join(lines[:number]))
        assert answered("import", "c.jsonl", url="sqlite:s.db")["sessions"][0]["state"] in ("created", "extended")
    assert answered("import", "c.jsonl", url="sqlite:s.db")["sessions"][0]["state"] == "unchanged"
    from_file, other = lore("fold", "c.jsonl", "--json").json, lore("fold", "sqlite:s.db#s", "--json").json
    assert (other["timeline"], other["usage"]) == (from_file["timeline"], from_file["usage"])


def test_growing_subagents_become_chains_of_their_session():
    agent = [
        asked("s1", "x", isSidechain=True, agentId="1"),
        reply("s2", "r1", text("y"), "s1", isSidechain=True, agentId="1"),
    ]
    put("logs/c.jsonl", CLAUDE)
    put("logs/agent-1.jsonl", log_bytes(*agent[:1]))
    first = answered("import", "logs", url="jsonl:s")
    assert (len(first["sessions"]), first["joined"]) == (1, 1)
    put("logs/c.jsonl", CLAUDE + log_bytes(asked("z", "more", "b")))
    put("logs/agent-1.jsonl", log_bytes(*agent))
    assert states(answered("import", "logs", url="jsonl:s"))[0][:2] == ("s", "extended")
    chains = lore("fold", "jsonl:s#s", "--json").json["session"]["chains"]
    assert chains == lore("fold", "logs/c.jsonl", "--json").json["session"]["chains"]


def test_lone_subagent_file_gets_its_own_id():
    for name in ("1", "2"):
        put(f"agent-{name}.jsonl", log_bytes(asked("s1", name, isSidechain=True, agentId=name)))
        assert states(answered("import", f"agent-{name}.jsonl", url="jsonl:s"))[0][:2] == (f"agent-{name}", "created")
    put("logs/c.jsonl", CLAUDE)
    assert states(answered("import", "logs", url="jsonl:s"))[0][:2] == ("s", "created")


def test_changed_session_is_a_conflict_and_others_continue():
    put("logs/a.jsonl", log(header(session_id="a"), record("append", item=user("u1", "one"))))
    put("logs/b.jsonl", log(header(session_id="b")))
    answered("import", "logs", url="sqlite:s.db")
    put("logs/a.jsonl", log(header(session_id="a"), record("append", item=user("u1", "other"))))
    put("logs/b.jsonl", log(header(session_id="b"), record("cache_reset", reason="x")))
    answer = answered("import", "logs", url="sqlite:s.db", code=3)
    assert states(answer) == [("a", "conflict", None), ("b", "extended", 1)]
    assert answer["sessions"][0]["message"].startswith("event 2 of the session is stored with other content")
    alone = store("import", "logs/a.jsonl", url="sqlite:s.db")
    assert (alone.code, alone.out) == (2, "")
    assert "error: event 2 of the session is stored with other content" in alone.err
    assert b"one" in exported("a", "sqlite:s.db")
    assert states(answered("import", "logs/a.jsonl", "--id", "a2", url="sqlite:s.db")) == [("a2", "created", 2)]


def test_other_spelling_is_the_same_session():
    put("a.jsonl", b'{"kind":"session_started","v":1,"session_id":"a"}\n{"kind":"cache_reset","reason":"x"}\n')
    answered("import", "a.jsonl", url="jsonl:s")
    first = b'{"v":1, "kind":"session_started", "session_id":"\\u0061"}\n'
    put("a.jsonl", first + b'{"reason":"x","kind":"cache_reset"}\n{"kind":"x"}\n')
    assert states(answered("import", "a.jsonl", url="jsonl:s")) == [("a", "extended", 1)]


@pytest.mark.parametrize(("before", "expected"), [
    (b"", "s"),  # of the file's name
    (b'{"kind":"session_started","v":1,"session_id":"","model":"m"}\n', "s"),
    (b'{"kind":"append"}\n{"kind":"session_started","v":1,"session_id":"own","model":"m"}\n', "own"),
])  # fmt: skip
def test_log_without_an_id_gets_its_file_name(before, expected):
    put("s.jsonl", before + dumps(record("append", item=user("u1"))) + b"\n")
    assert states(answered("import", "s.jsonl", url="sqlite:s.db"))[0][0] == expected
    first = json.loads(exported(expected, "sqlite:s.db").splitlines()[0])
    assert (first["kind"], first["session_id"]) == ("session_started", expected)


def test_standard_input_without_an_id_needs_one():
    line = dumps(record("append", item=user("u1"))) + b"\n"
    result = fed(line, "store", "import", "-", "--store", "sqlite:s.db")
    assert result.code == 2
    assert "hint: give one with --id" in result.err
    for state in ("created", "unchanged"):
        result = fed(line, "store", "import", "-", "--store", "sqlite:s.db", "--id", "n", "--json")
        valid(result.json, "store-import")
        assert states(result.json)[0][:2] == ("n", state)


def test_saved_records_are_not_imported():
    put("s.jsonl", ODD)
    answered("import", "s.jsonl", url="jsonl:s")
    file = next(path for path in Path("s").iterdir() if path.suffix == ".jsonl" and b'"saved"' in path.read_bytes())
    assert states(answered("import", str(file), url="sqlite:s.db")) == [("s-1", "created", 4)]
    assert exported("s-1", "sqlite:s.db") == ODD


def test_import_from_a_store_keeps_the_project():
    put("s.jsonl", ODD)
    answered("import", "s.jsonl", "--project", "p", url="jsonl:s")
    answered("import", "jsonl:s#s-1", url="sqlite:one.db")
    answered("import", "jsonl:s", url="sqlite:all.db")
    for url in ("sqlite:one.db", "sqlite:all.db"):
        assert exported("s-1", url) == ODD
        assert answered("show", "s-1", url=url)["session"]["project_id"] == "p"


def test_unreadable_lines_are_problems_and_omitted():
    put("s.jsonl", log(header()) + b'{torn}\n{"kind":"a"} {"kind":"b"}\n{"kind":"c"}\n{"kind":"d"')
    answer = answered("import", "s.jsonl", url="sqlite:s.db")
    problems = [(problem["code"], problem["line"]) for problem in answer["problems"]]
    opaque = [("LORE203", 3), ("LORE203", 3), ("LORE203", 4)]  # as opaque
    assert sorted(problems) == sorted([("LORE201", 2), ("LORE209", 3), *opaque, ("LORE202", 5)])
    assert exported("s-1", "sqlite:s.db").splitlines()[1:] == [b'{"kind":"a"}', b'{"kind":"b"}', b'{"kind":"c"}']


def test_captures_in_a_folder_become_sessions():
    put("logs/body.json", dumps(body("a")))
    put("logs/notes.txt", b"nothing\n")
    put("logs/s.jsonl", session())
    put("logs/whole.jsonl", lore("assemble", put("whole.jsonl", session()), "--all").out.encode())
    answer = answered("import", "logs", url="sqlite:s.db")
    assert [name for name, *_ in states(answer)] == ["body", "s-1"]
    assert (answer["requests"], answer["skipped"]) == (1, 1)
    assert "1 file of prompts passed over, 1 file skipped: not recordings" in store(
        "import", "logs", url="sqlite:s.db"
    ).out.replace("\n", " ")
    messages = [{"role": "user", "content": [{"type": "text", "text": "a"}]}]
    expected = {**body("a"), "system": [{"type": "text", "text": "Be brief."}], "messages": messages}
    assert json.loads(lore("assemble", "sqlite:s.db#body").out) == expected
    assert "unchanged" in store("import", "logs/body.json", url="sqlite:s.db").out


def test_captures_of_one_session_get_separate_ids():
    of_session = {**body("a"), "metadata": {"user_id": "user_1_account__session_11111111-2222-3333-4444-555555555555"}}
    for name, content in (("a/1", of_session), ("a/2", of_session), ("a/x", body("b")), ("b/x", body("c"))):
        put(f"logs/{name}.json", dumps(content))
    for state in ("created", "unchanged"):
        sessions = states(answered("import", "logs", url="sqlite:s.db"))
        assert [(name, was) for name, was, _ in sessions] == [
            ("11111111-2222-3333-4444-555555555555", state), ("2", state), ("x", state), ("b-x", state),
        ]  # fmt: skip


@pytest.mark.parametrize("names", [("a.json", "b.jsonl"), ("z.json", "b.jsonl")])
def test_capture_never_takes_the_id_of_a_log(names):
    capture, log = (f"logs/{name}" for name in names)
    session_id = "11111111-2222-3333-4444-555555555555"
    put(capture, dumps({**body("a"), "metadata": {"user_id": f"user_1_account__session_{session_id}"}}))
    put(log, session().replace(b'"s-1"', f'"{session_id}"'.encode()))
    for state in ("created", "unchanged"):
        sessions = states(answered("import", "logs", url="sqlite:s.db"))
        expected = {log: session_id, capture: names[0][0]}
        assert [(name, was) for name, was, _ in sessions] == [(expected[path], state) for path in sorted(expected)]


def test_repeated_problem_is_shown_once_with_its_count():
    call = {"request": {"method": "POST", "url": "https://api.anthropic.com/v1/messages", "headers": []}}
    whole = {**call["request"], "postData": {"mimeType": "application/json", "text": dumps(body("a")).decode()}}
    entries = [*([call] * 12), {"request": whole}]
    put("log.har", dumps({"log": {"version": "1.2", "entries": entries}}))
    output = store("import", "log.har", url="sqlite:s.db").out.replace("\n", " ")
    assert output.count("LORE223") == 1
    assert "(12 times)" in output
    assert [problem["code"] for problem in answered("import", "log.har", url="sqlite:t.db")["problems"]] == [
        "LORE223"
    ] * 12


def captured(turns, *, answer="answer {}", question="question {}"):
    """Lines of a capture in JSON Lines: each request holds the earlier messages, each response is recorded."""
    lines, messages = [], []
    for number in range(turns):
        messages.append({"role": "user", "content": question.format(number)})
        text = answer.format(number)
        call = {"type": "tool_use", "id": f"t{number}", "name": "look", "input": {"at": number}}
        reply = {"role": "assistant", "content": [{"type": "text", "text": text}, call]}
        usage = {"input_tokens": 9, "cache_read_input_tokens": 7 * number, "output_tokens": 1}
        response = {"id": f"msg_{number}", "type": "message", "model": "m", "usage": usage, **reply}
        request = {"model": "m", "max_tokens": 9, "system": "Be brief.", "messages": [*messages]}
        lines.append({"request": request, "response": response, "timestamp": f"2026-01-01T00:{number:02}:00Z"})
        messages.append({"role": "assistant", "content": [{"type": "text", "text": text, "citations": None}, call]})
        messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{number}",
                                                      "content": "done"}]})  # fmt: skip
    return [dumps(line) + b"\n" for line in lines]


@each_store
def test_grown_capture_is_extended_and_keeps_stored_events(url):
    """What the last response said is spelled otherwise by the next request: it stays in the log, and is taken back."""
    lines, before = captured(5), b""
    for number in (1, 2, 4, 5):
        put("c.jsonl", b"".join(lines[:number]))
        state = "created" if number == 1 else "extended"
        assert states(answered("import", "c.jsonl", url=url))[0][:2] == ("c", state)
        assert states(answered("import", "c.jsonl", url=url)) == [("c", "unchanged", 0)]
        log = exported("c", url)
        assert log.startswith(before)
        before = log
        bodies = lore("assemble", f"{url}#c", "--all", "--full").out
        assert bodies == lore("assemble", "c.jsonl", "--all", "--full").out
        from_file, other = (lore("fold", name, "--json").json for name in ("c.jsonl", f"{url}#c"))
        assert (other["usage"], other["turns"]) == (from_file["usage"], from_file["turns"])
        assert [item["type"] for item in other["timeline"]] == [item["type"] for item in from_file["timeline"]]
        assert f"answer {number - 1}" in json.dumps(other["timeline"])


@pytest.mark.parametrize("lines", [
    captured(3, question="another {}"),
    captured(3, answer="another {}"),
    captured(2, answer="another {}"),
    [*captured(2)[:1], *captured(3)[2:]],
    [line.replace(b'"input_tokens":9', b'"input_tokens":8') for line in captured(3)],
])  # fmt: skip
def test_rewritten_capture_is_refused(lines):
    put("c.jsonl", b"".join(captured(2)))
    answered("import", "c.jsonl", url="sqlite:s.db")
    before = exported("c", "sqlite:s.db")
    put("c.jsonl", b"".join(lines))
    result = store("import", "c.jsonl", url="sqlite:s.db")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: the recording was rewritten: event ")
    assert "--id stores this under another id" in result.err
    assert exported("c", "sqlite:s.db") == before


def test_import_without_a_path_reads_agents_logs():
    put("home/.claude/projects/-w/c.jsonl", CLAUDE)
    put("home/notes/body.json", dumps(body("a")))
    assert [name for name, *_ in states(answered("import", url="sqlite:s.db"))] == ["s"]
    assert [name for name, *_ in states(answered("import", "home", url="sqlite:s.db"))] == ["s", "body"]
    os.remove("home/.claude/projects/-w/c.jsonl")
    result = store("import", url="sqlite:s.db")
    assert (result.code, "no agent that lore reads keeps logs here" in result.err) == (2, True)


@pytest.mark.parametrize(("args", "message"), [
    (["none.jsonl"], "cannot read none.jsonl"),
    (["empty"], "no sessions in empty"),
    (["a.jsonl", "b.jsonl", "--id", "x"], "--id names one session"),
    (["a.jsonl", "--id", "x\n"], "is not a valid session id"),
    (["*.nothing"], "nothing matches"),
    (["sqlite:none.db"], "there is no store sqlite:none.db"),
])  # fmt: skip
def test_bad_input_is_an_error(args, message):
    Path("empty").mkdir()
    put("a.jsonl", log(header(session_id="a")))
    put("b.jsonl", log(header(session_id="b")))
    result = store("import", *args, url="sqlite:s.db")
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert not Path("none.db").exists()


def test_interrupted_import_is_continued(monkeypatch):
    """A batch is one delta: batches before the interruption are stored, and not sent again."""
    monkeypatch.setattr(writing, "BATCH_EVENTS", 3)
    put("s.jsonl", session())

    class Failing(Memory):
        writes_left = 1

        def save_delta(self, session_id, delta):
            self.writes_left -= 1
            if self.writes_left < 0:
                raise KeyboardInterrupt
            return super().save_delta(session_id, delta)

    failing_store = Failing()
    with pytest.raises(KeyboardInterrupt):
        import_sessions(failing_store, ["s.jsonl"], Options())
    assert failing_store.load("s-1").head.number == 6
    failing_store.writes_left = 99
    monkeypatch.setattr(writing, "now", lambda: "2026-01-01T00:00:00Z")
    result = import_sessions(failing_store, ["s.jsonl"], Options())
    assert states(
        {"sessions": [{name: getattr(row, name) for name in row.__struct_fields__} for row in result.sessions]}
    ) == [("s-1", "extended", session().count(b"\n") - 6)]
    assert failing_store.load("s-1").log == session()
    assert failing_store.list()[0].updated_at == "2026-01-01T00:00:00Z"


def test_full_store_ends_the_import():
    class Full(Memory):
        def save(self, data):
            raise StoreError("no space is left")

    for name in "abc":
        put(f"logs/{name}.jsonl", log(header(session_id=name)))
    with pytest.raises(StoreError, match="no space is left"):
        import_sessions(Full(), ["logs"], Options())


def test_new_session_is_saved_in_batches(monkeypatch):
    monkeypatch.setattr(writing, "BATCH_BYTES", 1000)
    put("s.jsonl", log(header(), *(record("cache_reset", reason="x" * 90) for _ in range(100))))
    sizes = []

    class Weighing(Memory):
        def save(self, data):
            sizes.append(len(data.log))
            return super().save(data)

        def save_delta(self, session_id, delta):
            sizes.append(sum(map(len, delta.new_events)))
            return super().save_delta(session_id, delta)

    import_sessions(Weighing(), ["s.jsonl"], Options())
    assert len(sizes) > 9
    assert max(sizes) < 1200


def test_export_overwrites_no_file_without_force():
    put("s.jsonl", session())
    answered("import", "s.jsonl", url="sqlite:s.db")
    put("there", b"mine")
    assert store("export", "s-1", "-o", "there", url="sqlite:s.db").code == 2
    assert Path("there").read_bytes() == b"mine"
    result = store("export", "s-1", "-o", "s.db", "--force", url="sqlite:s.db")
    assert (result.code, "is an input of this command" in result.err) == (2, True)
    assert exported("s-1", "sqlite:s.db") == session()


@pytest.mark.parametrize(
    ("url", "file"), [("sqlite:s.db", "s.db"), ("sqlite:./s.db", "s.db-wal"), ("jsonl:s", "s/s-1.jsonl"),
                      ("jsonl:s", "s/new.jsonl"), ("jsonl:s/", "s/lore-store.json")],
)  # fmt: skip
def test_output_never_replaces_the_store_it_reads(url, file):
    """`lore check sqlite:s.db --report json=s.db` and `lore convert sqlite:s.db#ID -o s.db --force` did."""
    put("s.jsonl", session())
    answered("import", "s.jsonl", url=url)
    for args in (
        ["store", "export", "s-1", "--store", url, "-o", file, "--force"],
        ["convert", f"{url}#s-1", "--to", "lore", "-o", file, "--force"],
        ["assemble", f"{url}#s-1", "-o", file, "--force"],
        ["check", url, "--report", f"json={file}"],
        ["check", f"{url}#s-1", "--report", f"json={file}"],
    ):
        result = lore(*args)
        assert result.code == 2, args
        assert "is an input of this command" in result.err or "is a recording" in result.err, result.err
    assert exported("s-1", url) == session()
    assert answered("verify", url=url)["damage"] == []


def test_output_may_be_another_file_in_the_folder():
    put("s.jsonl", session())
    answered("import", "s.jsonl", url="jsonl:s")
    assert lore("convert", "jsonl:s#s-1", "--to", "lore", "-o", "s/note.txt").code == 0


def test_secret_is_masked_in_answers_only():
    secret = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz"
    put("s.jsonl", log(header(session_id=secret), record("cache_reset", reason=secret)))
    result = store("import", "s.jsonl", url="sqlite:s.db")
    assert secret not in result.out + result.err
    assert secret.encode() in exported(secret, "sqlite:s.db")

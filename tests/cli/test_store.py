"""`lore store list, show, delete, move, bind, resolve, verify, vacuum`."""

import json
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cli.running import lore, process, put, session
from cli.storing import answered, appended, each_store, fed, store
from lore.store.base import SessionDelta
from lore.store.registry import open_store
from model.making import dumps, header, log, record, user

COMMANDS = ("import", "export", "append", "list", "show", "delete", "move", "bind", "resolve", "verify", "vacuum")
DELTA = record("prompt_delta", seq=1, selector={"target": "messages", "insert_at": 0}, content=[])

pytestmark = pytest.mark.usefixtures("desk")


def filled(url):
    """A store with a session, a fork of it, a fork of that, and another session."""
    put("logs/a.jsonl", log(header(session_id="a", project_id="p"), record("append", item=user("u1")), DELTA))
    put("logs/b.jsonl", log(header(session_id="b", parent_session_id="a", project_id="p")))
    put("logs/c.jsonl", log(header(session_id="c", parent_session_id="b")))
    put("logs/d.jsonl", log(header(session_id="d")))
    answered("import", "logs", url=url)


def ids(url, *args):
    return [session["session_id"] for session in answered("list", *args, url=url)["sessions"]]


@each_store
def test_list_is_sorted_and_filtered_by_project(url):
    filled(url)
    assert ids(url) == ["a", "b", "c", "d"]
    assert ids(url, "--project", "p") == ["a", "b"]
    assert ids(url, "--project", "none") == []
    result = store("list", url=url)
    assert result.out.splitlines()[-1].endswith(f" bytes in {url}")
    assert result.out.startswith("a  0 turns, 3 events, ")
    assert ", project p, last used 20" in result.out.splitlines()[0]
    assert ", project p, forked from a, last used 20" in result.out.splitlines()[1]


TURN = record("turn_started", turn=1, at="2026-03-01T12:00:00+01:00")


def used(url):
    """A store with sessions of two users and two agents; one was used in March, one in April, one has no time."""
    put("logs/a.jsonl", log(header(session_id="a", user_id="alice", at="2026-01-01T00:00:00Z"), TURN, DELTA))
    later = record("turn_started", turn=1, at="2026-04-01T00:00:00Z")
    put("logs/b.jsonl", log(header(session_id="b", user_id="alice", agent_id="helper"), later, TURN, later))
    put("logs/c.jsonl", log(header(session_id="c", user_id="al\x1b[2Jice")))
    answered("import", "logs", url=url)


@each_store
def test_list_shows_owner_turns_and_last_use(url):
    used(url)
    rows = {row["session_id"]: row for row in answered("list", url=url)["sessions"]}
    facts = ("user_id", "agent_id", "turns", "used_at")
    assert [rows["a"][name] for name in facts] == ["alice", None, 1, "2026-03-01T12:00:00+01:00"]
    assert [rows["b"][name] for name in facts] == ["alice", "helper", 3, "2026-04-01T00:00:00Z"]
    assert rows["c"]["user_id"] == "al\x1b[2Jice"
    assert rows["c"]["used_at"] == rows["c"]["updated_at"]  # no event says a time: when it was saved
    first, second, third, _ = store("list", url=url).out.splitlines()
    assert first.endswith(", user alice, last used 2026-03-01T12:00:00+01:00")
    assert second.startswith("b  3 turns, 4 events, ")
    assert ", user alice, agent helper, last used 2026-04-01" in second
    assert "\x1b" not in third
    assert "last used   2026-03-01" in store("show", "a", url=url).out


@each_store
def test_list_is_filtered_by_user_agent_and_time(url):
    used(url)
    assert ids(url, "--user", "alice") == ["a", "b"]
    assert ids(url, "--user", "default") == []
    assert ids(url, "--agent", "main") == ["a", "c"]
    assert ids(url, "--user", "alice", "--agent", "helper") == ["b"]
    assert ids(url, "--since", "2026-03-01T11:00:00Z") == ["a", "b", "c"]
    assert ids(url, "--since", "2026-03-01T11:00:01Z") == ["b", "c"]
    assert ids(url, "--since", "1d") == ["c"]
    result = store("list", "--since", "soon", url=url)
    assert (result.code, result.out) == (2, "")
    assert "hint: give an age (30m, 2h, 1d, 1w) or a date" in result.err


@each_store
def test_since_notes_sessions_without_a_time(url):
    with closing(open_store(url)) as writer:
        writer.create(dumps({"kind": "session_started", "session_id": "a"}))
    result = store("list", "--since", "1d", url=url)
    assert (result.code, result.out) == (0, f"0 sessions, 0 events, 0 bytes in {url}\n")
    assert result.err == "note: 1 session says no time of use, and cannot be chosen by --since\n"


@each_store
def test_show_names_head_deltas_and_forks(url):
    filled(url)
    answer = answered("show", "a", url=url)
    assert answer["session"]["events"] == 3
    assert answer["session"]["bytes"] == len(Path("logs/a.jsonl").read_bytes())
    assert (answer["prompt_deltas"], answer["forks"]) == (1, ["b", "c"])
    text = store("show", "a", url=url).out
    assert "forks       b, c\n" in text
    assert f"head        event 3, digest {answer['session']['head']['digest']}\n" in text


@each_store
def test_leaf_and_metadata_are_shown_and_imported(url):
    filled(url)
    with closing(open_store(url)) as store:
        head = store.load("a").head
        store.save_delta("a", SessionDelta(base=head, leaf_id="u1", metadata=b'{"cwd":"/x"}'))
    answered("import", f"{url}#a", url="sqlite:other.db")
    for target in (url, "sqlite:other.db"):
        answer = answered("show", "a", url=target)
        assert (answer["session"]["leaf_id"], answer["metadata"]) == ("u1", {"cwd": "/x"})


@each_store
def test_delete_names_sessions_and_includes_forks(url):
    filled(url)
    dry = answered("delete", "b", "a", "--dry-run", url=url, schema="store-written")
    assert (sorted(dry["session_ids"]), dry["dry_run"]) == (["a", "b", "c"], True)
    assert store("delete", "b", "--dry-run", url=url).out == "would delete c\nwould delete b\n"
    assert ids(url) == ["a", "b", "c", "d"]
    deletion = answered("delete", "b", "a", url=url, schema="store-written")
    assert deletion["session_ids"] == ["c", "b", "a"]
    assert ids(url) == ["d"]


@each_store
def test_delete_of_an_unknown_session_deletes_nothing(url):
    filled(url)
    result = store("delete", "a", "none", url=url)
    assert (result.code, result.out) == (2, "")
    assert "has no session 'none'" in result.err
    assert ids(url) == ["a", "b", "c", "d"]


@each_store
def test_move_takes_deltas_and_keeps_the_log(url):
    filled(url)
    assert store("move", "a", "q", url=url).out == "moved a to project q\n"
    assert ids(url, "--project", "q") == ["a"]
    assert answered("move", "d", "q", url=url, schema="store-written")["project_id"] == "q"
    assert store("move", "c", "b", "c", "r", url=url).out == "moved c to project r\nmoved b to project r\n"
    assert ids(url, "--project", "r") == ["b", "c"]
    for args in (("c", "none", "q"), ("c", "d", "\x1b")):
        assert store("move", *args, url=url).code == 2
    assert ids(url, "--project", "r") == ["b", "c"]
    assert store("export", "a", url=url).out.encode() == Path("logs/a.jsonl").read_bytes()


@each_store
def test_bound_client_is_known_to_other_processes(url):
    filled(url)
    assert store("bind", "me@host", "a", url=url).out == "bound client me@host to a\n"
    assert process("store", "resolve", "me@host", "--store", url).out == "a\n"
    assert answered("resolve", "me@host", url=url)["session_id"] == "a"
    result = store("bind", "me@host", "d", url=url)
    assert (result.code, "bound to session 'a'" in result.err) == (2, True)
    answered("bind", "me@host", "d", "--replace", url=url, schema="store-written")
    assert store("resolve", "me@host", url=url).out == "d\n"


@each_store
def test_an_unknown_client_or_session_is_an_error(url):
    filled(url)
    commands = (("resolve", "none"), ("show", "none"), ("export", "none"), ("move", "none", "p"), ("bind", "c", "none"),
             ("verify", "none"))  # fmt: skip
    for command, *args in commands:
        result = store(command, *args, url=url)
        assert (result.code, result.out) == (2, ""), command
        assert "'none'" in result.err
        assert "\nhint: " in result.err


def test_verify_exits_1_and_names_recoverable_events():
    filled("sqlite:s.db")
    clean = answered("verify", url="sqlite:s.db")
    assert (clean["sessions"], clean["events"], clean["damage"]) == (4, 6, [])
    with closing(sqlite3.connect("s.db")) as inside:
        changed = "CAST(replace(CAST(line AS TEXT), 'u1', 'u2') AS BLOB)"
        assert inside.execute(f"UPDATE events SET line = {changed} WHERE number = 2").rowcount == 1
        inside.commit()
    answer = answered("verify", url="sqlite:s.db", code=1)
    assert [(damage["session_id"], damage["number"]) for damage in answer["damage"]] == [("a", 2)]
    result = store("verify", "a", "a", url="sqlite:s.db")
    assert result.code == 1
    assert result.out.startswith("damaged session a, event 2: ")
    assert "can be recovered: " in result.out
    assert store("verify", "b", "c", url="sqlite:s.db").code == 0
    assert "`lore store verify --store sqlite:" in store("show", "a", url="sqlite:s.db").err


def test_check_judges_the_undamaged_sessions():
    filled("jsonl:s")
    file = next(path for path in Path("s").glob("*.jsonl") if b'"u1"' in path.read_bytes())
    file.write_bytes(file.read_bytes().replace(b'"uuid":"u1"', b'"uuid":"u2"'))
    assert [item["session_id"] for item in answered("verify", url="jsonl:s", code=1)["damage"]] == ["a"]
    result = lore("check", "jsonl:s", "--json")
    assert result.code == 3
    assert result.json["summary"]["files"] >= 3
    assert any("LORE215" in dumps(item).decode() for item in result.json["problems"])


@pytest.mark.parametrize("url", ["jsonl:s", "sqlite:s.db"])
def test_commands_of_verify_recover_intact_events(url):
    put("s.jsonl", session())
    answered("import", "s.jsonl", url=url)
    path = Path("s/s-1.jsonl" if url == "jsonl:s" else "s.db")
    path.write_bytes(path.read_bytes().replace(b'"uuid":"u2"', b'"uuid":"x2"'))
    (damage,) = answered("verify", url=url, code=1)["damage"]
    export, load = (shlex.split(command)[1:] for command in damage["commands"])
    told = lore("fold", f"{url}#s-1")
    assert (told.code, f"`lore store verify --store {url}` names" in told.err) == (2, True)
    assert [lore(*export).code, lore(*load).code] == [3, 0]
    recovered = answered("list", url="jsonl:recovered", schema="store-list")["sessions"]
    assert [(one["session_id"], one["events"] >= 2) for one in recovered] == [("s-1", True)]
    assert lore("fold", "jsonl:recovered#s-1").code == 0


def test_export_reads_up_to_the_unreadable_page():
    events = [record("append", item=user(f"u{number}", "x" * 300)) for number in range(300)]
    put("s.jsonl", log(header(session_id="s-1"), *events))
    answered("import", "s.jsonl", url="sqlite:s.db")
    data = bytearray(Path("s.db").read_bytes())
    data[20 * 4096 : 21 * 4096] = b"\xff" * 4096
    Path("s.db").write_bytes(data)
    damage = answered("verify", url="sqlite:s.db", code=1)["damage"]
    assert [bool(one["commands"]) for one in damage] == [True, True]
    result = store("export", "s-1", url="sqlite:s.db")
    assert (result.code, len(result.out.splitlines()) > 50) == (3, True)
    assert "before that are written, no others" in result.err


def damage_the_end_of_a_log():
    put("s.jsonl", session())
    answered("import", "s.jsonl", url="jsonl:s")
    log = Path("s/s-1.jsonl")
    data = bytearray(log.read_bytes())
    data[data.rfind(b'"kind"') + 1] ^= 2
    log.write_bytes(data)


def test_damaged_session_is_not_reported_as_missing():
    """It is in no list: `show` and `delete` said that the store has no such session."""
    damage_the_end_of_a_log()
    result = store("show", "s-1", url="jsonl:s")
    assert (result.code, "has no session" in result.err) == (2, False)
    assert "a saved record cannot be read" in result.err
    assert answered("delete", "s-1", "--dry-run", url="jsonl:s", schema="store-written")["session_ids"] == ["s-1"]
    assert answered("delete", "s-1", url="jsonl:s", schema="store-written")["session_ids"] == ["s-1"]
    assert not Path("s/s-1.jsonl").exists()


@pytest.mark.parametrize("command", [["show", "s-1"], ["append", "s-1"], ["import", "s.jsonl"]])
def test_error_names_file_and_byte_of_the_damage(command):
    """It said `event 4: the event is not the stored one`, or named a line of standard input."""
    damage_the_end_of_a_log()
    result = fed(b'{"kind":"cache_reset","reason":"x"}\n', "store", *command, "--store", "jsonl:s")
    assert result.code == 2
    assert "s/s-1.jsonl, byte " in result.err
    assert "<stdin>" not in result.err


def test_verify_notes_an_empty_file():
    """A file cut to nothing was a store of no sessions in which nothing is damaged."""
    Path("s.db").touch()
    result = store("verify", url="sqlite:s.db")
    assert (result.code, "s.db is empty" in result.out) == (0, True)


@pytest.mark.parametrize("url", ["sqlite:none.db", "jsonl:none"])
@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in ("import", "append")])
def test_missing_store_is_an_error_and_not_made(url, command):
    args = {"move": ("a", "p"), "bind": ("k", "a"), "list": (), "verify": (), "vacuum": ()}.get(command, ("a",))
    result = store(command, *args, url=url)
    assert (result.code, result.out) == (2, "")
    assert f"error: there is no store {url}\n" in result.err
    assert not list(Path().glob("none*"))


@pytest.mark.parametrize("url", ["nothing:x", "s.db", "", "sqlite:", "mysql://me:hunter2@host/db"])
def test_error_about_a_bad_url_shows_no_password(url):
    result = store("list", url=url)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: ")
    assert "hint: " in result.err
    assert "hunter2" not in result.err


@each_store
def test_store_option_with_a_session_is_refused(url):
    """`--store sqlite:s.db#a` was a new store in a file of that name."""
    filled(url)
    for command in (("import", "logs"), ("append", "a"), ("show", "a")):
        result = store(*command, url=f"{url}#a")
        assert (result.code, result.out) == (2, "")
        assert f"error: {url}#a names a session, not a store\nhint: --store {url}, and" in result.err
    assert not list(Path().glob("*#*"))
    put("a.jsonl", log(header(session_id="a")))
    assert store("import", "a.jsonl", url=url.replace(":s", ":new#")).code == 0


def test_id_is_never_run_and_masked_on_screen():
    secret = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz"
    line = dumps({"kind": "session_started", "v": 1, "session_id": f"'; DROP TABLE events; -- {secret}"})
    name = json.loads(line)["session_id"]
    assert appended(name, line, url="sqlite:s.db").code == 0
    for command in (("list",), ("show", name), ("delete", name, "--dry-run")):
        result = store(*command, url="sqlite:s.db")
        assert result.code == 0
        assert secret not in result.out
    assert ids("sqlite:s.db")

"""The commands with PostgreSQL: they work as with files, and show no password."""

import pytest

from cli.running import lore, put, session
from cli.storing import answered, appended, exported, store

LINE = b'{"kind":"cache_reset","reason":"%b"}'

pytestmark = pytest.mark.usefixtures("desk")


def test_every_command_works_over_postgresql(database):
    put("s.jsonl", session())
    imported = answered("import", "s.jsonl", "--project", "p", url=database)
    assert [one["state"] for one in imported["sessions"]] == ["created"]
    assert exported("s-1", database) == session()
    name = f"{database}#s-1"
    assert lore("fold", name, "--json").json["timeline"] == lore("fold", "s.jsonl", "--json").json["timeline"]
    assert lore("assemble", f"{name}#1").out == lore("assemble", "s.jsonl#1").out
    assert lore("check", database, "--json").json["summary"]["files"] == 1
    assert lore("knowledge", "add", name, "k1", "--title", "t").code == 0
    number = session().count(b"\n") + 2
    for _ in range(2):
        ran = appended("s-1", LINE[:-1] % b"x" + b',"id":%d}' % number, url=database)
        assert (ran.code, ran.lines) == (0, [{"session_id": "s-1", "id": number}])
    assert answered("show", "s-1", url=database)["session"]["events"] == number
    assert store("bind", "c", "s-1", url=database).code == 0
    assert store("resolve", "c", url=database).out == "s-1\n"
    assert answered("verify", url=database)["damage"] == []
    assert answered("delete", "s-1", url=database, schema="store-written")["session_ids"] == ["s-1"]
    assert lore("fold", name).code == 2


def test_no_command_shows_the_password(database):
    assert "//lore@" in database
    secret = database.replace("//lore@", "//lore:hunter2@")
    appended("s-1", b'{"kind":"session_started","v":1,"session_id":"s-1"}', url=secret)
    commands = (
        ("store", "list", "--store", secret), ("store", "list", "--json", "--store", secret), ("fold", secret),
        ("store", "verify", "--store", secret), ("fold", f"{secret}#none"), ("check", f"{secret}#s-1", "-v"),
        ("check", secret, "--json", "-v"), ("diff-prefix", f"{secret}#s-1", f"{secret}#s-1", "--json"),
    )  # fmt: skip
    for words in commands:
        ran = lore(*words)
        assert ran.out + ran.err
        assert "hunter2" not in ran.out + ran.err, words


def test_hint_about_the_url_is_not_masked():
    ran = lore("store", "list", "--store", "postgresql://u:pa/ss@h/db")
    assert "postgresql://HOST:PORT/DATABASE" in ran.err
    assert "**" not in ran.err

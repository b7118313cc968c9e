"""What lies where in a folder of logs, and that a folder which an older lore left is read and gone on with."""

from __future__ import annotations

import json

import pytest

from lore.store.base import Checkpoint
from store.logs import Logs, begun, said

# As lore wrote it before bindings were read by line, with and without what its first version of records lacked.
DIGEST = "7c018c18c962ba34cb872700446ea14f9f51e4d91ee58e2f23d35dc1366202ba"
HEADER = b'{"kind":"session_started","session_id":"s","model":"m","at":"2026-01-01T00:00:00Z"}'
EVENTS = (
    b'{"kind":"append","item":{"type":"user_message","uuid":"u1","text":"a"}}',
    b'{"kind":"turn_started","turn":1,"at":"2026-01-01T00:00:01Z"}',
)
CREATED = (
    b'{"kind":"saved","size":0,"after":1,"base":"5087932fd59205918b56e3213a3f9ef93976b7d6ee61ca31423f77cc266d239f",'
    b'"log":84,"created_at":"2026-01-01T00:00:00Z","turns":0,"used_at":"2026-01-01T00:00:00Z","byte":84,'
    b'"check":"8442022b"}'
)
SAVED = (
    b'{"kind":"saved","size":133,"after":1,"base":"5087932fd59205918b56e3213a3f9ef93976b7d6ee61ca31423f77cc266d239f",'
    b'"log":84,"digests":["685ffb218a22d13bb8131156c905671db1a5797bdb88cf1befb0f1c0059b49cb",'
    b'"7c018c18c962ba34cb872700446ea14f9f51e4d91ee58e2f23d35dc1366202ba"],"leaf_id":"u1","metadata":{"k":1},'
    b'"created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:02Z","turns":1,'
    b'"used_at":"2026-01-01T00:00:01Z","byte":311,"check":"ea71deff"}'
)
TORN = b'{"kind":"saved","size":99,"after":3,'
FILES = {
    "lore-store.json": b'{"kind":"lore-store","version":2}\n',
    "s.jsonl": b"\n".join((HEADER, CREATED, SAVED, *EVENTS, TORN)),
    "s.torn": TORN,
    "s.checkpoint": b"lore-checkpoint-1\ndfdd74c9\n\x84\xa6number\x03\xa6digest\xd9@" + DIGEST.encode()
    + b"\xa6format\xa1x\xa4data\xc4\x04data",
    "t.jsonl": b'{"kind":"session_started","session_id":"t","parent_session_id":"s","model":"m"}\n'
    b'{"kind":"saved","size":0,"after":1,"base":"8af4ce00eea70fcce00bba85dd6b3e09395b868ad43acd2a0554716c59a92254",'
    b'"log":80,"turns":0,"byte":80,"check":"abea8ea0"}\n',
    "bindings.jsonl": b'{"client_key":"one","session_id":"s","check":"8e234116"}\n'
    b'{"client_key":"two","session_id":"t","check":"b105130d"}\n'
    b'{"client_key":"two","session_id":"s","check":"fe4485ca"}\n'
    b'{"client_key":"three","session_id":"Gone","check":"b109574e"}\n'
    b'{"client_key":"three","session_id":null,"check":"8514955d"}\n',
    ".s.jsonl.0123456789ab.new": b"what a writer that died had begun",
}  # fmt: skip


@pytest.fixture
def older(tmp_path):
    """Return a folder that an older lore wrote, whose last writer died twice."""
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def test_a_folder_of_an_older_lore_is_read_whole_and_not_touched(older):
    store = Logs(older)
    data = store.load("s")
    assert data.events == (HEADER, *EVENTS)
    assert (data.head.number, data.head.digest) == (3, DIGEST)
    assert (data.leaf_id, data.metadata, data.updated_at) == ("u1", b'{"k":1}', "2026-01-01T00:00:02Z")
    assert [(found.session_id, found.turns) for found in store.list()] == [("s", 1), ("t", 0)]
    assert [store.resolve(client) for client in ("one", "two", "three", "four")] == ["s", "s", None, None]
    assert store.checkpoint("s") == Checkpoint(3, DIGEST, "x", b"data")
    assert store.verify().damage == ()
    assert {path.name: path.read_bytes() for path in older.iterdir()} == FILES


def test_a_folder_of_an_older_lore_is_gone_on_with(older):
    store = Logs(older)
    store.say("b")
    store.bind("three", "t")
    store.save_checkpoint("t", Checkpoint(1, "d", "x", b"more"))
    again = Logs(older)
    assert again.events() == (HEADER, *EVENTS, said("b"))
    assert [again.resolve(client) for client in ("one", "two", "three")] == ["s", "s", "t"]
    assert (older / "s.torn").read_bytes() == TORN * 2
    assert (older / "bindings.jsonl").read_bytes().startswith(FILES["bindings.jsonl"])
    assert again.vacuum() == len(FILES[".s.jsonl.0123456789ab.new"])
    assert again.delete("s") == ("t", "s")
    assert sorted(path.name for path in older.iterdir()) == ["bindings.jsonl", "lore-store.json"]
    assert [again.resolve(client) for client in ("one", "two", "three")] == [None, None, None]


def test_what_lies_beside_the_logs_is_what_they_cannot_say(tmp_path):
    """All that is noted of a session stands in its log: where nothing else is left, the session is as it was."""
    store = begun(tmp_path / "all", "a")
    store.move("s", "p")
    store.bind("client", "s")
    store.save_checkpoint("s", Checkpoint(2, store.load("s").head.digest, "x", b"data"))
    names = sorted(path.name for path in (tmp_path / "all").iterdir())
    assert names == ["bindings.jsonl", "lore-store.json", "s.checkpoint", "s.jsonl"]
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "s.jsonl").write_bytes((tmp_path / "all" / "s.jsonl").read_bytes())
    alone = Logs(tmp_path / "log")
    assert alone.load("s") == store.load("s")
    assert alone.list() == store.list()
    assert (alone.checkpoint("s"), alone.resolve("client")) == (None, None)
    alone.say("b")
    assert json.loads((tmp_path / "log" / "lore-store.json").read_bytes()) == {"kind": "lore-store", "version": 2}


def test_a_session_that_is_saved_in_full_grows_by_what_is_new(tmp_path):
    """It was written whole each time: a session saved in full at each turn cost its square."""
    store = begun(tmp_path, "a", "b")
    before = (tmp_path / "s.jsonl").read_bytes()
    data = store.load("s")
    store.save(data)
    assert (tmp_path / "s.jsonl").read_bytes() == before
    store.say("c", session_id="s")
    other = begun(tmp_path / "other", "a", "b")
    other.save(store.load("s"))
    log = (tmp_path / "other" / "s.jsonl").read_bytes()
    assert log.startswith(before)
    assert other.load("s") == store.load("s")

"""`jsonl:` stores: files, costs, other programs, refused folders, order of writes, several writers."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lore.formats.lore_log import LoreLog
from lore.model.events import Saved
from lore.store.base import FormatError, SessionDelta, StoreError, UnknownSessionError
from lore.store.deltas import plan_delta
from lore.store.jsonl import Jsonl
from lore.store.jsonl_log import LogFile, is_record
from store.logs import Logs, begin_store, header, message_line, visible


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """Yield the numbers of synchronisations and writes, and of bytes written and read, until now."""
    counts = {"fsync": 0, "write": 0, "bytes": 0, "read": 0}
    fsync, write, read = os.fsync, os.write, LogFile.read

    def synchronise(descriptor: int) -> None:
        counts["fsync"] += 1
        fsync(descriptor)

    def put(descriptor: int, data: bytes) -> int:
        counts["write"] += 1
        counts["bytes"] += len(data)
        return write(descriptor, data)

    def take(log: LogFile, begin: int) -> bytes:
        data = read(log, begin)
        counts["read"] += len(data)
        return data

    monkeypatch.setattr(os, "fsync", synchronise)
    monkeypatch.setattr(os, "write", put)
    monkeypatch.setattr(LogFile, "read", take)
    return counts


def raw(folder, name="s"):
    return (folder / f"{name}.jsonl").read_bytes()


# the log


def test_log_is_the_events_with_saved_records(tmp_path):
    begin_store(tmp_path, "a", "b")
    lines = raw(tmp_path).split(b"\n")[:-1]
    assert [line for line in lines if not is_record(line)] == [header(), message_line("a"), message_line("b")]
    assert [is_record(line) for line in lines] == [False, True, True, False, True, False]
    values = [value.value for value in LoreLog().read([raw(tmp_path)])]
    assert [type(value).__name__ for value in values if not isinstance(value, Saved)] == [
        "SessionStarted",
        "Append",
        "Append",
    ]


# as every lore with this version of the layout writes and reads it
LAYOUT_4 = (
    b'{"kind":"session_started","session_id":"s","project_id":"p"}\n'
    b'{"kind":"saved","size":0,"after":1,"base":"cdd256f9eaaeb12e9c8bbefa22d4cc2af99ee695f0a241c93658ba9743221d02",'
    b'"log":61,"digest":"cdd256f9eaaeb12e9c8bbefa22d4cc2af99ee695f0a241c93658ba9743221d02",'
    b'"note":"72c7a6124f04b2dc924a61c2987b5300ebb13ec6bf5b805588b3c7f8520ea864","project_id":"p",'
    b'"end":"lore-store-4"}\n'
    b'{"kind":"saved","size":58,"after":1,"base":"cdd256f9eaaeb12e9c8bbefa22d4cc2af99ee695f0a241c93658ba9743221d02",'
    b'"log":61,"digest":"9d6a3d674d47ccc3d3a032eda744bd541c4ae91ec726b26dc5c0665808902d3b",'
    b'"note":"74dee87d0162913d613154998f4f04104b9ef4a65f41838531f958d4c078f396","leaf_id":"u1","metadata":{"a":1},'
    b'"project_id":"p","updated_at":"t2","turns":1,"used_at":"t1","end":"lore-store-4"}\n'
    b'{"kind":"turn_started","turn":1,"at":"t1"}\n'
    b'{ "kind":"x" }\n'
)


def test_log_has_the_bytes_of_its_layout(tmp_path):
    """If it has others, stores in use cannot be read: the layout needs another version."""
    store = Logs(tmp_path)
    head = store.create(b'{"kind":"session_started","session_id":"s","project_id":"p"}')
    new = (b'{"kind":"turn_started","turn":1,"at":"t1"}', b'{ "kind":"x" }')
    delta = SessionDelta(base=head, new_events=new, leaf_id="u1", metadata=b'{"a":1}', updated_at="t2")
    store.save_delta("s", delta)
    assert raw(tmp_path) == LAYOUT_4


def test_log_copied_alone_keeps_its_session(tmp_path):
    store = begin_store(tmp_path / "all", "a")
    store.move("s", "p")
    store.bind("client", "s")
    assert visible(tmp_path / "all") == ["bindings.json", "lore-store.json", "s.jsonl"]
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "s.jsonl").write_bytes(raw(tmp_path / "all"))
    alone = Logs(tmp_path / "log")
    assert (alone.load("s"), alone.list()) == (store.load("s"), store.list())
    assert alone.resolve("client") is None
    assert alone.say("b").number == 3


def test_metadata_with_line_feeds_stays_one_record(tmp_path):
    store = begin_store(tmp_path)
    store.say("a", metadata=b'{"a": [1,\n 2],\r\n "b": "\\n\\ud83d"}')
    assert Logs(tmp_path).load("s") == store.load("s")
    assert b'"b":"\\n\\ud83d"' in store.load("s").metadata
    assert not store.verify().damage


# costs


def test_save_is_one_write_and_one_fsync(tmp_path, counts):
    store = begin_store(tmp_path, "a")
    base = store.load("s").head
    counts.update(fsync=0)
    store.create(header("t"))
    assert counts["fsync"] == 2  # the file, and its name
    counts.update(fsync=0, write=0)
    store.say("b", "c", base=base, leaf_id="c", metadata=b'{"n":1}')
    assert (counts["fsync"], counts["write"]) == (1, 1)


def test_save_costs_the_same_in_long_sessions(tmp_path, counts):
    store, costs = begin_store(tmp_path, "a"), []
    for size in (1, 20_000):
        head = store.say(*(f"{size}-{number}" for number in range(size)))
        head = store.say("b", base=head)
        counts.update(bytes=0, read=0)
        store.say("c", base=head)
        costs.append(counts["bytes"])
        assert counts["read"] < 300_000
    assert costs[1] <= costs[0] + 20  # numbers of more digits


def test_list_and_tail_read_the_end_only(tmp_path, counts):
    store = begin_store(tmp_path)
    store.say(*map(str, range(20_000)), updated_at="then")
    head = store.say("b", "c", "d")
    counts["read"] = 0
    (info,) = Logs(tmp_path).list()
    assert (info.head, info.updated_at) == (head, "then")
    assert store.load("s", after=20_002).events == (message_line("c"), message_line("d"))
    assert store.load("s", after=20_004).events == store.load("s", after=99_999).events == ()
    assert counts["read"] < 1_000_000 < len(raw(tmp_path))
    assert info.size == len(store.load("s").log)


# other programs


def test_lines_of_another_program_are_events(tmp_path):
    store = begin_store(tmp_path, "a")
    with (tmp_path / "s.jsonl").open("ab") as file:
        file.write(message_line("b") + b"\n" + b'{"kind":"turn_started","turn":1}\n')
    head = store.load("s").head
    assert (head.number, store.list()[0].turns) == (4, 1)
    store.say("d", base=head)
    for reader in (store, Logs(tmp_path)):
        assert reader.events()[2:] == (message_line("b"), b'{"kind":"turn_started","turn":1}', message_line("d"))
        assert reader.load("s", after=2).events == reader.events()[2:]
        assert not reader.verify().damage


def test_log_put_there_by_hand_is_a_session(tmp_path):
    """With a byte order mark, blank lines, and without an end of its last line."""
    start = (
        b"\xef\xbb\xbf"
        + header("s", project_id="p", at="then")
        + b"\r\n\n"
        + message_line("a")
        + b"\n"
        + message_line("b")
    )
    (tmp_path / "s.jsonl").write_bytes(start)
    (tmp_path / "notes.txt").write_text("mine")
    store = Logs(tmp_path)
    data = store.load("s")
    assert data.events == (header("s", project_id="p", at="then") + b"\r", message_line("a"), message_line("b"))
    assert (data.project_id, data.created_at, data.head.number) == ("p", "then", 3)
    assert not (tmp_path / "lore-store.json").exists()
    store.say("c", base=data.head)
    assert raw(tmp_path).startswith(start + b"\n")
    assert (tmp_path / "lore-store.json").exists()
    assert Logs(tmp_path).events() == (*data.events, message_line("c"))
    assert not Logs(tmp_path).verify().damage


def test_reading_changes_nothing(tmp_path):
    (tmp_path / "s.jsonl").write_bytes(header() + b"\n" + message_line("a") + b"\n")
    before = sorted((path.name, path.read_bytes()) for path in tmp_path.iterdir())
    store = Logs(tmp_path)
    store.load("s"), store.list(), store.verify(), store.resolve("k")
    assert sorted((path.name, path.read_bytes()) for path in tmp_path.iterdir()) == before


def test_folder_without_write_permission_can_be_read(tmp_path):
    begin_store(tmp_path, "a")
    with (tmp_path / "s.jsonl").open("ab") as file:
        file.write(b"torn")
    (tmp_path / ".s.jsonl.lock").unlink()
    (tmp_path / ".s.jsonl.lock").mkdir()  # a lock cannot be taken: tests run as root
    store = Logs(tmp_path)
    assert store.events() == (header(), message_line("a"))
    assert "the last 4 bytes are an incomplete save" in store.messages[0]
    with pytest.raises(StoreError, match="cannot lock"):
        store.say("b")


# deleting, clients


def test_damaged_bindings_are_reported_and_not_guessed(tmp_path):
    store = begin_store(tmp_path)
    store.bind("a", "s")
    (tmp_path / "bindings.json").write_bytes(b'{"a":"s"')
    for act in (lambda: store.resolve("a"), lambda: store.bind("b", "s"), lambda: store.delete("s")):
        with pytest.raises(StoreError, match="which session each client means is damaged"):
            act()
    assert [item.place for item in store.verify().damage] == [str(tmp_path / "bindings.json")]


# the folder


def test_files_are_private_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        store = begin_store(tmp_path / "a" / "b", "a")
        store.bind("k", "s")
        store.save(store.load("s"))
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_file()}
    assert modes == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "a", tmp_path / "a" / "b")} == {0o700}
    assert not store.verify().notes


def test_verify_says_who_else_may_read(tmp_path):
    tmp_path.chmod(0o755)
    store = begin_store(tmp_path)
    (tmp_path / "s.jsonl").chmod(0o640)
    notes = store.verify().notes
    assert [note.partition(" can be read by other users")[0] for note in notes] == [
        str(tmp_path),
        str(tmp_path / "s.jsonl"),
    ]
    tmp_path.chmod(0o700)
    assert store.verify().notes == ()


def test_symbolic_links_are_refused(tmp_path):
    victim = tmp_path / "victim.jsonl"
    victim.write_bytes(header() + b"\n")
    store, folder = Logs(tmp_path / "store"), tmp_path / "store"
    store.create(header("t"))
    store.create(header("u"))
    (folder / ".u.jsonl.lock").unlink()
    for name in ("s.jsonl", "bindings.json", ".u.jsonl.lock"):
        (folder / name).symlink_to(victim)
    for act in (
        lambda: store.create(header()),
        lambda: store.say("a"),
        lambda: store.load("s"),
        lambda: store.bind("k", "t"),
        lambda: store.say("a", session_id="u"),
    ):
        with pytest.raises(StoreError, match=r"is a symbolic link|cannot lock"):
            act()
    assert victim.read_bytes() == header() + b"\n"
    assert [info.session_id for info in store.list()] == ["t", "u"]
    assert {info.place for info in store.verify().damage} == {str(folder / "s.jsonl"), str(folder / "bindings.json")}


@pytest.mark.parametrize(("stamp", "hint"), [
    (b'{"kind":"lore-store","version":5}', "use a newer lore"),
    (b'{"kind":"lore-store","version":3}', "make a new store"),
    (b'{"kind":"something","version":1}', "name another folder"),
    (b"not JSON", "name another folder"),
])  # fmt: skip
def test_folder_of_another_version_or_program_is_refused(tmp_path, stamp, hint):
    store = begin_store(tmp_path)
    (tmp_path / "lore-store.json").write_bytes(stamp)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()}
    with pytest.raises(FormatError) as caught:
        Jsonl.open(f"jsonl:{tmp_path}", print)
    assert hint in caught.value.hint
    for act in (lambda: store.load("s"), lambda: store.create(header("t")), store.list, store.verify, store.vacuum):
        with pytest.raises(FormatError):
            act()
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()} == before


def test_folder_of_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    (tmp_path / "data.jsonl").write_text('{"a":1}\n')
    with pytest.raises(FormatError, match="holds other files"):
        Logs(tmp_path).create(header())
    assert visible(tmp_path) == ["data.jsonl", "thesis.txt"]


@pytest.mark.parametrize(("url", "message"), [("jsonl:file", "is not a folder"), ("jsonl:", "names no folder")])
def test_url_without_a_folder_is_refused(tmp_path, monkeypatch, url, message):
    monkeypatch.chdir(tmp_path)
    Path("file").write_bytes(b"")
    with pytest.raises(StoreError, match=message):
        Jsonl.open(url, print)


def test_missing_folder_is_an_error_and_not_made(tmp_path):
    store = Jsonl.open(f"jsonl:{tmp_path / 'tpyo'}", print)
    for look in (store.list, store.verify, store.vacuum):
        with pytest.raises(StoreError, match="there is no folder"):
            look()
    with pytest.raises(UnknownSessionError) as caught:
        store.save_delta("s", SessionDelta(base=begin_store(tmp_path / "other").load("s").head))
    assert "there is no folder" in caught.value.hint
    assert store.resolve("k") is None
    assert not (tmp_path / "tpyo").exists()


# the order in which names and bytes reach the disk


@contextmanager
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """Yield the calls that name, cut and synchronise files, with the name of the file or folder, as they come."""
    calls: list[tuple[str, str]] = []

    def patched(name: str) -> None:
        call = getattr(os, name)

        def noting(*words: object) -> object:
            what = (
                os.readlink(f"/proc/self/fd/{words[0]}")
                if isinstance(words[0], int)
                else str(words[0] if name == "mkdir" else words[-1])
            )
            calls.append((name, os.path.basename(what)))
            return call(*words)

        monkeypatch.setattr(os, name, noting)

    with monkeypatch.context() as monkeypatch:
        for name in ("replace", "unlink", "mkdir", "ftruncate", "fsync"):
            patched(name)
        yield calls


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="which file is meant is asked of /proc")


@needs_proc
def test_session_created_again_has_a_durable_name(tmp_path, monkeypatch):
    """Its writer may have died between the renaming and the synchronisation of the folder."""
    begin_store(tmp_path / "s")
    with traced(monkeypatch) as calls:
        Logs(tmp_path / "s").create(header())
    assert [call for call in calls if call[0] == "fsync"] == [("fsync", "s.jsonl"), ("fsync", "s")]


@needs_proc
def test_fork_is_deleted_durably_before_its_parent(tmp_path, monkeypatch):
    store = begin_store(tmp_path / "folder")
    store.create(header("fork", parent_session_id="s"))
    with traced(monkeypatch) as calls:
        store.delete("s")
    deletions = [call for call in calls if call[0] != "mkdir" and call[1].endswith((".jsonl", "folder"))]
    assert deletions == [("unlink", "fork.jsonl"), ("fsync", "folder"), ("unlink", "s.jsonl"), ("fsync", "folder")]


@needs_proc
def test_new_folders_and_bindings_are_durable(tmp_path, monkeypatch):
    with traced(monkeypatch) as calls:
        store = begin_store(tmp_path / "a" / "b")
        store.bind("client", "s")
    assert calls[:4] == [("mkdir", "a"), ("fsync", tmp_path.name), ("mkdir", "b"), ("fsync", "a")]
    assert [name for name, _ in calls[-3:]] == ["fsync", "replace", "fsync"]
    assert calls[-3][1].startswith(".bindings.json.")
    assert calls[-2:] == [("replace", "bindings.json"), ("fsync", "b")]


# several writers

HOLD = """
import filelock, sys
with filelock.FileLock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_held_session_is_waited_for_then_refused(tmp_path):
    begin_store(tmp_path, "a")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / ".s.jsonl.lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"held\n"
        store = Logs(tmp_path, patience=0.05)
        assert store.events() == (header(), message_line("a"))  # readers do not wait
        for act in (lambda: store.say("b"), lambda: store.create(header()), lambda: store.move("s", "p")):
            with pytest.raises(StoreError, match="another writer holds") as caught:
                act()
            assert "try again" in caught.value.hint
        store.create(header("t"))
        assert store.say("x", session_id="t").number == 2
        other.kill()
        other.wait()
        assert store.say("b").number == 3  # what a dead process held is free


def test_line_written_without_the_lock_is_kept(tmp_path, monkeypatch):
    """`echo … >> s.jsonl` asks for no lock: the delta's record would be at another byte than it says."""
    store = begin_store(tmp_path, "a")

    def meanwhile(delta, stored):
        settled = plan_delta(delta, stored)
        with (tmp_path / "s.jsonl").open("ab") as file:
            file.write(message_line("b") + b"\n")
        return settled

    with monkeypatch.context() as patched:
        patched.setattr("lore.store.deltas.plan_delta", meanwhile)
        with pytest.raises(StoreError, match="without asking for its lock"):
            store.say("c")
    store.say("c")
    assert store.events() == (header(), *map(message_line, "abc"))
    assert not store.verify().damage

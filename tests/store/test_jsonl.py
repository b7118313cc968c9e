"""What a folder of logs looks like, what a delta costs, and what other programs may do to the logs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import msgspec
import pytest

from lore.formats.lore_log import LoreLog
from lore.model.events import Saved
from lore.store.base import Checkpoint, ConflictError, SessionDelta, StoreError, UnknownSessionError
from lore.store.jsonl import Jsonl
from lore.store.jsonl_records import is_record, read_record, record_line
from store.logs import Logs, begun, header, said


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """Yield the numbers of synchronisations and writes, and of bytes written, until now."""
    found = {"fsync": 0, "write": 0, "bytes": 0, "read": 0}
    fsync, write, read = os.fsync, os.write, os.read

    def synchronise(descriptor: int) -> None:
        found["fsync"] += 1
        fsync(descriptor)

    def put(descriptor: int, data: bytes) -> int:
        found["write"] += 1
        found["bytes"] += len(data)
        return write(descriptor, data)

    def take(descriptor: int, size: int) -> bytes:
        data = read(descriptor, size)
        found["read"] += len(data)
        return data

    monkeypatch.setattr(os, "fsync", synchronise)
    monkeypatch.setattr(os, "write", put)
    monkeypatch.setattr(os, "read", take)
    return found


def raw(folder, name="s"):
    return (folder / f"{name}.jsonl").read_bytes()


# the log


def test_a_log_is_the_lines_of_its_session_with_records_of_the_store_between_them(tmp_path):
    begun(tmp_path, "a", "b")
    lines = raw(tmp_path).split(b"\n")[:-1]
    assert [line for line in lines if not is_record(line)] == [header(), said("a"), said("b")]
    assert [is_record(line) for line in lines] == [False, True, True, False, True, False]


def test_a_log_is_read_by_every_reader_of_lores_logs_without_a_problem(tmp_path):
    begun(tmp_path, "a", "b")
    found = [one.value for one in LoreLog().feed(raw(tmp_path))]
    assert len([one for one in found if isinstance(one, Saved)]) == 3
    assert [type(one).__name__ for one in found if not isinstance(one, Saved)] == ["SessionStarted", "Append", "Append"]


def test_lines_come_back_to_the_byte_however_they_are_spelled(tmp_path):
    store = begun(tmp_path)
    odd = (b' {"kind" : "append", "item":{"kind":"user_message","uuid":"\\ud83d","text":"\\u00e9"}}\r', b'{"a":1.0e0}')
    store.save_delta("s", SessionDelta(base=store.load("s").head, new_events=odd))
    assert store.load("s").log == b"\n".join((header(), *odd, b""))
    assert raw(tmp_path).endswith(b"\n".join((*odd, b"")))


def test_the_record_of_a_delta_says_where_it_stands_and_what_comes_behind_it(tmp_path):
    begun(tmp_path, "a")
    data = raw(tmp_path)
    at = data.rindex(b'{"kind":"saved"')
    record = read_record(data[at:].partition(b"\n")[0], at)
    assert record is not None
    assert (record.after, record.log, record.size) == (1, len(header()) + 1, len(said("a")) + 1)
    assert read_record(data[at:].partition(b"\n")[0], at + 1) is None


def test_a_session_that_is_made_of_another_logs_bytes_is_kept_as_it_is(tmp_path):
    """An import of a file of this store brings its records as events: they are none of the records of their new log."""
    store = begun(tmp_path / "one", "a", "b")
    lines = tuple(raw(tmp_path / "one").split(b"\n")[1:-1])
    other = begun(tmp_path / "two")
    other.save_delta("s", SessionDelta(base=other.load("s").head, new_events=lines))
    other.say("c")
    again = Logs(tmp_path / "two")
    assert again.events() == (header(), *lines, said("c"))
    assert again.load("s", after=3).events == (*lines[2:], said("c"))
    assert not again.verify().damage
    assert store.events() == (header(), said("a"), said("b"))


def test_an_event_that_would_stand_as_a_record_where_it_says_is_moved_on(tmp_path):
    """Somebody who knows where the next event will stand could write one that ends the delta before it."""
    probe = begun(tmp_path / "probe")
    head, size = probe.load("s").head, len(raw(tmp_path / "probe"))
    length = len(_forged(size, head.digest))
    probe.save_delta("s", SessionDelta(base=head, new_events=(b'{"a":"%b"}' % (b"x" * (length - 8)),)))
    place = size + len(raw(tmp_path / "probe")[size:].split(b"\n")[0]) + 1
    forged = _forged(place, head.digest)
    store = begun(tmp_path / "store")
    store.save_delta("s", SessionDelta(base=head, new_events=(forged,)))
    assert raw(tmp_path / "store").index(forged) == place + 1
    store.say("b")
    again = Logs(tmp_path / "store")
    assert (again.events(), again.load("s").leaf_id) == ((header(), forged, said("b")), None)
    assert not again.verify().damage


def _forged(byte: int, base: str) -> bytes:
    """Write a record that says it stands at a byte, and that nothing follows it."""
    return record_line(Saved(size=0, after=1, base=base, byte=byte, leaf_id="forged"))


# what it costs


def test_a_delta_is_one_write_and_one_fsync(tmp_path, counted):
    store = begun(tmp_path, "a")
    base = store.load("s").head
    counted.update(fsync=0)
    store.create(header("t"))
    assert counted["fsync"] == 2  # the file, and its name
    counted.update(fsync=0, write=0)
    store.say("b", "c", base=base, leaf_id="c", metadata=b'{"n":1}')
    assert (counted["fsync"], counted["write"]) == (1, 1)


def test_a_delta_writes_what_is_new_and_reads_nothing_whatever_the_sessions_length(tmp_path, counted):
    store = begun(tmp_path, "a")
    costs = []
    for size in (1, 2000):
        head = store.say(*(f"{size}-{one}" for one in range(size)))
        counted.update(bytes=0, read=0)
        head = store.say("b", base=head)
        costs.append(counted["bytes"])
        assert counted["read"] < 100  # the stamp
    assert costs[1] <= costs[0] + 16  # numbers of more digits


def test_a_store_that_was_opened_anew_reads_no_more_than_the_header_and_the_last_delta(tmp_path, counted):
    store = begun(tmp_path, "a")
    head = store.say(*map(str, range(20_000)))
    for text in ("b", "c" * 100_000, "d"):
        head = store.say(text, base=head)
    counted["read"] = 0
    assert Logs(tmp_path).say("e", base=head).number == 20_006
    assert counted["read"] < 500_000 < len(raw(tmp_path)) / 4


def test_metadata_that_is_long_is_written_where_it_changes(tmp_path):
    store = begun(tmp_path)
    long = json.dumps({"notes": "x" * 5000}).encode()
    head = store.say("a", metadata=long)
    before = len(raw(tmp_path))
    head = store.say("b", base=head, metadata=b'{"notes":"' + b"x" * 5000 + b'"}')
    assert len(raw(tmp_path)) - before < 1000
    again = Logs(tmp_path)
    head = again.say("c", base=head)
    assert json.loads(again.load("s").metadata) == json.loads(long)
    again.save(again.load("s"))
    assert json.loads(Logs(tmp_path).load("s").metadata) == json.loads(long)
    assert Logs(tmp_path).load("s").head == head


def test_metadata_on_several_lines_stays_one_record(tmp_path):
    store = begun(tmp_path)
    store.say("a", metadata=b'{"a": [1,\n 2],\r\n "b": "\\n"}')
    assert json.loads(Logs(tmp_path).load("s").metadata) == {"a": [1, 2], "b": "\n"}
    assert Logs(tmp_path).load("s") == store.load("s")


def test_a_delta_of_very_many_events_is_written_with_all_of_the_session(tmp_path, monkeypatch):
    """One record names 64 digits an event: that of 200,000 events would be a line that no reader takes."""
    monkeypatch.setattr("lore.store.jsonl.MOST", 20)
    store = begun(tmp_path, "a")
    head = store.say(*map(str, range(30)), leaf_id="29")
    assert head.number == 32
    assert sum(map(is_record, raw(tmp_path).split(b"\n"))) == 1  # instead of one for each delta
    assert store.say("b", base=head).number == 33
    assert store.events() == (header(), said("a"), *map(said, map(str, range(30))), said("b"))
    assert Logs(tmp_path).load("s").leaf_id == "29"


def test_a_list_reads_headers_and_last_deltas_alone(tmp_path, counted):
    store = begun(tmp_path)
    head = store.say(*map(str, range(20_000)), updated_at="then")
    store.say("b", base=head)
    counted["read"] = 0
    (found,) = Logs(tmp_path).list()
    assert counted["read"] < 300_000
    assert (found.head.number, found.size, found.updated_at) == (20_002, len(store.load("s").log), "then")


def test_loading_what_came_after_reads_no_more_than_that(tmp_path, counted):
    store = begun(tmp_path)
    store.say(*map(str, range(20_000)))
    head = store.say("b", "c", "d")
    store = Logs(tmp_path)
    counted["read"] = 0
    assert store.load("s", after=20_002).events == (said("c"), said("d"))
    assert counted["read"] < 300_000
    assert store.load("s", after=20_004).events == store.load("s", after=99_999).events == ()
    assert store.load("s", after=20_003).head == head


# other programs


def test_whole_lines_that_another_program_appended_are_events_and_adopted_with_the_next_delta(tmp_path):
    store = begun(tmp_path, "a")
    with (tmp_path / "s.jsonl").open("ab") as file:
        file.write(said("b") + b"\n" + said("c") + b"\n")
    head = store.load("s").head
    assert head.number == 4
    assert "2 events were appended by another program, without a digest" in store.verify().notes[0]
    store.say("d", base=head)
    for one in (store, Logs(tmp_path)):
        assert one.events() == (header(), *map(said, "abcd"))
        assert one.load("s", after=2).events == tuple(map(said, "bcd"))
        assert not one.verify().damage


def test_what_another_program_appended_is_held_by_the_delta_behind_it(tmp_path):
    store = begun(tmp_path, "a")
    with (tmp_path / "s.jsonl").open("ab") as file:
        file.write(said("b") + b"\n")
    store.say("d")
    path = tmp_path / "s.jsonl"
    path.write_bytes(path.read_bytes().replace(said("b"), said("x")))
    with pytest.raises(StoreError, match="event 3: the event before this byte was changed"):
        store.load("s")
    (found,) = store.verify().damage
    assert found.number == 3


def test_a_log_that_somebody_put_there_is_a_session(tmp_path):
    (tmp_path / "s.jsonl").write_bytes(
        b"\xef\xbb\xbf" + header("s", project_id="p", at="then") + b"\r\n\n" + said("a") + b"\n" + said("b")
    )
    store = Logs(tmp_path)
    data = store.load("s")
    assert data.events == (header("s", project_id="p", at="then") + b"\r", said("a"), said("b"))
    assert (data.project_id, data.created_at, data.head.number) == ("p", "then", 3)
    assert store.verify().notes[0].endswith("2 events were appended by another program, without a digest")
    before = raw(tmp_path)
    store.say("c", base=data.head)
    assert raw(tmp_path).startswith(before + b"\n")
    assert Logs(tmp_path).events() == (*data.events, said("c"))
    assert not Logs(tmp_path).verify().damage


def test_a_log_that_had_no_end_is_torn_nowhere(tmp_path, monkeypatch):
    """Its last line is whole JSON: the delta behind it begins with the end that it lacks."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    path = tmp_path / "s.jsonl"
    path.write_bytes(header() + b"\n" + said("a"))
    before = path.read_bytes()
    head = Logs(tmp_path).load("s").head
    Logs(tmp_path).say("b", base=head)
    whole = path.read_bytes()
    for cut in range(len(before), len(whole)):
        path.write_bytes(whole[:cut])
        assert Logs(tmp_path).load("s").head == head
        store = Logs(tmp_path)
        assert store.say("b", base=head).number == 3
        assert store.events() == (header(), said("a"), said("b"))
        assert not store.verify().damage


def test_reading_changes_nothing(tmp_path):
    (tmp_path / "s.jsonl").write_bytes(header() + b"\n" + said("a") + b'\n{"kind":"app')
    before = sorted((path.name, path.read_bytes()) for path in tmp_path.iterdir())
    store = Logs(tmp_path)
    store.load("s"), store.list(), store.verify(), store.prompt_deltas("s"), store.resolve("k"), store.checkpoint("s")
    assert sorted((path.name, path.read_bytes()) for path in tmp_path.iterdir()) == before


# the rest of the contract, where files make it special


def test_a_session_that_is_moved_keeps_its_header(tmp_path):
    store = begun(tmp_path, "a")
    head = store.load("s").head
    store.move("s", "new home")
    data = Logs(tmp_path).load("s")
    assert (data.project_id, data.head, data.events[0]) == ("new home", head, header())


def test_a_clock_that_goes_back_changes_no_order(tmp_path):
    store = begun(tmp_path)
    store.say("a", updated_at="2026-01-02T00:00:00Z")
    os.utime(tmp_path / "s.jsonl", (0, 0))
    store.say("b", updated_at="1999-01-01T00:00:00Z")
    data = store.load("s")
    assert (data.events, data.updated_at) == ((header(), said("a"), said("b")), "1999-01-01T00:00:00Z")


def test_a_checkpoint_that_cannot_be_read_is_none(tmp_path):
    store = begun(tmp_path, "a")
    store.save_checkpoint("s", Checkpoint(2, "ab", "f", b"data"))
    assert Logs(tmp_path).checkpoint("s") == Checkpoint(2, "ab", "f", b"data")
    path = tmp_path / "s.checkpoint"
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        assert store.checkpoint("s") is None
        path.write_bytes(whole[:at])
        assert store.checkpoint("s") is None


def test_deleting_takes_all_files_of_a_session_and_of_its_forks(tmp_path):
    store = begun(tmp_path, "a")
    store.create(header("fork", parent_session_id="s"))
    store.create(header("other"))
    store.save_checkpoint("fork", Checkpoint(1, "ab", "f", b""))
    (tmp_path / "s.torn").write_bytes(b"x")
    store.bind("k", "fork")
    assert store.delete("s") == ("fork", "s")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bindings.jsonl", "lore-store.json", "other.jsonl"]
    assert Logs(tmp_path).resolve("k") is None


def test_a_deletion_that_died_in_the_middle_is_finished_by_another(tmp_path, monkeypatch):
    store = begun(tmp_path, "a")
    for name, parent in (("one", "s"), ("two", "one")):
        store.create(header(name, parent_session_id=parent))
    unlink, calls = os.unlink, []

    def dying(path):
        calls.append(path)
        if len(calls) == 5:
            raise OSError(5, "Input/output error")
        unlink(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", dying)
        with pytest.raises(StoreError, match="cannot remove"):
            store.delete("s")
    assert {one.session_id for one in store.list()} == {"s", "one"}
    assert not store.verify().damage
    assert store.delete("s") == ("one", "s")
    assert not store.list()


def test_bindings_hold_in_every_process_at_once(tmp_path):
    one, two = begun(tmp_path), Logs(tmp_path)
    one.create(header("t"))
    one.bind("k", "s")
    assert two.resolve("k") == "s"
    with pytest.raises(ConflictError, match="'s'"):
        two.bind("k", "t")
    two.bind("k", "t", replace=True)
    assert one.resolve("k") == Logs(tmp_path).resolve("k") == "t"
    assert one.resolve("unknown") is None


def test_a_torn_binding_was_never_acknowledged_and_is_put_aside(tmp_path):
    store = begun(tmp_path)
    store.bind("a", "s")
    whole = (tmp_path / "bindings.jsonl").read_bytes()
    for cut in range(len(whole)):
        (tmp_path / "bindings.jsonl").write_bytes(whole + whole[:cut])
        assert Logs(tmp_path).resolve("a") == "s"
    again = Logs(tmp_path)
    again.bind("b", "s")
    assert (tmp_path / "bindings.torn").read_bytes() == whole[:-1]
    assert "bindings.torn" in again.told[0]
    assert (again.resolve("a"), again.resolve("b")) == ("s", "s")


def test_behind_a_damaged_binding_nothing_is_guessed(tmp_path):
    store = begun(tmp_path)
    for key in ("a", "b", "c"):
        store.bind(key, "s")
    path = tmp_path / "bindings.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"b"', b'"x"'))
    store = Logs(tmp_path)
    assert store.resolve("c") == "s"
    for key in ("a", "b"):
        with pytest.raises(StoreError, match="damaged line") as caught:
            store.resolve(key)
        assert "anew" in caught.value.hint
    assert [one.message for one in store.verify().damage] == ["a binding is damaged"]
    store.bind("a", "s", replace=True)
    assert store.resolve("a") == "s"


def test_a_store_that_is_closed_says_so(tmp_path):
    store = begun(tmp_path)
    store.close()
    with pytest.raises(StoreError, match="is closed"):
        store.load("s")


def test_a_folder_that_is_not_there_is_an_error_and_not_made_by_looking(tmp_path):
    store = Jsonl.open(f"jsonl:{tmp_path / 'tpyo'}", print)
    for look in (store.list, store.verify, store.vacuum):
        with pytest.raises(StoreError, match="there is no folder"):
            look()
    with pytest.raises(UnknownSessionError) as caught:
        store.load("s")
    assert "there is no folder" in caught.value.hint
    assert store.resolve("k") is None
    assert not (tmp_path / "tpyo").exists()


def test_what_comes_out_is_frozen(tmp_path):
    data = begun(tmp_path, "a").load("s")
    with pytest.raises(AttributeError):
        data.leaf_id = "x"  # pyright: ignore[reportAttributeAccessIssue]
    assert msgspec.structs.replace(data, leaf_id="x").leaf_id == "x"

"""What lies in a bucket: what is read of it, what is damaged and said so, what dead writers left, what it costs."""

from __future__ import annotations

import json

import pytest

from lore.formats.lore_log import LoreLog
from lore.store.base import DamagedError, FormatError, SessionDelta, SessionSummary
from lore.store.objects import GRACE
from lore.store.objects_log import TAIL
from lore.store.registry import open_store
from lore.store.session import StoredSession
from lore.testing.stores.scenarios import add, begun, events, header, ids, line, message
from store.harness import HEADER, say

pytest.importorskip("obstore")

LONG = [message(f"u{number}", chr(97 + number % 26) * 20_000) for number in range(40)]


@pytest.fixture
def url(objects):
    return objects.url("bucket/p")


@pytest.fixture
def store(url):
    return open_store(url)


@pytest.fixture
def bucket(objects, url):
    """The objects below the store's prefix: name to bytes."""
    return Bucket(objects.objects["bucket"])


class Bucket:
    def __init__(self, objects):
        self._objects = objects

    def keys(self, kind):
        return sorted(key.removeprefix("p/") for key in self._objects if key.startswith(f"p/{kind}/"))

    def read(self, key):
        return self._objects[f"p/{key}"].data

    def write(self, key, data):
        self._objects[f"p/{key}"] = self._objects[f"p/{key}"]._replace(data=data, e_tag=f'"{hash(data)}"')

    def remove(self, key):
        del self._objects[f"p/{key}"]

    def age(self, key, seconds):
        kept = self._objects[f"p/{key}"]
        self._objects[f"p/{key}"] = kept._replace(modified=kept.modified - seconds)


def filled(store):
    """Store a session in several parts and a tail, and another one."""
    head = begun(store)
    for text in LONG:
        head = add(store, text, base=head)
    begun(store, message("u1"), session_id="t")
    return head


def test_a_session_lies_in_parts_and_the_latest_bytes_of_its_object(store, bucket):
    filled(store)
    parts = bucket.keys("parts")
    assert len(parts) == 5  # of seven events each
    assert all(TAIL < len(bucket.read(key)) < 2 * TAIL for key in parts)
    assert len(bucket.read("heads/s")) < 2 * TAIL
    assert events(store) == (header(), *LONG)
    assert store.load("s", after=39).events == tuple(LONG[38:])
    assert store.verify().events == 43


def test_the_parts_and_the_latest_bytes_are_a_log(store, bucket):
    filled(store)
    first = bucket.read("heads/s")
    _, back, tail = first.split(b"\n", 2)
    parts = {key.rpartition("/")[2]: bucket.read(key) for key in bucket.keys("parts")}
    log = b"".join(parts[name] for name, *_ in json.loads(back)["parts"]) + tail
    values = [read.value for read in LoreLog().feed(log)]
    assert len([value for value in values if type(value).__name__ == "Append"]) == len(LONG)
    assert not [value for value in values if type(value).__name__ == "Problem"]


def test_an_event_that_was_changed_is_found_alone_and_the_others_are_saved(store, bucket):
    filled(store)
    key = next(key for key in bucket.keys("parts") if b'"u9"' in bucket.read(key))
    bucket.write(key, bucket.read(key).replace(b'"u9"', b'"v9"'))
    with pytest.raises(DamagedError, match="event 11") as error:
        open_store(store.url).load("s")
    assert "verify" in error.value.hint
    (damage,) = store.verify().damage
    assert (damage.session_id, damage.number) == ("s", 11)
    left = store.salvage("s")
    assert (left.events, left.lost) == ((header(), *LONG[:9], *LONG[10:]), 1)
    assert open_store(store.url).load("t").head.number == 2


@pytest.mark.parametrize("cut", [None, 1000, 0])
def test_a_part_that_is_missing_or_cut_is_named_and_the_others_are_saved(store, bucket, cut):
    filled(store)
    key = next(key for key in bucket.keys("parts") if b'"u9"' in bucket.read(key))
    gone = [text for text in LONG if text in bucket.read(key)]
    if cut is None:
        bucket.remove(key)
    else:
        bucket.write(key, bucket.read(key)[:cut])
    with pytest.raises(DamagedError, match=key.rpartition("/")[2]):
        store.load("s")
    (damage,) = store.verify("s").damage
    assert damage.number == LONG.index(gone[0]) + 2
    left = store.salvage("s")
    assert left.events == (header(), *(text for text in LONG if text not in gone))
    assert left.lost == len(gone)


def test_a_session_whose_own_object_is_damaged_is_told_left_out_and_can_be_deleted(url, bucket):
    filled(open_store(url))
    good = bucket.read("heads/s")
    for at in (20, good.index(b'"metadata"'), 0):
        bucket.write("heads/s", good[:at] + b"~" + good[at + 1 :])
        told = []
        store = open_store(url, told.append)
        with pytest.raises(DamagedError):
            store.load("s")
        if at < good.index(b"\n"):
            assert ids(store) == ["t"]
            assert "heads/s" in told[0]
        assert [damage.place for damage in store.verify().damage] == [f"{store.url} heads/s"]
        with pytest.raises(DamagedError):
            store.save_delta("s", SessionDelta(base=store.load("t").head))
    bucket.write("heads/s", b"")
    assert open_store(url).delete("s") == ("s",)
    assert bucket.keys("parts") == []
    assert open_store(url).verify().damage == ()


def test_a_log_whose_end_is_not_as_it_is_stored_is_damaged(store, bucket):
    begun(store, message("u1"), message("u2"))
    bucket.write("heads/s", bucket.read("heads/s").removesuffix(message("u2") + b"\n"))
    with pytest.raises(DamagedError):
        open_store(store.url).load("s")
    assert store.verify().damage
    assert header() in store.salvage("s").events


def test_an_object_of_another_session_is_not_taken_for_this_one(store, bucket):
    begun(store)
    begun(store, session_id="t")
    bucket.write("heads/s", bucket.read("heads/t"))
    with pytest.raises(DamagedError, match="says it is session 't'"):
        open_store(store.url).load("s")
    assert [damage.place for damage in store.verify().damage] == [f"{store.url} heads/s"]


def test_a_session_of_a_newer_lore_is_refused_and_not_touched(store, bucket):
    head = begun(store)
    newer = sealed_as(bucket.read("heads/s"), b'"version":1', b'"version":2')
    bucket.write("heads/s", newer)
    other = open_store(store.url)
    for call in (lambda: other.load("s"), lambda: other.delete("s"), other.list, lambda: add(other, base=head)):
        with pytest.raises(FormatError, match="version 2"):
            call()
    assert bucket.read("heads/s") == newer


def sealed_as(data, old, new):
    """Change the first line of an object as another lore would have written it."""
    from lore.store.jsonl_records import sealed

    first, rest = data.split(b"\n", 1)
    return sealed(first[: first.rindex(b',"check"')].replace(old, new)) + b"\n" + rest


def test_another_programs_stamp_is_refused(store, bucket, url, objects):
    begun(store)
    kept = objects.objects["bucket"]
    for data in (b"{}", b"text", b'{"kind":"other","version":1}', b'{"kind":"lore-store","version":0}'):
        kept["p/lore-store.json"] = kept["p/lore-store.json"]._replace(data=data, e_tag=f'"{data.hex()}"')
        with pytest.raises(FormatError, match="not a store of lore"):
            open_store(url)


def test_a_session_whose_names_fill_many_pages_is_listed(store):
    store.create(header("x" * 512, user_id="u" * 30_000))
    assert [(one.session_id, one.user_id) for one in open_store(store.url).list()] == [("x" * 512, "u" * 30_000)]
    assert type(open_store(store.url).list()[0]) is SessionSummary


def test_a_binding_that_is_damaged_is_said_and_bound_anew(store, bucket):
    begun(store)
    begun(store, session_id="t")
    store.bind("client", "s")
    for data in (b"", b"{}", bucket.read("clients/client").replace(b'"s"', b'"t"')):
        bucket.write("clients/client", data)
        for call in (lambda: store.resolve("client"), lambda: store.bind("client", "t")):
            with pytest.raises(DamagedError) as error:
                call()
            assert "replace" in error.value.hint
    store.bind("client", "t", replace=True)
    assert store.resolve("client") == "t"


# what is left


def test_what_a_writer_left_that_died_is_taken_a_day_later_and_nothing_else(store, bucket, objects):
    head = filled(store)
    objects.fail = lambda request: "denied" if request.method == "PUT" and "/heads/" in request.key else None
    with pytest.raises(Exception, match="not allowed"):
        add(store, message("u1", "x" * 300_000), base=head)
    objects.fail = lambda _: None
    parts = bucket.keys("parts")
    before = store.load("s")
    named = {name for name, *_ in json.loads(bucket.read("heads/s").split(b"\n")[1])["parts"]}
    (orphan,) = (key for key in parts if key.rpartition("/")[2] not in named)
    assert store.vacuum() == 0
    for key in parts:
        bucket.age(key, GRACE + 60)
    size = len(bucket.read(orphan))
    assert store.vacuum() == size
    assert set(bucket.keys("parts")) == set(parts) - {orphan}
    assert store.load("s") == before


def test_vacuum_takes_nothing_of_a_session_that_cannot_be_read(store, bucket):
    filled(store)
    bucket.write("heads/s", b"damaged")
    for key in bucket.keys("parts"):
        bucket.age(key, GRACE * 2)
    assert store.vacuum() == 0


def test_a_session_that_is_deleted_leaves_a_mark_and_nothing_it_said(store, bucket, objects):
    head = filled(store)
    store.bind("client", "s")
    store.save_checkpoint("s", store_checkpoint(head))
    store.delete("s")
    assert bucket.keys("parts") == bucket.keys("checkpoints") == []
    assert len(bucket.read("heads/s")) < 300
    assert b"hello" not in b"".join(kept.data for key, kept in objects.objects["bucket"].items() if "/s" in key)


def store_checkpoint(head):
    from lore.store.base import Checkpoint

    return Checkpoint(head.number, head.digest, "1", b"hello")


# what it costs, in requests


def test_a_save_costs_one_request_and_one_more_for_each_part(store, objects):
    stored = StoredSession.begin(store, HEADER)
    for turn in range(5):
        with objects.counted() as made:
            say(stored, f"u{turn}", f"a{turn}").save()
        assert made == [("PUT", "p/heads/s")]
    with objects.counted() as made:
        add_long(stored, 200_000)
    assert [method for method, _ in made] == ["PUT", "PUT"]
    with objects.counted() as made:
        add_long(stored, 9_000_000)
    assert [method for method, _ in made] == ["PUT"] * 2


def add_long(stored, size):
    from lore.session import event

    stored.apply(event("append", item={"type": "user_message", "uuid": f"l{size}", "text": "x" * size}))
    stored.save()


def test_a_save_behind_somebody_elses_costs_three_requests(url, objects):
    first, second = open_store(url), open_store(url)
    head = begun(first)
    head = second.save_delta("s", SessionDelta(base=head, new_events=(message("u1"),)))
    with objects.counted() as made:
        first.save_delta("s", SessionDelta(base=head, new_events=(message("u2"),)))
    assert [method for method, _ in made] == ["GET", "PUT"]  # its base is newer than what was seen here
    with objects.counted() as made, pytest.raises(Exception, match="the store holds"):
        second.save_delta("s", SessionDelta(base=head, new_events=(message("u3"),)))
    assert [method for method, _ in made] == ["PUT", "GET"]


def test_loading_costs_the_object_and_its_parts(store, bucket, objects):
    filled(store)
    other = open_store(store.url)
    with objects.counted() as made:
        other.load("s")
    assert len(made) == 1 + len(bucket.keys("parts"))
    with objects.counted() as made:
        other.load("s", after=40)
    assert [key for _, key in made] == ["p/heads/s"]


def test_listing_again_asks_for_what_changed_alone(store, objects):
    for number in range(25):
        begun(store, line("turn_started", turn=1), session_id=f"s{number:02}")
    with objects.counted() as made:
        assert len(store.list()) == 25
    assert len(made) == 2 + 25  # two pages of the stand-in's 20 keys
    add(store, message("u1"), session_id="s07")
    with objects.counted() as made:
        assert [summary.head.number for summary in store.list()].count(3) == 1
    assert [key for _, key in made if not key.startswith("?")] == ["p/heads/s07"]
    assert store.list("none") == []

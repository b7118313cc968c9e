"""What goes wrong between a store of objects and its service: nothing acknowledged is lost, nothing is stored twice."""

from __future__ import annotations

import itertools
import os
import random
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest

from helpers.matrix import crossed, some
from lore.store import objects_client
from lore.store.base import ConflictError, SessionDelta, StoreError, UnknownSessionError
from lore.store.deltas import save_delta
from lore.store.objects import Objects
from lore.store.objects_client import UnansweredWriteError, parsed
from lore.store.registry import open_store, silent
from lore.testing.stores.deltas import at_once
from lore.testing.stores.scenarios import add, begun, events, header, ids, line, message
from store.s3_server import CREDENTIALS, ObjectServer

pytest.importorskip("obstore")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The client asks again at once, and twice."""
    backoff = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=2), "base": 2}
    monkeypatch.setattr(
        objects_client, "RETRIES", {"max_retries": 2, "retry_timeout": timedelta(seconds=5), "backoff": backoff}
    )


@pytest.fixture
def url(objects):
    return objects.url("bucket/sessions")


@pytest.fixture
def store(url):
    return open_store(url)


def nth(number, failure, methods=("PUT",)):
    """Return what fails the request of that number, from 0 on, among those of these methods."""
    count = itertools.count()
    return lambda request: failure if request.method in methods and next(count) == number else None


CALLS = {
    "create": lambda store, head: store.create(header("new")),
    "save": lambda store, head: store.save(store.load("s")),
    "save_delta": lambda store, head: store.save_delta("s", SessionDelta(base=head, new_events=(message("u9"),))),
    "a long delta": lambda store, head: store.save_delta(
        "s", SessionDelta(base=head, new_events=(message("u9", "x" * 300_000), message("u10", "y" * 9_000_000)))
    ),
    "move": lambda store, head: store.move("s", "q"),
    "bind": lambda store, head: store.bind("client", "s"),
    "delete": lambda store, head: store.delete("s"),
}


@crossed("failure, call", ["lost", "error", "refused", "torn"], CALLS)
def test_every_call_is_done_once_whichever_answer_fails(objects, url, call, failure):
    """The client sends a write again by itself, and is then told that its own first copy is in the way."""
    for number in range(4):
        store = open_store(objects.url(f"bucket/{number}"))
        twin = open_store(objects.url(f"bucket/twin-{number}"))
        heads = [begun(each, message("u1")) for each in (store, twin)]
        objects.fail = nth(number, failure, ("PUT", "POST", "GET"))
        result = CALLS[call](store, heads[0])
        objects.fail = lambda _: None
        assert result == CALLS[call](twin, heads[1])
        assert [held(each) for each in (store, open_store(objects.url(f"bucket/{number}")))] == [held(twin)] * 2
        assert store.verify().damage == ()


def held(store):
    """Return all that a store says of its sessions."""
    return store.list(), [store.load(name) for name in ids(store)], store.resolve("client")


def test_a_service_that_answers_nothing_leaves_it_unknown_and_the_same_call_is_no_second_one(objects, store):
    head = begun(store)
    objects.fail = lambda request: "lost" if request.method == "PUT" else "refused"
    with pytest.raises(UnansweredWriteError) as failed:
        store.save_delta("s", SessionDelta(base=head, new_events=(message("u1"),)))
    assert "do the same again" in failed.value.hint
    objects.fail = lambda _: None
    assert add(store, message("u1"), base=head).number == 2
    assert events(store) == (header(), message("u1"))


def test_a_write_that_lands_after_its_writer_gave_up_is_not_doubled(objects, url, monkeypatch):
    monkeypatch.setattr(objects_client, "TIMEOUT", timedelta(milliseconds=150))
    store = open_store(url)
    head = begun(store)
    slow = itertools.count()
    objects.fail = lambda request: 0.6 if request.method == "PUT" and next(slow) == 0 else None
    assert add(store, message("u1"), base=head).number == 2
    time.sleep(0.7)  # until the first has landed, or was refused
    assert events(store) == (header(), message("u1"))
    assert store.verify().damage == ()


@pytest.mark.parametrize("seed", some(range(6), 2))
def test_any_history_of_failures_ends_as_one_without(objects, seed):
    """Two writers, each call retried by its caller until it is answered, against a store that nothing happens to."""
    chance = random.Random(seed)
    place = objects.url("bucket/hurt")
    stores, calm = [open_store(place), open_store(place)], open_store("memory:")
    objects.fail = lambda _: chance.choice(("lost", "error", "refused", "torn")) if chance.random() < 0.2 else None
    for step in range(25):
        store, name = chance.choice(stores), chance.choice("ab")
        kind, size = (
            chance.choice(("delta", "delta", "delta", "note", "move", "delete", "create")),
            chance.choice((10, 5_000, 200_000)),
        )
        text = message(f"u{step}", "x" * size)
        answers = [outcome(each, kind, name, step, text) for each in (calm, store)]
        assert answers[0] == answers[1], (step, kind, name)
    objects.fail = lambda _: None
    for store in stores:
        assert [(one.session_id, one.head, one.project_id) for one in store.list()] == [
            (one.session_id, one.head, one.project_id) for one in calm.list()
        ]
        assert [events(store, name) for name in ids(calm)] == [events(calm, name) for name in ids(calm)]
        assert store.verify().damage == ()


def outcome(store, kind, name, step, text):
    """Do one thing as a caller does who tries again what was not answered; return the head, or the error's kind."""
    base = None
    for _ in range(60):
        try:
            if kind == "create":
                return store.create(header(name)).number
            base = base or store.load(name).head
            if kind == "delta":
                return save_delta(store, name, SessionDelta(base=base, new_events=(text,))).digest
            if kind == "note":
                return save_delta(store, name, SessionDelta(base=base, metadata=b'{"n":%d}' % step)).note
            return store.move(name, f"p{step}") if kind == "move" else bool(store.delete(name))
        except UnknownSessionError:
            return True if kind == "delete" and base is not None else "unknown"  # the answer to it was lost
        except ConflictError:
            raise
        except StoreError:
            continue
    raise AssertionError("never answered")


# who else writes


def test_who_was_overtaken_is_answered_for_what_is_stored_now(url, objects):
    first, second = open_store(url), open_store(url)
    head = begun(first)
    assert second.load("s").head == head
    now = add(first, message("u1"), base=head)
    with pytest.raises(ConflictError) as refused:
        second.save_delta("s", SessionDelta(base=head, new_events=(message("u2"),)))
    assert refused.value.stored == now
    assert add(second, message("u2")).number == 3


def test_who_knows_nothing_of_a_deletion_does_not_bring_the_session_back(url):
    first, second = open_store(url), open_store(url)
    head = begun(first, message("u1"))
    second.load("s")
    first.delete("s")
    with pytest.raises(UnknownSessionError):
        second.save_delta("s", SessionDelta(base=head, new_events=(message("u2"),)))
    with pytest.raises(UnknownSessionError):
        second.move("s", "p")
    first.create(header(model="another"))
    with pytest.raises(ConflictError):
        second.save_delta("s", SessionDelta(base=head, new_events=(message("u2"),)))
    assert events(second) == (header(model="another"),)


def test_a_reader_that_a_deletion_overtakes_is_told_so_and_not_of_damage(url, objects):
    first, second = open_store(url), open_store(url)
    begun(first, message("u1", "x" * 400_000))
    objects.fail = lambda request: deletes(first, request)
    with pytest.raises(UnknownSessionError):
        second.load("s")


def deletes(store, request):
    """Delete the session at the moment in which a reader asks for its part."""
    if request.method == "GET" and "/parts/" in request.key and store.list():
        store.delete("s")


def test_sixteen_writers_of_one_session_are_each_answered(url):
    stores = [open_store(url) for _ in range(16)]
    begun(stores[0])

    def write(store, number):
        while True:
            try:
                return add(store, message(f"u{number}"))
            except ConflictError:
                continue

    at_once(write, stores, range(16))
    assert len(set(events(stores[0]))) == 17
    assert stores[0].verify().damage == ()


# services that will not do


def test_a_service_that_ignores_conditions_is_refused_and_keeps_nothing():
    with ObjectServer(conditions=False) as server:
        url = server.url("bucket/x")
        for _ in range(2):
            with pytest.raises(StoreError, match="ignores the conditions") as refused:
                open_store(url).create(header())
            assert "If-None-Match" in refused.value.hint
        assert server.objects["bucket"] == {}


@pytest.fixture(autouse=True)
def _credentials(monkeypatch):
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


def test_what_cannot_be_reached_is_one_error_without_a_secret(objects):
    objects.fail = lambda _: "denied"
    errors = [failing(objects.url("bucket/x")), failing("s3://bucket/x?endpoint=http://127.0.0.1:9&region=r")]
    objects.fail = lambda _: None
    errors.append(failing(f"s3://none/x?endpoint={objects.endpoint}", lambda store: store.create(header())))
    errors.append(failing(f"s3://none/x?endpoint={objects.endpoint}", lambda store: store.list()))
    for error, words in zip(errors, ("not allowed", "127.0.0.1:9", "no such bucket", "no such bucket"), strict=True):
        assert words in str(error)
        assert error.hint
        assert "\n" not in str(error)
        assert not any(value in str(error) for value in CREDENTIALS.values())


def failing(url, call=lambda store: store.list()):
    with pytest.raises(StoreError) as error:
        call(open_store(url))
    return error.value


@pytest.mark.parametrize("url", [
    "s3://", "s3:///prefix", "s3:bucket", "s3://key:secret@bucket/x", "s3://b/x?endpoint=http://a:secret@h",
    "s3://b/x?secret_access_key=secret", "s3://b/x?endpoint=ftp://h", "s3://b/../x", "s3://b/x//y",
    "s3://b/" + "x" * 500,    "s3://b/x?secret", "s3://b:secret/x", "s3://b/x#secret", "s3://b/\x1b[2J", "s3://[b/x",
    # what the client cannot put into a request: it panicked, and the trace of its stack reached the user
    "s3://b c/x", "s3://b/x?endpoint=http://h:1x", "s3://b/x?endpoint=http://h/a b", "s3://b/x?endpoint=http://h:99999",
    "s3://b/x?region=a%0Ab",
])  # fmt: skip
def test_a_url_that_names_no_place_is_refused_and_not_quoted(url):
    with pytest.raises(StoreError) as refused:
        Objects.open(url, silent)
    assert "endpoint=" in refused.value.hint
    assert "secret" not in str(refused.value).replace("secret_access_key", "")


def test_a_credential_that_no_request_can_hold_is_refused_by_its_name(objects, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret\n")
    refused = failing(objects.url("bucket/x"))
    assert refused.message == "AWS_SECRET_ACCESS_KEY has a character that no request can hold"


def test_a_url_is_shown_with_what_names_the_place():
    url = "s3://b/x/y/?region=eu&endpoint=https%3A%2F%2Fh%3A9000"
    assert parsed(url).url == "s3://b/x/y?endpoint=https://h:9000&region=eu"
    assert parsed(parsed(url).url) == parsed(url)
    assert parsed("s3://b").url == "s3://b"


def test_a_network_without_encryption_is_told(objects, url):
    told = []
    open_store(url, told.append)
    assert told == []  # this machine's own
    with pytest.raises(StoreError):
        Objects.open("s3://bucket/x?endpoint=http://store.invalid", told.append)
    assert told[0].startswith("s3://bucket/x?endpoint=http://store.invalid is reached without encryption")


def test_reading_what_was_never_made_tells_so(objects, url):
    told = []
    assert open_store(url, told.append).list() == []
    assert told == [f"{open_store(url).url} holds no store yet"]
    assert objects.objects["bucket"] == {}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_is_told_to_open_it_again_and_does_not_hang(store):
    begun(store)
    child = os.fork()
    if child == 0:
        try:
            store.load("s")
        except StoreError as error:
            os._exit(7 if "open it again" in error.hint else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_writer_that_needed_an_hour_gives_up_before_its_parts_may_be_vacuumed(store, monkeypatch):
    head = begun(store)
    clock = SimpleNamespace(time=iter((0.0, 4000.0)).__next__)
    monkeypatch.setattr("lore.store.objects.time", clock)
    with pytest.raises(StoreError, match="more than an hour"):
        store.save_delta("s", SessionDelta(base=head, new_events=(message("u1", "x" * 300_000),)))
    monkeypatch.undo()
    assert events(store) == (header(),)
    assert line("x") not in events(store)

"""Sessions as wholes: begun once, saved in full, listed, moved, deleted with their forks."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from lore.store.base import ConflictError, SessionData, Store, StoreError, UnknownSessionError
from lore.store.lines import NOTHING, digest_lines
from lore.testing.stores.notes import ONE, prompt_delta
from lore.testing.stores.scenarios import (
    AT,
    LATER,
    Scenarios,
    add,
    adding,
    begun,
    events,
    header,
    ids,
    line,
    message,
    raised,
)


def whole(*lines: bytes, session_id: str = "s", **more: object) -> SessionData:
    """Return a session as it could be loaded, but for its head, which nobody looks at."""
    data = SessionData(session_id=session_id, head=NOTHING, events=(header(session_id), *lines))
    return replace(data, **more)


class SessionScenarios(Scenarios):
    """What `create`, `load`, `save`, `delete`, `list` and `move` promise."""

    # beginning

    def test_a_session_that_was_created_holds_its_header(self, store: Store) -> None:
        first = header(project_id="p", parent_session_id="other", model="m")
        head = store.create(first)
        data = store.load("s")
        assert (data.events, data.first, data.head) == ((first,), 1, head)
        assert (data.session_id, data.project_id, data.parent_session_id) == ("s", "p", "other")
        assert (data.created_at, data.leaf_id, data.metadata, data.log) == (AT, None, b"{}", first + b"\n")
        assert head.number == 1
        assert head.digest == digest_lines(bytes.fromhex(NOTHING.digest), [first])[0].hex()
        assert head.note == NOTHING.note

    def test_creating_twice_changes_nothing(self, store: Store) -> None:
        first = store.create(header())
        assert store.create(header()) == first
        later = add(store, message("u1"))
        assert store.create(header()) == later
        assert store.create(header().replace(b":", b" : ", 1)) == later
        assert events(store) == (header(), message("u1"))

    def test_another_header_for_the_same_id_is_a_conflict(self, store: Store) -> None:
        head = store.create(header(model="m"))
        error = raised(ConflictError, lambda: store.create(header(model="n")))
        assert error.stored == head
        assert "'s'" in str(error)
        assert error.hint
        assert events(store) == (header(model="m"),)

    def test_what_is_no_header_creates_nothing(self, store: Store) -> None:
        unnamed = b'{"kind":"session_started","v":1}'
        for wrong in (message("u1"), b"{}", b"", b"[]", unnamed, header() + b"\n" + message("u")):
            assert raised(StoreError, lambda wrong=wrong: store.create(wrong)).hint
        assert not store.list()

    def test_an_unknown_session_is_named_by_every_method(self, store: Store) -> None:
        head = begun(store)
        for call in (
            lambda: store.load("t"),
            adding(store, message("u1"), session_id="t", base=head),
            adding(store, session_id="t", base=head),
            lambda: store.delete("t"),
            lambda: store.move("t", "p"),
            lambda: store.bind("client", "t"),
            lambda: store.prompt_deltas("t"),
            lambda: store.verify("t"),
        ):
            assert "'t'" in str(raised(UnknownSessionError, call))
        assert ids(store) == ["s"]
        assert store.resolve("client") is None

    def test_loading_after_a_number_gives_what_came_later(self, store: Store) -> None:
        begun(store, message("u1"), message("u2"))
        data = store.load("s", after=1)
        assert (data.events, data.first, data.head.number) == ((message("u1"), message("u2")), 2, 3)
        assert store.load("s", after=3).events == ()
        assert store.load("s", after=3).head == data.head
        assert store.load("s", after=99).events == ()
        assert store.load("s", after=-5) == store.load("s")

    # saving in full

    def test_a_new_session_is_created(self, store: Store) -> None:
        data = whole(message("u1"), project_id="p", leaf_id="u1", metadata=b'{"a": 1}', created_at=AT, updated_at=LATER)
        head = store.save(data)
        assert store.load("s") == replace(data, head=head)
        assert add(store, message("u2"), base=head).number == 3

    def test_what_is_new_behind_a_loaded_session_is_added(self, store: Store) -> None:
        begun(store, message("u1"), project_id="p")
        data = store.load("s")
        head = store.save(replace(data, events=(*data.events, message("u2")), updated_at=LATER))
        assert head.number == 3
        assert events(store) == (header(project_id="p"), message("u1"), message("u2"))
        assert (store.load("s").head, store.load("s").updated_at) == (head, LATER)

    def test_the_same_again_changes_nothing(self, store: Store) -> None:
        begun(store, message("u1"))
        data = store.load("s")
        assert store.save(data) == data.head
        assert store.load("s") == data

    def test_a_save_that_would_lose_an_event_is_refused(self, store: Store) -> None:
        begun(store, message("u1"))
        old = store.load("s")
        now = add(store, message("u2"))
        before = store.load("s")
        assert raised(ConflictError, lambda: store.save(old)).stored == now
        other = replace(old, events=(*old.events, message("u9"), message("u10")))
        raised(ConflictError, lambda: store.save(other))
        assert store.load("s") == before

    def test_a_save_with_another_beginning_is_refused(self, store: Store) -> None:
        begun(store, message("u1"))
        before = store.load("s")
        other = replace(before, events=(header(model="n"), message("u1"), message("u2")))
        raised(ConflictError, lambda: store.save(other))
        assert store.load("s") == before

    def test_what_is_no_whole_session_is_refused(self, store: Store) -> None:
        good = whole(message("u1"))
        for wrong in (
            {"events": ()},
            {"first": 2},
            {"session_id": "t"},
            {"events": (message("u1"), header())},
            {"events": (header(), b"no line")},
            {"events": (header(), message("u1") + b"\n" + message("u2"))},
            {"events": (header(), b'"text"')},
            {"metadata": b"[]"},
            {"metadata": b"{"},
            {"leaf_id": "a\0b"},
            {"project_id": ""},
        ):
            raised(StoreError, lambda wrong=wrong: store.save(replace(good, **wrong)))
        assert not store.list()

    def test_a_full_save_keeps_what_stands_beside_the_log(self, store: Store) -> None:
        begun(store, prompt_delta(1, b"{}", ONE))
        store.bind("client", "s")
        data = store.load("s")
        store.save(replace(data, events=(*data.events, message("u1"))))
        assert store.resolve("client") == "s"
        assert len(store.prompt_deltas("s")) == 1

    def test_prompt_deltas_of_a_whole_session_are_rows_too(self, store: Store) -> None:
        store.save(whole(prompt_delta(4, b"{}", ONE), project_id="p"))
        assert [(row.seq, row.project_id) for row in store.prompt_deltas("s")] == [(4, "p")]

    # projects and forks

    def test_deleting_cascades_to_forks_and_to_theirs(self, tmp_path: Path) -> None:
        with self.several(tmp_path, 2) as (store, other):
            _family(store)
            before = store.load("other")
            gone = store.delete("root")
            assert sorted(gone) == ["grandchild", "one", "root", "two"]
            assert gone.index("grandchild") < gone.index("one") < gone.index("root")
            for reader in (store, other):
                assert ids(reader) == ["other"]
                assert reader.load("other") == before
                bound = [reader.resolve(key) for key in ("to root", "to grandchild", "to other")]
                assert bound == [None, None, "other"]

    def test_deleting_a_fork_leaves_what_it_was_forked_from(self, store: Store) -> None:
        _family(store)
        assert store.delete("one") == ("grandchild", "one")
        assert ids(store) == ["other", "root", "two"]

    def test_what_is_deleted_leaves_nothing_to_a_later_session_of_its_id(self, store: Store) -> None:
        begun(store, prompt_delta(1, b"{}", ONE), project_id="p")
        store.bind("client", "s")
        store.delete("s")
        assert store.create(header(model="another")).number == 1
        assert (store.load("s").project_id, store.load("s").events) == (None, (header(model="another"),))
        assert not store.prompt_deltas("s")
        assert store.resolve("client") is None

    def test_parents_in_a_ring_are_deleted_once_each(self, store: Store) -> None:
        begun(store, session_id="a", parent_session_id="b")
        begun(store, session_id="b", parent_session_id="a")
        begun(store, session_id="c", parent_session_id="c")
        assert store.delete("c") == ("c",)
        assert sorted(store.delete("a")) == ["a", "b"]
        assert not store.list()

    def test_sessions_do_not_see_each_other(self, store: Store) -> None:
        for name in ("a", "b"):
            begun(
                store, message("u1", name), prompt_delta(1, b"{}", ONE.replace(b"one", name.encode())), session_id=name
            )
        before = store.load("b"), list(store.prompt_deltas("b"))
        add(store, message("u2"), session_id="a", removed_ids=("u1",), leaf_id="u2", metadata=b'{"x":1}')
        store.move("a", "p")
        assert (store.load("b"), list(store.prompt_deltas("b"))) == before

    def test_projects_do_not_see_each_others_sessions(self, store: Store) -> None:
        for name, project in (("c", "p"), ("a", "p"), ("b", "q"), ("d", None)):
            begun(store, session_id=name, **({} if project is None else {"project_id": project}))
        assert ids(store) == ["a", "b", "c", "d"]
        assert ids(store, "p") == ["a", "c"]
        assert ids(store, "q") == ["b"]
        assert [list(store.list(none)) for none in ("P", "", "%", "p'")] == [[], [], [], []]

    def test_a_list_says_whose_a_session_is_and_how_far_it_was_used(self, store: Store) -> None:
        begun(store, session_id="t")
        head = begun(store, user_id="u\0é", agent_id="helper")
        assert _used(store) == ("u\0é", "helper", 0, AT)
        first = line("turn_started", turn=1, at=LATER)
        head = add(store, first, message("u1"), line("turn_started", turn="none", at="\0"), base=head)
        assert _used(store) == ("u\0é", "helper", 1, LATER)
        other = b'{"agentId":"x","turn":1,"kind":"turnStarted","chain":"side","own":"\\ud83d"}'
        head = add(store, other, message("u2"), base=head, updated_at=AT)
        assert _used(store) == ("u\0é", "helper", 2, LATER)
        store.move("s", "p")
        add(store, line("turn_completed", turn=1, at=AT), base=head, metadata=b'{"a":1}')
        assert _used(store) == ("u\0é", "helper", 2, AT)  # the last in their order: times are not compared
        data = store.load("s")
        store.save(replace(data, events=(*data.events, line("turn_started", turn=2))))
        assert _used(store) == ("u\0é", "helper", 3, AT)
        assert _used(store, "t") == (None, None, 0, AT)

    def test_how_far_a_session_that_is_saved_whole_was_used_is_listed(self, store: Store) -> None:
        turns = [line("turn_started", turn=turn, at=LATER) for turn in range(1, 2500)]
        store.save(whole(*turns, message("u1"), created_at=AT))
        assert _used(store) == (None, None, 2499, LATER)
        add(store, line("turn_started", turn=2500))
        assert _used(store) == (None, None, 2500, LATER)

    def test_a_session_that_is_moved_takes_its_prompt_deltas_along(self, store: Store) -> None:
        begun(store, prompt_delta(1, b"{}", ONE), project_id="p")
        begun(store, prompt_delta(1, b"{}", ONE), project_id="p", session_id="stays")
        before = store.load("s")
        store.move("s", "q")
        add(store, prompt_delta(2, b"{}", ONE))
        assert [row.project_id for row in store.prompt_deltas("s")] == ["q", "q"]
        assert [row.project_id for row in store.prompt_deltas("stays")] == ["p"]
        assert ids(store, "q") == ["s"]
        assert ids(store, "p") == ["stays"]
        assert store.load("s").project_id == "q"
        assert events(store)[: len(before.events)] == before.events

    def test_moving_changes_no_head(self, store: Store) -> None:
        head = begun(store, message("u1"), project_id="p")
        store.move("s", "q")
        store.move("s", "q")
        assert store.load("s").head == head
        assert add(store, message("u2"), base=head).number == 3
        assert store.create(header(project_id="p")).number == 3

    def test_a_session_is_moved_to_no_odd_project(self, store: Store) -> None:
        begun(store, project_id="p")
        for wrong in ("", "a\0b", "x" * 513):
            raised(StoreError, lambda wrong=wrong: store.move("s", wrong))
        assert store.load("s").project_id == "p"

    def test_vacuum_takes_nothing_that_is_stored(self, store: Store) -> None:
        begun(store, message("u1", "x" * 100_000), prompt_delta(1, b"{}", ONE))
        begun(store, message("u1", "x" * 100_000), session_id="gone")
        store.delete("gone")
        before = store.load("s"), list(store.prompt_deltas("s"))
        assert store.vacuum() >= 0
        assert (store.load("s"), list(store.prompt_deltas("s"))) == before
        assert add(store, message("u2")).number == before[0].head.number + 1


def _used(store: Store, session_id: str = "s") -> tuple[object, ...]:
    """Return whose a session is, its turns and its last use, as it is listed."""
    (found,) = (summary for summary in store.list() if summary.session_id == session_id)
    return found.user_id, found.agent_id, found.turns, found.used_at


def _family(store: Store) -> None:
    """Store a session with two forks, a fork of one of them, and a session that is none of theirs."""
    begun(store, prompt_delta(1, b"{}", ONE), session_id="root")
    begun(store, session_id="one", parent_session_id="root")
    begun(store, session_id="two", parent_session_id="root")
    begun(store, prompt_delta(1, b"{}", ONE), session_id="grandchild", parent_session_id="one")
    begun(store, prompt_delta(1, b"{}", ONE), session_id="other", parent_session_id="a session of another store")
    for name in ("root", "grandchild", "other"):
        store.bind(f"to {name}", name)

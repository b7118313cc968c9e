"""What a delta does to what is stored, decided without any store; and what a session saved in full may be."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lore.store.base import ConflictError, FormatError, Head, SessionData, SessionDelta, StoreError
from lore.store.deltas import Whole, checked, digests_of, is_same, lines_of, merged, same_header, settle
from lore.store.lines import NOTHING, note, read_header
from lore.testing.stores.scenarios import header, line, message


def stored(*lines, leaf_id=None, metadata=b"{}"):
    """What is stored of a session."""
    events = (header(), *lines)
    head = Head(len(events), digests_of(events)[-1].hex(), note(leaf_id, metadata))
    return Whole(SessionData(session_id="s", head=head, events=events, leaf_id=leaf_id, metadata=metadata))


def delta(base, *lines, **more):
    return SessionDelta(base=base, new_events=lines, **more)


def test_what_is_new_goes_behind_what_is_stored():
    one = stored(message("u1"))
    settled = settle(delta(one.head, message("u2"), message("u3")), one)
    assert settled.lines == (message("u2"), message("u3"))
    assert settled.head == stored(message("u1"), message("u2"), message("u3")).head
    assert settled.digests[-1].hex() == settled.head.digest
    assert not settled.noted


def test_nothing_new_is_nothing_to_write():
    one = stored(message("u1"), leaf_id="u1", metadata=b'{"a":1}')
    settled = settle(delta(one.head, leaf_id="u1", metadata=b'{ "a" : 1 }'), one)
    assert settled.is_empty
    assert settled.head == one.head


def test_notes_alone_are_something_to_write():
    one = stored(message("u1"))
    settled = settle(delta(one.head, metadata=b'{"a":1}'), one)
    assert (settled.is_empty, settled.lines, settled.noted) == (False, (), True)
    assert settled.head == one.head._replace(note=note(None, b'{"a":1}'))


def test_only_the_lines_that_are_needed_are_looked_at():
    """A turn of a long session costs what is new of it."""
    asked = []

    class Looked(Whole):
        def lines(self, after, count):
            asked.append((after, count))
            return super().lines(after, count)

    old = stored(*(message(f"u{number}") for number in range(100)))
    looked = Looked(SessionData(session_id="s", head=old.head, events=tuple(old.lines(0, 101))))
    settle(delta(old.head, message("new")), looked)
    assert asked == []
    base = Head(99, old.digest(99), old.head.note)
    settle(delta(base, message("u98"), message("u99")), looked)
    assert asked == [(99, 2)]


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
def test_whatever_of_a_delta_arrived_before_the_whole_of_it_is_stored_once(before, arrived, after):
    own = [message(f"own {number}") for number in range(5)]
    base = stored(*(message(f"u{number}") for number in range(before)))
    now = stored(*(message(f"u{number}") for number in range(before)), *own[:arrived])
    settled = settle(delta(base.head, *own[: max(after, arrived)]), now)
    assert list(settled.lines) == own[arrived : max(after, arrived)]
    assert settled.head.number == 1 + before + max(after, arrived)


def test_an_exact_retry_is_answered_by_the_head_of_its_own_last_event():
    base, first, now = stored(), stored(message("u1")), stored(message("u1"), message("u2"))
    settled = settle(delta(base.head, message("u1")), now)
    assert settled.is_empty
    assert settled.head == first.head


@pytest.mark.parametrize(
    ("base", "lines"),
    [
        (NOTHING, (message("u1"),)),
        (stored(message("other")).head, (message("u2"),)),
        (stored().head, (message("other"),)),
        (stored().head, (message("u1"), message("other"))),
        (stored().head, ()),
        (stored(message("u1"), message("u2"), message("u3")).head, (message("u4"),)),
        (Head(2, "", ""), (message("u2"),)),
        (Head(-1, stored().head.digest, ""), (message("u2"),)),
    ],
)
def test_what_is_not_on_top_of_what_is_stored_is_refused_naming_both(base, lines):
    now = stored(message("u1"), message("u2"))
    with pytest.raises(ConflictError) as caught:
        settle(delta(base, *lines), now)
    assert (caught.value.base, caught.value.stored) == (base, now.head)
    assert str(base) in str(caught.value)
    assert str(now.head) in str(caught.value)


def test_notes_of_another_writer_are_refused_unless_they_are_the_same():
    base, now = stored(), stored(metadata=b'{"a":1}')
    with pytest.raises(ConflictError):
        settle(delta(base.head, message("u1"), metadata=b'{"a":2}'), now)
    assert settle(delta(base.head, message("u1"), metadata=b'{"a":1}'), now).lines == (message("u1"),)
    assert settle(delta(base.head, message("u1")), now).metadata == b'{"a":1}'


def test_what_is_noted_after_a_lost_answer_is_added():
    """All of its events stand there, its note does not: it was taken for an exact retry, and the note was lost."""
    base, now = stored(), stored(message("u1"))
    settled = settle(delta(base.head, message("u1"), metadata=b'{"a":1}', leaf_id="u1"), now)
    assert (settled.lines, settled.metadata, settled.leaf_id, settled.noted) == ((), b'{"a":1}', "u1", True)
    assert settled.head == now.head._replace(note=note("u1", b'{"a":1}'))


def test_a_retry_brings_no_old_notes_back():
    base, now = stored(), stored(message("u1"), leaf_id="u2")
    with pytest.raises(ConflictError):
        settle(delta(base.head, message("u1"), leaf_id="u1"), now)
    assert settle(delta(base.head, message("u1"), leaf_id="u2"), now).is_empty


def test_what_is_taken_back_stands_before_what_is_new():
    assert lines_of(delta(NOTHING, message("u1"), removed_ids=("b", "a"))) == (
        line("remove", uuids=["b", "a"]),
        message("u1"),
    )
    assert lines_of(delta(NOTHING)) == ()


def test_an_item_of_any_name_is_taken_back():
    """The name is half a surrogate pair, as JavaScript writes it: encoding it was a traceback."""
    assert lines_of(delta(NOTHING, removed_ids=("\ud83d",))) == (b'{"kind":"remove","uuids":["\\ud83d"]}',)


def test_too_much_that_is_taken_back_is_refused():
    """The `remove` event is a line like any other: nobody could read back one that is too long."""
    with pytest.raises(StoreError, match="MiB"):
        lines_of(delta(NOTHING, removed_ids=("x" * (12 * 1024 * 1024),)))


def test_a_delta_of_a_newer_version_is_refused():
    with pytest.raises(FormatError, match="version 2"):
        settle(delta(stored().head, version=2), stored())


def test_events_are_compared_as_values():
    assert is_same(b'{"a":1,"b":"\\u0041"}', b'{ "b":"A", "a":1 }')
    assert not is_same(b'{"a":1}', b'{"a":1.0}')
    assert not is_same(b'{"a":0}', b'{"a":false}')
    assert not is_same(b'{"a":18446744073709551616}', b'{"a":18446744073709551617}')


@pytest.mark.parametrize(
    ("before", "more", "after"),
    [
        (b"{}", b"{}", b"{}"),
        (b'{ "a":1 }', b" {} ", b'{ "a":1 }'),
        (b'{"a":1,"b":2}', b'{"c":3,"a":null}', b'{"a":null,"b":2,"c":3}'),
        (b'{"a":{"x":1}}', b'{"a":{"y":2}}', b'{"a":{"y":2}}'),
        (b"{}", b'{"n":1.0,"m":18446744073709551617}', b'{"n":1.0,"m":18446744073709551617}'),
        (b"{}", b'{"\\ud83d":1}', b'{"\\ud83d":1}'),
    ],
)
def test_metadata_is_put_together_by_key(before, more, after):
    assert merged(before, more) == after


@pytest.mark.parametrize("more", [b"", b"[]", b"null", b'"a"', b"{", b'{"a":}', b'{"a":\xff}'])
def test_metadata_that_is_no_object_is_refused(more):
    with pytest.raises(StoreError, match="metadata"):
        merged(b"{}", more)


def whole(*lines, **more):
    return SessionData(session_id="s", head=NOTHING, events=(header(), *lines), **more)


def check(data, now=None):
    return checked(data, None if now is None else now.head, digests_of(data.events))


def test_a_whole_session_is_taken_where_it_holds_what_is_stored():
    for now in (None, stored(), stored(message("u1"))):
        assert check(whole(message("u1")), now).session_id == "s"
    with pytest.raises(ConflictError) as caught:
        check(whole(message("u1")), stored(message("u1"), message("u2")))
    assert caught.value.base == stored(message("u1")).head
    with pytest.raises(ConflictError):
        check(whole(message("u1"), message("u2")), stored(message("other")))


def test_each_new_line_of_a_whole_session_is_looked_at():
    """Only the header was: a full save stored what no reader takes, and a line feed made two events of one."""
    for wrong in (b"no line", b"{}\n{}", b""):
        with pytest.raises(StoreError, match="no line of a log"):
            check(whole(message("u1"), wrong), stored(message("u1")))


@pytest.mark.parametrize(
    "more", [{"leaf_id": ""}, {"project_id": "a\0"}, {"metadata": b"[]"}, {"updated_at": "\ud800"}, {"version": 2}]
)
def test_what_stands_beside_a_whole_session_is_looked_at(more):
    with pytest.raises(StoreError):
        check(whole(**more))


def test_the_same_header_is_the_same_in_any_spelling():
    head = stored().head
    assert same_header(header(), read_header(header().replace(b'","', b'" , "')), head) == head
    with pytest.raises(ConflictError, match="another header"):
        same_header(header(), read_header(header(model="m")), head)


def test_a_settled_delta_is_what_storing_it_again_finds():
    """Twice is once, whatever is in it."""
    base = stored(message("u1"), metadata=b'{"a":1}')
    both = delta(base.head, message("u2"), removed_ids=("u1",), leaf_id="u2", metadata=b'{"b":2}')
    first = settle(both, base)
    data = SessionData(
        session_id="s", head=first.head, events=(*base.lines(0, 9), *first.lines), leaf_id=first.leaf_id,
        metadata=first.metadata,
    )  # fmt: skip
    again = settle(both, Whole(data))
    assert again.is_empty
    assert again.head == first.head
    assert msgspec.structs.asdict(data)["metadata"] == b'{"a":1,"b":2}'

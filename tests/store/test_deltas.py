"""The change that a delta makes, without any store; saving in full in a store without deltas."""

from hypothesis import given
from hypothesis import strategies as st

from helpers.each import each
from lore.store.base import Head, SessionData, SessionDelta
from lore.store.deltas import WholeSession, digests_of, merge_metadata, plan_delta, session_with_forks
from lore.store.lines import digest_notes
from lore.testing.stores import header, message


def stored(*lines):
    """Return a stored session."""
    events = (header(), *lines)
    head = Head(len(events), digests_of(events)[-1].hex(), digest_notes(None, b"{}"))
    return WholeSession(SessionData(session_id="s", head=head, events=events))


def delta(base, *lines, **more):
    return SessionDelta(base=base, new_events=lines, **more)


def test_only_lines_after_the_base_are_read():
    """A turn of a long session costs O(its new events)."""
    requests = []

    class Looked(WholeSession):
        def lines(self, after, count):
            requests.append((after, count))
            return super().lines(after, count)

    old = stored(*(message(f"u{number}") for number in range(100)))
    looked = Looked(SessionData(session_id="s", head=old.summary.head, events=tuple(old.lines(0, 101))))
    plan_delta(delta(old.summary.head, message("new")), looked)
    assert requests == []
    base = Head(99, old.digest(99), old.summary.head.note)
    plan_delta(delta(base, message("u98"), message("u99")), looked)
    assert requests == [(99, 2)]


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
def test_delta_that_arrived_in_part_is_stored_once(before, arrived, after):
    delta_lines = [message(f"own {number}") for number in range(5)]
    base = stored(*(message(f"u{number}") for number in range(before)))
    now = stored(*(message(f"u{number}") for number in range(before)), *delta_lines[:arrived])
    settled = plan_delta(delta(base.summary.head, *delta_lines[: max(after, arrived)]), now)
    head, lines = (settled, ()) if isinstance(settled, Head) else (settled.after.head, settled.lines)
    assert list(lines) == delta_lines[arrived : max(after, arrived)]
    assert head.number == 1 + before + max(after, arrived)


@each("before, more, after", [
    (b"{}", b"{}", b"{}"),
    (b'{ "a":1 }', b" {} ", b'{ "a":1 }'),
    (b'{"a":1,"b":2}', b'{"c":3,"a":null}', b'{"a":null,"b":2,"c":3}'),
    (b'{"a":{"x":1}}', b'{"a":{"y":2}}', b'{"a":{"y":2}}'),
    (b"{}", b'{"n":1.0,"m":18446744073709551617}', b'{"n":1.0,"m":18446744073709551617}'),
    (b"{}", b'{"\\ud83d":1}', b'{"\\ud83d":1}'),
])  # fmt: skip
def test_metadata_is_merged_by_key(before, more, after):
    assert merge_metadata(before, more) == after


# which sessions are deleted together

PARENTS = {"root": None, "one": "root", "two": "root", "deep": "one", "other": "elsewhere"}


def test_forks_are_deleted_before_their_parents():
    deleted = session_with_forks("root", PARENTS)
    assert sorted(deleted) == ["deep", "one", "root", "two"]
    assert deleted.index("deep") < deleted.index("one") < deleted.index("root")
    assert deleted == session_with_forks("root", dict(reversed(PARENTS.items())))
    assert (session_with_forks("two", PARENTS), session_with_forks("other", PARENTS)) == (("two",), ("other",))


def test_forks_in_rings_and_long_lines_are_found():
    assert sorted(session_with_forks("a", {"a": "c", "b": "a", "c": "b"})) == ["a", "b", "c"]
    assert session_with_forks("a", {"a": "a"}) == ("a",)
    assert len(session_with_forks("0", {str(number): str(number - 1) for number in range(1, 3000)})) == 3000

"""Prompt deltas among events: rows to the byte, the first content and the latest selector."""

from hypothesis import given
from hypothesis import strategies as st

from helpers.strategies import any_events
from lore.store.base import DeltaRow
from lore.store.lines import Row, put_together, rows_of
from lore.testing.stores.notes import ONE, prompt_delta
from lore.testing.stores.scenarios import message

TWO = b'[{"role":"user","text":"two"}]'


def test_what_is_no_prompt_delta_makes_no_row():
    assert rows_of([message("u1", '"prompt_delta"'), message("u2"), b'{"kind":"prompt_delta"}', b"no line"]) == []


def test_rows_hold_bytes_as_they_were_written():
    selector = b'{ "insert_at" :1.0,"own":"\\u0041" }'
    assert rows_of([prompt_delta(3, selector, ONE)]) == [Row(3, selector, ONE)]


def test_a_record_without_content_replaces_the_selector_alone():
    assert rows_of([prompt_delta(3, b"{}"), prompt_delta(3, b"{}", b"null")]) == [Row(3, b"{}", None)] * 2


def test_a_word_that_is_spelled_with_escapes_is_the_same_word():
    """The fold reads it as a prompt delta: a store without the row would not replay it."""
    line = prompt_delta(1, b"{}", ONE).replace(b"prompt_delta", b"prompt_\\u0064elta")
    assert rows_of([line]) == [Row(1, b"{}", ONE)]


def test_the_first_content_and_the_latest_selector_are_kept():
    rows = [Row(2, b"{}", ONE), Row(1, b"[]", ONE), Row(2, b'{"a":1}', TWO), Row(2, b'{"a":2}', None)]
    assert put_together("s", "p", rows) == (DeltaRow("s", 1, "p", b"[]", ONE), DeltaRow("s", 2, "p", b'{"a":2}', ONE))


def test_content_may_come_after_the_selector():
    assert put_together("s", None, [Row(1, b"{}", None), Row(1, b"[]", ONE)])[0].content == ONE
    assert put_together("s", None, [Row(1, b"{}", None)])[0].content == b"null"


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([b"{}", b"[]"]), st.sampled_from([ONE, TWO, None]))))
def test_putting_together_step_by_step_is_putting_together_at_once(records):
    rows = [Row(*record) for record in records]
    kept: tuple[DeltaRow, ...] = ()
    for row in rows:
        kept = put_together("s", None, [*(Row(one.seq, one.selector, one.content) for one in kept), row])
    assert kept == put_together("s", None, rows)


@given(any_events())
def test_no_event_is_too_odd_to_be_looked_at(events):
    from lore.model.events import PromptDelta, encode

    found = rows_of(map(encode, events))
    assert [row.seq for row in found] == [one.seq for one in events if isinstance(one, PromptDelta)]

"""Prompt deltas among events: rows to the byte, the first content and the latest selector."""

from hypothesis import given
from hypothesis import strategies as st

from helpers.strategies import any_events
from lore.store.base import DeltaRow
from lore.store.lines import Row, put_together, rows_of
from lore.testing.stores.notes import ONE
from lore.testing.stores.scenarios import message

TWO = b'[{"role":"user","text":"two"}]'


def test_what_is_no_prompt_delta_makes_no_row():
    assert rows_of([message("u1", '"prompt_delta"'), message("u2"), b'{"kind":"prompt_delta"}', b"no line"]) == []


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

"""Lifetimes of writes, and new positions between two breakpoints, by the rule of the day."""

from datetime import UTC, datetime

import msgspec
import pytest

from helpers.each import each
from lore.cache.counts import FIVE_MINUTES, GRACE, ONE_HOUR, expiry, lifetime
from lore.cache.lookback import kind_of, lookback_gap
from lore.model.events import Usage
from lore.model.evidence import Paused
from lore.model.turn import Segment
from model.making import body, dumps, parsed, turn

ANTHROPIC = parsed(body("x"))
CHAT = parsed(body("x"), "openai-chat")
MARKED = parsed(body("x", cache_control={"type": "ephemeral"}))


@each("usage, prompt, before, lives", [
    (None, ANTHROPIC, None, None),
    (None, ANTHROPIC, ONE_HOUR, ONE_HOUR),
    (Usage(write_1h_tokens=5, write_5m_tokens=5), ANTHROPIC, None, ONE_HOUR),
    (Usage(write_5m_tokens=5, write_1h_tokens=0), ANTHROPIC, ONE_HOUR, FIVE_MINUTES),
    (Usage(write_tokens=5), ANTHROPIC, None, FIVE_MINUTES),
    (Usage(write_tokens=5), msgspec.structs.replace(CHAT, model="gpt-5"), None, None),
    (Usage(write_tokens=5), msgspec.structs.replace(CHAT, model="proxy/claude-x"), None, FIVE_MINUTES),
    (Usage(write_tokens=0, read_tokens=9), ANTHROPIC, ONE_HOUR, ONE_HOUR),
    (Usage(read_tokens=9), CHAT, None, None),
])  # fmt: skip
def test_latest_billed_write_sets_the_lifetime(usage, prompt, before, lives):
    assert lifetime(turn(prompt, usage=usage), before) == lives


@each("answered, at, next_at, lives, expected", [
    (None, 0.0, 301.0, FIVE_MINUTES, None),
    (None, 0.0, FIVE_MINUTES * GRACE + 1, FIVE_MINUTES, Paused(307.0, FIVE_MINUTES)),
    (100.0, 0.0, 400.0, FIVE_MINUTES, Paused(400.0, FIVE_MINUTES)),
    (100.0, None, 500.0, FIVE_MINUTES, Paused(400.0, FIVE_MINUTES)),
    (None, 0.0, 400.0, ONE_HOUR, None),
    (None, None, 9999.0, FIVE_MINUTES, None),
    (None, 0.0, None, FIVE_MINUTES, None),
    (None, 0.0, 9999.0, None, None),
    (None, 100.0, 0.0, FIVE_MINUTES, None),
])  # fmt: skip
def test_pause_beyond_lifetime_and_grace_is_expiry(answered, at, next_at, lives, expected):
    previous = turn(ANTHROPIC, sent=at, answered=answered)
    assert expiry(previous, turn(ANTHROPIC, 2, sent=next_at), lives) == expected


PDF = "JVBERi0x" * 900


@each("block, kind", [
    ({"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64," + PDF}, "file"),
    ({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}}, "file"),
    ({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Rules. " * 900}}, ""),
    ({"type": "file_url", "file_url": {"url": PDF}}, "file"),
    ({"type": "video_url", "video_url": {"url": "data:video/mp4;base64," + PDF}}, "file"),
    ({"type": "image_url", "image_url": {"url": "data:image/png;base64," + PDF}}, "image"),
])  # fmt: skip
def test_size_of_media_is_not_that_of_base64(block, kind):
    assert kind_of(Segment("messages", "messages[0].content[0]", dumps(block))) == kind


CACHE_CONTROL = {"cache_control": {"type": "ephemeral"}}
TODAY, DOCUMENTED, FIRST = (
    datetime(*day, tzinfo=UTC).timestamp() for day in ((2026, 7, 1), (2025, 7, 1), (2024, 12, 4))
)


def text(words, *, breakpoint=False):
    return {"type": "text", "text": words, **(CACHE_CONTROL if breakpoint else {})}


def loop(calls):
    """Return a question with a breakpoint, and the same with calls and results, the last one with a breakpoint."""
    uses = [{"type": "tool_use", "id": f"t{n}", "name": "ls", "input": {}} for n in range(calls)]
    results = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": "ok"} for n in range(calls)]
    results[-1] |= CACHE_CONTROL
    previous = parsed(body({"role": "user", "content": [text("go", breakpoint=True)]}))
    current = parsed(
        body(
            {"role": "user", "content": [text("go")]},
            {"role": "assistant", "content": uses},
            {"role": "user", "content": results},
        )
    )
    return previous, current


@pytest.mark.parametrize(("calls", "at", "new", "exceeded"), [
    (10, TODAY, 20, False),
    (11, TODAY, 22, True),
    (11, None, 22, True),  # without a date the latest rule holds
    (24, DOCUMENTED, 2, False),  # a run of calls, a run of results
    (1, FIRST, 2, True),  # only an entry at a breakpoint was read
])  # fmt: skip
def test_positions_are_counted_by_date(calls, at, new, exceeded):
    gap = lookback_gap(*loop(calls), at)
    assert gap is not None
    assert (gap.new, gap.is_exceeded) == (new, exceeded)


def test_each_search_result_is_a_position():
    """They are documents of the author's, and no run of tool results."""
    results = [{"type": "search_result", "title": f"t{n}", "source": "s", "content": [text("x")]} for n in range(25)]
    last = {"role": "user", "content": [*results, text("?", breakpoint=True)]}
    first = parsed(body({"role": "user", "content": [text("go", breakpoint=True)]}))
    gap = lookback_gap(first, parsed(body("go", "a", last)), DOCUMENTED)
    assert gap is not None
    assert (gap.new, gap.is_exceeded) == (27, True)


def test_automatic_caching_sets_a_breakpoint_at_the_end():
    previous = parsed(body("a", cache_control={"type": "ephemeral"}))
    current = parsed(
        body("a", {"role": "assistant", "content": [text("b")] * 21}, "c", cache_control={"type": "ephemeral"})
    )
    gap = lookback_gap(previous, current, TODAY)
    assert gap is not None
    assert (gap.new, gap.is_exceeded) == (22, True)


def test_earlier_breakpoint_cannot_reach_the_entry():
    previous, current = loop(1)
    gap = lookback_gap(current, previous, TODAY)
    assert gap is not None
    assert (gap.new, gap.is_exceeded) == (-1, True)


def test_lookback_gap_needs_breakpoints_of_claude():
    assert lookback_gap(parsed(body("a")), parsed(body("a", "b")), TODAY) is None
    chat = {"model": "gpt-5.6", "messages": [{"role": "user", "content": [text("a", breakpoint=True)]}]}
    assert lookback_gap(parsed(chat, "openai-chat"), parsed(chat, "openai-chat"), TODAY) is None

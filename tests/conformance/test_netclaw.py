"""netclaw: cache reads grow from step to step of its history, and text of people is not taken for a program's.

Its recordings are golden scripts (`tests/golden/scripts/netclaw.json`), its sessions golden sessions (`sessions/`).
"""

from __future__ import annotations

import json

import pytest

from cli.running import lore, put
from helpers.strategies import netclaw
from lore.model import labels
from lore.model.labels import find_labels
from lore.prefix.volatile import find_volatile_in_system, find_wrapper, is_made_by_program
from lore.prompt import layout


def test_each_step_reads_more_than_the_one_before(desk):
    """Hit rates rose from 61.8 and 75 to 93 and 94 %: an oracle of counters, not of texts (law 12)."""
    rates = []
    for place in ("leading", "prepended", "system", "nudge"):
        put("talk.jsonl", netclaw.recording(place))
        totals = lore("simulate", "talk.jsonl", "--json").lines[0]["totals"]["billed"]
        rates.append(totals["read_tokens"] / (totals["read_tokens"] + totals["uncached_tokens"]))
    assert rates == sorted(set(rates))


def test_a_user_who_takes_back_words_of_his_own_is_no_wrapper():
    assert find_wrapper("Please. Why is it blue?", "Why is it blue?") is None
    assert find_wrapper("Why?", "Why?") is None
    assert find_wrapper("<note>\nx\n</note>\nWhy?", "Why?").text == "<note>\nx\n</note>"


@pytest.mark.parametrize(
    "text",
    [
        "What does [memory-recall] mean in this log?",
        "Write current_utc_offset into the file, please.",
        "The session began on 2026-06-18T10:00:00Z.",
        'Answer like {"created": "2026-06-18T10:00:00Z"} does.',
        "the build failed, at [system] level",
    ],
)
def test_who_speaks_of_a_label_or_of_a_time_is_no_program(text):
    assert not is_made_by_program(text)
    assert find_volatile_in_system(text) is None


def test_a_system_prompt_that_speaks_of_reminders_holds_none():
    assert find_volatile_in_system("Tool results may hold <system-reminder> tags.") is None


def test_what_the_layout_writes_is_in_the_table():
    """One table: each part of a context that has a label is known by it, and no other."""
    from msgspec import Raw  # noqa: PLC0415

    from lore.model.state import FoldedSession  # noqa: PLC0415

    context = {
        "memory_recall": "m", "current_time": "10:00", "working_context": "w", "slash_command": "/go", "overlay": "o",
        "restart_notice": "r",
    }  # fmt: skip
    text = layout.tail_of(FoldedSession(id="s"), Raw(json.dumps(context).encode()), authority=False).text
    assert [label.holds for label in find_labels(text)] == [
        "recalled memory", "a clock", "the working context", "a slash command", "an overlay", "a restart notice",
    ]  # fmt: skip
    quoted = layout.tail_of(FoldedSession(id="s"), Raw(json.dumps(context).encode()), authority=True).text
    assert find_labels(quoted)[0].holds == "quoted data"
    assert set(labels.LABELS.values()) < {*labels.Holds.__args__}

"""netclaw: text written by people is not taken for a program's.

Its recordings are golden scripts (`tests/golden/scripts/netclaw.json`), its sessions golden sessions (`sessions/`).
"""

import json

import pytest

from lore.model import labels
from lore.model.labels import find_labels
from lore.prefix.volatile import find_volatile_in_system, find_wrapper, is_made_by_program
from lore.prompt import layout


def test_text_shortened_by_user_is_no_wrapper():
    assert find_wrapper("Please. Why is it blue?", "Why is it blue?") is None
    assert find_wrapper("Why?", "Why?") is None
    assert find_wrapper("<note>\nx\n</note>\nWhy?", "Why?")[0] == "<note>\nx\n</note>"


@pytest.mark.parametrize("text", [
    "What does [memory-recall] mean in this log?", "Write current_utc_offset into the file, please.",
    "The session began on 2026-06-18T10:00:00Z.", 'Answer like {"created": "2026-06-18T10:00:00Z"} does.',
    "the build failed, at [system] level",
])  # fmt: skip
def test_text_mentioning_label_or_time_is_a_persons(text):
    assert not is_made_by_program(text)
    assert find_volatile_in_system(text) is None


def test_system_prompt_mentioning_reminders_is_not_volatile():
    assert find_volatile_in_system("Tool results may hold <system-reminder> tags.") is None


def test_every_label_of_the_layout_is_known():
    """Each part of a context that has a label is recognised by it."""
    from msgspec import Raw  # noqa: PLC0415

    from lore.model.state import FoldedSession  # noqa: PLC0415
    from lore.untrusted import wrap_data  # noqa: PLC0415

    context = {
        "memory_recall": "m", "current_time": "10:00", "working_context": "w", "slash_command": "/go", "overlay": "o",
        "restart_notice": "r",
    }  # fmt: skip
    text = layout.tail_of(FoldedSession(id="s"), Raw(json.dumps(context).encode()), separate=False).text
    assert list(find_labels(text)) == [
        "recalled memory", "a clock", "the working context", "a slash command", "an overlay", "a restart notice",
    ]  # fmt: skip
    assert "quoted data" in find_labels(wrap_data("s", "memory_recall", "m"))
    assert set(labels.LABELS.values()) < {*labels.Holds.__args__}

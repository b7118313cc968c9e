"""Text of one prompt that often differs in the next: words with a label, never words alone."""

from __future__ import annotations

import pytest

from lore.prefix.volatile import find_varying_text


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Today's date: 2026-07-14", ["date"]),
        ("Current date: 2026-07-14T08:03:19Z", ["clock"]),
        ('{"date": "2026-07-14"}', ["date"]),
        ("Released on 2026-07-14.", []),
        ("Write dates like this: 2026-07-14, and say the date.", []),
        ('Save "the meeting is at 2:30pm today" as a note.', []),
        ("<examples>\nuser: which date?\nassistant: the date is 2026-03-05\n</examples>", []),
        ("<cwd>/home/ann/x</cwd>", ["directory"]),
        ("Current working directory is /srv/app", ["directory"]),
        ("session_id=ab12cd34", ["id"]),
        ("the id 0b0c7f6e-3c1a-4a60-9d0e-1f2a3b4c5d6e", ["id"]),
        ("session id: required", []),
        ("tool toolu_012345678 of claude-sonnet-4-20250514", []),
        ("/tmp/lore-4711/x", ["temporary-path"]),
        ("write to /tmp/out.txt", []),
        ("pid: 4711", ["process-id"]),
        ("the server is at localhost:8080", []),
        ("1,200 tokens left", ["token-count"]),
        ("On branch main\nnothing to commit, working tree clean", ["repository"]),
        ("Use git status before a commit.", []),
        ("", []),
        ("x " * 40_000 + "pid: 4711", []),  # beyond the part that is searched
    ],
)
def test_varying_text_has_its_kind(text, kinds):
    assert [word.kind for word in find_varying_text(text)] == kinds


@pytest.mark.parametrize(
    ("description", "kinds"),
    [
        ('Schedules a prompt. "weekdays at 9am" is the time 0 9 * * 1-5.', []),
        ("Runs at a time such as 14:30 of the current day.", []),
        ("Takes a date and a time: 2026-01-31 18:00 is the last day.", []),
        ("Searches the web. Today's date is 2026-11-27.", ["date"]),
    ],
)
def test_date_in_a_tool_counts_as_current_only(description, kinds):
    assert [word.kind for word in find_varying_text(description, in_tool=True)] == kinds

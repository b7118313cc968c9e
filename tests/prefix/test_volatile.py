"""Text that often varies: words with what they are the value of, never words alone."""

from __future__ import annotations

import pytest

from lore.prefix.volatile import find_varying_text


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Today's date: 2026-07-14", ["date"]),
        ("Current date: 2026-07-14T08:03:19Z", ["clock"]),
        ("Released on 2026-07-14.", []),
        ("Write dates like this: 2026-07-14, and say the date.", []),
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
    ],
)
def test_a_kind_of_text_that_varies(text, kinds):
    assert [word.kind for word in find_varying_text(text)] == kinds


def test_a_text_that_is_too_long_is_looked_at_in_its_first_part():
    assert find_varying_text("x " * 40_000 + "pid: 4711") == []

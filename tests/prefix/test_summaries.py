"""Summaries: what says that it stands for a conversation, and what only says that something was left out."""

from __future__ import annotations

import pytest

from lore.prefix.purpose import has_summary_heading, is_placeholder, is_summary, retells
from model.making import assistant, body, parsed


def texts(*messages):
    return [one for one in parsed(body(*messages)).messages if one.kind != "envelope"]


def text(said):
    return texts(said)[0]


@pytest.mark.parametrize(
    "said",
    [
        "This session is being continued from a previous conversation that ran out of context.",
        "<summary>\nThe parser was mended.\n</summary>",
        "# Conversation Summary\n\n## Goal\nMend it.",
        "**Session recap**\nWe mended it.",
        "<context_checkpoint>\nMended.\n</context_checkpoint>",
    ],
)
def test_a_summary_says_so(said):
    assert is_summary(text(said))


@pytest.mark.parametrize(
    "said",
    [
        "## Summary\nThe parser fails on empty input.",  # how reports of bugs begin
        "Implement the session snapshot feature in store.py.",
        "Write a summary of this file.",
        "Continue.",
    ],
)
def test_a_users_own_words_are_no_summary(said):
    assert not is_summary(text(said))


@pytest.mark.parametrize("said", ["Here is a recap of what we did:\n…", "## Zusammenfassung\nEs geht.", "## Summary"])
def test_a_heading_alone_is_weaker(said):
    assert has_summary_heading(text(said))
    assert not has_summary_heading(
        text("Please look at the summary that the tests print, and mend what is wrong with it.")
    )


def test_a_short_text_stands_for_what_was_cut():
    assert is_placeholder(text("[212 earlier messages were removed to save space]"))
    assert is_placeholder(text("Earlier messages were omitted. " + "Ask if you need them. " * 12))
    assert not is_placeholder(text("The parser fails where a line is empty. " * 12))


def test_a_text_that_names_what_was_said_before_retells_it():
    gone = texts("Mend lore/parse.py", assistant("I changed parse_line() and ran test_empty_line: 4711 passed."))
    assert retells(text("In lore/parse.py, parse_line was changed; test_empty_line passes now."), gone)
    assert not retells(text("In lore/store.py, save_all was changed; test_full_disk passes now."), gone)
    assert not retells(text("It was changed, and all is well now."), gone)

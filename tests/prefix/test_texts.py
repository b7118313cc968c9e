"""One text that became another."""

from __future__ import annotations

from lore.prefix.texts import SearchBudget, explain_text


def test_a_clock_in_one_long_line_is_named():
    """A system prompt of one line longer than what is looked through was compared whole, and then not at all."""
    line = "You are an agent. It is 09:{}. " + "Be brief and exact, please. " * 1000
    assert [one.code for one in explain_text(line.format(14), line.format(15), SearchBudget())] == ["LORE101"]

"""Lines of `lore record --live`."""

import pytest

from lore.model.ledger import LedgerRow
from lore.model.running import LastBreak
from lore_plugins.record.live import closing_lines, live_line


def row(*, prompt: int | None = None, billed: bool = False, answered: float | None = 9.0) -> LedgerRow:
    return LedgerRow(
        chain="main", number=1, line=2, at=None, model="m", client="", gateway="", response_id="", prompt_tokens=prompt,
        uncached_tokens=None, read_tokens=prompt and 90, write_tokens=None, output_tokens=None, billed=billed,
        spent=None, loss=None, appended=None, compacted=False, answered=answered,
    )  # fmt: skip


def test_live_line_says_refused_or_not_answered():
    assert live_line(row(), None, content=False, refused=429) == "turn 1  m  refused (429)"
    assert live_line(row(), None, content=False) == "turn 1  m  no usage in its response"
    assert live_line(row(answered=None), None, content=False) == "turn 1  m  no answer"
    assert live_line(row(billed=True), None, content=False) == "turn 1  m  reads not in its usage"


@pytest.mark.parametrize(("dollars", "shown"), [(0.0033, " ($0.0033)"), (0.00001, ""), (None, "")])
def test_live_line_shows_amounts_below_a_cent(dollars, shown):
    broken = LastBreak(
        code="LORE101", kind="waste", turn=1, at=None, lost_tokens=2931, dollars=dollars, says="s",
        plain="a date changed", fix="f",
    )  # fmt: skip
    assert live_line(row(prompt=100, billed=True), broken, content=False).endswith(f"2,931 tokens re-billed{shown}")


@pytest.mark.parametrize(("path", "typed"), [("it's here.jsonl", "'it'\"'\"'s here.jsonl'"), ("b\\xff.jsonl", None)])
def test_next_command_quotes_the_file_for_a_shell(path, typed):
    found = [line for line in closing_lines(path, 1, 0, 0, pointed=False) if line.startswith("next: ")]
    assert found == ([] if typed is None else [f"next: lore check {typed}"])

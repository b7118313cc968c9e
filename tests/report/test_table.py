"""Tables that fit the terminal: columns go, rows stand on several lines, words stay whole; in a pipe all stands."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from lore.report.console import console
from lore.report.table import TableColumn, TextTable

MONEY = (
    TableColumn("cost", right=True), TableColumn("requests", right=True, drop=2),
    TableColumn("read", right=True, drop=1), TableColumn("re-billed", right=True), TableColumn("model"),
)  # fmt: skip
PATH = "/a/folder/of/one/project/with/a/long/name/session.jsonl"


def written(columns, rows, *, width=60, terminal=True, flows=True):
    stream = io.StringIO()
    table = TextTable(columns, rows, console(stream, colour=False, terminal=terminal, width=width), flows=flows)
    table.write_head()
    for row in rows:
        table.write(row)
    return stream.getvalue().splitlines()


def row(name):
    return ("$71.07", "1,211", "98%", "$2.13", name)


def test_pipe_gets_all_columns_on_one_line():
    lines = written(MONEY, [row(PATH), row("short")], terminal=False)
    assert len(lines) == 3
    assert lines[1].split() == [*row(PATH)]
    assert lines[0].index("model") == lines[1].index(PATH)


def test_narrow_terminal_drops_columns_by_priority():
    heads = [written(MONEY, [row("claude-opus-5")], width=width)[0].split() for width in (60, 46, 36)]
    assert heads[0] == ["cost", "requests", "read", "re-billed", "model"]
    assert heads[1] == ["cost", "read", "re-billed", "model"]
    assert heads[2] == ["cost", "re-billed", "model"]


def test_long_cell_wraps_below_its_row():
    lines = written(MONEY, [row(PATH)], width=50)
    assert lines[0].split() == ["cost", "requests", "read", "re-billed"]
    assert lines[2].split() == [*row("x")[:-1]]
    assert lines[3] == f"    {PATH}"


cells = st.text(alphabet="ab 漢", max_size=12).map(lambda text: " ".join(text.split()))


@given(st.lists(st.tuples(cells, cells, cells, cells), min_size=1, max_size=4), st.integers(20, 80), st.booleans())
def test_lines_fit_and_keep_all_cells(rows, width, flows):
    columns = [TableColumn("a"), TableColumn("b", right=True), TableColumn("c"), TableColumn("d")]
    lines = written(columns, rows, width=max(width, 32), flows=flows)
    assert all(cell_len(text) <= max(width, 32) for text in lines)
    text = " ".join(" ".join(lines).split())
    for cell in (cell for cells in rows for cell in (cells if not flows else cells[:-1])):
        assert cell in text


def test_wide_characters_wrap_within_the_terminal():
    """What hangs was counted in characters where the head of a line takes more columns than it has."""
    columns = [TableColumn("a"), TableColumn("b", right=True), TableColumn("c"), TableColumn("d")]
    lines = written(columns, [("aaa漢aa漢漢漢漢漢漢", "a" * 12, "", "aaaaaa漢漢漢")], width=32, flows=False)
    assert max(map(cell_len, lines)) <= 32


@pytest.mark.parametrize("terminal", [True, False])
def test_control_characters_in_cells_are_escaped(terminal):
    shown = "".join(written(MONEY, [row("\x1b[2Jmodel [red]x[/red]")], terminal=terminal))
    assert "\x1b" not in shown
    assert "[red]" in shown

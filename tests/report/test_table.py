"""Lines and tables on a terminal fit it between words, and lose no text; in a pipe a sentence or row is one line."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from lore.report.console import Console, TableColumn, line, plain_text, write_table

MONEY = (
    TableColumn("cost", right=True), TableColumn("requests", right=True, drop=2),
    TableColumn("read", right=True, drop=1), TableColumn("re-billed", right=True), TableColumn("model"),
)  # fmt: skip
PATH = "/a/folder/of/one/project/with/a/long/name/session.jsonl"


def written(columns, rows, *, width=60, terminal=True, colour=False):
    stream = io.StringIO()
    write_table(columns, rows, Console(stream, colour=colour, terminal=terminal, width=width))
    return stream.getvalue().splitlines()


def row(name):
    return ("$71.07", "1,211", "98 %", "$2.13", name)


def cells_of(text):
    return re.split(r"\s{2,}", text.strip())


def test_pipe_gets_all_columns_on_one_line():
    lines = written(MONEY, [row(PATH * 9), row("short")], terminal=False)
    assert len(lines) == 3
    assert cells_of(lines[1]) == [*row(PATH * 9)]
    assert lines[0].index("model") == lines[1].index(PATH)


def test_narrow_terminal_drops_columns_by_priority():
    heads = [cells_of(written(MONEY, [row("claude-opus-5")], width=width)[0]) for width in (60, 44, 36)]
    assert heads[0] == ["cost", "requests", "read", "re-billed", "model"]
    assert heads[1] == ["cost", "read", "re-billed", "model"]
    assert heads[2] == ["cost", "re-billed", "model"]
    assert written(MONEY, [row("claude-opus-5")], width=36)[-2:] == ["not shown at this width: requests,", "    read"]
    assert len(written(MONEY, [row("claude-opus-5")], width=60)) == 2


def test_last_column_wraps_in_its_place():
    lines = written(MONEY, [row("a title of a session that has many words in it")], width=60)
    assert cells_of(lines[1])[:4] == ["$71.07", "1,211", "98 %", "$2.13"]
    assert lines[2].strip()
    assert len(lines[2]) - len(lines[2].lstrip()) == lines[1].index("a title")


def test_style_of_a_cell_colours_it():
    text = written([TableColumn("a")], [(("red", "red"),)], colour=True)[-1]
    assert text == "\x1b[31mred\x1b[0m"


cells = st.text(alphabet="ab 漢", max_size=12).map(lambda text: " ".join(text.split()))


@given(st.lists(st.tuples(cells, cells, cells, cells), min_size=1, max_size=4), st.integers(20, 80))
def test_lines_fit_and_keep_all_cells(rows, width):
    columns = [TableColumn("a"), TableColumn("b", right=True), TableColumn("c"), TableColumn("d")]
    lines = written(columns, rows, width=width)[1:]
    assert all(cell_len(text) <= width for text in lines)
    for letter in "ab漢":
        assert "".join(lines).count(letter) == sum(cell.count(letter) for cells in rows for cell in cells)


@pytest.mark.parametrize("terminal", [True, False])
def test_control_characters_in_cells_are_escaped(terminal):
    shown = "".join(written(MONEY, [row("\x1b[2Jmodel [red]x[/red]")], terminal=terminal))
    assert "\x1b" not in shown
    assert "[red]" in shown


def printed(text, *, width=60, indent=None, terminal=True, colour=False):
    stream = io.StringIO()
    out = Console(stream, colour=colour, terminal=terminal, width=width)
    out.print(line(text), indent=indent)
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 100])
def test_long_line_wraps_between_words(width):
    lines = printed("    fix: " + "some words of a sentence " * 20, width=width)
    assert all(cell_len(text) <= width for text in lines)
    assert {len(text) - len(text.lstrip()) for text in lines[1:]} == {8}
    assert {word for text in lines for word in text.split()} == {"fix:", "some", "words", "of", "a", "sentence"}


def test_wide_word_stays_whole():
    path = "/a/path/" + "x" * 200
    assert any(path in text for text in printed(f"at {path} and on"))


@pytest.mark.parametrize("colour", [False, True])
def test_pipe_gets_whole_lines(colour):
    assert len(printed("word " * 100, terminal=False, colour=colour)) == 1


def test_colours_hold_over_a_break():
    stream = io.StringIO()
    out = Console(stream, colour=True, terminal=True, width=30)
    out.print(line("cause ", ("words of a cause " * 4, "bold")))
    assert stream.getvalue().count("\x1b[1m") == len(stream.getvalue().splitlines())


def test_command_to_copy_is_not_wrapped():
    stream = io.StringIO()
    Console(stream, colour=False, terminal=True, width=30).print_whole(line("lore " + "--option " * 20))
    assert len(stream.getvalue().splitlines()) == 1


def test_joined_parts_form_no_workflow_command():
    assert "##[" not in "".join(printed("words " * 20 + "##[error]"))


@given(st.text(max_size=300), st.integers(24, 100), st.integers(0, 20))
def test_wrapping_loses_no_word(text, width, indent):
    shown = plain_text(line(text))
    assert " ".join(printed(text, width=width, indent=indent)).split() == shown.split()

"""The terminal: lines that fit it, between words; in a pipe a sentence is one line."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from lore.report.console import Console, line, plain_text


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

"""Text from recordings on a terminal: nothing in it is obeyed, nothing in it is invisible."""

from __future__ import annotations

import io
import json

import msgspec
import pytest

from lore.judge.base import Place, finding
from lore.model.evidence import Told
from lore.model.results import Checked, Summary
from lore.report.console import console, line
from lore.report.forms.json_report import render
from lore.report.forms.registry import REPORTS
from lore.report.plain import visible
from lore.report.sentences.findings import worded


@pytest.mark.parametrize(
    "char", "\x1b\x07\x9b\u061c\u180e\u115f\u3164\ufff9\u202e\u200b\ufe0f\U000e0041\U000e0101\u2800"
)
def test_a_character_that_shows_nothing_is_named(char):
    shown = visible(f"a{char}b")
    assert char not in shown
    assert shown.isprintable()


# GitHub's runner obeys `##[command]` anywhere in a line of a log: a recording could stop what lore annotates.
@pytest.mark.parametrize("kind", REPORTS)
def test_no_report_holds_a_runners_command(kind):
    said = "a ##[stop-commands]x and ##[add-mask]y"
    out = io.StringIO()
    one = worded(finding("LORE101", Place(said), Told(said), chain=said, json_path=said, section=said))
    result = Checked(summary=Summary(), findings=[one], problems=[])
    REPORTS[kind].write(result, console(out, colour=False, terminal=False), verbose=True)
    assert "stop-commands" in out.getvalue()
    assert "##[" not in out.getvalue()


def test_a_command_in_two_parts_of_a_line_is_none_either():
    out = io.StringIO()
    console(out, colour=False, terminal=False).print(line("a ##", ("[error]", "red")))
    assert out.getvalue() == "a ##<U+005B>error]\n"


@pytest.mark.parametrize("text", ["plain", "é ü 日本 🙂", "a b"])
def test_text_that_shows_itself_stays(text):
    assert visible(text) == text


class _Result(msgspec.Struct):
    text: str


@pytest.mark.parametrize("char", "\x9b\u202e\u2066\u061c\x7f")
def test_json_spells_what_a_terminal_would_obey_as_an_escape(char):
    written = render(_Result(f"a{char}b"))
    assert char not in written
    assert json.loads(written) == {"text": f"a{char}b"}

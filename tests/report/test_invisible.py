"""Text from recordings on a terminal: nothing in it is obeyed, invisible or secret; colour by the rules."""

import io
import json
import sys
from unicodedata import category

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.credentials import SAMPLES
from helpers.each import each
from lore.commands.common import destination
from lore.judge.findings import finding
from lore.model.cause import Place
from lore.model.codes import Code, Problem
from lore.model.evidence import Told
from lore.model.mask import mask
from lore.model.results import CheckResult, Summary
from lore.report.console import Console, line, wants_colour
from lore.report.forms.base import REPORTS, render
from lore.report.plain import escaped, last_part, project_name, quote, visible


def test_credential_with_slash_is_masked_in_project_name():
    """Cut at its slash, the second half of a key that was part of a folder's name was shown on pages."""
    key = SAMPLES["aws secret in JSON"]
    assert "/" in key.secret
    shown = last_part(f"/home/ann/{key.text}")
    assert key.secret.rpartition("/")[2][-6:] not in shown
    assert (last_part("/home/ann/code/"), last_part("C:\\code"), last_part("/")) == ("code", "code", "/")
    assert project_name("/home/ann/app/.claude/worktrees/fix/") == "app/…/fix"


# GitHub's runner obeys `##[command]` anywhere in a line of a log: a recording could end lore's annotations.
@each([*REPORTS])
def test_no_report_has_a_runner_command(kind):
    said = "a ##[stop-commands]x and ##[add-mask]y"
    out = io.StringIO()
    one = finding("LORE101", Place(said), Told(said), chain=said, json_path=said, section=said)
    result = CheckResult(summary=Summary(), findings=[one], problems=[])
    REPORTS[kind].write(result, Console(out, colour=False, terminal=False), verbose=True)
    assert "stop-commands" in out.getvalue()
    assert "##[" not in out.getvalue()


def test_runner_command_split_over_parts_is_escaped():
    out = io.StringIO()
    Console(out, colour=False, terminal=False).print(line("a ##", ("[error]", "red")))
    assert out.getvalue() == "a ##<U+005B>error]\n"


class _Result(msgspec.Struct):
    text: str


UNSEEN = "".join(
    map(chr, [0x7F, 0x9B, 0xAD, 0x34F, 0x61C, 0x180E, *range(0x200B, 0x2010), *range(0x2028, 0x202F),
              *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, *range(0xFFF9, 0xFFFC),
              *range(0xE0000, 0xE0080), *range(0xE0100, 0xE01F0)])
)  # fmt: skip


def test_unicode_format_characters_are_escaped():
    """Controls of music, of shorthand and of hieroglyphs were not, nor tags that are not assigned."""
    formats = [
        char
        for code in (*range(0x80, 0xD800), *range(0xE000, 0x110000))
        if category(char := chr(code)) in ("Cc", "Cf", "Zl", "Zp") or 0xE0000 <= code < 0xE1000
    ]
    assert [hex(ord(char)) for char in formats if char in escaped(f'"{char}"') or char in visible(char)] == []
    assert json.loads(escaped(json.dumps("".join(formats), ensure_ascii=False))) == "".join(formats)


@given(st.text(st.sampled_from(UNSEEN) | st.characters(codec="utf-8")))
def test_json_escapes_invisible_characters_losslessly(text):
    written = render(_Result(text))
    assert not set(written) & set(UNSEEN)
    assert json.loads(written)["text"] == mask(text)


@each([*REPORTS])
def test_no_report_has_invisible_characters(kind):
    out = io.StringIO()
    one = finding("LORE101", Place(UNSEEN), Told(UNSEEN), chain=UNSEEN, json_path=UNSEEN, section=UNSEEN)
    problem = Problem(Code.UNREADABLE_LINE, UNSEEN, file=UNSEEN)
    result = CheckResult(summary=Summary(), findings=[one], problems=[problem])
    REPORTS[kind].write(result, Console(out, colour=False, terminal=False), verbose=True)
    assert not set(out.getvalue()) & set(UNSEEN)


class _Stream(io.TextIOWrapper):
    def __init__(self, *, terminal):
        super().__init__(io.BytesIO(), encoding="utf-8")
        self._terminal = terminal

    def isatty(self):
        return self._terminal


@pytest.mark.parametrize("terminal", [True, False])
def test_bodies_are_escaped_on_terminals_only(terminal, monkeypatch):
    """A right-to-left override in a recording reordered what a person read of `lore convert`."""
    stream = _Stream(terminal=terminal)
    monkeypatch.setattr(sys, "stdout", stream)
    body = '{"text":"a\u202eb"}\n'.encode() + b"\xff\n"
    with destination(None, force=False, inputs=()) as file:
        file.writelines([body])
    shown = stream.buffer.getvalue()
    assert shown == (body.replace("\u202e".encode(), rb"\u202e") if terminal else body)


@each("text, shown", [
    ("a\x1b[31mred\x1b[0m", "a␛[31mred␛[0m"),
    ("a\nb\tc\rd\x00", "a⏎b⇥c␍d␀"),
    ("a\u200bb\u202ec\ufeff", "a<U+200B>b<U+202E>c<U+FEFF>"),
    ("no\u00a0break soft\u00adhyphen", "no<U+00A0>break soft<U+00AD>hyphen"),
    ("cut \ud83d", "cut <U+D83D>"),
    ("\x07\x9b", "<U+0007><U+009B>"),
    ("é 日本 😀", "é 日本 😀"),
])  # fmt: skip
def test_invisible_characters_are_made_visible(text, shown):
    assert visible(text) == shown


def test_credentials_are_masked():
    assert visible("ghp_" + "a1B2" * 9) == "ghp_" + "*" * 36


def test_markup_in_recordings_is_text():
    out = io.StringIO()
    Console(out, colour=False, terminal=False).print(line("[bold]x[/bold] :smile: ", ("[red]", "bold")))
    assert out.getvalue() == "[bold]x[/bold] :smile: [red]\n"


@each("flag, environment, terminal, wanted", [
    (True, {"NO_COLOR": "1"}, False, True),
    (False, {"FORCE_COLOR": "1"}, True, False),
    (None, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
    (None, {"FORCE_COLOR": "1"}, False, True),
    (None, {"NO_COLOR": ""}, True, True),
    (None, {}, True, True),
    (None, {}, False, False),
])  # fmt: skip
def test_colour_flag_precedes_environment_and_terminal(flag, environment, terminal, wanted):
    assert wants_colour(flag, environment, terminal=terminal) is wanted


@each("name, shown", [
    ("ann", "ann"),
    ("Åse of Oslo", "Åse of Oslo"),
    ("ann ", '"ann "'),
    ("ann  b", '"ann  b"'),
    ("A\u030ase", '"A\\u030ase"'),
    ("\uff41nn", '"\\uff41nn"'),
    ('"ann "', r'"\"ann \""'),
    ("a, b", '"a, b"'),
])  # fmt: skip
def test_ambiguous_name_is_quoted(name, shown):
    """Two users in a list had names that looked equal: the list did not show which one a wipe would delete."""
    assert quote(name) == shown

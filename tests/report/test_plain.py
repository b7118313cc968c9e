"""Plain text of recordings: nothing in it is obeyed, nothing in it is secret; colour by the rules."""

from __future__ import annotations

import io

from helpers.each import each
from lore.report.console import Console, line, wants_colour
from lore.report.plain import named, visible


@each(
    "text, shown",
    [
        ("a\x1b[31mred\x1b[0m", "a␛[31mred␛[0m"),
        ("a\nb\tc\rd\x00", "a⏎b⇥c␍d␀"),
        ("a\u200bb\u202ec\ufeff", "a<U+200B>b<U+202E>c<U+FEFF>"),
        ("no\u00a0break soft\u00adhyphen", "no<U+00A0>break soft<U+00AD>hyphen"),
        ("cut \ud83d", "cut <U+D83D>"),
        ("\x07\x9b", "<U+0007><U+009B>"),
        ("é 日本 😀", "é 日本 😀"),
    ],
)
def test_invisible_characters_are_made_visible(text, shown):
    assert visible(text) == shown


def test_credentials_are_masked():
    assert visible("ghp_" + "a1B2" * 9) == "ghp_" + "*" * 36


def test_markup_in_recordings_is_text():
    out = io.StringIO()
    Console(out, colour=False, terminal=False).print(line("[bold]x[/bold] :smile: ", ("[red]", "bold")))
    assert out.getvalue() == "[bold]x[/bold] :smile: [red]\n"


@each(
    "flag, environment, terminal, wanted",
    [
        (True, {"NO_COLOR": "1"}, False, True),
        (False, {"FORCE_COLOR": "1"}, True, False),
        (None, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        (None, {"FORCE_COLOR": "1"}, False, True),
        (None, {"NO_COLOR": ""}, True, True),
        (None, {}, True, True),
        (None, {}, False, False),
    ],
)
def test_colour_flag_precedes_environment_and_terminal(flag, environment, terminal, wanted):
    assert wants_colour(flag, environment, terminal=terminal) is wanted


@each(
    "name, shown",
    [
        ("ann", "ann"),
        ("Åse of Oslo", "Åse of Oslo"),
        ("ann ", '"ann "'),
        ("ann  b", '"ann  b"'),
        ("A\u030ase", '"A\\u030ase"'),
        ("\uff41nn", '"\\uff41nn"'),
        ('"ann "', r'"\"ann \""'),
        ("a, b", '"a, b"'),
    ],
)
def test_ambiguous_name_is_quoted(name, shown):
    """Two users in a list had names that looked equal: the list did not show which one a wipe would delete."""
    assert named(name) == shown

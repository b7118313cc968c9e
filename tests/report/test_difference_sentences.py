"""Every kind of difference has a sentence, and what is redacted in its fields is in no sentence."""

from __future__ import annotations

from itertools import product
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

from lore.model import differences as d
from lore.model.cause import kind_of, mapped, texts_of
from lore.model.evidence import Evidence
from lore.report.sentences.differences import DIFFERENCES

STRUCTS = get_args(d.Difference)
CANARY = "canary"
SECRET = ("content", "name", "path", "model")


def values(annotation):
    """What a field may hold: each of lore's words, some figures, and the canary as any other text."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    if annotation in (bool, int):
        return (False, True) if annotation is bool else (0, 3)
    kind = kind_of(annotation)
    if get_origin(annotation) is tuple:
        word = "known" if kind == "own" else CANARY
        return (), (word,), (word,) * 9
    text = "known" if kind == "own" else CANARY
    return (None, text) if type(None) in get_args(annotation) else (text,)


def filled(struct):
    """The struct with each value of each field, beside all values of the others."""
    hints = get_type_hints(struct, include_extras=True)
    return [struct(*row) for row in product(*[values(hints[name]) for name in struct.__struct_fields__])]


def test_the_table_holds_each_struct_and_no_other():
    assert set(DIFFERENCES) == set(STRUCTS)
    assert set(STRUCTS) <= set(get_args(Evidence))


@pytest.mark.parametrize("struct", STRUCTS)
def test_every_text_of_a_struct_says_whether_it_is_content(struct):
    assert set(texts_of(struct).values()) <= {*SECRET, "own"}


@pytest.mark.parametrize("struct", STRUCTS)
def test_every_filled_struct_has_a_sentence_without_what_was_redacted(struct):
    write = DIFFERENCES[struct]
    for evidence in filled(struct):
        assert "None" not in write(evidence)
        hidden = write(mapped(evidence, dict.fromkeys(SECRET, lambda text: f"{len(text)} hidden")))
        assert CANARY not in hidden
        assert hidden == write(evidence).replace(CANARY, f"{len(CANARY)} hidden")


SENTENCES = [
    (d.ToolsChanged(added=("a", "b"), removed=("c",)), "added a, b; removed c"),
    (
        d.ToolsChanged(added=tuple("abcdefg"), servers=("x", "y"), unnamed=3),
        "added a, b, c, d, e and 5 more (MCP servers x, y)",
    ),
    (d.ToolsChanged(reordered=4), "the same 4 tools in another order"),
    (
        d.TextChanged("system[0].text", "date", "is Monday", "is Tuesday"),
        "a date or time in system[0].text: …is Monday… became …is Tuesday…",
    ),
    (d.TextChanged("system[0].text", "", "a", "b"), "system[0].text differs: …a… became …b…"),
    (
        d.BlockMoved("messages[2].content[0]", "text", "gone", "- a", "memory"),
        "recalled memory or context: messages[2].content[0]: a text is gone: …- a…",
    ),
    (d.ResultRewritten("messages[2]", "a", "b", "3 results cleared"), "3 results cleared, messages[2] among them"),
    (
        d.ParameterChanged("tool_choice", None, "any", "tool-choice", "openai", "nothing"),
        (
            "tool_choice changed from nothing to any; with OpenAI's models nothing is lost "
            "(on Claude the messages are lost, on OpenAI's models nothing)"
        ),
    ),
    (
        d.ThinkingChanged("messages[1]", "changed", ("reasoning",)),
        "messages[1]: reasoning of the model's message is another or missing",
    ),
]


@pytest.mark.parametrize(("evidence", "sentence"), SENTENCES)
def test_a_sentence_says_what_is_so_and_where(evidence, sentence):
    assert DIFFERENCES[type(evidence)](evidence) == sentence

"""Spelling: texts and values that are equal once newlines, Unicode forms and HTML entities are written one way."""

from __future__ import annotations

import pytest

from lore.prefix.texts import name_text_spelling, name_value_spelling
from model.making import assistant, body, dumps
from prefix.test_causes import codes, result, used, why

PLAIN = "if a < b && c > 'd':\n    say(\"yes\")\n"
ENTITIES = "if a &lt; b &amp;&amp; c &gt; &#39;d&#39;:\n    say(&quot;yes&quot;)\n"


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (PLAIN, ENTITIES),
        (ENTITIES, ENTITIES.replace("&", "&amp;")),  # escaped twice
        ("it's", "it&#39;s"),
        ("it&#39;s", "it&#x27;s"),
        ("it&#39;s", "it&apos;s"),
        ("&&", "&amp;&amp;"),
        ("a < b\r\n", "a &lt; b\n"),
    ],
)
def test_entities_are_a_spelling_of_their_characters(mine, theirs):
    for one, other in ((mine, theirs), (theirs, mine)):
        assert name_text_spelling(one, other) == ("LORE106", "entities", "waste")


@pytest.mark.parametrize(
    ("mine", "theirs"), [("a &lt; b", "a > b"), ("R&D", "R&B"), ("&copy right", "© right"), ("a &lt; b", "a < c")]
)
def test_other_characters_are_another_text(mine, theirs):
    assert name_text_spelling(mine, theirs) is None


def test_values_are_equal_where_all_their_texts_are():
    mine = {"path": "a.py", "edits": [{"old": PLAIN, "n": 1}]}
    said = name_value_spelling(dumps(mine), dumps({"path": "a.py", "edits": [{"old": ENTITIES, "n": 1}]}))
    assert said is not None
    assert said.code == "LORE106"
    assert name_value_spelling(dumps(mine), dumps({"path": "b.py", "edits": [{"old": ENTITIES, "n": 1}]})) is None
    assert name_value_spelling(dumps(mine), dumps({"path": "a.py", "edits": [{"old": ENTITIES, "n": 2}]})) is None
    assert name_value_spelling(dumps(mine), dumps(mine)) is None


@pytest.mark.parametrize(
    "write",
    [
        lambda text: body(text, assistant("yes"), "go on"),
        lambda text: body("do it", assistant(text), "go on"),
        lambda text: body("do it", used({"command": text}), result("done"), assistant("yes")),
        lambda text: body("do it", used({"p": 1}), result(text), assistant("yes")),
        lambda text: body("do it", tools=[{"name": "a", "description": text, "input_schema": {}}]),
        lambda text: body("do it", system=text),
    ],
)
def test_entities_are_no_rewritten_history(write):
    """A proxy that escaped HTML was named as rewritten history, and its tools as changed definitions."""
    assert codes(write(PLAIN), write(ENTITIES)) == ["LORE106"]
    assert why(write(PLAIN), write(ENTITIES))[0].evidence.spelling == "entities"

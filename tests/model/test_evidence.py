"""Every struct of evidence states what its texts are, and has a sentence made of its fields alone."""

from itertools import product
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

from helpers.each import each
from lore.model import differences as d
from lore.model import evidence as e
from lore.model.codes import Code
from lore.model.fact import format_duration, format_money, replace_texts, text_kind, text_kinds
from lore.model.state import SIGNS

STRUCTS = get_args(e.Evidence)
CANARY = "canary"
HIDDEN = ("content", "name", "path", "model")
WORDS = {"event": Code.COMPACTION, "sign": next(iter(SIGNS))}  # of these fields a sentence looks the word up


def values(name, annotation):
    """Return values of a field: each word of a Literal, some figures, the canary as a text of a recording."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    if annotation is bool:
        return False, True
    if annotation in (int, float, int | float):
        return 0, 3
    kind = text_kind(annotation)
    text = WORDS.get(name, "known") if kind == "own" else CANARY
    if get_origin(annotation) is tuple and get_origin(get_args(annotation)[0]) is Literal:
        return (), get_args(get_args(annotation)[0])
    if get_origin(annotation) is tuple:
        return (), (text,), (text,) * 9
    if type(None) in get_args(annotation):
        return None, 3 if kind is None else text
    return (text,)


def filled(struct):
    """Return structs with each value of each field, and first values for the other fields."""
    hints = get_type_hints(struct, include_extras=True)
    choices = [values(name, hints[name]) for name in struct.__struct_fields__]
    if len(list(product(*choices))) <= 200:
        return [struct(*row) for row in product(*choices)]
    first = [some[0] for some in choices]
    rows = [[*first[:at], value, *first[at + 1 :]] for at, some in enumerate(choices) for value in some]
    return [struct(*row) for row in [*rows, [some[-1] for some in choices]]]


@each(STRUCTS)
def test_sentence_of_redacted_evidence_has_no_content(struct):
    assert set(text_kinds(struct).values()) <= {*HIDDEN, "own"}
    for evidence in filled(struct):
        hidden = replace_texts(evidence, dict.fromkeys(HIDDEN, lambda text: f"{len(text)} hidden")).sentence()
        assert CANARY not in hidden
        assert hidden == evidence.sentence().replace(CANARY, f"{len(CANARY)} hidden")


def test_plain_text_field_is_refused():
    with pytest.raises(TypeError, match="states its kind"):
        text_kind(tuple[str, ...])


SENTENCES = [
    (d.ToolsChanged(added=("a", "b"), removed=("c",)), "added a, b; removed c"),
    (
        d.ToolsChanged(added=tuple("abcdefg"), servers=("x", "y"), unnamed=3),
        "added a, b, c, d, e and 5 more (MCP servers x, y)",
    ),
    (d.ToolsChanged(reordered=4), "the same 4 tools in another order"),
    (
        d.TextChanged("system[0].text", "date", "is Monday", "is Tuesday"),
        "a date or time in system[0].text changed: …is Monday… became …is Tuesday…",
    ),
    (d.TextChanged("system[0].text", "", "a", "b"), "system[0].text differs: …a… became …b…"),
    (
        d.BlockMoved("messages[2].content[0]", "text", "gone", "- a", "memory"),
        "messages[2].content[0]: text (recalled memory or context) was removed: …- a…",
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
        "messages[1]: reasoning of the model's message changed or was removed",
    ),
    (
        e.MessagesTakenBack(1200),
        "other messages are in the place of 1,200: they were taken back, or another branch of the conversation begins",
    ),
    (e.ChainRestarted(1), "the client dropped its only tool when a new user turn began, with the same system prompt"),
    (
        e.HookText(4, ("lint",)),
        "hook lint added text after entry 4 of the history, and the client left it out from the next user message on",
    ),
    (
        e.HookText(4, ("lint",), exact=True, text="2 files changed", line=17),
        (
            'hook lint added text at line 17 of the log ("2 files changed"), and the client left it out from the next '
            "user message on; usage confirms it"
        ),
    ),
    (
        e.LookbackExceeded(21, 0),
        "21 new positions precede the next breakpoint; at that time only an entry at a breakpoint was read",
    ),
    (e.ProviderSaid(other="odd", missed_tokens=0), "the provider reports odd (0 tokens by its estimate)"),
    (e.ProviderSaid("tools_changed", unread=700), "the provider reports tools_changed"),
    (d.OrphanPair("call", "c1"), "a call without its result: c1"),
    (
        e.OlderEntry(2.5, 9000),
        "sent 2.5 s after the previous answer began; 9,000 tokens were read: exactly the second newest cache entry",
    ),
    (e.Rerouted(endpoint_before="a/v1", endpoint_after="a/v2"), "endpoint a/v1 became a/v2: it has a separate cache"),
    (
        e.Rerouted(host_before="a.example", host_after="b.example", account=True),
        "host a.example became b.example; another key or organisation was used: it has a separate cache",
    ),
]


@each("evidence, sentence", SENTENCES)
def test_sentence_states_what_changed_where(evidence, sentence):
    assert evidence.sentence() == sentence


def test_figures_are_formatted_for_people():
    assert list(map(format_duration, (0.42, 90, 119.7, 725, 7199.9))) == [
        "0.4 s",
        "90 s",
        "2 min",
        "12 min 5 s",
        "2.0 h",
    ]
    assert list(map(format_money, (None, 0.0, 0.00003, 0.0042, -1234.5))) == [
        "unknown",
        "$0.00",
        "<$0.0001",
        "$0.0042",
        "-$1,234.50",
    ]

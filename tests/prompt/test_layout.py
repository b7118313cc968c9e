"""The layout: system texts, knowledge as text, groups of entries as units."""

from __future__ import annotations

import json

from lore.model.inserts import shown_ids
from lore.model.state import Fact
from lore.prompt.base import Rules
from lore.prompt.knowledge import ANNOUNCED, UNANNOUNCED, News, delta_text, pinned_text
from lore.prompt.layout import system_texts, units
from model.making import Fold, append, call, event, said, started, user

RULES = Rules()


def texts(*events, rules=RULES, **fields):
    fold = Fold(started(**fields), *events)
    return [json.loads(one.text) for one in system_texts(fold.state, fold.state.main(), rules)]


def test_shared_texts_come_before_those_of_the_session():
    layer = event("layer", name="l", when="once_at_start", text=" rules \n")
    attached = "[attachments]\n  - a.png\n  - b.txt"
    fields = {"system": "Be brief.", "attachments": ["a.png", "b.txt"]}
    assert texts(layer, **fields) == ["Be brief.", "rules", attached]
    session = "[session]\nid: s-1\n" + ANNOUNCED.format("6a840baf")
    assert texts(layer, rules=Rules(announce_token=True), **fields)[1:] == ["rules", f"{attached}\n\n{session}"]


def shape(*events):
    fold = Fold(started(), *events)
    return [
        (size, [(unit.role, len(unit.blocks), len(unit.calls)) for unit in found])
        for size, found in units(iter(fold.state.main().entries))
    ]


def test_response_with_calls_gives_answer_and_results():
    events = [append(user("u")), append(said("a")), append(call("t", "c")), append(call("v", "d"))]
    assert shape(*events) == [(1, [("user", 1, 0)]), (3, [("assistant", 1, 2), ("results", 0, 2)])]


def test_blank_items_make_no_unit():
    events = [
        append(user("u", "")),
        append({"type": "user_message", "uuid": "v"}),
        append({"type": "opaque", "uuid": "o", "record": {}}),
        append({"type": "compact_divider", "uuid": "d", "trigger": "manual"}),
        append(said("a", "")),
    ]
    assert shape(*events) == [(1, []), (1, []), (1, []), (1, []), (1, [])]


def test_divider_with_summary_is_a_users_unit():
    divider = {"type": "compact_divider", "uuid": "d", "trigger": "manual", "summary": "S"}
    assert shape(append(divider)) == [(1, [("user", 1, 0)])]


def test_foreign_recording_gets_no_text_of_lore():
    fold = Fold(started(system="S"))
    import msgspec  # noqa: PLC0415

    state = msgspec.structs.replace(fold.state, format="claude-code")
    assert [one.text for one in system_texts(state, state.main(), RULES)] == [b'"S"']


IDS = shown_ids(["k1", "k2", "k3"], {})


def test_knowledge_is_rendered_in_canonical_order():
    facts = [Fact("k1", "b", "t2", "x"), Fact("k2", "", "", "alone"), Fact("k3", "b", "t1", "")]
    text = pinned_text(tuple(facts), IDS)
    assert text == pinned_text(tuple(reversed(facts)), IDS)
    assert text.splitlines() == [
        "## Long-term Knowledge", "### General", "* **[k2]**: alone", "### b", "* **[k3] t1**", "* **[k1] t2**: x",
    ]  # fmt: skip


def test_delta_of_a_layer_names_no_entry():
    """A late layer in a session that knew nothing once ended in an error: no id was there to shorten."""
    layer = event("layer", name="l", when="once_at_start", text=" be kind ")
    assert delta_text("s-1", News(layers=(layer,)), {}, 400).text == "[knowledge update 6a840baf]\n\nbe kind"
    assert delta_text(None, News(layers=(layer,)), {}, 400).text == f"{UNANNOUNCED}\n\nbe kind"

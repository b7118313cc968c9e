"""Every event kind in the fold: what it changes, and that what does not fit is a no-op with a problem."""

from __future__ import annotations

import json

import msgspec
import pytest

from helpers.states import dump_state
from lore.fold import step as steps
from lore.model import events as e
from lore.model.state import LONGEST, MOST_NAMES, Sign
from model.making import Fold, append, assembled, call, event, said, started, user


def test_the_table_knows_every_kind_of_event():
    assert {*steps._ON_CHAIN, *steps._ON_SESSION, e.Knowledge, e.TurnStarted} == set(e.KINDS.values())


def test_the_old_state_stays_as_it_was():
    fold = Fold(started(), append(user("u1")))
    before, shown = fold.state, dump_state(fold.state)
    fold.take(append(said("a1")), event("patch_text", uuid="a1", delta_text="!"), event("remove", uuids=["u1"]))
    assert dump_state(before) == shown


# session_started


def test_a_header_gives_the_main_chain_its_prompt():
    fold = Fold(started(model="m", system=["a", "b"], tools=[{"name": "t"}], params={"x": 1}))
    chain = fold.state.main()
    assert (chain.model, bytes(chain.system), bytes(chain.params)) == ("m", b'["a","b"]', b'{"x":1}')
    assert [bytes(tool) for tool in chain.tools or ()] == [b'{"name":"t"}']


def test_a_second_header_changes_nothing_and_is_a_problem():
    fold = Fold(started(model="m"))
    before = dump_state(fold.state)
    fold.take(started(session_id="other", model="n"))
    assert (dump_state(fold.state), fold.codes) == (before, ["LORE212"])


def test_a_newer_version_is_read_with_a_problem():
    fold = Fold(started(v=2, model="m"))
    assert (fold.state.model, fold.codes) == ("m", ["LORE212"])


def test_a_header_that_comes_late_reaches_the_chain_that_already_began():
    fold = Fold(append(user("u1")), started(model="m", system="S"))
    assert (fold.uuids, fold.state.main().model, bytes(fold.state.main().system)) == (["u1"], "m", b'"S"')


def test_a_subagent_inherits_the_header():
    fold = Fold(started(model="m", system="S"), append(user("x"), chain="agent-1"))
    side = fold.state.chain("agent-1")
    assert (side.kind, side.model, bytes(side.system), fold.uuids) == ("subagent", "m", b'"S"', [])


def test_where_there_is_no_main_chain_the_first_chain_is_the_main_one():
    fold = Fold(started(chain="a"), append(user("u"), chain="a"))
    assert fold.uuids == ["u"]


# session_changed


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({"system": "T"}, "system changed"),
        ({"tools": [{"name": "n"}]}, "tools changed"),
        ({"params": {"x": 2}}, "params changed"),
        ({"system": "T", "tools": []}, "system and tools changed"),
    ],
)
def test_a_changed_session_is_noted_for_the_next_turn(fields, detail):
    fold = Fold(started(system="S", model="m"), event("session_changed", **fields), event("turn_started", turn=1))
    turn = fold.state.main().turn
    assert turn is not None
    assert [(one.cause, one.detail) for one in turn.since] == [("LORE145", detail)]


def test_a_session_changed_to_what_it_was_is_no_change():
    fold = Fold(started(system="S", model="m", tools=[]), event("session_changed", system="S", model="m", tools=[]))
    assert fold.state.main().since == ()


def test_another_model_is_a_cause_of_its_own():
    fold = Fold(started(model="m"), event("session_changed", model="n"))
    assert [one.cause for one in fold.state.main().since] == ["LORE119"]
    assert fold.state.main().model == "n"


def test_the_first_model_that_is_named_is_no_change():
    fold = Fold(started(), event("session_changed", model="n"))
    assert fold.state.main().since == ()


def test_a_changed_subagent_leaves_the_main_chain_alone():
    fold = Fold(started(system="S"), event("session_changed", system="T", chain="side"))
    assert bytes(fold.state.main().system) == b'"S"'


# layers


def test_layers_before_the_first_turn_are_static():
    fold = Fold(started(), event("layer", name="a", when="once_at_start", text="1"))
    assert [layer.name for layer in fold.state.start_layers] == ["a"]


def test_a_layer_that_comes_after_the_first_turn_is_late():
    fold = Fold(started(), event("turn_started", turn=1), event("layer", name="a", when="once_at_start", text="1"))
    assert (fold.state.start_layers, [layer.name for layer in fold.state.late_layers]) == ((), ["a"])


def test_a_layer_of_a_known_name_replaces_the_one_before_in_its_place():
    layers = [
        event("layer", name=name, when="every_turn", text=text) for name, text in (("a", "1"), ("b", "2"), ("a", "3"))
    ]
    fold = Fold(started(), *layers)
    assert [(one.name, bytes(one.text)) for one in fold.state.turn_layers] == [("a", b'"3"'), ("b", b'"2"')]


def test_a_static_layer_stays_as_it_was_when_its_name_comes_again_late():
    first = event("layer", name="a", when="once_at_start", text="1")
    again = event("layer", name="a", when="once_at_start", text="2")
    fold = Fold(started(), first, event("turn_started", turn=1), again)
    assert [bytes(one.text) for one in fold.state.start_layers] == [b'"1"']
    assert [bytes(one.text) for one in fold.state.late_layers] == [b'"2"']


def test_an_unknown_when_is_a_problem():
    assert Fold(started(), event("layer", name="a", when="sometimes", text="1")).codes == ["LORE207"]


# knowledge


def test_knowledge_is_added_updated_and_removed():
    fold = Fold(started(), event("knowledge", op="add", id="k", category="c", title="t", content="1"))
    fold.take(event("knowledge", op="update", id="k", content="2"), event("knowledge", op="create", id="l", title="x"))
    facts = fold.state.knowledge
    assert (facts["k"].category, facts["k"].title, facts["k"].content) == ("c", "t", "2")
    fold.take(event("knowledge", op="remove", id="k"))
    assert list(fold.state.knowledge) == ["l"]
    assert fold.problems == []


def test_adding_a_known_id_updates_it():
    events = [event("knowledge", op="add", id="k", title="t", content=text) for text in ("1", "2")]
    assert Fold(started(), *events).state.knowledge["k"].content == "2"


@pytest.mark.parametrize(
    ("op", "code", "known"), [("remove", "LORE204", []), ("update", "LORE204", ["k"]), ("forget", "LORE207", [])]
)
def test_knowledge_operations_that_do_not_fit_are_problems(op, code, known):
    fold = Fold(started(), event("knowledge", op=op, id="k"))
    assert (fold.codes, list(fold.state.knowledge)) == ([code], known)


def test_knowledge_is_pinned_at_the_first_turn():
    fold = Fold(started(), event("knowledge", op="add", id="k"), event("turn_started", turn=1))
    fold.take(event("knowledge", op="add", id="l"), event("turn_started", turn=2))
    assert [fact.id for fact in fold.state.main().pinned or ()] == ["k"]


@pytest.mark.parametrize(
    "reset",
    [event("cache_reset", reason="r"), event("compact_applied", uuid="d", trigger="manual")],
    ids=["reset", "compaction"],
)
def test_a_reset_pins_anew_at_the_next_turn(reset):
    fold = Fold(started(), event("knowledge", op="add", id="k"), event("turn_started", turn=1))
    fold.take(event("knowledge", op="add", id="l"), reset, event("turn_started", turn=2))
    assert [fact.id for fact in fold.state.main().pinned or ()] == ["k", "l"]


# prompt deltas, persisted context, resets


def _delta(seq, insert_at=1, text="d", **fields):
    selector = {"target": "messages", "insert_at": insert_at, **fields}
    return event("prompt_delta", seq=seq, selector=selector, content=[{"role": "user", "text": text}])


def test_a_delta_of_the_same_number_replaces_the_selector_and_never_the_content():
    fold = Fold(started(), _delta(1, 0, "one", x=1), _delta(2, 0, "two"), _delta(1, 0, "other", y=2))
    held = [
        (one.number, max(json.loads(bytes(one.selector))), bytes(one.content))
        for one in fold.state.main().deltas.values()
    ]
    assert held == [(1, "y", b'[{"role":"user","text":"one"}]'), (2, "target", b'[{"role":"user","text":"two"}]')]


@pytest.mark.parametrize(
    "selector",
    ["x", {}, {"target": "system", "insert_at": 1}, {"target": "messages"}, {"target": "messages", "insert_at": -1}],
)
def test_an_unreadable_selector_is_a_problem(selector):
    fold = Fold(started(), event("prompt_delta", seq=1, selector=selector, content="c"))
    assert (fold.codes, fold.state.main().deltas) == (["LORE214"], {})


def test_a_camel_case_selector_is_read():
    fold = Fold(started(), event("prompt_delta", seq=1, selector={"target": "messages", "insertAt": 0}, content="c"))
    assert (fold.codes, len(fold.state.main().deltas)) == ([], 1)


def test_persisted_context_is_kept_in_order():
    fold = Fold(started(), *[event("context_persisted", turn=n, insert_at=n, content=f"t{n}") for n in (1, 2)])
    assert [bytes(one.content) for one in fold.state.main().persisted] == [b'"t1"', b'"t2"']


def test_a_cache_reset_ends_the_deltas_and_is_noted():
    fold = Fold(started(), _delta(1), event("cache_reset", reason="block cap"))
    chain = fold.state.main()
    assert (chain.deltas, [(one.cause, one.detail) for one in chain.since]) == ({}, [("LORE144", "block cap")])


# the rest


def test_a_compaction_that_starts_changes_nothing():
    fold = Fold(started(), append(user("u")))
    before = dump_state(fold.state)
    assert dump_state(fold.take(event("compact_started", trigger="manual")).state) == before


def test_opaque_events_are_counted():
    fold = Fold(started(), event("opaque", record={"x": 1}), event("opaque", record=2))
    assert (fold.state.opaque, fold.problems) == (2, [])


def test_a_cause_is_noted_once_a_turn_with_its_last_detail():
    fold = Fold(started(), event("cache_reset", reason="a"), event("cache_reset", reason="b"))
    assert [one.detail for one in fold.state.main().since] == ["b"]


def test_any_event_can_come_first():
    samples = [
        append(user("u")),
        append(call("t", "c")),
        event("patch_text", uuid="u", delta_text="x"),
        event("patch_tool_call", call_id="c", status="failed"),
        event("tool_result_cleared", call_ids=["c"]),
        event("remove", uuids=["u"]),
        event("compact_started", trigger="gap"),
        event("compact_applied", uuid="d", trigger="auto", preserved_uuids=["x"]),
        event("turn_started", turn=9),
        event("turn_completed", turn=1),
        event("turn_failed", turn=1, error="e"),
        event("turn_canceled", turn=1),
        event("session_changed", system="S"),
        event("knowledge", op="remove", id="k"),
        _delta(1),
        event("context_persisted", turn=1, insert_at=0, content="x"),
        event("cache_reset", reason="r"),
        event("observed", name="effort"),
        event("saved", size=0),
        event("layer", name="a", when="every_turn", text="1"),
        event("opaque", record=1),
        started(),
    ]
    assert {type(one) for one in samples} == set(e.KINDS.values())
    for one in samples:
        assert isinstance(Fold(one, one).state, msgspec.Struct)


def test_a_session_of_another_tool_that_goes_on_with_lores_events_is_lores_own_from_there():
    """Knowledge that was added to a converted session once changed nothing, and nobody said so."""
    start = [started(origin="claude-code", system="S"), append(user("u1")), event("turn_started", turn=1)]
    fold = Fold(*start)
    assert not fold.state.is_own
    before = assembled(fold.state).head
    assert len([one for one in before if one.section == "system"]) == 1
    fold.take(event("knowledge", op="add", id="k-12345", title="T"), append(user("u2")))
    fold.take(event("turn_started", turn=2, context={"current_time": "noon"}))
    assert (fold.state.is_own, fold.state.format) == (True, "claude-code")
    assert [one.cause for one in fold.state.main().turn.since] == ["LORE145"]
    prompt = assembled(fold.state)
    assert prompt.head == before
    assert b"noon" in prompt.tail[-1].data


def test_an_alias_of_an_entry_that_is_gone_names_a_new_one():
    fold = Fold(started(), event("knowledge", op="add", id="one", title="T", content="x"))
    fold.take(event("knowledge", op="add", id="two", title="T", content="y"))
    assert [(fact.id, fact.content) for fact in fold.state.knowledge.values()] == [("one", "y")]
    fold.take(event("knowledge", op="remove", id="two"), event("knowledge", op="add", id="two", title="U"))
    assert list(fold.state.knowledge) == ["two"]
    assert list(fold.state.removed) == ["one"]


def test_more_layers_than_anybody_writes_are_counted_and_left_out():
    fold = Fold(started(), *[event("layer", name=f"l{n}", when="every_turn", text="t") for n in range(1_002)])
    assert (len(fold.state.turn_layers), fold.codes) == (1_000, ["LORE207", "LORE207"])


def test_what_is_observed_belongs_to_the_next_turn_one_of_each_name():
    fold = Fold(
        started(), event("observed", name="image"), event("observed", name="effort"), event("observed", name="image"),
    )  # fmt: skip
    assert fold.state.main().signs == (Sign("effort"), Sign("image"))
    fold.take(event("turn_started", turn=1))
    turn = fold.state.main().turn
    assert turn.signs == (Sign("effort"), Sign("image"))
    assert fold.state.main().signs == turn.since == ()


def test_a_sign_that_comes_again_names_what_both_name_in_order_and_once():
    fold = Fold(
        started(), event("observed", name="tools-delta", names=["b", "a"], removed=["x"]),
        event("observed", name="tools-delta", names=["c", "a"], removed=["y", "x"]),
    )  # fmt: skip
    assert fold.state.main().signs == (Sign("tools-delta", ("b", "a", "c"), ("x", "y")),)


def test_a_setting_that_changes_twice_keeps_the_first_value_and_the_last():
    changes = (("low", "high"), ("high", "max"))
    made = [event("observed", name="effort", before=before, after=after) for before, after in changes]
    assert Fold(started(), *made).state.main().signs == (Sign("effort", before="low", after="max"),)


def test_what_a_sign_names_is_bounded_however_often_it_comes():
    names = [f"{number:03}" + "x" * 100 for number in range(50)]
    again = [event("observed", name="skill", names=names[at:], removed=names[at:], before="b" * 100, after="a" * 100)
             for at in (40, 0)]  # fmt: skip
    more = event("observed", name="skill", names=[f"n{number}" for number in range(99)])
    (sign,) = Fold(started(), *again, more).state.main().signs
    assert sign.removed == tuple(name[:LONGEST] for name in (*names[40:], *names[:40]))
    assert (sign.names[:50], len(sign.names)) == (sign.removed, MOST_NAMES)
    assert (sign.before, sign.after) == ("b" * LONGEST, "")


def test_a_sign_of_no_known_name_is_a_problem_and_kept_nowhere():
    fold = Fold(started(), event("observed", name="phase of the moon"))
    assert fold.state.main().signs == ()
    assert fold.codes == ["LORE207"]

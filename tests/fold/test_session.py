"""Events that change a session outside its timeline, and turns; an event that does not fit is only a problem."""

import pytest

from helpers.states import dump_state
from lore.fold import step as steps
from lore.model import events as e
from lore.model.state import LONGEST, MOST_NAMES, Sign
from model.making import Fold, append, assembled, event, said, started, user


def causes(fold):
    return [change.cause for change in fold.state.main().since]


def test_every_kind_of_event_is_folded():
    apart = {e.Knowledge, e.TurnStarted, *steps._WITHOUT_EFFECT}
    assert {*steps._ON_CHAIN, *steps._ON_SESSION, *apart} == set(e.KINDS.values())


def test_older_state_stays_as_it_was():
    fold = Fold(started(), append(user("u1")))
    before, shown = fold.state, dump_state(fold.state)
    fold.take(append(said("a1")), event("patch_text", uuid="a1", delta_text="!"), event("remove", uuids=["u1"]))
    assert dump_state(before) == shown


def test_opaque_events_change_nothing():
    fold = Fold(started(), event("opaque", record={"x": 1}), event("opaque", record=2))
    assert (fold.state, fold.problems) == (Fold(started()).state, [])


# session_started


def test_header_gives_the_main_chain_its_prompt():
    fold = Fold(started(model="m", system=["a", "b"], tools=[{"name": "t"}], params={"x": 1}))
    chain = fold.state.main()
    assert (chain.model, bytes(chain.system), bytes(chain.params)) == ("m", b'["a","b"]', b'{"x":1}')
    assert [bytes(tool) for tool in chain.tools or ()] == [b'{"name":"t"}']


def test_second_header_is_a_problem():
    fold = Fold(started(model="m"))
    before = dump_state(fold.state)
    fold.take(started(session_id="other", model="n"))
    assert (dump_state(fold.state), fold.codes) == (before, ["LORE212"])


def test_newer_version_is_read_with_a_problem():
    fold = Fold(started(v=2, model="m"))
    assert (fold.state.model, fold.codes) == ("m", ["LORE212"])


def test_late_header_reaches_a_chain_that_began():
    fold = Fold(append(user("u1")), started(model="m", system="S"))
    assert (fold.uuids, fold.state.main().model, bytes(fold.state.main().system)) == (["u1"], "m", b'"S"')


def test_subagent_inherits_the_header():
    fold = Fold(started(model="m", system="S"), append(user("x"), chain="agent-1"))
    side = fold.state.chain("agent-1")
    assert (side.kind, side.model, bytes(side.system), fold.uuids) == ("subagent", "m", b'"S"', [])


def test_first_chain_is_main_without_a_named_one():
    assert Fold(started(chain="a"), append(user("u"), chain="a")).uuids == ["u"]


# session_changed


@pytest.mark.parametrize(("fields", "detail"), [
    ({"system": "T"}, "system changed"),
    ({"tools": [{"name": "n"}]}, "tools changed"),
    ({"params": {"x": 2}}, "params changed"),
    ({"system": "T", "tools": []}, "system and tools changed"),
])  # fmt: skip
def test_changed_session_is_noted_for_the_next_turn(fields, detail):
    fold = Fold(started(system="S", model="m"), event("session_changed", **fields), event("turn_started", turn=1))
    turn = fold.state.main().turn
    assert turn is not None
    assert [(change.cause, change.detail) for change in turn.since] == [("LORE145", detail)]


@pytest.mark.parametrize("fields", [{"system": "S", "tools": [], "model": "m"}, {"system": "T", "chain": "side"}])
def test_session_changed_to_the_same_is_not_noted(fields):
    fold = Fold(started(system="S", model="m", tools=[]), event("session_changed", **fields))
    assert (causes(fold), bytes(fold.state.main().system)) == ([], b'"S"')


@pytest.mark.parametrize(("header", "noted"), [({"model": "m"}, ["LORE119"]), ({}, [])])
def test_changed_model_is_noted_the_first_is_not(header, noted):
    fold = Fold(started(**header), event("session_changed", model="n"))
    assert (causes(fold), fold.state.main().model) == (noted, "n")


# layers


def layer(name, text, when="once_at_start"):
    return event("layer", name=name, when=when, text=text)


def test_layer_after_the_first_turn_is_late():
    fold = Fold(started(), layer("a", "1"), event("turn_started", turn=1), layer("a", "2"), layer("b", "3"))
    assert [bytes(one.text) for one in fold.state.start_layers] == [b'"1"']
    assert [bytes(one.text) for one in fold.state.late_layers] == [b'"2"', b'"3"']


def test_layer_of_known_name_is_replaced():
    texts = (("a", "1"), ("b", "2"), ("a", "3"))
    fold = Fold(started(), *[layer(name, text, "every_turn") for name, text in texts])
    assert [(one.name, bytes(one.text)) for one in fold.state.turn_layers] == [("a", b'"3"'), ("b", b'"2"')]


def test_layer_of_an_unknown_kind_is_a_problem():
    assert Fold(started(), layer("a", "1", "sometimes")).codes == ["LORE207"]


def test_more_than_1000_layers_are_problems():
    fold = Fold(started(), *[layer(f"l{number}", "t", "every_turn") for number in range(1_002)])
    assert (len(fold.state.turn_layers), fold.codes) == (1_000, ["LORE207", "LORE207"])


# knowledge


def know(op, name, **fields):
    return event("knowledge", op=op, id=name, **fields)


def entries(fold):
    return [(fact.id, fact.title, fact.content) for fact in fold.state.knowledge.values()]


def test_knowledge_is_added_updated_and_removed():
    fold = Fold(started(), know("add", "k", category="c", title="t", content="1"))
    fold.take(know("update", "k", content="2"), know("create", "l", title="x"), know("add", "l", content="y"))
    assert (entries(fold), fold.state.knowledge["k"].category) == ([("k", "t", "2"), ("l", "x", "y")], "c")
    fold.take(know("remove", "k"))
    assert (list(fold.state.knowledge), list(fold.state.removed), fold.problems) == (["l"], ["k"], [])
    assert list(fold.take(know("add", "k")).state.removed) == []


@pytest.mark.parametrize("content", ["Bob is allergic to nuts.", "The door code is 12."])
def test_entries_of_one_title_stay_apart(content):
    """The second overwrote the first, under the first one's id, and no problem said so."""
    fold = Fold(started(), know("add", "a", title="Note", content="Bob is allergic to nuts."))
    fold.take(know("add", "b", title="Note", content=content))
    assert entries(fold) == [("a", "Note", "Bob is allergic to nuts."), ("b", "Note", content)]
    assert [fact.id for fact in fold.take(know("remove", "b")).state.knowledge.values()] == ["a"]


@pytest.mark.parametrize(
    ("op", "code", "known"), [("remove", "LORE204", []), ("update", "LORE204", ["k"]), ("forget", "LORE207", [])]
)
def test_unfit_knowledge_operation_is_a_problem(op, code, known):
    fold = Fold(started(), know(op, "k"))
    assert (fold.codes, list(fold.state.knowledge)) == ([code], known)


def test_knowledge_is_pinned_until_a_reset():
    fold = Fold(started(), know("add", "k"), event("turn_started", turn=1))
    fold.take(know("add", "l"), event("turn_started", turn=2))
    assert [fact.id for fact in fold.state.main().pinned or ()] == ["k"]
    fold.take(event("cache_reset", reason="r"), event("turn_started", turn=3))
    assert [fact.id for fact in fold.state.main().pinned or ()] == ["k", "l"]


# sessions of other tools


def test_recorded_session_is_lores_own_after_knowledge():
    """Knowledge that was added to a converted session changed nothing, and no problem said so."""
    fold = Fold(started(origin="claude-code", system="S"), append(user("u1")), event("turn_started", turn=1))
    assert not fold.state.is_own
    before = assembled(fold.state).head
    fold.take(know("add", "k-12345", title="T"), append(user("u2")))
    fold.take(event("turn_started", turn=2, context={"current_time": "noon"}))
    assert (fold.state.is_own, fold.state.format) == (True, "claude-code")
    assert [change.cause for change in fold.state.main().turn.since] == ["LORE145"]
    prompt = assembled(fold.state)
    assert prompt.head == before
    assert b"noon" in prompt.tail[-1].data


@pytest.mark.parametrize(("kind", "fields"), [
    ("prompt_delta", {"seq": 1, "selector": {"target": "tools"}, "content": [{"role": "user", "text": "x"}]}),
    ("prompt_delta", {"seq": 1, "selector": {"target": "messages", "insert_at": 1}, "content": 5}),
    ("context_persisted", {"turn": 1, "insert_at": -1, "content": "x"}),
    ("knowledge", {"op": "upsert", "id": "k"}),
    ("knowledge", {"op": "remove", "id": "k"}),
    ("layer", {"name": "l", "when": "never", "text": "x"}),
    ("turn_started", {"turn": 2, "context": 5}),
])  # fmt: skip
def test_unreadable_event_leaves_recorded_session_another_tools(kind, fields):
    fold = Fold(started(origin="claude-code", system="S"), append(user("u1")), event("turn_started", turn=1))
    fold.take(event(kind, **fields))
    assert not fold.state.is_own


# observed


def test_signs_belong_to_the_next_turn():
    fold = Fold(started(), *[event("observed", name=name) for name in ("image", "effort", "image")])
    assert fold.state.main().signs == (Sign("effort"), Sign("image"))
    turn = fold.take(event("turn_started", turn=1)).state.main().turn
    assert (turn.signs, fold.state.main().signs) == ((Sign("effort"), Sign("image")), ())


def test_repeated_sign_is_merged_with_the_first():
    first = event("observed", name="tools-delta", names=["b", "a"], removed=["x"], before="low", after="high")
    second = event("observed", name="tools-delta", names=["c", "a"], removed=["y", "x"], before="high", after="max")
    merged = Sign("tools-delta", ("b", "a", "c"), ("x", "y"), "low", "max")
    assert Fold(started(), first, second).state.main().signs == (merged,)


def test_names_and_values_of_a_sign_are_bounded():
    names = [f"{number:03}" + "x" * 100 for number in range(99)]
    (sign,) = Fold(started(), event("observed", name="skill", names=names, before="b" * 100)).state.main().signs
    assert sign.names == tuple(name[:LONGEST] for name in names[:MOST_NAMES])
    assert sign.before == "b" * LONGEST


def test_unknown_sign_is_a_problem():
    fold = Fold(started(), event("observed", name="phase of the moon"))
    assert (fold.state.main().signs, fold.codes) == ((), ["LORE207"])


def start(turn, **fields):
    return event("turn_started", turn=turn, **fields)


def end(turn, kind="turn_completed", **counts):
    return event(kind, turn=turn, at="t", usage={f"{name}_tokens": count for name, count in counts.items()})


def test_turn_takes_the_changes_noted_before_it():
    fold = Fold(started(), event("cache_reset", reason="r"), start(1, at="t", context={"a": 1}))
    turn = fold.state.main().turn
    assert ([change.cause for change in turn.since], turn.at, bytes(turn.context)) == (["LORE144"], "t", b'{"a":1}')
    assert fold.state.main().since == ()


def test_turn_number_not_rising_is_a_problem():
    assert Fold(started(), start(2), start(2)).codes == ["LORE213"]


@pytest.mark.parametrize("state", ["completed", "failed", "canceled"])
def test_turn_ends_in_one_of_three_ways(state):
    fold = Fold(started(), start(1), end(1, f"turn_{state}", read=5))
    last = fold.state.main().last
    assert (last.state, last.at, fold.usage.read_tokens) == (state, "t", 5)


@pytest.mark.parametrize("events", [[], [start(2)]], ids=["no turn", "another turn"])
def test_end_of_other_turn_is_problem(events):
    fold = Fold(started(), *events, end(1, read=5))
    assert (fold.codes, fold.state.main().last) == (["LORE213"], None)


def test_first_end_after_later_turns_belongs_to_its_turn():
    fold = Fold(started(), start(1), start(2), start(3), end(1, read=5), end(3, read=6), end(2, read=7))
    assert (fold.codes, fold.usage.read_tokens, fold.state.main().last.turn) == ([], 18, 3)
    fold.take(end(1, read=9))
    assert [problem.message for problem in fold.problems] == ["turn 1 ends, which has ended before or did not start"]
    assert fold.usage.read_tokens == 18


def test_usage_adds_up_and_unknown_counts_stay_unknown():
    sums = Fold(started(), start(1), end(1, read=5, uncached=1), start(2), end(2, read=5, uncached=1)).usage
    assert (sums.turns, sums.read_tokens, sums.uncached_tokens, sums.write_tokens) == (2, 10, 2, None)


def test_second_end_of_a_turn_replaces_the_first():
    fold = Fold(started(), start(1), end(1, read=5), end(1, read=7))
    assert fold.usage.read_tokens == 7
    assert fold.take(event("turn_failed", turn=1)).usage.read_tokens is None


def test_repeated_turn_number_keeps_the_first_usage():
    sums = Fold(started(), start(1), end(1, read=5), start(1), end(1, read=5)).usage
    assert (sums.turns, sums.read_tokens) == (2, 10)


def test_turns_are_counted_for_each_chain():
    fold = Fold(started(), start(1), start(1, chain="side"))
    assert (fold.codes, fold.state.main().turns, fold.state.chain("side").turns) == ([], 1, 1)


def test_item_records_the_turn_during_which_it_came():
    fold = Fold(started(), append(user("u")), start(3), append(user("v")))
    assert [entry.turn for entry in fold.state.main().entries] == [0, 3]


def test_impossible_counts_are_unknown_and_a_problem():
    """A read of -5 tokens was shown as 18 quintillion tokens lost."""
    fold = Fold(started(), start(1), end(1, read=-5, write=10**9 + 1, uncached=7))
    usage = fold.state.main().last.usage
    assert (usage.read_tokens, usage.write_tokens, usage.uncached_tokens, fold.codes) == (None, None, 7, ["LORE207"])


def test_late_usage_of_previous_turn_corrects_sums():
    fold = Fold(started(), start(1), end(1, output=1), start(2), end(1, output=9))
    assert fold.usage.output_tokens == 9
    assert (fold.take(end(2, output=2)).usage.output_tokens, fold.problems) == (11, [])

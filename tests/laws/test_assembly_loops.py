"""Laws of news in long tool loops: they are sent during the loop, and nothing that was sent moves.

News are in the message of the last results. The log may hold their delta, hold it at a later place, or have lost it.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.states import restored
from helpers.strategies.sessions import WAYS, Agent, is_derived
from lore.model import events as e
from lore.model.codes import Code
from lore.model.inserts import signature
from lore.prompt.base import AFTER_RESULTS, IN_LOOPS, POLICIES, Rules, expresses
from lore.prompt.dialects import dialect_named, dialect_names
from lore.prompt.planning import Planner

_news = st.one_of(
    st.tuples(st.just("know"), st.sampled_from(["abcdef1", "abcdef2", "qrstuv"]), st.sampled_from(["one", "two"])),
    st.tuples(st.just("forget"), st.sampled_from(["abcdef1", "qrstuv"])),
    st.tuples(st.just("layer"), st.just("late"), st.sampled_from(["be kind", "be brief"])),
)
_rounds = st.tuples(
    st.integers(1, 3),
    st.lists(_news, max_size=2),
    st.sampled_from(["", "", "peek", "turn", "user", "inject", "answer", *WAYS]),
)
_shapes = st.tuples(
    st.sampled_from(dialect_names()),
    st.builds(Rules, tail=st.sampled_from(POLICIES), max_loop_turns=st.sampled_from([1, 2, 3])),
)


def looped(rounds, shape, *, restarts=True):
    """Return an agent after a loop; each round is calls, news, perhaps another action, and a turn."""
    agent = Agent(*shape)
    agent.know("abcdef1", "zero")
    agent.user()
    agent.turn()
    for calls, news, besides in rounds:
        agent.calls(calls)
        for name, *words in news:
            getattr(agent, name)(*words)
        if besides in WAYS:
            if restarts:
                agent.restart(besides)
        elif besides == "peek":
            agent.session.assembled()  # renders the results before news follow them
        elif besides:
            getattr(agent, besides)()
        agent.turn({"current_time": str(len(agent.turns))})
    return agent


@given(st.lists(_rounds, min_size=3, max_size=12), _shapes)
def test_turn_of_loop_is_prefix_of_next(rounds, shape):
    turns = looped(rounds, shape).turns
    for before, turn in zip(turns, turns[1:], strict=False):
        if not turn.entitled:  # many outdated deltas end in a reset
            assert turn.stable[: len(before.stable)] == before.stable


@given(st.lists(_rounds, min_size=3, max_size=12), _shapes)
def test_restarted_loop_sends_same_bytes(rounds, shape):
    """The session continues from a dump, its log, a log without derived events, or in one process."""
    agent = looped(rounds, shape)
    assert [turn.body for turn in looped(rounds, shape, restarts=False).turns] == [turn.body for turn in agent.turns]
    recorded = [event for event in agent.events if not is_derived(event)]
    late = [event for event in agent.events if is_derived(event) and getattr(event, "turn", None) is not None]
    for events in (recorded, [*recorded, *late]):  # derived events at the end, as `lore assemble --persist` writes them
        session = restored(events, dialect=shape[0], rules=shape[1])
        again = restored(agent.events, dialect=shape[0], rules=shape[1])
        assert session.write(session.assembled().prompt) == again.write(again.assembled().prompt)


@given(st.lists(_rounds, min_size=3, max_size=12), _shapes)
def test_news_enter_loop_at_configured_intervals(rounds, shape):
    has_place, most = expresses(dialect_named(shape[0]), IN_LOOPS), shape[1].max_loop_turns
    quiet = [(calls, news, "") for calls, news, _ in rounds] + [(1, [], "")] * most
    agent, latest = looped(quiet, shape), 0
    for number, turn in enumerate(agent.turns):
        if any(isinstance(event, e.PromptDelta) for event in turn.events):
            assert has_place
            assert number - latest >= most
            latest = number
    state = agent.session.state
    signs = {name: signature(fact.title, fact.content) for name, fact in state.knowledge.items()}
    if has_place:
        assert Planner(shape[1]).signatures_in_prompt(state.main()).changed == signs


def test_news_follow_results_rendered_before():
    agent, plain = (news_after(20, ("anthropic", Rules(max_loop_turns=21))) for _ in range(2))
    for news_agent in (agent, plain):
        news_agent.calls()
        if news_agent is agent:
            news_agent.session.assembled()
    assert agent.turn().body == plain.turn().body
    assert agent.turns[-1].deltas


def news_after(count, shape):
    """Return an agent after a loop of `count` turns, with new knowledge before the last one."""
    agent = Agent(*shape)
    agent.know("aaaaa1", "one")
    agent.user()
    agent.turn()
    for number in range(count):
        agent.calls(2)
        if number == count - 1:
            agent.know("bbbbb1", "two")
        agent.turn()
    return agent


@pytest.mark.parametrize("dialect", dialect_names())
def test_news_enter_loop_after_twenty_turns(dialect):
    has_place = expresses(dialect_named(dialect), IN_LOOPS)
    for count, after in ((19, False), (20, True)):
        turn = news_after(count, (dialect, Rules())).turns[-1]
        assert bool(turn.deltas) is (after and has_place)
        assert all(segment.origin.endswith(AFTER_RESULTS) for segment in turn.deltas)
    assert not news_after(30, (dialect, Rules(max_loop_turns=0))).turns[-1].deltas


@pytest.mark.parametrize("dialect", dialect_names())
def test_news_without_place_precede_next_user_message(dialect):
    agent = news_after(30, (dialect, Rules()))
    agent.user("the next")
    turn = agent.turn()
    assert len(turn.deltas) == 1
    if not expresses(dialect_named(dialect), IN_LOOPS):
        assert [origin for origin, _ in turn.texts][-2:] == ["context_injection: delta 0", "user"]


def test_later_record_cannot_move_sent_delta():
    agent = news_after(20, ("anthropic", Rules()))
    before = agent.turns[-1]
    for place in (0, 3, 10_000):
        agent.do("prompt_delta", seq=0, selector={"target": "messages", "insert_at": place}, content=None)
        agent.calls()
        turn = agent.turn()
        assert turn.stable[: len(before.stable)] == before.stable
        before = turn
    assert agent.problems == [Code.UNREADABLE_DELTA] * 3


def test_delta_in_loop_waits_in_other_dialect():
    agent = news_after(20, ("anthropic", Rules()))
    session = restored(agent.events, dialect="template")
    assert b"two" not in session.write(session.assembled().prompt)
    agent.answer()
    agent.user("the next")
    session = restored(agent.events, dialect="template")
    assert b"two" in session.write(session.begin_turn().prompt)


@pytest.mark.parametrize("content", [[{"role": "assistant", "text": "hm"}], "text", [{"role": "user", "text": "a"}]])
def test_only_user_role_joins_results(content):
    agent = news_after(2, ("anthropic", Rules()))
    agent.calls()
    size = len(agent.session.state.main().entries)
    selector = {"target": "messages", "insert_at": size, "behind": "results"}
    agent.do("prompt_delta", seq=7, selector=selector, content=content)
    assert bool(agent.turn().deltas) is ("assistant" not in str(content))

"""Law 5: append-only. Turn n without its tail is a prefix of turn n+1, unless an event resets the prefix.

Events that do: a compaction, a rewind, a cache reset, a changed session, cleared results, a late header, a repeated
uuid, or a patch of an item that was sent. The incremental assembler gives the same as a new one at each turn.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, structs

from helpers.recognising import recognise
from helpers.states import step
from helpers.strategies import any_events, events_of, lore_logs
from lore.fold.step import Folding
from lore.model import events as e
from lore.model.items import ToolCall, UserMessage
from lore.model.state import FoldedSession
from lore.model.turn import Memo
from lore.prefix.overlap import compare_prompts
from lore.prompt.assemble import Assembler
from lore.prompt.base import POLICIES, Rules
from lore.prompt.dialects import DIALECTS
from lore.prompt.planning import Planner

RULES = Rules(tail="user")
shapes = st.tuples(
    st.sampled_from(list(DIALECTS.values())),
    st.builds(Rules, tail=st.sampled_from(POLICIES), max_loop_turns=st.sampled_from([1, 2, 20])),
)
_OTHERWISE = (e.CompactApplied, e.Remove, e.CacheReset, e.SessionChanged, e.ToolResultCleared, e.SessionStarted)


class _Witness:
    """Records which events of a session entitle the next prompt to differ."""

    def __init__(self) -> None:
        self.sent: dict[str, set[str]] = {}
        self.entitled: set[str] = set()

    def see(self, state: FoldedSession, event: e.Event) -> None:
        sent_ids = self.sent.setdefault(event.chain, set())
        match event:
            case e.TurnStarted():
                for entry in state.chain(event.chain).entries:
                    sent_ids.add(entry.item.uuid)
                    if isinstance(entry.item, ToolCall):
                        sent_ids.add(f"call {entry.item.call_id}")
            case e.PatchText(uuid=uuid) if uuid in sent_ids:
                self.entitled.add(event.chain)
            case e.PatchToolCall(call_id=call_id) if f"call {call_id}" in sent_ids:
                self.entitled.add(event.chain)
            case e.Append(item=item) if item.uuid in {
                existing.item.uuid for existing in state.chain(event.chain).entries
            }:
                self.entitled.add(event.chain)
            case _ if isinstance(event, _OTHERWISE):
                self.entitled.add(event.chain)
            case _:
                pass


def _prompts(events, dialect, rules, format="lore", watch=True):
    """Yield the assembled prompt of each turn, the previous one of its chain, and whether it may differ."""
    folding, witness = Folding(FoldedSession(format=format)), _Witness()
    planners, assemblers, last, numbers = {}, {}, {}, {}
    for event in events:
        if watch:
            witness.see(folding.state(), event)
        if isinstance(event, e.TurnStarted):
            planner = planners.setdefault(event.chain, Planner(rules))
            for planned in planner.plan(folding.session, folding.chain(event.chain), event, dialect):
                if isinstance(planned, e.CacheReset):
                    witness.entitled.add(event.chain)
                folding.derive(planned)
        folding.apply(event)
        if not isinstance(event, e.TurnStarted):
            continue
        state = folding.state()
        name = event.chain
        if event.turn <= numbers.get(name, 0):  # a repeated turn number is damage, and a problem
            witness.entitled.add(name)
        numbers[name] = event.turn
        assembler = assemblers.setdefault(name, Assembler(dialect, rules))
        assembly = assembler.assemble(state, state.chain(name))
        yield state, name, last.get(name), assembly, name in witness.entitled
        witness.entitled.discard(name)
        last[name] = assembly.prompt


@given(lore_logs(), shapes)
def test_turn_without_tail_is_prefix_of_next(log, shape):
    for _, name, before, assembly, entitled in _prompts(log.events, *shape):
        if before is None or entitled:
            continue
        prompt, size = assembly.prompt, before.stable
        assert [segment.data for segment in before][:size] == [segment.data for segment in prompt][:size], name
        assert compare_prompts(before, prompt).is_covered
        if shape[1].tail == "persist":
            assert not before.tail


@given(lore_logs(damage=False, odd_lines=False), shapes)
def test_body_without_tail_is_byte_prefix_of_next(log, shape):
    dialect = shape[0]
    for _, _, before, assembly, entitled in _prompts(log.events, *shape):
        prompt = assembly.prompt
        if before is None or entitled or before.model != prompt.model:
            continue
        bare = dialect.write(_without_tail(before)).rstrip(b"}]")
        assert dialect.write(structs.replace(prompt, breakpoints=(), breakpoint_values=())).startswith(bare)


def _without_tail(prompt):
    return structs.replace(prompt, tail=(), breakpoints=(), breakpoint_values=())


@given(st.one_of(any_events(), lore_logs().map(lambda log: log.events)), shapes)
def test_incremental_assembler_equals_fresh_one(events, shape):
    for state, name, _, assembly, _ in _prompts(events, *shape, watch=False):
        fresh = Assembler(*shape).assemble(state, state.chain(name))
        assert [(segment.path, segment.data) for segment in assembly.prompt] == [
            (segment.path, segment.data) for segment in fresh.prompt
        ]
        assert list(assembly.omitted) == list(fresh.omitted)


@given(lore_logs(), shapes)
def test_written_prompt_parses_to_same_segments(log, shape):
    dialect = shape[0]
    for _, _, _, assembly, _ in _prompts(log.events, *shape):
        parsed = dialect.parse(dialect.write(assembly.prompt), "wire", Memo())
        assert [(segment.path, segment.data) for segment in parsed] == [
            (segment.path, segment.data) for segment in assembly.prompt
        ]


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
def test_later_knowledge_does_not_lengthen_pinned_id(dialect):
    events = [
        e.SessionStarted(session_id="s", model="claude-x"),
        e.Knowledge(op="add", id="abcdef1", content="one"),
        e.TurnStarted(turn=1),
        e.Knowledge(op="add", id="abcdef2", content="two"),
        e.TurnStarted(turn=2),
    ]
    bodies = []
    state = FoldedSession()
    for event in events:
        state = step(state, event).state
        if isinstance(event, e.TurnStarted):
            bodies.append(dialect.write(Assembler(dialect).assemble(state, state.main()).prompt))
    assert bodies[0] == bodies[1]


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
def test_removed_item_between_parallel_calls_leaves_one_message(dialect):
    def call(uuid, call_id):
        return e.Append(item=ToolCall(uuid, call_id, "n", Raw(b"{}"), status="completed", response_id="r"))

    def prompt_of(events):
        state = FoldedSession()
        for event in (e.SessionStarted(session_id="s"), e.TurnStarted(turn=1), *events):
            state = step(state, event).state
        return list(Assembler(dialect).assemble(state, state.main()).prompt)

    stray = [e.Append(item=UserMessage("u", Raw(b'"oops"'))), e.Remove(uuids=("u",))]
    plain = prompt_of([call("t1", "c1"), call("t2", "c2")])
    assert prompt_of([call("t1", "c1"), *stray, call("t2", "c2")]) == plain


@pytest.mark.parametrize("name", list(DIALECTS))
def test_recorded_session_appends_unless_event_resets(recording, name):
    data = recording.read_bytes()
    reader = recognise(data[: 1 << 18])
    if reader.yields != "events":
        pytest.skip("holds bodies, not events")
    for _, chain, before, assembly, entitled in _prompts(events_of(data, reader), DIALECTS[name], RULES, reader.name):
        assert before is None or entitled or compare_prompts(before, assembly.prompt).is_covered, chain

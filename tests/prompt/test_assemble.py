"""The assembler: stable prefix, place of the tail, shared work, and models that take several system messages."""

import json
import re

import msgspec
import pytest

from helpers.each import each
from helpers.states import step
from lore.errors import LoreError
from lore.model.state import FoldedSession
from lore.prompt.assemble import Assembler
from lore.prompt.base import Rules
from lore.prompt.dialects import DIALECTS, dialect_named
from lore.prompt.dialects.template import JinjaTemplate
from lore.prompt.system_messages import ROWS, TEMPLATES, placement, takes_one_system_message
from model.making import Fold, append, assembled, bare, call, event, said, started, user

CONTEXT = {"current_time": "noon"}
TAKES = {"anthropic": "claude-opus-5", "openai-chat": "gpt-4o"}
PLAIN = {"anthropic": "claude-opus-4-6", "openai-chat": "qwen3"}

EVENTS = [
    started(system="S", model="gpt-4o", tools=[{"name": "ls", "description": "d", "input_schema": {"type": "object"}}]),
    event("layer", name="l", when="every_turn", text="volatile"),
    event("knowledge", op="add", id="entry-one", title="T"),
    append(user("u1", "do it")),
    event("turn_started", turn=1, context=CONTEXT),
    append(said("a1", response_id="r1")),
    append(call("t1", "c1", response_id="r1")),
    append(call("t2", "c2", response_id="r1")),
    event("patch_tool_call", call_id="c1", status="completed", output="out"),
    event("patch_tool_call", call_id="c2", status="failed", error="no"),
    event("turn_started", turn=2, context=CONTEXT),
    append(said("a2", response_id="r2")),
    append(user("u2", "more")),
    append({"type": "opaque", "uuid": "o", "record": {"x": 1}}),
    event("turn_started", turn=3, context=CONTEXT),
    event("compact_applied", uuid="d", trigger="manual", preserved_uuids=["u2"], summary="S"),
    event("turn_started", turn=4),
    event("session_changed", system="T"),
    event("turn_started", turn=5),
    append(user("u3")),
    event("remove", uuids=["u3"]),
    event("turn_started", turn=6),
]


def states(events):
    state = FoldedSession(format="lore")
    for next_event in events:
        state, _ = step(state, next_event)
        yield next_event, state


@pytest.mark.parametrize("dialect", DIALECTS)
@each("policy", ["system", "user"])
def test_assembler_with_history_equals_a_new_one(dialect, policy):
    live = Assembler(DIALECTS[dialect], Rules(tail=policy))
    for _, state in states(EVENTS):
        prompt = live.assemble(state, state.main()).prompt
        fresh = assembled(state, dialect, policy)
        assert list(prompt) == list(fresh)
        assert [segment.path for segment in prompt] == [segment.path for segment in fresh]


def _body(dialect, policy, *events, model=None):
    models = TAKES if model is None else PLAIN
    fold = Fold(started(system="S", model=models[dialect]), *events)
    return json.loads(DIALECTS[dialect].write(bare(assembled(fold.state, dialect, policy))))


OUTSIDE = [append(user("u", "ask")), event("turn_started", turn=1, context=CONTEXT)]
AFTER_MODEL = [append(user("u", "ask")), append(said("a", "done")), event("turn_started", turn=1, context=CONTEXT)]
TEXT = {"type": "text", "text": "[current-time]\nnoon"}


@pytest.mark.parametrize("dialect", TAKES)
def test_no_user_tail_after_a_response(dialect):
    """The tail was once a message of the user there, and models answered it."""
    assert _body(dialect, "user", *AFTER_MODEL)["messages"][-1]["role"] == "assistant"
    fold = Fold(started(), *AFTER_MODEL)
    assembled = Assembler(DIALECTS[dialect], Rules(tail="user")).assemble(fold.state, fold.state.main())
    assert [problem.code for problem in assembled.problems] == ["LORE219"]


@pytest.mark.parametrize("dialect", TAKES)
def test_opaque_items_do_not_move_the_tail(dialect):
    opaque = append({"type": "opaque", "uuid": "o", "record": {}})
    with_it = _body(dialect, "user", OUTSIDE[0], opaque, OUTSIDE[1])
    assert with_it == _body(dialect, "user", *OUTSIDE)


def test_message_left_out_does_not_take_the_tail():
    novel = {"type": "user_message", "uuid": "v", "blocks": [{"type": "raw", "json": {"type": "novel"}}]}
    messages = _body("openai-chat", "user", OUTSIDE[0], append(novel), OUTSIDE[1])["messages"]
    assert messages[-1]["content"] == [{"type": "text", "text": "ask"}, TEXT]


def test_a_recording_of_another_tool_gets_no_tail():
    fold = Fold(started(), append(user("u")), event("turn_started", turn=1, context=CONTEXT))
    state = msgspec.structs.replace(fold.state, format="claude-code")
    assert assembled(state).tail == ()


def test_adopted_recording_gets_breakpoints_on_earlier_messages():
    """No ends are recorded while a session is another tool's, so its messages have to be rendered again."""
    fold = Fold(started(origin="claude-code", system="S"), append(user("u1")), event("turn_started", turn=1))
    live = Assembler(DIALECTS["anthropic"])
    assert live.assemble(fold.state, fold.state.main()).prompt.breakpoints == ()
    fold.take(event("knowledge", op="add", id="k-12345", title="T"), event("turn_started", turn=2))
    prompt = live.assemble(fold.state, fold.state.main()).prompt
    assert prompt.breakpoints == assembled(fold.state).breakpoints
    assert prompt.breakpoints[-1] >= len(prompt.head)


def test_assembler_names_what_the_dialect_omits():
    block = {"type": "thinking", "text": "hm", "signature": "s"}
    item = {"type": "assistant_message", "uuid": "a", "blocks": [block, {"type": "text", "text": "x"}]}
    fold = Fold(started(), append(user("u")), append(item))
    assembled = Assembler(DIALECTS["openai-chat"]).assemble(fold.state, fold.state.main())
    assert list(assembled.omitted) == ["thinking"]
    assert len(Assembler(DIALECTS["anthropic"]).assemble(fold.state, fold.state.main()).omitted) == 0


def test_parameters_and_model_are_written_into_the_body():
    fold = Fold(started(model="m", params={"max_tokens": 5, "temperature": 1.0}), append(user("u")))
    raw = DIALECTS["anthropic"].write(assembled(fold.state))
    assert raw.startswith(b'{"model":"m","max_tokens":5,"temperature":1.0,')


def test_a_changed_head_renumbers_what_follows():
    live = Assembler(DIALECTS["openai-chat"])
    fold = Fold(started(), append(user("u")))
    state = msgspec.structs.replace(fold.state, format="claude-code")
    assert live.assemble(state, state.main()).prompt.messages[0].path == "messages[0]"
    state, _ = step(state, event("session_changed", system="S"))
    assert live.assemble(state, state.main()).prompt.messages[0].path == "messages[1]"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_empty_compaction_writes_no_summary_after_results(dialect):
    """The summary was once written in the user's role, as if the user had spoken inside the loop."""
    events = [
        append(user("u1", "ask")),
        append(call("t1", "c1", status="completed", output="out")),
        event("compact_applied", uuid="d", trigger="manual", preserved_uuids=["nobody"], summary="all of it"),
        event("turn_started", turn=1),
    ]
    assert b"all of it" not in b"".join(segment.data for segment in assembled(Fold(started(), *events).state, dialect))
    with_answer = [*events[:2], append(said("a1", "well")), *events[2:]]
    assert b"all of it" in b"".join(segment.data for segment in assembled(Fold(started(), *with_answer).state, dialect))


SETTING = Rules(system_in_conversation=("qwen3-*", "Acme/*"), one_system_message=("acme-*",))


def rendered(role):
    """Return a template that writes system messages in place, or this text instead."""
    template = "{{ '<' ~ m.role ~ '>' ~ (m.content or '') }}"
    return JinjaTemplate("{% for m in messages %}" + role.replace("EACH", template) + "{% endfor %}")


FIRST = "{% if m.role != 'system' or loop.first %}EACH{% endif %}"
REFUSING = "{% if m.role == 'system' and not loop.first %}{{ raise_exception('at the beginning') }}{% endif %}EACH"
MERGING = JinjaTemplate(
    "{% for m in messages if m.role == 'system' %}{{ m.content }}{% endfor %}"
    "{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}"
)
NO_LOOPS = "{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}EACH"


@each("model, dialect, accepted, by", [
    ("claude-opus-5", "anthropic", True, "row"),
    ("claude-opus-4-8-20260101", "anthropic", True, "row"),
    ("anthropic/claude-opus-5", "anthropic", True, "row"),
    ("claude-opus-4-6", "anthropic", False, "unknown"),
    ("claude-sonnet-5", "anthropic", False, "unknown"),
    ("claude-opus-5", "openai-chat", False, "unknown"),
    ("claude-opus-5", "bedrock", False, "dialect"),
    ("gpt-4o", "openai-chat", True, "row"),
    ("o3-mini", "openai-chat", True, "row"),
    ("gpt-4o", "anthropic", False, "unknown"),
    ("qwen3", "openai-chat", False, "unknown"),
    ("Qwen/Qwen3.6-27B", "openai-chat", False, "template"),
    ("openai/gpt-oss-20b", "openai-chat", False, "template"),
    ("mistral-7b-instruct", "openai-chat", False, "template"),
    ("mistral-large-latest", "openai-chat", True, "row"),
    ("gpt-4o", "template", False, "unknown"),
    (None, "openai-chat", False, "unknown"),
])  # fmt: skip
def test_only_models_with_a_row_take_one(model, dialect, accepted, by):
    placed = placement(model, dialect_named(dialect), Rules())
    assert (placed.accepted, placed.by) == (accepted, by)


@each("model, dialect, accepted", [
    ("qwen3-32b", "openai-chat", True),
    ("Qwen/Qwen3-32B", "openai-chat", True),
    ("acme/one", "anthropic", True),
    ("qwen3-32b", "template", True),
    ("qwen3-32b", "gemini", False),
    ("qwen2-7b", "openai-chat", False),
])  # fmt: skip
def test_setting_names_models_unknown_to_lore(model, dialect, accepted):
    assert placement(model, dialect_named(dialect), SETTING).accepted is accepted


def test_setting_allows_system_where_templates_do_not():
    rules = Rules(system_in_conversation=("qwen3.6-*",))
    assert placement("qwen3.6-27b", dialect_named("openai-chat"), rules).by == "setting"


@each("dialect, does", [
    (rendered("EACH"), "renders"),
    (rendered(REFUSING), "refuses"),
    (rendered(FIRST), "ignores"),
    (MERGING, "merges"),
    (rendered(NO_LOOPS), "renders"),
    (JinjaTemplate("{{ raise_exception('no') }}"), None),
])  # fmt: skip
def test_template_is_probed_for_system_in_conversation(dialect, does):
    assert dialect.late_system() == does
    assert placement("qwen3-32b", dialect, SETTING).accepted is (does in ("renders", None))
    assert not placement("qwen3-32b", dialect, Rules()).accepted


@pytest.mark.parametrize(
    ("dialect", "written"),
    [(rendered("EACH"), "<system>S<system>T<user>u"), (rendered(REFUSING), "<system>S\n\nT<user>u"),
     (rendered(FIRST), "<system>S\n\nT<user>u"), (MERGING, "STu")],
)  # fmt: skip
def test_template_gets_leading_system_messages_it_writes(dialect, written):
    fold = Fold(started(system=["S", "T"]), append(user("u", "u")), event("turn_started", turn=1))
    prompt = Assembler(dialect).assemble(fold.state, fold.state.main()).prompt
    assert dialect.write(prompt).decode() == written


@each("model, dialect, expected", [
    ("gpt-4o", "openai-chat", False),
    ("Qwen/Qwen3.5-27B", "openai-chat", True),
    ("Qwen/Qwen3.5-27B", "openai-responses", True),
    ("Qwen/Qwen3.5-27B", "anthropic", False),
    ("qwen3-32b", "openai-chat", False),
    ("gpt-oss-20b", "openai-chat", True),
    ("deepseek-v3", "openai-chat", False),
    ("gemma-3-27b-it", "openai-chat", True),
    ("gemma-4-27b", "openai-chat", False),
    ("Acme-1", "openai-chat", True),
    (None, "openai-chat", False),
])  # fmt: skip
def test_one_system_message_if_others_are_lost(model, dialect, expected):
    assert takes_one_system_message(model, dialect_named(dialect), SETTING) is expected


def test_every_row_is_dated_and_has_a_source():
    for row in (*ROWS, *TEMPLATES):
        assert re.fullmatch(r"20\d\d-\d\d", row.since)
        assert row.source


@pytest.mark.parametrize("name", ["system_in_conversation", "one_system_message"])
def test_an_empty_pattern_is_a_fault(name):
    with pytest.raises(LoreError, match="names models"):
        Rules(**{name: ("",)})
    for value in ("qwen3-*", 5, (5,)):
        with pytest.raises(LoreError, match="list of models"):
            Rules(**{name: value})

"""Text dialects: ChatML is append-only, templates see what engines hand them, nothing is dropped in silence."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from helpers.each import each
from lore.errors import LoreError
from lore.model.canonical import encode
from lore.model.items import ImageBlock, RawBlock, TextBlock, ThinkingBlock, ToolCall
from lore.model.turn import Memo, Prompt
from lore.model.vector import Vector
from lore.prompt.assemble import Assembler
from lore.prompt.base import FEATURES, Rules, Unit
from lore.prompt.dialects.chatml import ChatML
from lore.prompt.dialects.template import JinjaTemplate
from lore.prompt.system_messages import placement
from model.making import Fold, append, event, started, user

TOOLS = (Raw(b'{"name":"ls","description":"list","input_schema":{"type": "object"}}'),)
ECHO = "{{ {'messages': messages, 'tools': tools, 'opened': add_generation_prompt}|tojson }}"
LIKE_CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments|tojson }}{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


IMAGE = ImageBlock("image/png", Raw(b'"AA=="'))


def text(words):
    return TextBlock(Raw(encode(words)))


def call(call_id="c", **fields):
    base = {"uuid": call_id, "call_id": call_id, "name": "ls", "input": Raw(b'{"p": 1e3}'), "status": "completed"}
    return ToolCall(**{**base, **fields})


def prompt_of(dialect, units, *, tools=(), system=(), tail=()):
    head = dialect.head(tools, system)
    place, segments, omitted = dialect.first(head), [], []
    for unit in units:
        rendered = dialect.render(unit, place)
        segments += rendered.segments
        omitted += rendered.omitted
        place = rendered.after
    last = [segment for unit in tail for segment in dialect.render(unit, place).segments]
    prompt = Prompt(
        dialect="template", fidelity="reconstructed", head=head, messages=Vector(segments), tail=tuple(last)
    )
    return prompt, omitted


def written(dialect, units, **parts):
    return dialect.write(prompt_of(dialect, units, **parts)[0]).decode()


def template_input(units, **parts):
    return json.loads(written(JinjaTemplate(ECHO), units, **parts))


# ChatML


def test_chatml_writes_tools_system_calls_and_results():
    calls = (call("c", output=Raw(b'"one"')), call("d", output=Raw(b'"two"')))
    units = (Unit("user", (text("hi"),)), Unit("assistant", (text("yo"),), calls), Unit("results", (), calls))
    body = written(ChatML(), units, tools=TOOLS, system=(b'"S"', b'"T"'))
    opening, remaining = body.split("\n<tools>\n")
    assert opening.startswith("<|im_start|>system\n# Tools")
    assert remaining.startswith(
        '{"type":"function","function":{"name":"ls","description":"list","parameters":{"type": "object"}}}\n</tools>\n'
    )
    assert body.endswith(
        "\n\nS\n\nT<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nyo\n"
        '<tool_call>\n{"name": "ls", "arguments": {"p": 1e3}}\n</tool_call>\n'
        '<tool_call>\n{"name": "ls", "arguments": {"p": 1e3}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_chatml_puts_the_tail_after_results():
    """A trailing user message in a tool loop made a model answer it again and again, until its context was full."""
    calls = (call(output=Raw(b'"o"')),)
    units = (Unit("user", (text("a"),)), Unit("assistant", (), calls), Unit("results", (), calls))
    body = written(ChatML(), units, tail=(Unit("user", (text("now"),), joins=True),))
    assert body.endswith("<tool_response>\no\n</tool_response>\nnow<|im_end|>\n<|im_start|>assistant\n")


def test_chatml_says_what_it_leaves_out():
    blocks = (
        ThinkingBlock(Raw(b'"hm"')), ImageBlock("image/png", Raw(b'"AA=="')), text("kept"),
        RawBlock(Raw(b'{"type":"audio"}')), RawBlock(Raw(b'{"type":"x","text":"own"}')),
    )  # fmt: skip
    picture = call(output=Raw(b'[{"type":"image","media_type":"image/png","data":"AA=="},{"type":"text","text":"t"}]'))
    prompt, omitted = prompt_of(ChatML(), (Unit("user", blocks), Unit("results", (), (picture,))))
    assert omitted == ["thinking", "image", "audio", "image in a tool result"]
    assert [segment.data for segment in prompt.messages if segment.kind == "block"] == [
        b"kept", b"\nown", b"<tool_response>\nt\n</tool_response>",
    ]  # fmt: skip


@pytest.mark.parametrize("dialect", [ChatML(), JinjaTemplate(ECHO)])
def test_unit_without_text_opens_no_message(dialect):
    unit = Unit("user", (ImageBlock("image/png", Raw(b'"AA=="')),))
    prompt, omitted = prompt_of(dialect, (unit,))
    assert len(prompt) == 0
    assert omitted == ["image"]


@pytest.mark.parametrize("dialect", [ChatML(), JinjaTemplate(LIKE_CHATML)])
def test_half_a_surrogate_pair_is_replaced(dialect):
    calls = (call(name="\ud83d", input=Raw(b'{"p":"\\ud83d"}'), output=Raw(b'"\\ud83d"')),)
    units = (Unit("user", (TextBlock(Raw(b'"a\\ud83d b"')),)), Unit("assistant", (), calls), Unit("results", (), calls))
    tool = Raw(b'{"name":"\\ud83d","input_schema":{}}')
    body = dialect.write(prompt_of(dialect, units, tools=(tool,), system=(b'"\\udc00"',))[0])
    assert "a\ufffd b" in body.decode()


def test_control_text_is_kept_in_chatml():
    body = written(ChatML(), (Unit("user", (text("x<|im_end|>y"),)),))
    assert "x<|im_end|>y<|im_end|>" in body
    assert not ChatML.capabilities["control text in content"].expressed


@pytest.mark.parametrize(("fields", "content"), [
    ({"output": Raw(b'"o"')}, "o"),
    ({"status": "failed", "error": Raw(b'"E"')}, "E"),
    ({"status": "running"}, "[no result recorded]"),
    ({"status": "completed"}, ""),
    ({"output": Raw(b'[{"type":"text","text":"a"},{"type":"text","text":"b"}]')}, "a\nb"),
])  # fmt: skip
def test_result_is_output_error_or_a_note(fields, content):
    units = (Unit("results", (), (call(**fields),)),)
    assert f"<tool_response>\n{content}\n</tool_response>" in written(ChatML(), units)
    assert template_input(units)["messages"][0]["content"] == content


# both


@pytest.mark.parametrize("dialect", [ChatML(), JinjaTemplate(ECHO)])
@each("model", ["gpt-5.6-sol", "claude-opus-5", "gemma-4-27b", None])
def test_text_dialects_put_context_in_the_users_role(dialect, model):
    """No row is for text: only what the settings name takes a system message there."""
    fold = Fold(
        started(model=model, system="S"), append(user("u")), event("turn_started", turn=1, context={"extra": "now"})
    )
    assert not placement(model, dialect, Rules()).accepted
    prompt = Assembler(dialect).assemble(fold.state, fold.state.main()).prompt
    body = dialect.write(prompt)
    assert body.rindex(b"user") > body.rindex(b"system")
    assert b"now" in body[body.rindex(b"user") :]


@pytest.mark.parametrize("dialect", [ChatML(), JinjaTemplate(ECHO)])
def test_text_dialects_have_no_breakpoints(dialect):
    assert set(FEATURES) <= set(dialect.capabilities)
    assert dialect.name == "template"
    assert dialect.breakpoint("gpt-5.6", "5m") is None
    assert not any(map(dialect.takes_breakpoint, prompt_of(dialect, (Unit("user", (text("a"),)),))[0]))
    assert not dialect.recognises({"messages": b"[]"})


@pytest.mark.parametrize("tool", [
    TOOLS[0],
    Raw(b'{"type":"function","name":"ls","description":"list","parameters":{"type": "object"}}'),
    Raw(b'{"functionDeclarations":[{"name":"ls","description":"list","parameters":{"type": "object"}}]}'),
    Raw(b'{"toolSpec":{"name":"ls","description":"list","inputSchema":{"json":{"type": "object"}}}}'),
], ids=["anthropic", "flat", "declared", "spec"])  # fmt: skip
@each([ChatML(), JinjaTemplate(ECHO)])
def test_functions_get_the_shape_of_templates(dialect, tool):
    """Only Anthropic's shape was once rewritten: templates that read `tool.function` failed on the others."""
    expected = b'{"type":"function","function":{"name":"ls","description":"list","parameters":{"type": "object"}}}'
    assert [segment.data.strip() for segment in dialect.head((tool,), ()) if segment.kind == "tool"] == [expected]


@pytest.mark.parametrize("dialect", [ChatML(), JinjaTemplate(ECHO)])
@given(body=st.binary(max_size=40))
def test_text_is_parsed_as_one_segment(dialect, body):
    prompt = dialect.parse(body, "wire", Memo())
    assert (prompt.fidelity, len(prompt)) == ("rendered", 1)
    assert dialect.write(prompt) == body


WORDS = st.sampled_from(["a", "b\n", "\n\n", "<|im_end|>", "é\U0001f600", "\ud83d", "x" * 50, " "])
BLOCKS = st.lists(WORDS.map(text), min_size=1, max_size=2).map(tuple)
CALLS = st.lists(st.builds(call, st.sampled_from("cd"), output=WORDS.map(lambda words: Raw(encode(words)))), max_size=2)
TURNS = st.lists(st.tuples(BLOCKS, CALLS.map(tuple), BLOCKS), min_size=1, max_size=6)
TAILS = st.sampled_from(["system", "user"]).flatmap(
    lambda role: BLOCKS.map(lambda blocks: (Unit(role, blocks, joins=role == "user"),))
)


def steps_of(turns):
    """Yield the history of each request: the previous one and one more message."""
    units = []
    for question, calls, answer in turns:
        units.append(Unit("user", question))
        yield tuple(units)
        if calls:
            units += [Unit("assistant", (), calls), Unit("results", (), calls)]
            yield tuple(units)
        units.append(Unit("assistant", answer))


OPENED = (
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{% endfor %}{{ '<|assistant|>' if add_generation_prompt }}"
)


@pytest.mark.parametrize("source", [LIKE_CHATML, OPENED])
@given(TURNS, st.lists(TAILS | st.just(()), min_size=12, max_size=12))
def test_appending_template_keeps_the_prefix(source, turns, tails):
    dialect = JinjaTemplate(source)
    before = None
    for units, tail in zip(steps_of(turns), tails, strict=False):
        prompt = dialect.finish(prompt_of(dialect, units, system=(b'"S"',), tail=tail)[0])
        if before is not None:
            assert list(prompt.messages)[: len(before)] == before
        before = list(prompt.messages)


PARTS = ["a", "\n", "<", "|", ">", "<|", "|>", "</s>", "<end_of_turn>", "[INST]"]
SPOKEN = st.lists(st.sampled_from(PARTS), max_size=30)


@settings(max_examples=2 * settings().max_examples)
@given(st.lists(SPOKEN, min_size=1, max_size=5))
def test_what_was_cut_before_changes_no_cut(spoken):
    dialect = JinjaTemplate("{% for m in messages %}{{ m.content }}{% endfor %}")
    for words in ["".join(parts) for parts in spoken]:
        units, tail = (Unit("user", (text(words),)),), (Unit("user", (text("n"),), joins=True),)
        fresh = JinjaTemplate("{% for m in messages %}{{ m.content }}{% endfor %}")
        for given_tail in ((), tail):
            prompt = prompt_of(dialect, units, tail=given_tail)[0]
            assert dialect.finish(prompt) == fresh.finish(prompt)


def test_a_text_without_line_ends_is_cut_once():
    """It was searched to its end from each of its characters: 32,000 of them took a minute and a half."""
    dialect = JinjaTemplate("{{ messages[0].content }}")
    prompt = dialect.finish(prompt_of(dialect, [Unit("user", (text("x" * 2_000_000),))])[0])
    assert [len(segment.data) for segment in prompt.messages] == [2_000_000]


# templates


def test_template_gets_messages_as_from_engines():
    calls = (call(output=Raw(b'"o"')),)
    units = (
        Unit("user", (text("a"), text("b"))),
        Unit("assistant", (ThinkingBlock(Raw(b'"hm"')), text("yo")), calls),
        Unit("results", (), calls),
    )
    assert template_input(units, tools=TOOLS, system=(b'"S"', b'"T"')) == {
        "messages": [
            {"role": "system", "content": "S"},
            {"role": "system", "content": "T"},
            {"role": "user", "content": "a\nb"},
            {
                "role": "assistant", "content": "yo", "reasoning_content": "hm",
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "ls", "arguments": {"p": 1000.0}}}
                ],
            },
            {"role": "tool", "tool_call_id": "c", "name": "ls", "content": "o"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "ls", "description": "list", "parameters": {"type": "object"}},
            }
        ],
        "opened": True,
    }  # fmt: skip


def test_tail_joins_or_opens_a_message():
    units = (Unit("user", (text("a"),)),)
    prompt = template_input(units, tail=(Unit("user", (text("now"),), joins=True),))
    opened = template_input(units, tail=(Unit("system", (text("now"),)),))
    assert prompt["messages"] == [{"role": "user", "content": "a\nnow"}]
    assert opened["messages"][1:] == [{"role": "system", "content": "now"}]


DELTA = Unit("user", (text("new"),), origin="context_injection: delta 1")


def test_injected_text_and_users_words_are_one_message():
    """Two messages of the user in a row made templates refuse every turn after the first change of knowledge."""
    before = (Unit("user", (text("a"),)), Unit("assistant", (text("b"),)))
    context = Unit("user", (text("c"),), origin="context_injection: context of turn 2")
    last = Unit("user", (text("d"), IMAGE, text("e")), origin="user")
    messages = template_input((*before, DELTA, context, last), tail=(Unit("user", (text("now"),), joins=True),))[
        "messages"
    ]
    assert messages[2:] == [{"role": "user", "content": "new\n\nc\n\nd\ne\nnow"}]
    assert prompt_of(JinjaTemplate(ECHO), (DELTA, last))[1] == ["image"]


@pytest.mark.parametrize(
    "after",
    [
        Unit("assistant", (text("b"),)), Unit("system", (text("b"),)), Unit("results", (), (call(output=Raw(b'"o"')),)),
        Unit("user", (IMAGE,)), Unit("user", (ThinkingBlock(Raw(b'"hm"')), text("b"))),
    ],
)  # fmt: skip
def test_injected_text_stays_a_message_otherwise(after):
    alone, messages = template_input((DELTA,))["messages"], template_input((DELTA, after))["messages"]
    assert messages[:1] == alone
    assert len(messages) == 1 + (after.blocks != (IMAGE,))


def test_finish_separates_stable_text_and_tail():
    units = (Unit("user", (text("a\nb"),)),)
    dialect = JinjaTemplate(LIKE_CHATML, bos_token="<s>")
    prompt = dialect.finish(prompt_of(dialect, units, tail=(Unit("system", (text("now"),)),))[0])
    assert [segment.data for segment in prompt.messages] == [
        b"<|im_start|>",
        b"user\n",
        b"a\n",
        b"b",
        b"<|im_end|>",
        b"\n",
    ]
    assert (
        b"".join(segment.data for segment in prompt.tail)
        == b"<|im_start|>system\nnow<|im_end|>\n<|im_start|>assistant\n"
    )
    assert prompt.fidelity == "rendered"
    assert dialect.finish(prompt) is prompt
    assert dialect.write(prompt) == b"".join(segment.data for segment in prompt)


def test_template_that_rewrites_history_shows():
    """What a template drops from earlier turns is what breaks the prefix that an engine could reuse."""
    source = "{% for m in messages %}{{ m.reasoning_content if loop.last }}{{ m.content }}\n{% endfor %}"
    dialect = JinjaTemplate(source)
    first = (Unit("user", (text("a"),)), Unit("assistant", (ThinkingBlock(Raw(b'"hm"')), text("yo"))))
    previous, two = (
        dialect.finish(prompt_of(dialect, units)[0]) for units in (first, (*first, Unit("user", (text("b"),))))
    )
    assert [segment.data for segment in previous.messages] == [b"a\n", b"hmyo\n"]
    assert [segment.data for segment in two.messages] == [b"a\n", b"yo\n", b"b\n"]


def test_tokens_and_the_time_are_given():
    source = "{{ bos_token }}|{{ eos_token }}|{{ strftime_now('%d %b %Y') }}"
    units = (Unit("user", (text("a"),)),)
    assert written(JinjaTemplate(source), units) == "||01 Jan 1970"
    template = JinjaTemplate(source, bos_token="<s>", eos_token="</s>", now="2024-07-26")
    assert written(template, units) == "<s>|</s>|26 Jul 2024"


@each("source, tokens, names", [
    ("{{ bos_token }}{{ eos_token }}", {}, ["bos_token", "eos_token"]),
    ("{{- bos_token + 'x' }}{{ bos_token }}", {"eos_token": "</s>"}, ["bos_token"]),
    ("{{ bos_token }}{{ eos_token }}", {"bos_token": "<s>"}, ["eos_token"]),
    ("{{ bos_token }}", {"bos_token": "<s>"}, []),
    ("{{ my_bos_token }}{{ bos_tokens }}", {}, []),
    (ECHO, {}, []),
])  # fmt: skip
def test_missing_token_of_a_template_is_noted(source, tokens, names):
    """Text without its first token was once rendered without a word: no engine had that text in its cache."""
    notes = [f"the template names {name}, which is empty: set assemble.{name}" for name in names]
    assert list(JinjaTemplate(source, **tokens).notes) == notes


def test_refusal_of_a_template_names_its_line():
    source = (
        "{% for m in messages %}\n{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}{% endfor %}"
    )
    dialect = JinjaTemplate(source, file="a.jinja")
    prompt, _ = prompt_of(dialect, (Unit("user", (text("a"),)), Unit("system", (text("b"),))))
    for use in (dialect.finish, dialect.write):
        with pytest.raises(LoreError, match="no system") as caught:
            use(prompt)
        assert str(caught.value.where) == "a.jinja:2"


def test_too_large_numbers_are_text_or_an_error():
    calls = (call(input=Raw(b'{"p": 1e999}')),)
    assert (
        template_input((Unit("assistant", (), calls),))["messages"][0]["tool_calls"][0]["function"]["arguments"]
        == '{"p": 1e999}'
    )
    with pytest.raises(LoreError, match=r"tools\[0\] holds JSON"):
        template_input((Unit("user", (text("a"),)),), tools=(Raw(b'{"name": "x", "parameters": 1e999}'),))

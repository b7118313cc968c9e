"""All dialects: blocks, tools, calls and results in each shape; nothing is lost or moved."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from helpers.each import each
from helpers.strategies import texts, values, write
from lore.model.items import ImageBlock, RawBlock, TextBlock, ThinkingBlock, ToolCall
from lore.model.turn import Memo, Prompt
from lore.model.vector import Vector
from lore.prompt.assemble import Assembler
from lore.prompt.base import Rules, Spot, Unit
from lore.prompt.dialects import DIALECTS
from model.making import Fold, append, assembled, dumps, parsed, started, user

MERGING = ("gemini", "bedrock")
TOOL = {"name": "ls", "description": "list", "input_schema": {"type": "object", "x": 1.0}}
FUNCTION = {"type": "function", "function": {"name": "ls", "description": "list", "parameters": TOOL["input_schema"]}}
FLAT = {"type": "function", "name": "ls", "description": "list", "parameters": TOOL["input_schema"]}
SPEC = {"toolSpec": {"name": "ls", "description": "list", "inputSchema": {"json": TOOL["input_schema"]}}}
DECLARED = {"name": "ls", "description": "list", "parametersJsonSchema": TOOL["input_schema"]}


def text(value: str) -> TextBlock:
    return TextBlock(Raw(write(value)))


def raw(value: object) -> RawBlock:
    return RawBlock(Raw(write(value)))


def called(number: int = 0, **fields) -> ToolCall:
    members = {"status": "completed", "output": Raw(b'"o"'), **fields}
    return ToolCall(
        f"t{number}",
        f"c{number}",
        "ls",
        fields.pop("input", Raw(b'{"p":1}')),
        **{k: v for k, v in members.items() if k != "input"},
    )


IMAGE = ImageBlock("image/png", Raw(b'"AA"'))


def rendered(dialect: str, *units: Unit):
    """Return the prompt of these units, and the names of omitted blocks."""
    place, segments, omitted = DIALECTS[dialect].first(()), [], []
    for unit in units:
        rendered_unit = DIALECTS[dialect].render(unit, place)
        place = rendered_unit.after
        segments += rendered_unit.segments
        omitted += rendered_unit.omitted
    return Prompt(dialect, "reconstructed", messages=Vector(segments)), omitted


def body_items(dialect: str, *units: Unit):
    """The messages that are written of these units."""
    body = json.loads(DIALECTS[dialect].write(rendered(dialect, *units)[0]))
    return next(body[key] for key in ("messages", "input", "contents") if key in body)


blocks = st.lists(
    st.one_of(
        texts.map(text),
        st.just(IMAGE),
        st.just(ImageBlock("image/tiff", Raw(b'"AA"'))),
        texts.map(lambda one: ThinkingBlock(Raw(write(one)), "s")),
        st.dictionaries(st.sampled_from(["type", "text", "cachePoint", "functionCall", "toolUse", "x"]), values).map(
            raw
        ),
        st.sampled_from(["reasoning", "function_call", "input_file", "refusal", "text", "tool_result"]).map(
            lambda kind: raw(
                {"type": kind, "summary": [], "content": [{"type": "text", "text": "x", "cache_control": {}}]}
            )
        ),
    ),
    max_size=3,
).map(tuple)
calls = st.lists(
    st.builds(
        called,
        st.integers(0, 3),
        status=st.sampled_from(["running", "completed", "failed"]),
        output=st.sampled_from(
            [b"null", b'"o"', b"[]", b'[{"type":"text","text":"p"},{"type":"raw","json":{"x":1}}]']
        ).map(Raw),
        error=st.sampled_from([b"null", b'"e"']).map(Raw),
        input=st.sampled_from([b"{}", b"[1]", b"null", b'"s"', b'{"cachePoint":{}}']).map(Raw),
    ),
    max_size=3,
).map(tuple)
units = st.builds(Unit, st.sampled_from(["user", "assistant", "results", "system"]), blocks, calls, joins=st.booleans())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_units_are_written_read_back_and_never_moved(dialect):
    @given(st.lists(units, max_size=5))
    def law(given_units):
        dialect_, place, segments = DIALECTS[dialect], DIALECTS[dialect].first(()), []
        for unit in given_units:
            if unit.role in ("user", "system"):
                unit = msgspec.structs.replace(unit, calls=())
            if unit.role == "assistant":  # what the model says opens a message of its own
                unit = msgspec.structs.replace(unit, joins=False)
            rendered_unit = dialect_.render(unit, place)
            place = rendered_unit.after
            segments += rendered_unit.segments
            prompt = Prompt(dialect, "reconstructed", messages=Vector(segments))
            again = dialect_.parse(dialect_.write(prompt), "wire", Memo())
            assert [(segment.path, segment.kind, segment.data) for segment in again] == [
                (s.path, s.kind, s.data) for s in segments
            ]

    law()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_block_is_written_or_named(dialect):
    @given(st.sampled_from(["user", "assistant", "system"]), blocks)
    def law(role, some):
        rendered_unit = DIALECTS[dialect].render(Unit(role, some), Spot())
        written = sum(segment.kind != "envelope" for segment in rendered_unit.segments)
        items = sum(segment.kind == "envelope" and b'"role"' not in segment.data for segment in rendered_unit.segments)
        points = sum(segment.breakpoint is not None for segment in rendered_unit.segments)
        assert written + items + points + len(rendered_unit.omitted) >= len(some)

    law()


MEMBERS = ("messages", "input", "contents", "tools", "toolConfig", "system", "systemInstruction", "system_instruction",
           "instructions", "model", "modelId", "cache_control")  # fmt: skip
points = st.lists(st.one_of(values, st.just({"cachePoint": {"type": "default"}})), max_size=3)
keys = st.sampled_from(["role", "content", "parts", "type", "output", "arguments", "input", "tool_calls"])
odd_messages = st.lists(st.one_of(values, st.dictionaries(keys, st.one_of(values, points))), max_size=4)
odd_bodies = st.one_of(
    st.dictionaries(st.sampled_from(MEMBERS), values),
    odd_messages.map(lambda messages: dict.fromkeys(("messages", "input", "contents"), messages)),
)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(odd_bodies)
def test_odd_bodies_keep_every_segment(dialect, body):
    prompt = DIALECTS[dialect].parse(write(body), "wire", Memo())
    again = DIALECTS[dialect].parse(DIALECTS[dialect].write(prompt), "wire", Memo())
    assert [(segment.path, segment.kind, segment.data) for segment in again] == [
        (segment.path, segment.kind, segment.data) for segment in prompt
    ]
    assert again.breakpoints == prompt.breakpoints


def test_repeated_message_is_system_only_if_leading():
    """A memory of messages once gave a system message in mid-conversation the section of a leading one."""
    memo, late = Memo(), {"role": "system", "content": "late"}
    first = {"messages": [{"role": "system", "content": "a"}, late]}
    second = {"messages": [{"role": "user", "content": "a"}, late]}
    assert [segment.section for segment in parsed(first, "openai-chat", memo)][-1] == "system"
    assert [segment.section for segment in parsed(second, "openai-chat", memo)][-1] == "messages"


# roles


@pytest.mark.parametrize("dialect", MERGING)
def test_roles_alternate_and_system_becomes_user(dialect):
    messages = body_items(dialect, Unit("user", (text("a"),)), Unit("system", (text("b"),)), Unit("user", (text("c"),)),
                Unit("assistant", (text("d"),)), Unit("assistant", (), (called(),)),
                Unit("results", (), (called(),)), Unit("user", (text("e"),), joins=True))  # fmt: skip
    key = "parts" if dialect == "gemini" else "content"
    assert [(message["role"], len(message[key])) for message in messages] == [
        ("user", 3), ("model" if dialect == "gemini" else "assistant", 2), ("user", 2)
    ]  # fmt: skip
    assert [part["text"] for part in messages[0][key]] == ["a", "b", "c"]


@pytest.mark.parametrize("dialect", ["openai-responses", *MERGING])
def test_joining_unit_after_a_response_opens_a_message(dialect):
    messages = body_items(dialect, Unit("assistant", (text("a"),)), Unit("user", (text("b"),), joins=True))
    assert [message["role"] for message in messages][-1] == "user"
    assert len(messages) == 2


# content


@pytest.mark.parametrize(
    "given_tool", [TOOL, FUNCTION, FLAT, SPEC, DECLARED], ids=["anthropic", "chat", "flat", "spec", "declared"]
)
@each("dialect, expected", [
    ("anthropic", TOOL), ("openai-chat", FUNCTION), ("openai-responses", FLAT), ("gemini", DECLARED),
    ("bedrock", SPEC),
])  # fmt: skip
def test_function_of_any_shape_keeps_its_schema(dialect, expected, given_tool):
    head = DIALECTS[dialect].head((Raw(dumps(given_tool)),), ())
    assert [json.loads(segment.data) for segment in head] == [expected]
    assert b'{"type":"object","x":1.0}' in head[0].data


STRICT = {"strict": True}
STRICT_TOOLS = {
    "anthropic": TOOL | STRICT,
    "openai-chat": {**FUNCTION, "function": FUNCTION["function"] | STRICT},
    "openai-responses": FLAT | STRICT,
}


@pytest.mark.parametrize("given_dialect", STRICT_TOOLS)
@each("dialect, expected", [*STRICT_TOOLS.items(), ("gemini", DECLARED), ("bedrock", SPEC)])
def test_strict_function_stays_strict_if_api_allows(dialect, expected, given_dialect):
    (segment,) = DIALECTS[dialect].head((Raw(dumps(STRICT_TOOLS[given_dialect])),), ())
    assert json.loads(segment.data) == expected


@pytest.mark.parametrize("group", ["functionDeclarations", "function_declarations"])
@each(["anthropic", "openai-chat", "openai-responses", "bedrock"])
def test_grouped_functions_of_gemini_become_single_tools(dialect, group):
    """A group was once written as it was, and the API refused the request."""
    head = DIALECTS[dialect].head((Raw(dumps({group: [DECLARED, {**DECLARED, "name": "b"}]})),), ())
    assert list(head) == list(DIALECTS[dialect].head((Raw(dumps(TOOL)), Raw(dumps({**TOOL, "name": "b"}))), ()))


OWN_TOOLS = [
    b'{ "name": "ls", "input_schema": {"type":"object"}, "x": 1 }',
    b'{"type":"custom","name":"ls", "input_schema":{}}',
    b'{"type":"bash_20250124","name":"bash"}',
    b'{"type":"web_search_20250305","name":"web_search", "max_uses": 5,"parameters":{}}',
    b'{"type":"novel", "name":"n","input_schema":{}}',
]


@pytest.mark.parametrize("tool", OWN_TOOLS)
def test_anthropic_tool_keeps_its_bytes(tool):
    assert [segment.data for segment in DIALECTS["anthropic"].head((Raw(tool),), ())] == [tool]


def test_anthropic_rewrites_functions_of_other_shapes():
    """Functions of other providers were once written as recorded, which the API answers with 400."""
    cached = {**FUNCTION, "cache_control": {"type": "ephemeral"}}
    (segment,) = DIALECTS["anthropic"].head((Raw(dumps(cached)),), ())
    assert (json.loads(segment.data), segment.breakpoint) == (TOOL, b'{"type":"ephemeral"}')
    (bare,) = DIALECTS["anthropic"].head((Raw(b'{"type":"function","name":"b"}'),), ())
    assert json.loads(bare.data) == {"name": "b", "input_schema": {"type": "object", "properties": {}}}


@pytest.mark.parametrize("dialect", ["anthropic", "openai-responses", "gemini", "bedrock"])
def test_provider_tool_stays_as_it_is(dialect):
    tools = (Raw(dumps(TOOL)), Raw(b'{"type":"web_search"}'), Raw(dumps(FLAT)))
    head = DIALECTS[dialect].head(tools, (b'"S"',))
    assert [segment.data for segment in head if segment.section == "tools"][1] == b'{"type":"web_search"}'
    again = DIALECTS[dialect].parse(DIALECTS[dialect].write(Prompt(dialect, "wire", head=head)), "wire", Memo())
    assert [(segment.path, segment.kind, segment.data) for segment in again.head] == [
        (segment.path, segment.kind, segment.data) for segment in head
    ]


@pytest.mark.parametrize(("dialect", "first"), [
    ("openai-responses", {"type": "function_call", "call_id": "c0", "name": "ls", "arguments": '{"p":1}'}),
    ("gemini", {"functionCall": {"id": "c0", "name": "ls", "args": {"p": 1}}}),
    ("bedrock", {"toolUse": {"toolUseId": "c0", "name": "ls", "input": {"p": 1}}}),
])  # fmt: skip
def test_call_is_written_in_each_shape(dialect, first):
    messages = body_items(dialect, Unit("assistant", (), (called(),)))
    assert (messages[0].get("parts") or messages[0].get("content") or messages)[0] == first


@pytest.mark.parametrize(("fields", "gemini", "bedrock"), [
    ({}, {"result": "o"}, None),
    ({"status": "failed", "output": Raw(b"null"), "error": Raw(b'"e"')}, {"error": "e"}, "error"),
    ({"status": "running", "output": Raw(b"null")}, {"error": "[no result recorded]"}, "error"),
    ({"output": Raw(b"null")}, {"result": ""}, None),
    ({"output": Raw(b'[{"type":"text","text":"a"},{"type":"text","text":"b"}]')}, {"result": ["a", "b"]}, None),
])  # fmt: skip
def test_every_status_of_a_call_is_written(fields, gemini, bedrock):
    unit = Unit("results", (), (called(**fields),))
    assert body_items("gemini", unit)[0]["parts"][0]["functionResponse"]["response"] == gemini
    assert body_items("bedrock", unit)[0]["content"][0]["toolResult"].get("status") == bedrock


def test_images_are_written_or_named():
    unit = Unit("user", (IMAGE, ImageBlock("image/tiff", Raw(b'"AA"'))))
    assert body_items("openai-responses", unit)[0]["content"][0]["image_url"] == "data:image/png;base64,AA"
    assert body_items("gemini", unit)[0]["parts"][0] == {"inlineData": {"mimeType": "image/png", "data": "AA"}}
    assert body_items("bedrock", unit)[0]["content"] == [{"image": {"format": "png", "source": {"bytes": "AA"}}}]
    assert rendered("bedrock", unit)[1] == ["image/tiff image"]
    result = Unit("results", (), (called(output=Raw(b'[{"type":"image","media_type":"image/png","data":"AA"}]')),))
    assert rendered("gemini", result)[1] == ["image in a tool result"]


def test_thinking_is_written_only_for_bedrock():
    unit = Unit("assistant", (ThinkingBlock(Raw(b'"hm"'), "s"), text("a")))
    assert [rendered(name, unit)[1] for name in ("openai-responses", "gemini", "bedrock")] == [["thinking"]] * 2 + [[]]
    reasoning = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}
    assert body_items("bedrock", unit)[0]["content"][0] == reasoning


POINT = {"cachePoint": {"type": "default", "ttl": "1h"}}


def test_cache_point_in_a_session_is_a_breakpoint():
    """It was left out, though the same point is a breakpoint where a recorded body is read."""
    state = Fold(
        started(model="us.anthropic.claude-opus-5"),
        append({"type": "user_message", "uuid": "u", "blocks": [
            {"type": "text", "text": "a"}, {"type": "raw", "json": POINT}, {"type": "text", "text": "b"}]}),
    ).state  # fmt: skip
    assembled = Assembler(DIALECTS["bedrock"], rules=Rules(breakpoints="recorded")).assemble(state, state.main())
    body = DIALECTS["bedrock"].write(assembled.prompt)
    assert json.loads(body)["messages"][0]["content"] == [{"text": "a"}, POINT, {"text": "b"}]
    again = DIALECTS["bedrock"].parse(body, "wire", Memo())
    assert (list(again), again.breakpoints, again.breakpoint_values) == (
        list(assembled.prompt), assembled.prompt.breakpoints, assembled.prompt.breakpoint_values
    )  # fmt: skip
    assert not assembled.omitted


@pytest.mark.parametrize("some", [(POINT,), (POINT, {"text": "a"}), ({"text": "a"}, POINT, POINT)])
def test_cache_point_without_a_block_is_named(some):
    assert rendered("bedrock", Unit("user", tuple(map(raw, some))))[1] == ["cachePoint"]
    output = Raw(dumps([{"type": "raw", "json": block} for block in some]))
    assert set(rendered("bedrock", Unit("results", (), (called(output=output),)))[1]) == {"cachePoint"}


@pytest.mark.parametrize(
    ("dialect", "where"),
    [("anthropic", ("input",)), ("gemini", ("functionCall", "args")), ("bedrock", ("toolUse", "input"))],
)
@each("recorded", [[1], None, "s", 2.0, {"p": 1}, {}])
def test_arguments_are_always_an_object(dialect, where, recorded):
    """Arguments that were no object went out as they were to two of these APIs, which answer 400."""
    messages = body_items(dialect, Unit("assistant", (), (called(input=Raw(dumps(recorded))),)))
    (arguments,) = messages[0]["parts" if dialect == "gemini" else "content"]
    for key in where:
        arguments = arguments[key]
    assert arguments == (recorded if isinstance(recorded, dict) else {"input": recorded})


@pytest.mark.parametrize("dialect", DIALECTS)
def test_parameters_of_other_apis_are_written_as_recorded(dialect):
    """A session's parameters went to another API without a word; now the table of capabilities says so."""
    state = Fold(started(params={"top_k": 1.0, "generationConfig": {"x": 1}}), append(user("u"))).state
    body = json.loads(DIALECTS[dialect].write(assembled(state, dialect)))
    assert (body["top_k"], body["generationConfig"]) == (1.0, {"x": 1})
    assert not DIALECTS[dialect].capabilities["parameters of another provider"].expressed


# breakpoints


def test_cache_points_are_breakpoints_of_earlier_segments():
    point = {"cachePoint": {"type": "default"}}
    body = {
        "toolConfig": {"tools": [SPEC, point]},
        "system": [{"text": "S"}, point, {"text": "T"}],
        "messages": [{"role": "user", "content": [{"text": "a"}, point, {"text": "b"}, point]}],
    }
    prompt = parsed(body, "bedrock")
    assert [segment.path for segment in prompt] == [
        "toolConfig.tools[0]", "system[0]", "system[1]",
        "messages[0]", "messages[0].content[0]", "messages[0].content[1]",
    ]  # fmt: skip
    assert prompt.breakpoints == (0, 1, 4, 5)
    assert json.loads(DIALECTS["bedrock"].write(prompt)) == body


@each("item, may", [
    ({"role": "user", "content": [{"type": "input_text", "text": "x"}]}, True),
    ({"role": "user", "content": [{"type": "input_text", "text": ""}]}, False),
    ({"role": "user", "content": "x"}, False),
    ({"role": "assistant", "content": [{"type": "output_text", "text": "x"}]}, False),
    ({"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "x"}]}, True),
    ({"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"}, False),
])  # fmt: skip
def test_only_input_parts_take_a_breakpoint(item, may):
    dialect = DIALECTS["openai-responses"]
    prompt = parsed({"input": [item], "instructions": "I", "tools": [FLAT]}, "openai-responses")
    assert dialect.takes_breakpoint(prompt.messages[-1]) is may
    assert not any(dialect.takes_breakpoint(segment) for segment in prompt.head)

"""Each dialect: bodies are read back as written, breakpoints are cut out, nothing is serialised again."""

import json
from typing import ClassVar

import pytest
from msgspec.structs import replace

from helpers.each import each
from lore.model.turn import Memo
from lore.prompt.dialects import DIALECTS, dialect_of
from lore.testing import DialectContract
from model.making import Fold, append, assembled, call, dumps, event, parsed, started

CACHE_CONTROL = {"type": "ephemeral"}
TOOL = {"name": "ls", "description": "list", "input_schema": {"type": "object"}}
FUNCTION = {"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}}
ANTHROPIC = {
    "model": "claude-x",
    "max_tokens": 9,
    "tools": [TOOL, {"type": "web_search_20250305", "name": "web_search"}],
    "system": [{"type": "text", "text": "S"}, {"type": "text", "text": "T"}],
    "messages": [
        {"role": "user", "content": "plain"},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "a"}, {"type": "tool_use", "id": "c", "name": "ls", "input": {}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "o"}]}],
        },
        {"content": [], "role": "assistant"},
    ],
}
CHAT = {
    "model": "gpt-4o",
    "tools": [FUNCTION],
    "messages": [
        {"role": "system", "content": "S"},
        {"role": "developer", "content": [{"type": "text", "text": "D"}]},
        {"role": "user", "content": "plain", "name": "bob"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}},
            {"id": "d", "type": "function", "function": {"name": "ls", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "o"},
        {"role": "assistant", "content": "x", "tool_calls": [], "refusal": None},
        {"role": "system", "content": "late"},
    ],
    "stream": True,
}  # fmt: skip
RESPONSES = {
    "model": "gpt-5.6-sol",
    "instructions": "I",
    "previous_response_id": "r",
    "tools": [{"type": "function", "name": "ls", "parameters": {}}, {"type": "web_search"}],
    "input": [
        {"role": "developer", "content": "D"},
        {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit"}}]},
        {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e"},
        {"type": "message", "id": "m", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": "t", "annotations": []}]},
        {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "o"},
        {"type": "function_call_output", "call_id": "d", "output": [{"type": "input_text", "text": "p"}]},
        {"type": "custom_tool_call", "call_id": "e", "name": "patch", "input": "***"},
        {"type": "item_reference", "id": "i"},
        {"role": "user", "content": "plain"},
        {"role": "user", "content": []},
        {"novel": True},
    ],
    "store": False,
}  # fmt: skip
GEMINI = {
    "model": "models/gemini-3-pro",
    "tools": [
        {"functionDeclarations": [{"name": "ls", "parameters": {"type": "OBJECT"}}, {"name": "b"}]},
        {"googleSearch": {}},
        {"function_declarations": [{"name": "c"}], "x": 1},
        {"functionDeclarations": []},
        7,
    ],
    "system_instruction": {"role": "system", "parts": [{"text": "S"}, {"text": "T"}]},
    "systemInstruction": {"parts": [{"text": "U"}]},
    "contents": [
        {"role": "user", "parts": [{"text": "x"}, {"inline_data": {"mime_type": "image/png", "data": "AA"}}]},
        {"role": "model", "parts": [{"text": "hm", "thought": True}, {"functionCall": {"name": "ls", "args": {}}}]},
        {"role": "user", "parts": [{"function_response": {"name": "ls", "response": {"result": "o"}}}]},
        {"parts": {"text": "y"}},
        {"parts": []},
        {"role": "model"},
    ],
    "generationConfig": {"temperature": 1},
}
BEDROCK = {
    "modelId": "anthropic.claude-x",
    "toolConfig": {
        "tools": [
            {"toolSpec": {"name": "ls", "inputSchema": {"json": {}}}},
            {"cachePoint": {"type": "default", "ttl": "1h"}},
            {"systemTool": {"name": "nova_grounding"}},
        ],
        "toolChoice": {"auto": {}},
    },
    "system": [{"text": "S"}, {"cachePoint": {"type": "default"}}, {"text": "T"}],
    "messages": [
        {"role": "user", "content": [{"cachePoint": {"type": "default"}}, {"text": "x"}, {"image": {"format": "png"}}]},
        {"role": "assistant", "content": [
            {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
            {"toolUse": {"toolUseId": "c", "name": "ls", "input": {"cachePoint": {}}}}]},
        {"role": "user", "content": [
            {"toolResult": {"toolUseId": "c", "content": [{"text": "o"}]}},
            {"cachePoint": {"type": "default"}},
            {"text": "y"},
            {"cachePoint": {"type": "default"}}]},
        {"role": "assistant", "content": "plain"},
        {"role": "user", "content": []},
        {"content": None},
    ],
    "inferenceConfig": {"maxTokens": 9},
}  # fmt: skip
RECORDED = {
    "anthropic": ANTHROPIC,
    "openai-chat": CHAT,
    "openai-responses": RESPONSES,
    "gemini": GEMINI,
    "bedrock": BEDROCK,
}
MODELS = {"anthropic": "claude-opus-5", "gemini": "gemini-3-pro", "bedrock": "us.anthropic.claude-opus-5"}


def _sessions(dialect):
    image = {"type": "image", "media_type": "image/png", "data": "AA/A="}
    blocks = [
        {"type": "thinking", "text": "hm", "signature": "s"},
        {"type": "raw", "json": {"type": "text", "text": "r", "x": 1}},
    ]
    events = [
        started(model=MODELS.get(dialect, "gpt-5.6-sol"), system="S", tools=[TOOL, FUNCTION]),
        append({"type": "user_message", "uuid": "u", "blocks": [{"type": "text", "text": "é\n"}, image]}),
        append({"type": "assistant_message", "uuid": "a", "blocks": [*blocks, {"type": "text", "text": "t"}]}),
        append(call("t0", "c0", status="completed", output="o")),
        append(call("t1", "c1", status="completed", output=[{"type": "text", "text": "o"}, image])),
        append(call("t2", "c2", status="failed", error="broke")),
        append(call("t3", "c3", status="completed")),
        append(call("t4", "c4")),
        event("turn_started", turn=1, context={"extra": "x"}),
    ]
    states = [Fold(*events[:size]).state for size in range(1, len(events) + 1)]
    return tuple(assembled(state, dialect, policy) for state in states for policy in ("system", "user"))


class TestAnthropic(DialectContract):
    dialect = DIALECTS["anthropic"]
    prompts = (parsed(ANTHROPIC), *_sessions("anthropic"))


class TestOpenAIChat(DialectContract):
    dialect = DIALECTS["openai-chat"]
    prompts: ClassVar = (parsed(CHAT, "openai-chat"), *_sessions("openai-chat"))


class TestOpenAIResponses(DialectContract):
    dialect = DIALECTS["openai-responses"]
    prompts: ClassVar = (parsed(RESPONSES, "openai-responses"), *_sessions("openai-responses"))


class TestGemini(DialectContract):
    dialect = DIALECTS["gemini"]
    prompts: ClassVar = (parsed(GEMINI, "gemini"), *_sessions("gemini"))


class TestBedrock(DialectContract):
    dialect = DIALECTS["bedrock"]
    prompts: ClassVar = (parsed(BEDROCK, "bedrock"), *_sessions("bedrock"))


@pytest.mark.parametrize(("dialect", "body"), RECORDED.items(), ids=list(RECORDED))
def test_every_segment_is_a_slice_of_the_body(body, dialect):
    raw = json.dumps(body, indent=1, ensure_ascii=True).encode()
    for segment in parsed(raw, dialect):
        if segment.breakpoint is not None and b"cachePoint" not in raw:  # cut out of the middle
            continue
        for piece in segment.data.split(b",") if segment.kind == "envelope" else [segment.data]:
            assert piece in raw


def test_the_render_order_is_tools_system_messages():
    assert [segment.section for segment in parsed(ANTHROPIC)][:5] == ["tools", "tools", "system", "system", "messages"]
    assert [segment.section for segment in parsed(CHAT, "openai-chat")][:6] == ["tools", *["system"] * 4, "messages"]


@pytest.mark.parametrize("system", [None, "S", []])
def test_every_shape_of_system_is_read(system):
    prompt = parsed({"system": system, "messages": []})
    assert [segment.data for segment in prompt] == ([b'"S"'] if system else [])


# breakpoints


@pytest.mark.parametrize("block", [
    b'{"cache_control":{"type":"ephemeral"},"type":"text","text":"x"}',
    b'{"type":"text","cache_control":{"type":"ephemeral"},"text":"x"}',
    b'{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}',
    b'{"type":"text","text":"x", "cache_control": {"type":"ephemeral"}}',
], ids=["first", "middle", "last", "spaced"])  # fmt: skip
def test_breakpoint_is_cut_out_of_a_blocks_bytes(block):
    prompt = parsed(b'{"messages":[{"role":"user","content":[' + block + b"]}]}")
    assert prompt.messages[1].data == b'{"type":"text","text":"x"}'
    assert json.loads(prompt.messages[1].breakpoint or b"") == CACHE_CONTROL
    assert prompt.breakpoints == (1,)


def test_breakpoints_inside_results_are_cut_out():
    inner = [
        {"type": "text", "text": "a", "cache_control": CACHE_CONTROL},
        {"type": "text", "text": "a", "cache_control": CACHE_CONTROL},
    ]
    block = {"type": "tool_result", "tool_use_id": "c", "content": inner}
    prompt = parsed({"messages": [{"role": "user", "content": [block]}]})
    bare = {**block, "content": [{"type": "text", "text": "a"}] * 2}
    assert (prompt.messages[1].data, prompt.breakpoints) == (dumps(bare), (1,))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_breakpoint_of_a_request_is_automatic(dialect):
    assert parsed({"cache_control": CACHE_CONTROL, "messages": []}, dialect).auto_breakpoint
    assert not parsed({"cache_control": None, "messages": []}, dialect).auto_breakpoint


def test_messages_after_a_text_input_are_written():
    text, answered = {"model": "gpt-5", "input": "hello"}, {"role": "assistant", "content": "hi"}
    whole, remaining = (parsed(body, "openai-responses") for body in (text, {"input": [answered]}))
    both = replace(whole, messages=whole.messages.extend(remaining.messages))
    user = {"role": "user", "content": "hello"}
    assert json.loads(DIALECTS["openai-responses"].write(whole))["input"] == "hello"
    assert json.loads(DIALECTS["openai-responses"].write(both))["input"] == [user, answered]


# recognition


@each("body, name", [
    *[(body, name) for name, body in RECORDED.items()],
    ({"input": "hello", "model": "gpt-5"}, "openai-responses"),
    ({"contents": []}, "gemini"),
    ({"messages": [{"role": "user", "content": [{"text": "x"}]}], "system": [{"text": "S"}]}, "bedrock"),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}], "system": "S"}, "anthropic"),
    ({"messages": [], "anthropic_version": "x"}, "anthropic"),
    ({"messages": [{"role": "user", "content": "x"}], "model": "claude-x"}, "anthropic"),
    ({"messages": [{"role": "user", "content": "x"}], "model": "anthropic/claude-x"}, "openai-chat"),
    ({"messages": [{"role": "system", "content": "x"}], "model": "claude-x"}, "openai-chat"),
    ({"messages": [{"role": "user", "content": "x"}], "model": "gpt-4o"}, "openai-chat"),
    ({"messages": [{"role": "tool", "content": "x"}], "model": "claude-x"}, "openai-chat"),
    ({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c"}]}]}, "anthropic"),
    ({"prompt": "x"}, "template"),
    ([], None),
])  # fmt: skip
def test_dialect_of_recognises_bodies(body, name):
    dialect = dialect_of(dumps(body))
    assert (None if dialect is None else dialect.name) == name


# writing


@pytest.mark.parametrize(("fields", "content", "failed"), [
    ({"status": "completed", "output": "o"}, "o", False),
    ({"status": "failed", "output": "o"}, "o", True),
    ({"status": "failed", "error": "e"}, "e", True),
    ({"status": "completed"}, "", False),
    ({"status": "running"}, "[no result recorded]", True),
])  # fmt: skip
def test_every_status_of_a_call_has_a_result(fields, content, failed):
    state = Fold(started(), append(call("t", "c", **fields))).state
    result = json.loads(DIALECTS["anthropic"].write(assembled(state)))["messages"][1]["content"][0]
    assert (result["content"], result.get("is_error", False)) == (content, failed)
    chat = json.loads(DIALECTS["openai-chat"].write(assembled(state, "openai-chat")))["messages"][-1]
    assert (chat["role"], chat["content"]) == ("tool", [{"type": "text", "text": content}])


def test_chat_writes_images_and_its_own_parts():
    raws = [{"type": "input_audio", "x": 1}, {"type": "text", "text": "t", "y": 1}, {"type": "novel"}]
    blocks = [
        {"type": "image", "media_type": "image/png", "data": "AA"},
        *({"type": "raw", "json": raw} for raw in raws),
    ]
    rendered = assembled(
        Fold(started(), append({"type": "user_message", "uuid": "u", "blocks": blocks})).state, "openai-chat"
    )
    assert [json.loads(segment.data) for segment in rendered.messages if segment.kind == "block"] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
        {"type": "input_audio", "x": 1},
        {"type": "text", "text": "t"},
    ]


# memory of messages


def test_repeated_history_is_parsed_once():
    memo = Memo()
    first = parsed({"messages": CHAT["messages"][:4]}, "openai-chat", memo)
    second = parsed({"messages": CHAT["messages"]}, "openai-chat", memo)
    assert all(mine is theirs for mine, theirs in zip(first, second, strict=False))


@pytest.mark.parametrize(("dialect", "bodies"), [
    ("openai-responses", [{"instructions": "A", "input": "Go."}, {"instructions": "B", "input": "Go."}]),
    ("anthropic", [{"system": text, "messages": []} for text in ("A", "B")]),
    ("anthropic", [{"tools": ["x"], "messages": []}, {"system": ["x"], "messages": []}]),
    ("bedrock", [{"system": [{"text": text}], "messages": []} for text in ("A", "B")]),
    ("gemini", [{"systemInstruction": {"parts": [{"text": text}]}, "contents": []} for text in ("A", "B")]),
])  # fmt: skip
def test_other_head_is_not_taken_from_memory(dialect, bodies):
    memo = Memo()
    heads = [parsed(body, dialect, memo).head for body in (*bodies, bodies[0])]
    assert heads[0] != heads[1]
    assert heads[0] == heads[2] == parsed(bodies[0], dialect).head


def test_head_of_another_dialect_is_not_taken_from_memory():
    memo = Memo()
    parsed({"tools": [], "system": "A", "messages": []}, "anthropic", memo)
    (segment,) = parsed({"tools": [], "instructions": "A", "input": []}, "openai-responses", memo).head
    assert segment.path == "instructions"

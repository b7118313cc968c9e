"""Members that hold nothing make no difference to a prompt, wherever they come or go."""

import pytest

from helpers.each import each
from prefix.pairs import TOOL, explain, model, text, tool_result, tool_use, user

TEXT = text("hello")
REASONING = {"type": "reasoning", "encrypted_content": "abc"}
CALL = {"id": "c", "type": "function", "function": {"name": "a", "arguments": "{}"}}


def anthropic(*blocks, **fields):
    return "anthropic", {
        "model": "claude-opus-4-8",
        "messages": [user(TEXT, *blocks), model(TEXT), user("x")],
        **fields,
    }


def chat(model_name="gpt-5", body_fields=None, **fields):
    """A chat whose answer has more members."""
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", **fields}]
    return "openai-chat", {
        "model": model_name,
        "messages": [*messages, {"role": "user", "content": "c"}],
        **(body_fields or {}),
    }


def called(model_name="gpt-5", **fields):
    """A chat with a call."""
    call = {"role": "assistant", "tool_calls": [CALL], **fields}
    messages = [{"role": "user", "content": "a"}, call, {"role": "tool", "tool_call_id": "c", "content": "r"}]
    return "openai-chat", {"model": model_name, "messages": messages}


def responses(*items, **fields):
    question = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]}
    return "openai-responses", {"model": "gpt-5-codex", "input": [question, *items, question], **fields}


def gemini(*parts, **fields):
    contents = [{"role": "user", "parts": [{"text": "a"}, *parts]}, {"role": "model", "parts": [{"text": "b"}]}]
    return "gemini", {"model": "gemini-3-pro", "contents": contents, **fields}


def bedrock(*blocks, **fields):
    messages = [
        {"role": "user", "content": [{"text": "a"}, *blocks]},
        {"role": "assistant", "content": [{"text": "b"}]},
    ]
    return "bedrock", {"messages": messages, **fields}


def results(content, **fields):
    return anthropic(messages=[model(tool_use()), user(tool_result(content, **fields))])


BEDROCK_RESULT = {"toolUseId": "t", "content": [{"text": "r"}]}
EQUAL = {
    "metadata": (anthropic(), anthropic(metadata={})),
    "tools": (anthropic(), anthropic(tools=[])),
    "system text": (anthropic(), anthropic(system="")),
    "system list": (anthropic(), anthropic(system=[])),
    "system block": (anthropic(system=[TEXT]), anthropic(system=[TEXT, text("")])),
    "thinking": (anthropic(), anthropic(thinking=None)),
    "context management": (anthropic(), anthropic(context_management={"edits": []})),
    "text block": (anthropic(), anthropic(text(""))),
    "citations": (anthropic(TEXT), anthropic({**TEXT, "citations": None})),
    "result": (results(""), results([])),
    "successful result": (results("r"), results("r", is_error=False)),
    "tool member": (anthropic(tools=[TOOL]), anthropic(tools=[{**TOOL, "strict": None}])),
    "chat tools": (chat(), ("openai-chat", {**chat()[1], "tools": []})),
    "chat members": (chat(), chat(refusal=None, annotations=[], audio=None, function_call=None)),
    "chat calls": (chat(), chat(tool_calls=[])),
    "chat reasoning": (chat(), chat(reasoning_content="")),
    "chat content": (called(content=None), called(content="")),
    "chat without content": (called(), called(content=[])),
    "instructions": (responses(), responses(instructions="")),
    "reasoning settings": (responses(), responses(reasoning={"effort": None, "summary": None})),
    "reasoning summary": (responses(REASONING), responses({**REASONING, "summary": [], "content": None})),
    "gemini part": (gemini(), gemini({"text": ""})),
    "gemini signature": (gemini({"text": "x"}), gemini({"text": "x", "thoughtSignature": ""})),
    "gemini system": (gemini(), gemini(systemInstruction={"role": "user", "parts": [{"text": ""}]})),
    "gemini tools": (gemini(), gemini(tools=[{"functionDeclarations": []}])),
    "bedrock status": (
        bedrock({"toolResult": BEDROCK_RESULT}), bedrock({"toolResult": {**BEDROCK_RESULT, "status": "success"}}),
    ),
    "bedrock system": (bedrock(), bedrock(system=[])),
    "bedrock tools": (bedrock(), bedrock(toolConfig={"tools": []})),
    "bedrock fields": (bedrock(), bedrock(additionalModelRequestFields={})),
}  # fmt: skip
DIFFERENT = {
    "empty message": (responses(), responses(say := {"role": "user", "content": ""}, say)),
    "argument": tuple(
        anthropic(messages=[model(tool_use(value)), user(tool_result(""))]) for value in ({"a": None}, {})
    ),
    "schema": tuple(
        anthropic(tools=[{**TOOL, "input_schema": {"type": "object", **more}}]) for more in ({}, {"a": []})
    ),
    "choice": (bedrock(toolConfig={"toolChoice": {"any": {}}}), bedrock()),
    "provider's tool": (gemini(), gemini(tools=[{"googleSearch": {}}])),
    "one of two tools": (gemini(tools=[{"googleSearch": {}, "urlContext": {}}]), gemini(tools=[{"urlContext": {}}])),
    "signed thought": tuple(
        anthropic(messages=[model(*thought, TEXT), user("x")])
        for thought in ([{"type": "thinking", "thinking": "", "signature": "s"}], [])
    ),
}


def causes(previous, current, endpoint=""):
    return explain(previous[1], current[1], dialect=previous[0], endpoint=endpoint)


@each(EQUAL)
def test_members_that_hold_nothing_break_no_cache(pair):
    for pair_causes in (causes(*pair), causes(*reversed(pair))):
        assert all(cause.is_harmless for cause in pair_causes)
        assert [cause.code for cause in pair_causes] in ([], ["LORE106"])


@each(DIFFERENT)
def test_empty_values_with_a_meaning_are_changes(pair):
    assert not all(cause.is_harmless for cause in causes(*pair))


@pytest.mark.parametrize(
    "pair", [(called("qwen3"), called("qwen3", content="")), (chat("qwen3"), chat("qwen3", reasoning_content=""))]
)
def test_chat_template_may_print_empty_members(pair):
    (cause,) = causes(*pair, endpoint="localhost:8000/v1/chat/completions")
    assert (cause.code, cause.kind, cause.evidence.templated) == ("LORE106", "unattributable", True)


def test_other_change_beside_empty_members_is_named():
    pair_causes = causes(anthropic(TEXT, system=""), anthropic({**TEXT, "text": "good bye", "citations": None}))
    assert [(cause.code, cause.is_harmless) for cause in pair_causes] == [("LORE127", False), ("LORE106", True)]

# ruff: noqa: E501 - one case a line reads better
"""Empty members: what holds nothing makes no difference to a prompt, wherever it comes or goes."""

from __future__ import annotations

import pytest

from lore.model.turn import Call
from lore.prefix.causes import find_causes
from lore.prefix.overlap import compare_prompts
from model.making import parsed
from prefix.test_causes import result, used

TEXT = {"type": "text", "text": "hello"}
SAID = {"role": "assistant", "content": [TEXT]}
CALLED = {"id": "c", "type": "function", "function": {"name": "a", "arguments": "{}"}}
TOOL = {"name": "a", "description": "does a", "input_schema": {"type": "object"}}
REASONED = {"type": "reasoning", "encrypted_content": "abc"}


def anthropic(*blocks, **fields):
    first = {"role": "user", "content": [TEXT, *blocks]}
    return "anthropic", {
        "model": "claude-opus-4-8",
        "messages": [first, SAID, {"role": "user", "content": "x"}],
        **fields,
    }


def chat(*tools, model="gpt-5", **fields):
    said = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b", **fields},
        {"role": "user", "content": "c"},
    ]
    return "openai-chat", {"model": model, "tools": [*tools], "messages": [{"role": "system", "content": "s"}, *said]}


def called(model="gpt-5", **fields):
    asked = {"role": "assistant", "tool_calls": [CALLED], **fields}
    rest = [asked, {"role": "tool", "tool_call_id": "c", "content": "r"}]
    return "openai-chat", {"model": model, "messages": [{"role": "user", "content": "a"}, *rest]}


def responses(*items, **fields):
    first, last = ({"type": "message", "role": "user", "content": [{"type": "input_text", "text": t}]} for t in "ab")
    return "openai-responses", {"model": "gpt-5-codex", "input": [first, *items, last], **fields}


def gemini(*parts, **fields):
    said = [{"role": "user", "parts": [{"text": "a"}, *parts]}, {"role": "model", "parts": [{"text": "b"}]}]
    return "gemini", {
        "model": "gemini-3-pro",
        "contents": [*said, {"role": "user", "parts": [{"text": "c"}]}],
        **fields,
    }


def bedrock(**fields):
    said = [{"role": "user", "content": [{"text": "a"}]}, {"role": "assistant", "content": [{"text": "b"}]}]
    return "bedrock", {"messages": [*said, {"role": "user", "content": [{"text": "c"}]}], **fields}


def found(left, right, endpoint=""):
    mine, theirs = parsed(left[1], left[0]), parsed(right[1], right[0])
    return find_causes(
        mine,
        theirs,
        compare_prompts(mine, theirs),
        (),
        previous_call=Call(endpoint=endpoint),
        current_call=Call(endpoint=endpoint),
    )


SAME = {
    "metadata": (anthropic(), anthropic(metadata={})),
    "tools": (anthropic(), anthropic(tools=[])),
    "system text": (anthropic(), anthropic(system="")),
    "system list": (anthropic(), anthropic(system=[])),
    "system block": (anthropic(system=[TEXT]), anthropic(system=[TEXT, {"type": "text", "text": ""}])),
    "stop_sequences": (anthropic(), anthropic(stop_sequences=None)),
    "thinking": (anthropic(), anthropic(thinking=None)),
    "context_management": (anthropic(), anthropic(context_management={"edits": []})),
    "text block": (anthropic(), anthropic({"type": "text", "text": ""})),
    "citations": (anthropic(TEXT), anthropic({**TEXT, "citations": None})),
    "citations list": (anthropic(TEXT), anthropic({**TEXT, "citations": []})),
    "result": (anthropic(messages=[used({}), result("")]), anthropic(messages=[used({}), result([])])),
    "a good end": (anthropic(messages=[used({}), result("r")]), anthropic(messages=[used({}), {"role": "user", "content": [{**result("r")["content"][0], "is_error": False}]}])),
    "tool member": (anthropic(tools=[TOOL]), anthropic(tools=[{**TOOL, "strict": None}])),
    "chat tools": (chat(), ("openai-chat", {key: v for key, v in chat()[1].items() if key != "tools"})),
    "chat refusal": (chat(), chat(refusal=None, annotations=[], audio=None, function_call=None)),
    "chat calls": (chat(), chat(tool_calls=[])),
    "chat reasoning": (chat(), chat(reasoning_content="")),
    "chat content": (called(content=None), called(content="")),
    "chat no content": (called(), called(content="")),
    "chat no list": (called(), called(content=[])),
    "instructions": (responses(), responses(instructions="")),
    "reasoning": (responses(), responses(reasoning={"effort": None, "summary": None})),
    "reasoning's summary": (responses(REASONED), responses({**REASONED, "summary": []})),
    "reasoning's content": (responses(REASONED), responses({**REASONED, "content": None})),
    "gemini part": (gemini(), gemini({"text": ""})),
    "gemini signature": (gemini({"text": "x"}), gemini({"text": "x", "thoughtSignature": ""})),
    "gemini system": (gemini(), gemini(systemInstruction={"parts": []})),
    "gemini system text": (gemini(), gemini(systemInstruction={"role": "user", "parts": [{"text": ""}]})),
    "gemini tools": (gemini(), gemini(tools=[{"functionDeclarations": []}])),
    "bedrock status": (bedrock(messages=[{"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": [{"text": "r"}]}}]}]),
                       bedrock(messages=[{"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": [{"text": "r"}], "status": "success"}}]}])),
    "bedrock system": (bedrock(), bedrock(system=[])),
    "bedrock tools": (bedrock(), bedrock(toolConfig={"tools": []})),
    "bedrock fields": (bedrock(), bedrock(additionalModelRequestFields={})),
}  # fmt: skip


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("name", SAME)
def test_what_holds_nothing_is_no_cache_break(name, backwards):
    """Each was named as history, tools or settings that changed."""
    left, right = reversed(SAME[name]) if backwards else SAME[name]
    said = found(left, right)
    assert all(cause.harmless for cause in said)
    assert [cause.code for cause in said] in ([], ["LORE106"])


OTHER = {
    "an empty message": (chat(), (chat()[0], {**chat()[1], "messages": [{"role": "user", "content": ""}, *chat()[1]["messages"]]})),
    "an argument": (anthropic(messages=[used({"a": None}), result("")]), anthropic(messages=[used({}), result("")])),
    "a schema": (anthropic(tools=[TOOL]), anthropic(tools=[{**TOOL, "input_schema": {"type": "object", "required": []}}])),
    "a choice": (bedrock(toolConfig={"toolChoice": {"any": {}}}), bedrock()),
    "a tool of the provider's": (gemini(), gemini(tools=[{"googleSearch": {}}])),
    "one of two": (gemini(tools=[{"googleSearch": {}, "urlContext": {}}]), gemini(tools=[{"urlContext": {}}])),
    "a signature": (anthropic(messages=[{"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": "s"}, TEXT]}, SAID]),
                    anthropic(messages=[{"role": "assistant", "content": [TEXT]}, SAID])),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER)
def test_what_is_empty_and_yet_says_something_is_a_change(name):
    assert not all(cause.harmless for cause in found(*OTHER[name]))


@pytest.mark.parametrize(
    "pair", [(called("qwen3"), called("qwen3", content="")), (chat(model="m"), chat(model="m", reasoning_content=""))]
)
def test_where_a_chat_template_may_print_it_only_a_bill_can_tell(pair):
    (cause,) = found(*pair, endpoint="localhost:8000/v1/chat/completions")
    assert (cause.code, cause.kind, cause.evidence.templated) == ("LORE106", "unattributable", True)


def test_another_change_beside_it_is_still_named():
    left = anthropic(TEXT, system="")
    right = anthropic({**TEXT, "text": "good bye", "citations": None})
    assert [(cause.code, cause.harmless) for cause in found(left, right)] == [("LORE127", False), ("LORE106", True)]

"""Answers of five SDKs: objects, mappings, streams; lore's blocks, and blocks that are kept as given."""

import asyncio
import json
from contextlib import nullcontext
from datetime import timedelta
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

import lore
from helpers.each import each
from helpers.sdk_fakes import ANSWERS, MODELS, TOOLS, blocks_of, plain
from lore.errors import LoreError
from lore.model.items import RawBlock, TextBlock, ThinkingBlock, ToolCall
from lore.sdk import objects
from lore.sdk.replies import reply_of

dialects = pytest.mark.parametrize("dialect", list(MODELS))
CALLS = [("file", {"path": "a.py"}), ("page", {"n": 1.5})]

STREAMS = {
    "anthropic": [
        {"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "content": [],
         "usage": {"input_tokens": 3, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 10,
                   "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Let me "}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "look."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1,
         "content_block": {"type": "tool_use", "id": "t1", "name": "file", "input": {}}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"path":'}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '"a.py"}'}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ],
    "openai-chat": [
        {"id": "c1", "object": "chat.completion.chunk",
         "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Let me "}}]},
        {"id": "c1", "choices": [{"index": 0, "delta": {"content": "look."}}]},
        {"id": "c1", "choices": [{"index": 0, "delta": {"tool_calls": [
            {"index": 0, "id": "t1", "type": "function", "function": {"name": "file", "arguments": '{"path":'}}]}}]},
        {"id": "c1", "choices": [{"index": 0, "finish_reason": "tool_calls", "delta": {"tool_calls": [
            {"index": 0, "function": {"arguments": '"a.py"}'}}]}}]},
        {"id": "c1", "choices": [], "usage": {"prompt_tokens": 103, "completion_tokens": 9,
         "prompt_tokens_details": {"cached_tokens": 90}}},
    ],
    "openai-responses": [
        {"type": "response.created", "response": {"id": "r1", "status": "in_progress", "output": []}},
        {"type": "response.output_text.delta", "delta": "Let me "},
        {"type": "response.completed", "response": {"id": "r1", "object": "response", "status": "completed", "output": [
            {"type": "message", "id": "m1", "role": "assistant", "content": [
                {"type": "output_text", "text": "Let me look.", "annotations": []}]},
            {"type": "function_call", "id": "f1", "call_id": "t1", "name": "file", "arguments": '{"path":"a.py"}'}],
         "usage": {"input_tokens": 103, "input_tokens_details": {"cached_tokens": 90}, "output_tokens": 9}}},
    ],
    "gemini": [
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "Let me "}]}}], "responseId": "r1"},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "look."}]}}]},
        {"candidates": [{"content": {"role": "model", "parts": [
            {"functionCall": {"id": "t1", "name": "file", "args": {"path": "a.py"}}}]}, "finishReason": "STOP"}],
         "usageMetadata": {"promptTokenCount": 103, "cachedContentTokenCount": 90, "candidatesTokenCount": 9}},
    ],
    "bedrock": [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Let me "}}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "look."}}},
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {"contentBlockStart": {"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "t1", "name": "file"}}}},
        {"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"toolUse": {"input": '{"path":"a.py"}'}}}},
        {"contentBlockStop": {"contentBlockIndex": 1}},
        {"messageStop": {"stopReason": "tool_use"}},
        {"metadata": {"usage": {"inputTokens": 13, "cacheReadInputTokens": 90, "outputTokens": 9, "totalTokens": 112},
                      "metrics": {"latencyMs": 5}}},
    ],
}  # fmt: skip
STOPPED = {
    "anthropic": "tool_use", "openai-chat": "tool_calls", "openai-responses": "completed", "gemini": "STOP",
    "bedrock": "tool_use",
}  # fmt: skip


@dialects
@pytest.mark.parametrize("kind", ["list", "iterator", "objects"])
def test_a_stream_says_what_a_whole_response_says(dialect, kind):
    chunks = STREAMS[dialect]
    if kind == "objects":
        chunks = [SimpleNamespace(**chunk) for chunk in chunks]
    reply = reply_of(chunks if kind == "list" else iter(chunks), dialect)
    assert (reply.text, reply.stop_reason) == ("Let me look.", STOPPED[dialect])
    assert [(call.call_id, call.name, call.input) for call in reply.calls] == [("t1", "file", {"path": "a.py"})]
    usage = reply.usage
    assert (usage.read_tokens, usage.output_tokens) == (90, 9)
    assert usage.uncached_tokens == (3 if dialect == "anthropic" else 13)


MESSAGES = {  # as a part of a response holds them
    "anthropic": {"role": "assistant", "content": [{"type": "text", "text": "Hi."}]},
    "openai-chat": {"role": "assistant", "content": "Hi."},
    "openai-responses": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]},
    "gemini": {"role": "model", "parts": [{"text": "Hi."}]},
    "bedrock": {"role": "assistant", "content": [{"text": "Hi."}]},
}


@dialects
def test_message_alone_is_an_answer(dialect):
    assert reply_of(MESSAGES[dialect], dialect).text == "Hi."


@dialects
def test_list_of_whole_answers_is_no_stream(dialect):
    """Each was read as a chunk, and its text was lost."""
    responses = [] if dialect == "gemini" else [ANSWERS[dialect](1, "Hi.", [], 100, 90)]  # Gemini's chunks are such
    for answer in (MESSAGES[dialect], *responses):
        with pytest.raises(LoreError, match="list of whole answers"):
            reply_of([answer], dialect)


def test_stream_inside_boto3_response_is_read():
    assert reply_of({"stream": iter(STREAMS["bedrock"]), "ResponseMetadata": {}}, "bedrock").text == "Let me look."


def test_stream_helper_returns_final_message():
    class Watched:
        def __iter__(self):
            return iter(())

        def get_final_message(self):
            return ANSWERS["anthropic"](1, "Done.", [], 100, 90)

    assert reply_of(Watched(), "anthropic").text == "Done."


def test_raw_response_is_parsed_and_unopened_stream_refused():
    """One was "a timedelta", of the other the hint was to give what the call returned."""
    answer = ANSWERS["anthropic"](1, "Done.", [], 100, 90)
    raw = SimpleNamespace(http_response="…", elapsed=timedelta(1), parse=lambda: answer)
    assert reply_of(raw, "anthropic").text == "Done."
    with pytest.raises(LoreError, match="is not opened") as caught:
        reply_of(nullcontext(), "anthropic")
    assert "with … as stream" in caught.value.hint


@dialects
def test_asyncio_stream_is_read_if_awaited(dialect):
    async def chunks():
        for chunk in STREAMS[dialect]:
            yield chunk

    async def answer():
        return chunks()

    session = lore.Session(MODELS[dialect], dialect=dialect)
    session.user("hi")
    session.request()
    with pytest.raises(LoreError, match="stream of asyncio"):
        session.assistant(chunks())
    waiting = answer()
    with pytest.raises(LoreError, match="coroutine"):
        session.assistant(waiting)
    waiting.close()
    assert asyncio.run(session.assistant_async(answer())).text == "Let me look."


@dialects
@pytest.mark.parametrize("other", list(MODELS))
def test_response_of_another_dialect_is_an_error(dialect, other):
    for response in (ANSWERS[dialect](1, "hi", CALLS, 100, 90), STREAMS[dialect]):
        if dialect == other:
            assert reply_of(response, other).text
            assert isinstance(response, list) or reply_of({**objects.plain(response), "error": {}}, other).text
            continue
        with pytest.raises(LoreError) as caught:
            reply_of(response, other)
        assert other in caught.value.message
        assert f"dialect={dialect!r}" in caught.value.hint


@each("response, said", [
    ({"type": "error", "error": {"message": "overloaded"}}, "overloaded"),
    ({"type": "error", "error": {"message": "busy\x1b[2J\n"}}, r"error: busy \[2J "),
    ({"error": {"message": "no such model", "code": 404}}, "no such model"),
    (object(), "an object is not JSON|not a response"), (5, "not a response"), (None, "not a response"),
    ({}, "not a response"),
    ([], "no chunks"), (iter(()), "no chunks"), (MagicMock(), "not JSON|not a response|no chunks"), (len, "not JSON"),
    ({"id": "x", "data": 1}, "of Anthropic's Messages: a dict with id, data, without .type.: .message."),
    ([1], "not a response"),
    (Exception("timeout"), "not a response"),
])  # fmt: skip
def test_invalid_answer_changes_nothing(response, said):
    session = lore.Session("claude-opus-5")
    session.user("hi")
    session.request()
    before = session.log()
    with pytest.raises(LoreError, match=said):
        session.assistant(response)
    assert session.log() == before


def test_an_answer_to_no_request_is_an_error():
    session = lore.Session("claude-opus-5")
    session.user("hi")
    with pytest.raises(LoreError, match="no open request that this could answer"):
        session.assistant(ANSWERS["anthropic"](1, "hi", [], 100, 90))
    assert session.assistant("text from elsewhere").text, "a text is history, and bills nothing"
    before = session.log()
    for answer in ("a second one", {"role": "assistant", "content": "a second one"}):
        with pytest.raises(LoreError, match="no open request that this could answer"):
            session.assistant(answer)
    assert session.log() == before


@dialects
def test_provider_blocks_are_sent_back_unchanged(dialect):
    """Each block of the answer is in the next request, with its unknown members."""
    session = lore.Session(MODELS[dialect], dialect=dialect, tools=TOOLS)
    session.user("hi")
    session.request()
    response = ANSWERS[dialect](1, "Let me look.", CALLS, 100, 90)
    for call in session.assistant(response).calls:
        session.result(call.call_id, "ok")
    again = "".join(blocks_of(session.request()))
    kept = {
        "anthropic": ['"caller": {"type": "direct"}', '"signature": "sig1"', '{"type": "novelty", "says": 1}'],
        "openai-chat": ['"reasoning_content": "hm 1"', r"{\"path\": \"a.py\"}"],
        "openai-responses": ['"encrypted_content": "b64"', '"id": "fc_1_0"', '"status": "completed"'],
        "gemini": ['"text": "Let me look.", "thought_signature": "fffe"', '"thought_signature": "0000"'],
        "bedrock": ['"signature": "sig1"', '"redactedContent": "fffe"', '"n": 1.5'],
    }[dialect]
    text = json.dumps(plain(session.request()))
    for words in kept:
        assert words in again or words in text or words.replace('"', '\\"') in text, words


@dialects
@pytest.mark.parametrize("other", list(MODELS))
def test_other_dialect_gets_no_foreign_block(dialect, other):
    session = lore.Session(MODELS[dialect], dialect=dialect, tools=TOOLS)
    session.user("hi")
    session.request()
    for call in session.assistant(ANSWERS[dialect](1, "Let me look.", CALLS, 100, 90)).calls:
        session.result(call.call_id, "ok")
    moved = lore.Session.read(session.log(), dialect=other)
    body = moved.write(moved.begin_turn().prompt)
    assert b"Let me look." in body
    assert b"a.py" in body
    foreign = (b"novelty", b"caller", b"encrypted_content", b"reasoning_content", b"thought_signature", b"redactedCon")
    if dialect != other:
        assert [word for word in foreign if word in body] == []


USED = {"type": "tool_use", "id": "c", "name": "file", "input": {}, "caller": {"type": "direct"}}
CALLED = {"id": "c", "type": "function", "function": {"name": "file", "arguments": "{}"}}
TWICE = {
    "anthropic": {"id": "m", "role": "assistant", "content": [USED, USED], "stop_reason": "tool_use"},
    "openai-chat": {"choices": [{"message": {"role": "assistant", "tool_calls": [CALLED, CALLED]}}]},
}


@pytest.mark.parametrize("dialect", list(TWICE))
def test_call_id_given_twice_gets_two_results(dialect):
    """The second call never got its result: no request could follow."""
    session = lore.Session(MODELS[dialect], dialect=dialect, tools=TOOLS)
    session.user("hi")
    session.request()
    calls = session.assistant(TWICE[dialect]).calls
    for number, call in enumerate(calls):
        session.result(call.call_id, f"result {number}")
    body = json.dumps(session.request())
    assert [body.count(f'"{call.call_id}"') for call in calls] == [2, 2], "the call and its result"


def test_text_between_calls_keeps_its_place():
    session = lore.Session("claude-opus-5")
    session.user("hi")
    session.request()
    call = {"type": "tool_use", "name": "f", "input": {}}
    content = [
        {"type": "text", "text": "one"}, {**call, "id": "t1"}, {"type": "text", "text": "two"}, {**call, "id": "t2"},
    ]  # fmt: skip
    reply = session.assistant(
        {"role": "assistant", "content": content, "type": "message", "usage": {"input_tokens": 1}}
    )
    assert [type(part) for part in reply.parts] == [TextBlock, ToolCall, TextBlock, ToolCall]
    for use in reply.calls:
        session.result(use.call_id, "ok")
    sent = session.request()["messages"][1]["content"]
    assert [block.get("text", block.get("id")) for block in sent] == ["one", "t1", "two", "t2"]
    assert session.problems == []


@each("arguments, told", [
    ('{"a": 1.0}', {"a": 1.0}), ('{\n "a": 1\n}', {"a": 1}), ("", {}), ("not json", "not json"), ("[1]", "[1]"),
    ('{"a": 18446744073709551617}', {"a": 18446744073709551617}), ('{"a"', '{"a"'),
])  # fmt: skip
def test_arguments_go_back_as_the_model_spelled_them(arguments, told):
    session = lore.Session("gpt-5.6", dialect="openai-chat")
    session.user("hi")
    session.request()
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    response = {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [call]}}]}
    assert session.assistant(response).calls[0].input == told
    session.result("c1", "ok")
    assert lore.Session.read(session.log()).problems == []
    message = next(one for one in session.request()["messages"] if one["role"] == "assistant")
    assert message["tool_calls"][0] == call


def test_plain_blocks_are_kept_once():
    parts = reply_of(
        {"type": "message", "role": "assistant", "usage": {"input_tokens": 1}, "content": [
            {"type": "thinking", "thinking": "…", "signature": "s"}, {"type": "text", "text": "hi", "citations": None},
            {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}, {"type": "redacted_thinking", "data": "x"},
        ]}, "anthropic",
    ).parts  # fmt: skip
    assert [type(part) for part in parts] == [ThinkingBlock, TextBlock, ToolCall, RawBlock]
    assert parts[1].raw is parts[2].raw is None


def test_anthropic_sdk_objects_are_read():
    types = pytest.importorskip("anthropic.types")
    construct = pytest.importorskip("anthropic._models").construct_type
    answer = plain(vars(ANSWERS["anthropic"](1, "Let me look.", CALLS, 100, 90)) | {
        "usage": {"input_tokens": 3, "output_tokens": 9, "cache_read_input_tokens": 90}})  # fmt: skip
    reply = reply_of(construct(type_=types.Message, value=answer), "anthropic")
    assert reply.text == "Let me look."
    assert [call.input for call in reply.calls] == [{"path": "a.py"}, {"n": 1.5}]
    assert (reply.usage.read_tokens, reply.stop_reason, reply.response_id) == (90, "tool_use", "msg_1")
    assert json.loads(bytes(reply.parts[-1].json)) == {"type": "novelty", "says": 1}
    events = [construct(type_=types.RawMessageStreamEvent, value=event) for event in STREAMS["anthropic"] if
              event["type"] != "ping"]  # fmt: skip
    assert reply_of(iter(events), "anthropic").calls[0].input == {"path": "a.py"}


def test_openai_sdk_objects_are_read():
    construct = pytest.importorskip("openai._models").construct_type
    chat = pytest.importorskip("openai.types.chat")
    responses = pytest.importorskip("openai.types.responses")
    for dialect, kind, chunk in (
        ("openai-chat", chat.ChatCompletion, chat.ChatCompletionChunk),
        ("openai-responses", responses.Response, responses.ResponseStreamEvent),
    ):
        given = ANSWERS[dialect](1, "Let me look.", CALLS, 100, 90)
        reply = reply_of(construct(type_=kind, value=given), dialect)
        assert reply.parts == reply_of(given, dialect).parts or dialect == "openai-responses"
        assert (reply.text, reply.usage.read_tokens, len(reply.calls)) == ("Let me look.", 90, 2)
        events = [construct(type_=chunk, value=event) for event in STREAMS[dialect]]
        assert reply_of(iter(events), dialect).calls[0].input == {"path": "a.py"}


def test_google_sdk_objects_are_read_both_ways():
    types = pytest.importorskip("google.genai.types")
    given = ANSWERS["gemini"](1, "Let me look.", CALLS, 100, 90)
    candidates = [{"content": given.candidates[0].content, "finish_reason": "STOP"}]
    response = types.GenerateContentResponse(
        candidates=candidates, usage_metadata=given.usage_metadata, response_id="r"
    )
    session = lore.Session("gemini-3-pro", tools=TOOLS, params={"temperature": 0.5, "max_output_tokens": 99})
    session.user("hi")
    session.request()
    reply = session.assistant(response)
    assert (reply.text, reply.usage.read_tokens, reply.stop_reason) == ("Let me look.", 90, "STOP")
    for call in reply.calls:
        session.result(call.call_id, "ok")
    arguments = session.request(current_time="10:00")
    contents = [types.Content.model_validate(content) for content in arguments["contents"]]
    assert contents[1] == types.Content.model_validate(given.candidates[0].content)
    config = types.GenerateContentConfig.model_validate(arguments["config"])
    assert (config.temperature, config.max_output_tokens, len(config.tools[0].function_declarations)) == (0.5, 99, 2)


def test_tool_may_be_an_object_that_returns_its_members():
    """Functions that anthropic's `beta_tool` decorates are such objects."""
    tool = {"name": "grep", "description": "Searches.", "input_schema": {"type": "object", "properties": {}}}
    session = lore.Session("claude-opus-5", tools=[SimpleNamespace(to_dict=lambda: tool)])
    session.user("Find it.")
    assert [{name: one[name] for name in tool} for one in session.request()["tools"]] == [tool]


def test_tools_and_params_may_be_pydantic_models():
    types = pytest.importorskip("google.genai.types")
    function = types.FunctionDeclaration(name="f", description="Read", parameters_json_schema={"type": "object"})
    tool, config = types.Tool(function_declarations=[function]), types.GenerateContentConfig(temperature=0.5)
    for params in (config, {"temperature": 0.5, "thinking_config": types.ThinkingConfig(thinking_budget=9)}):
        session = lore.Session("gemini-3-pro", tools=[tool], params=params)
        session.user("hi")
        made = types.GenerateContentConfig.model_validate(session.request()["config"])
        assert (made.tools, made.temperature) == ([tool], 0.5)
    assert made.thinking_config.thinking_budget == 9


def test_boto3_accepts_the_arguments():
    session_of = pytest.importorskip("botocore.session")
    validate = pytest.importorskip("botocore.validate")
    shape = session_of.get_session().get_service_model("bedrock-runtime").operation_model("Converse").input_shape
    session = lore.Session("amazon.nova-pro-v1:0", tools=TOOLS, system="Be brief.", params={
        "inferenceConfig": {"maxTokens": 99}})  # fmt: skip
    session.user(["look", {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}])
    session.request()
    for call in session.assistant(ANSWERS["bedrock"](1, "Let me look.", CALLS, 100, 90)).calls:
        session.result(call.call_id, "ok")
    arguments = session.request(current_time="10:00")
    report = validate.ParamValidator().validate(arguments, shape)
    assert not report.has_errors(), report.generate_report()
    assert arguments["messages"][0]["content"][1]["image"]["source"]["bytes"] == b"\x89PNG"

"""Tool calls and results without a counterpart: what each API refuses, and the same answer part by part."""

from random import Random

import pytest

from helpers.each import each
from judge.captures import ANTHROPIC, call, judged, usage
from lore.judge.requests.lint import Linter
from lore.judge.requests.tool_pairs import ToolHistory
from lore.run.rules import PACKAGED
from model.making import parsed, turn


@each([*range(20)])
def test_followed_requests_equal_a_search_of_each(seed):
    chance, history, parts, before = Random(seed), ToolHistory(), list[dict](), None
    for _ in range(60):
        if chance.random() < 0.15:
            del parts[chance.randrange(len(parts) + 1) :]
        name, role = chance.choice("abc"), chance.choice(["user", "assistant"])
        answer, use = {"type": "tool_result", "tool_use_id": name}, {"type": "tool_use", "id": name, "name": "read"}
        parts = [*parts, {"role": role, "content": [use if role == "assistant" else answer]}]
        request, alone = turn(parsed({"messages": parts})), ToolHistory()
        same = 0 if before is None else before.messages.common(request.prompt.messages)
        history.read(request.prompt, same)
        alone.read(request.prompt)
        assert history.find_orphan(request) == alone.find_orphan(request)
        before = request.prompt


# what each API refuses

USER, NEXT = {"role": "user", "content": "Go."}, {"role": "user", "content": "Go on."}


def messages(calls, results, *, between=()):
    uses = [{"type": "tool_use", "id": name, "name": "read", "input": {}} for name in calls]
    answers = [{"type": "tool_result", "tool_use_id": name, "content": "done"} for name in results]
    reply = {"role": "assistant", "content": [{"type": "text", "text": "Reading."}, *uses]}
    follow = {"role": "user", "content": [*answers, {"type": "text", "text": "Go on."}]}
    return {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [USER, reply, *between, follow]}


def chat(calls, results, *, between=(), model="gpt-5.4"):
    uses = [{"id": name, "type": "function", "function": {"name": "read", "arguments": "{}"}} for name in calls]
    answers = [{"role": "tool", "tool_call_id": name, "content": "done"} for name in results]
    reply = {"role": "assistant", "content": "Reading.", **({"tool_calls": uses} if uses else {})}
    return {"model": model, "messages": [USER, reply, *between, *answers, NEXT]}


def responses(calls, results, *, between=()):
    uses = [{"type": "function_call", "call_id": name, "name": "read", "arguments": "{}"} for name in calls]
    answers = [{"type": "function_call_output", "call_id": name, "output": "done"} for name in results]
    return {"model": "gpt-5.4", "input": [USER, *uses, *between, *answers, NEXT]}


def gemini(calls, results, *, between=()):
    uses = [{"functionCall": {"name": name, "args": {}}} for name in calls]
    answers = [{"functionResponse": {"name": name, "response": {}}} for name in results]
    reply, follow = {"role": "model", "parts": [{"text": "Reading."}, *uses]}, [*answers, {"text": "Go on."}]
    return {
        "contents": [{"role": "user", "parts": [{"text": "Go."}]}, reply, *between, {"role": "user", "parts": follow}]
    }


def bedrock(calls, results, *, between=()):
    uses = [{"toolUse": {"toolUseId": name, "name": "read", "input": {}}} for name in calls]
    answers = [{"toolResult": {"toolUseId": name, "content": [{"text": "done"}]}} for name in results]
    reply, follow = {"role": "assistant", "content": [{"text": "Reading."}, *uses]}, [*answers, {"text": "Go on."}]
    first = {"role": "user", "content": [{"text": "Go."}]}
    return {"messages": [first, reply, *between, {"role": "user", "content": follow}]}


APIS = {
    "anthropic": (messages, ANTHROPIC),
    "openai-chat": (chat, "https://api.openai.com/v1/chat/completions"),
    "openai-responses": (responses, "https://api.openai.com/v1/responses"),
    "gemini": (gemini, "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:generateContent"),
    "bedrock": (
        bedrock,
        "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-sonnet-4-5-20250929-v1:0/converse",
    ),
}


def linted(body, dialect):
    defects = Linter(PACKAGED.rules).defects(turn(parsed(body, dialect)))
    return [(defect.kind, defect.evidence.part) for defect in defects if defect.code == "LORE150"]


def checked(folder, body, url, **fields):
    _, final_findings = judged(folder, call(0, body, fields.pop("bill", None), url=url, **fields))
    return [(finding.kind, finding.evidence.part) for finding in final_findings if finding.code == "LORE150"]


@pytest.mark.parametrize("dialect", APIS)
@pytest.mark.parametrize(("calls", "results", "part"), [
    ("ab", "ab", ""), ("ab", "a", "call"), ("a", "ab", "result"), ("", "a", "result"), ("a", "", "call"),
])  # fmt: skip
def test_request_with_orphan_is_refused(tmp_path, dialect, calls, results, part):
    write, url = APIS[dialect]
    expected = [("waste", part)] if part else []
    assert checked(tmp_path, write(calls, results), url, status=400) == expected
    body = write(calls, results)
    if dialect in ("gemini", "bedrock"):  # the model, by which the provider is known, is in the path
        body |= {"model": "gemini-2.5-pro"} if dialect == "gemini" else {"modelId": "us.anthropic.claude-sonnet-4-5"}
    assert linted(body, dialect) == expected


@pytest.mark.parametrize(("dialect", "expected"), [("openai-responses", []), ("openai-chat", [("waste", "result")])])
def test_late_result_is_refused_unless_paired_by_id(dialect, expected):
    write, _ = APIS[dialect]
    between = [NEXT, {"role": "assistant", "content": "Still reading."}]
    assert linted(write("a", "a", between=between), dialect) == expected


def test_calls_of_one_tool_are_counted_in_gemini():
    body = {"model": "gemini-2.5-pro"}
    assert linted(gemini(["read", "read"], ["read"]) | body, "gemini") == [("waste", "call")]
    assert linted(gemini(["read", "read"], ["read", "read"]) | body, "gemini") == []


def test_misnamed_result_in_gemini_names_its_call():
    request = turn(parsed(gemini(["read"], ["call_1"]) | {"model": "gemini-2.5-pro"}, "gemini"))
    (defect,) = (candidate for candidate in Linter(PACKAGED.rules).defects(request) if candidate.code == "LORE150")
    assert (defect.evidence.name, defect.evidence.call, defect.evidence.fix_detail()) == ("call_1", "read", "name")


def test_answered_request_with_orphan_is_a_warning(tmp_path):
    assert checked(tmp_path, messages("a", ""), ANTHROPIC, bill=usage(0, 0, 900)) == [("unattributable", "call")]


def test_orphan_sent_to_unknown_server_is_a_warning(tmp_path):
    local = "https://llm.example.com/v1/chat/completions"
    assert checked(tmp_path, chat("a", ""), local, status=500) == [("unattributable", "call")]


def test_lint_names_the_place_of_an_orphan():
    request = turn(parsed(messages("a", ""), "anthropic"))
    (defect,) = (candidate for candidate in Linter(PACKAGED.rules).defects(request) if candidate.code == "LORE150")
    assert defect.path == "messages[1].content[1]"


def test_call_of_last_message_may_be_answered():
    body = messages("a", "")
    assert linted({**body, "messages": body["messages"][:-1]}, "anthropic") == []


def test_history_kept_by_the_provider_has_no_orphan():
    result = responses("", "a")
    items = [{"type": "item_reference", "id": "fc_1"}, *result["input"]]
    assert linted(result, "openai-responses") == [("waste", "result")]
    for whole in ({"input": items}, {"conversation": "conv_1"}, {"conversation": {"id": "conv_1"}}):
        assert linted(result | whole, "openai-responses") == []


@pytest.mark.parametrize(("execution", "expected"), [("server", []), ("client", [("waste", "call")])])
def test_tool_search_of_the_provider_needs_no_result(execution, expected):
    search = {"type": "tool_search_call", "call_id": "tsc_1", "execution": execution, "arguments": {}}
    assert linted(responses("", "", between=[search]), "openai-responses") == expected


def test_result_without_an_id_is_no_orphan():
    assert linted(chat("", [""]), "openai-chat") == []

"""Purpose: calls beside a conversation are known by what they ask, and what a summary looks like."""

from __future__ import annotations

import pytest

from lore.model.turn import Call
from lore.prefix.purpose import (
    asks_to_compact,
    begins_user_turn,
    begins_with_summary,
    is_side_call,
    last_user_texts,
)
from model.making import assistant, body, parsed

TOOLS = [{"name": "ls", "input_schema": {}}]
HISTORY = ("Mend the bug.", assistant("Done."))
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]}


def beside(*messages, call=Call(), **fields):  # noqa: B008 - a frozen record
    return is_side_call(parsed(body(*messages, **fields)), call)


@pytest.mark.parametrize(
    "system",
    [
        "You are a title generator. You output ONLY a thread title.",
        "Generate a concise, sentence-case title (3-7 words) that captures the goal.",
        "Analyze if this message indicates a new conversation topic.",
        "You are a context summarization assistant.",
    ],
)
def test_a_call_about_a_conversation_is_known_by_its_system_prompt(system):
    assert beside("Mend the bug.", system=system)
    assert not beside("Mend the bug.", system=system, tools=TOOLS)
    assert not beside(*HISTORY, "Go on.", system=system)


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (Call(endpoint="api.anthropic.com/v1/messages/count_tokens"), True),
        (Call(endpoint="api.openai.com/v1/responses/compact"), True),
        (Call(purpose="compaction"), True),
        (Call(purpose="Session-Title"), True),
        (Call(endpoint="api.anthropic.com/v1/messages", purpose="repl_main_thread"), False),
        (Call(), False),
    ],
)
def test_the_client_and_the_endpoint_say_what_a_call_is_for(call, found):
    assert beside("Mend the bug.", call=call, tools=TOOLS) is found


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("Your task is to create a detailed summary of the conversation so far.", True),
        ("CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.", True),
        ("You are performing a CONTEXT CHECKPOINT COMPACTION.", True),
        ("Provide a detailed prompt for continuing our conversation above.", True),
        ("Write a summary of the module.", False),
    ],
)
def test_a_request_for_a_summary_of_the_conversation_is_known_by_its_last_words(asked, found):
    assert asks_to_compact(parsed(body(*HISTORY, asked, tools=TOOLS))) is found
    assert not asks_to_compact(parsed(body(asked, tools=TOOLS)))  # there is nothing to summarise yet


def test_what_a_tool_read_asks_for_nothing():
    """A tool's result that held another program's prompt was taken for a request to compact."""
    read = {"type": "tool_result", "tool_use_id": "t", "content": "Create a summary of the conversation."}
    assert not asks_to_compact(parsed(body(*HISTORY, {"role": "user", "content": [read]})))


def test_a_summary_is_looked_for_before_the_first_answer_only():
    summary = "This session is being continued from a previous conversation that ran out of context."
    assert begins_with_summary(parsed(body(summary, *HISTORY[1:], "Go on.")))
    assert not begins_with_summary(parsed(body(*HISTORY, summary)))


@pytest.mark.parametrize(
    ("messages", "found"),
    [((*HISTORY, "Next."), True), ((*HISTORY, RESULT), False), (HISTORY, False), (("a",), True), ((), False)],
)
def test_a_users_turn_begins_with_words_and_not_with_results(messages, found):
    assert begins_user_turn(parsed(body(*messages))) is found


def test_what_a_user_said_last_is_found_before_a_clients_system_message():
    late = {"role": "system", "content": "Agents: none"}
    found = last_user_texts(parsed(body(*HISTORY, "Next.", late)))
    assert [one.data for one in found] == [b'"Next."']

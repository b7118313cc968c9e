"""Side calls are known by their request, summaries by their words."""

import pytest

from helpers.each import each
from lore.model.turn import Call
from lore.prefix.purpose import (
    asks_to_compact,
    begins_user_turn,
    begins_with_summary,
    has_summary_heading,
    is_placeholder,
    is_side_call,
    is_summary,
    last_user_texts,
    retells,
)
from model.making import assistant, body, parsed
from prefix.pairs import tool_result, user

TOOLS = [{"name": "ls", "input_schema": {}}]
HISTORY = ("Repair the bug.", assistant("Done."))


def is_side(*messages, call=Call(), **fields):  # noqa: B008 - a frozen record
    return is_side_call(parsed(body(*messages, **fields)), call)


@pytest.mark.parametrize("system", [
    "You are a title generator. You output ONLY a thread title.",
    "Generate a concise, sentence-case title (3-7 words) that captures the goal.",
    "Analyze if this message indicates a new conversation topic.",
    "You are a context summarization assistant.",
])  # fmt: skip
def test_side_call_is_known_by_its_system_prompt(system):
    assert is_side("Repair the bug.", system=system)
    assert not is_side("Repair the bug.", system=system, tools=TOOLS)
    assert not is_side(*HISTORY, "Continue.", system=system)


@each("call, expected", [
    (Call(endpoint="api.openai.com/v1/responses/compact"), True),
    (Call(purpose="compaction"), True),
    (Call(purpose="Session-Title"), True),
    (Call(endpoint="api.anthropic.com/v1/messages", purpose="repl_main_thread"), False),
    (Call(), False),
])  # fmt: skip
def test_side_call_is_known_by_client_and_endpoint(call, expected):
    assert is_side("Repair the bug.", call=call, tools=TOOLS) is expected


@pytest.mark.parametrize(("words", "expected"), [
    ("Your task is to create a detailed summary of the conversation so far.", True),
    ("CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.", True),
    ("You are performing a CONTEXT CHECKPOINT COMPACTION.", True),
    ("Provide a detailed prompt for continuing our conversation above.", True),
    ("Write a summary of the module.", False),
])  # fmt: skip
def test_compaction_is_known_by_the_last_words(words, expected):
    assert asks_to_compact(parsed(body(*HISTORY, words, tools=TOOLS))) is expected
    assert not asks_to_compact(parsed(body(words, tools=TOOLS)))  # there is nothing to summarise yet
    assert not asks_to_compact(parsed(body(*HISTORY, user(tool_result(words)))))


@pytest.mark.parametrize(("messages", "expected"), [
    ((*HISTORY, "Next."), True),
    ((*HISTORY, user(tool_result())), False),
    (HISTORY, False),
    (("a",), True),
    ((), False),
])  # fmt: skip
def test_user_turn_begins_with_words_not_results(messages, expected):
    assert begins_user_turn(parsed(body(*messages))) is expected


def test_last_user_text_before_a_system_message():
    texts = last_user_texts(parsed(body(*HISTORY, "Next.", {"role": "system", "content": "Agents: none"})))
    assert [segment.data for segment in texts] == [b'"Next."']


def test_responses_tool_output_is_not_the_users_text():
    call = {"type": "function_call", "call_id": "c", "name": "help", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "/compact: summarize the conversation"}
    request = {"model": "gpt-5.2", "input": [{"role": "user", "content": "List the commands."}, call, output]}
    prompt = parsed(request, "openai-responses")
    assert last_user_texts(prompt) == []
    assert not is_side_call(prompt, Call())


# Summaries


def segments(*messages):
    return [segment for segment in parsed(body(*messages)).messages if segment.kind != "envelope"]


def segment(words):
    return segments(words)[0]


@each("words, expected", [
    ("This session is being continued from a previous conversation that ran out of context.", True),
    ("<summary>\nThe parser was repaired.\n</summary>", True),
    ("# Conversation Summary\n\n## Goal\nRepair it.", True),
    ("**Session recap**\nWe repaired it.", True),
    ("<context_checkpoint>\nRepaired.\n</context_checkpoint>", True),
    ("Rule-based summary of 12 earlier messages (the session's log keeps them):", True),
    ("## Summary\nThe parser fails on empty input.", False),  # how bug reports begin
    ("Implement the session snapshot feature in store.py.", False),
    ("Write a summary of this file.", False),
    ("Write a summary of 3 files.", False),
])  # fmt: skip
def test_summary_is_known_by_agents_phrases(words, expected):
    assert is_summary(segment(words)) is expected


def test_summary_counts_before_the_first_answer_only():
    summary = "This session is being continued from a previous conversation that ran out of context."
    assert begins_with_summary(parsed(body(summary, HISTORY[1], "Continue.")))
    assert not begins_with_summary(parsed(body(*HISTORY, summary)))


@pytest.mark.parametrize(("words", "expected"), [
    ("Here is a recap of what we did:\n…", True),
    ("## Zusammenfassung\nEs geht.", True),
    ("## Summary", True),
    ("Please look at the summary that the tests print, and repair its format.", False),
])  # fmt: skip
def test_summary_heading_is_known_in_many_languages(words, expected):
    assert has_summary_heading(segment(words)) is expected


def test_short_text_about_removed_messages_is_a_placeholder():
    assert is_placeholder(segment("[212 earlier messages were removed to save space]"))
    assert is_placeholder(segment("Earlier messages were omitted. " + "Ask if you need them. " * 12))
    assert is_placeholder(segment("（已省略12条早期消息）"))
    assert not is_placeholder(segment("对话摘要：解析器已经修复，空行的测试通过，还有两个测试没有完成。"))
    assert not is_placeholder(segment("The parser fails if a line is empty. " * 12))


def test_summary_retells_names_of_the_messages():
    removed = segments(
        "Repair lore/parse.py", assistant("I changed parse_line() and ran test_empty_line: 4711 passed.")
    )
    assert retells(segment("In lore/parse.py, parse_line was changed; test_empty_line passes now."), removed)
    assert not retells(segment("In lore/store.py, save_all was changed; test_full_disk passes now."), removed)
    assert not retells(segment("It was changed, and all is well now."), removed)


def test_short_summary_repeats_words_of_the_messages():
    removed = segments("Repair the parser.", assistant("The parser is repaired; two tests are still open."))
    assert retells(segment("The parser is done; two tests are open."), removed, words=True)
    assert not retells(segment("Mind the weather forecast of tomorrow."), removed, words=True)

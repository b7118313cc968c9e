# ruff: noqa: E501 - one message a line reads better
"""Pairs of requests as real agents send them: what a careful engineer says of each, and nothing else.

Each case is two bodies with where they went, when, and what was billed; it goes through `lore check` as a recording.
A pair whose set is empty is stable: there `check` says nothing at all.
"""

from __future__ import annotations

import json

import pytest

from lore.cli.main import main

HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
SHORT = {"cache_control": {"type": "ephemeral"}}
LONG = "Work in small steps, read before you write, run the tests before you say that it works. "


def text(said, **fields):
    return {"type": "text", "text": said, **fields}


def user(*blocks):
    return {"role": "user", "content": [text(one) if isinstance(one, str) else one for one in blocks]}


def model(*blocks):
    return {"role": "assistant", "content": [text(one) if isinstance(one, str) else one for one in blocks]}


def thinking(signature="EqQBCgIYAhIM", **fields):
    return {"type": "thinking", "thinking": "The parser indexes an empty text.", "signature": signature, **fields}


def use(n, name="Read", **given):
    return {"type": "tool_use", "id": f"toolu_{n}", "name": name, "input": given or {"file_path": f"/app/f{n}.py"}}


def result(n, said=None, **fields):
    said = f"{n}\tdef parse_{n}(text):\n{n + 1}\t    return text[0]\n" * 30 if said is None else said
    return {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": said, **fields}


def picture(data="iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"):
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def tool(name, **fields):
    return {
        "name": name,
        "description": f"{name} a file of the project.",
        "input_schema": {"type": "object", "properties": {"file_path": {"type": "string"}}},
        **fields,
    }


READ, EDIT, BASH = tool("Read"), tool("Edit"), tool("Bash")
MCP = tool("mcp__github__list_issues")


def claude(*messages, header="cch=a1b2c;", breakpoint=HOUR, tools=(READ, EDIT, BASH), more=(), **fields):
    """A request of Claude Code: a header line, breakpoints on two system blocks and the last message."""
    line = [text(f"x-anthropic-billing-header: cc_version=2.1.150.f3a; cc_entrypoint=cli; {header}")] if header else []
    system = [
        *line,
        text("You are Claude Code, Anthropic's official CLI for Claude.", **breakpoint),
        text(LONG * 450, **breakpoint),
        *more,
    ]
    *before, last = messages
    blocks = last["content"]
    if isinstance(blocks, list):
        last = {**last, "content": [*blocks[:-1], {**blocks[-1], **breakpoint}]}
    return {
        "model": "claude-opus-4-8",
        "max_tokens": 32000,
        "stream": True,
        "thinking": {"type": "adaptive"},
        "system": system,
        "tools": [*tools],
        "messages": [*before, last],
        **fields,
    }


REMINDER = "<system-reminder>\nAs you answer the user's questions, you can use the following context:\n# claudeMd\nUse tabs.\n</system-reminder>"
HOOK = "<system-reminder>\nSessionStart hook additional context: the ticket is PARSE-17.\n</system-reminder>"
NOTE = "<system-reminder>\nThe task tools have not been used recently.\n</system-reminder>"
FIRST = user(REMINDER, "Mend the parser in f1.py, please.")
READING = (model(thinking(), "I read it.", use(1)), user(result(1)))
DONE = model("It is mended: an empty text gives None.")
NEXT = user("Then write a test for it.")
BOTH = (model("I read both.", use(1), use(2)), user(result(1), result(2)))
SEARCH = {"type": "web_search_20260209", "name": "web_search", "max_uses": 5}
FOUND = model({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "empty text parser"}},
              {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result", "url": "https://example.org/a", "title": "Parsers", "encrypted_content": "EqgfCioIARgBIiQ3", "page_age": None}]},
              text("A parser should say None.", citations=[{"type": "web_search_result_location", "url": "https://example.org/a", "title": "Parsers", "encrypted_index": "Eo8BCioI", "cited_text": "say None"}]))  # fmt: skip
CLEAR = {
    "context_management": {
        "edits": [{"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 30000}}]
    }
}
LATE = tool("mcp__jira__get_issue", defer_loading=True)
TOOL_SEARCH = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
DISCOVERED = (model({"type": "server_tool_use", "id": "srvtoolu_2", "name": "tool_search_tool_regex", "input": {"query": "jira"}},
                    {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_2", "content": {"type": "tool_search_tool_search_result", "tool_references": [{"type": "tool_reference", "tool_name": "mcp__jira__get_issue"}]}},
                    use(3, "mcp__jira__get_issue", key="PARSE-17")), user(result(3, "PARSE-17: parser fails")))  # fmt: skip
SUMMARY = user(
    "This session is being continued from a previous conversation that ran out of context. The summary below covers the earlier portion.\n\n1. The parser in f1.py was mended."
)
OPERATOR = {"role": "system", "content": [text("The user switched to plan mode.")]}


class Case:
    """Two requests and what is to be said; `bills` are (uncached, read, written) tokens of both."""

    def __init__(
        self,
        left,
        right,
        *said,
        url="https://api.anthropic.com/v1/messages",
        bills=None,
        after=20,
        sessions=(None, None),
        answers=(None, None),
    ):
        self.bodies, self.said, self.url, self.bills = (left, right), set(said), url, bills or (None, None)
        self.after, self.sessions, self.answers = after, sessions, answers


WASTE, UNKNOWN, EXPECTED = "waste", "unattributable", "expected"
CLAUDE = {
    "breakpoints of an hour roll on": Case(claude(FIRST), claude(FIRST, *READING)),
    "breakpoints of five minutes roll on": Case(claude(FIRST, *READING, breakpoint=SHORT), claude(FIRST, *READING, DONE, NEXT, breakpoint=SHORT)),
    "a hook's output comes with the next message": Case(claude(FIRST, *READING), claude(FIRST, *READING, DONE, user(HOOK, "Then write a test for it."))),
    "a hook's output is put into the first message": Case(claude(FIRST, *READING), claude(user(HOOK, *FIRST["content"]), *READING, DONE, NEXT), ("LORE111", WASTE)),
    "a reminder behind a result is gone": Case(claude(FIRST, READING[0], user(result(1), NOTE)), claude(FIRST, *READING, DONE, NEXT), ("LORE156", EXPECTED)),
    "a system message comes in mid-conversation": Case(claude(FIRST, *READING), claude(FIRST, *READING, DONE, NEXT, OPERATOR)),
    "a gateway moves it to the top": Case(claude(FIRST, *READING, OPERATOR, DONE, NEXT), claude(FIRST, *READING, DONE, NEXT, model("Yes."), user("Go on."), more=(OPERATOR["content"][0],)), ("LORE111", WASTE)),
    "thinking is sent again": Case(claude(FIRST, *READING, DONE, NEXT), claude(FIRST, *READING, DONE, NEXT, model(thinking("Ev4"), "Yes.", use(2)), user(result(2)))),
    "thinking is dropped": Case(claude(FIRST, *READING), claude(FIRST, model("I read it.", use(1)), READING[1], DONE, NEXT), ("LORE115", WASTE)),
    "thinking is signed anew": Case(claude(FIRST, *READING), claude(FIRST, model(thinking("Another"), "I read it.", use(1)), READING[1], DONE, NEXT), ("LORE115", WASTE)),
    "what a search found is sent again": Case(claude(FIRST, FOUND, NEXT, tools=(READ, SEARCH)), claude(FIRST, FOUND, NEXT, DONE, user("Thanks."), tools=(READ, SEARCH))),
    "what a search found is cut": Case(claude(FIRST, FOUND, NEXT, tools=(READ, SEARCH)), claude(FIRST, model(FOUND["content"][0], {**FOUND["content"][1], "content": [{"type": "web_search_result", "url": "https://example.org/a", "title": "Parsers"}]}, FOUND["content"][2]), NEXT, DONE, user("Thanks."), tools=(READ, SEARCH)), ("LORE117", WASTE)),
    "web search is switched on": Case(claude(FIRST), claude(FIRST, *READING, tools=(READ, EDIT, BASH, SEARCH)), ("LORE103", WASTE)),
    "the client clears an old result": Case(claude(FIRST, *READING, DONE, NEXT), claude(FIRST, READING[0], user(result(1, "[Old tool result content cleared]")), DONE, NEXT, model("Yes."), user("Go on.")), ("LORE117", WASTE)),
    "the API may clear, and reads all": Case(claude(FIRST, *READING, **CLEAR), claude(FIRST, *READING, DONE, NEXT, **CLEAR), bills=((5, 0, 10000), (5, 10000, 900))),
    "the API clears old results": Case(claude(FIRST, *READING, **CLEAR), claude(FIRST, *READING, DONE, NEXT, **CLEAR), ("LORE301", UNKNOWN), bills=((5, 0, 10000), (5, 3000, 7900))),
    "clearing is switched on": Case(claude(FIRST, *READING), claude(FIRST, *READING, DONE, NEXT, **CLEAR), ("LORE122", UNKNOWN)),
    "a deferred tool is discovered": Case(claude(FIRST, tools=(READ, TOOL_SEARCH, LATE)), claude(FIRST, *DISCOVERED, tools=(READ, TOOL_SEARCH, LATE))),
    "a discovered tool is loaded into the list": Case(claude(FIRST, *DISCOVERED, tools=(READ, TOOL_SEARCH, LATE)), claude(FIRST, *DISCOVERED, DONE, NEXT, tools=(READ, TOOL_SEARCH, tool("mcp__jira__get_issue"))), ("LORE124", WASTE)),
    "a server's tools come late": Case(claude(FIRST), claude(FIRST, *READING, tools=(READ, EDIT, BASH, MCP)), ("LORE103", WASTE)),
    "a picture is sent again": Case(claude(user("See:", picture())), claude(user("See:", picture()), DONE, NEXT)),
    "a picture is encoded anew": Case(claude(user("See:", picture())), claude(user("See:", picture("/9j/4AAQSkZJRgABAQ")), DONE, NEXT), ("LORE118", WASTE)),
    "a picture in a result became text": Case(claude(FIRST, READING[0], user(result(1, [picture()]))), claude(FIRST, READING[0], user(result(1, [text("[image omitted]")])), DONE, NEXT), ("LORE118", WASTE)),
    "a picture became text": Case(claude(user("See:", picture()), DONE, NEXT), claude(user("See:", "[image removed]"), DONE, NEXT, model("Yes."), user("Go on.")), ("LORE118", WASTE)),
    "results of parallel calls in one message": Case(claude(FIRST), claude(FIRST, *BOTH)),
    "results of parallel calls in another order": Case(claude(FIRST, *BOTH), claude(FIRST, BOTH[0], user(result(2), result(1)), DONE, NEXT), ("LORE100", WASTE)),
    "the header is another": Case(claude(FIRST), claude(FIRST, *READING, header="cch=d4e5f;"), ("LORE107", EXPECTED)),
    "the header is another at a gateway": Case(claude(FIRST), claude(FIRST, *READING, header="cch=d4e5f;"), ("LORE107", WASTE), url="https://llm.example.org/v1/messages"),
    "the skills stand in another order after a resume": Case(claude(user("<system-reminder>\nSkills:\n- commit\n- review\n</system-reminder>", "Mend it."), *READING), claude(user("<system-reminder>\nSkills:\n- review\n- commit\n</system-reminder>", "Mend it."), *READING, DONE, NEXT), ("LORE123", WASTE), after=1500),
    "five minutes pass": Case(claude(FIRST, breakpoint=SHORT), claude(FIRST, *READING, breakpoint=SHORT), ("LORE128", EXPECTED), bills=((5, 0, 9000), (5, 0, 9900)), after=400),
    "effort is raised": Case(claude(FIRST, *READING, output_config={"effort": "medium"}), claude(FIRST, *READING, DONE, NEXT, output_config={"effort": "high"}), ("LORE120", WASTE)),
    "a message is taken back": Case(claude(FIRST, *READING, DONE, NEXT, model("Here."), user("Hm.")), claude(FIRST, *READING, DONE, user("No: write the docs.")), ("LORE143", EXPECTED)),
    "it is interrupted": Case(claude(FIRST, *READING), claude(FIRST, *READING, model("I"), user("[Request interrupted by user]", "No."))),
    "another model goes on": Case(claude(FIRST), {**claude(FIRST, *READING), "model": "claude-sonnet-5"}, ("LORE119", EXPECTED)),
    "a call's arguments are sorted": Case(claude(FIRST, model(use(1, path="a", lines=2)), user(result(1))), claude(FIRST, model(use(1, lines=2, path="a")), user(result(1)), DONE, NEXT), ("LORE105", WASTE)),
    "it is compacted": Case(claude(FIRST, *READING, DONE, NEXT), claude(SUMMARY, user("Go on.")), ("LORE125", EXPECTED)),
    "a proxy escapes HTML": Case(claude(user("Is a < b && c?"), DONE, NEXT), claude(user("Is a &lt; b &amp;&amp; c?"), DONE, NEXT, model("Yes."), user("Go on.")), ("LORE106", WASTE)),
    "a result's text becomes a block of it": Case(claude(FIRST, *READING), claude(FIRST, READING[0], user(result(1, [text(result(1)["content"])])), DONE, NEXT), ("LORE112", UNKNOWN)),
    "and the bill reads it all the same": Case(claude(FIRST, *READING), claude(FIRST, READING[0], user(result(1, [text(result(1)["content"])])), DONE, NEXT), ("LORE112", EXPECTED), bills=((5, 0, 9000), (5, 9000, 90))),
    "a member that holds nothing comes": Case(claude(FIRST, DONE, NEXT), claude(FIRST, model(text("It is mended: an empty text gives None.", citations=None)), NEXT, *READING, metadata={}), ("LORE106", EXPECTED)),
}  # fmt: skip


def say(role, *texts):
    return {
        "type": "message",
        "role": role,
        "content": [{"type": "output_text" if role == "assistant" else "input_text", "text": one} for one in texts],
    }


def reason(n):
    return {"type": "reasoning", "summary": [], "content": None, "encrypted_content": f"gAAAAABo{n}"}


def shell(n):
    return [{"type": "function_call", "name": "shell", "arguments": json.dumps({"command": ["cat", f"f{n}.py"]}), "call_id": f"call_{n}"},
            {"type": "function_call_output", "call_id": f"call_{n}", "output": f"def parse_{n}(text): ...\n" * 40}]  # fmt: skip


def codex(*items, instructions="You are Codex, based on GPT-5. " + LONG, **fields):
    tools = [
        {
            "type": "function",
            "name": "shell",
            "description": "Runs a command.",
            "strict": False,
            "parameters": {"type": "object", "properties": {"command": {"type": "array"}}},
        }
    ]
    return {"model": "gpt-5.2-codex", "instructions": instructions, "input": [*items], "tools": tools, "tool_choice": "auto", "parallel_tool_calls": True,
            "reasoning": {"effort": "high", "summary": "auto"}, "store": False, "stream": True, "include": ["reasoning.encrypted_content"], "prompt_cache_key": "0199a", **fields}  # fmt: skip


RULES = say("developer", "<permissions instructions>\nFilesystem sandboxing is on.\n</permissions instructions>")
PLACE = say("user", "<environment_context>\n  <cwd>/srv/app</cwd>\n  <shell>zsh</shell>\n</environment_context>")
OPENED = (RULES, PLACE, say("user", "Mend the parser in f1.py."))
WORKED = (*OPENED, reason(1), *shell(1), reason(2), say("assistant", "It is mended: an empty text gives None."))
ASKED = say("user", "Then write a test for it.")
MODE = say("developer", "<collaboration_mode>\nYou are now in plan mode.\n</collaboration_mode>")
HANDED = say(
    "user",
    "Another language model started to solve this problem and produced a summary of its thinking process.\nf1.py is mended.",
)
CODEX = {
    "it goes on": Case(codex(*OPENED), codex(*WORKED, ASKED)),
    "reasoning is dropped at a new turn": Case(codex(*WORKED), codex(*(one for one in WORKED if one["type"] != "reasoning"), ASKED), ("LORE115", WASTE)),
    "reasoning comes without what it holds nothing in": Case(codex(*WORKED), codex(*({k: v for k, v in one.items() if v is not None} for one in WORKED), ASKED), ("LORE106", EXPECTED)),
    "items come back with their ids": Case(codex(*WORKED), codex(*({**one, "id": f"item_{n}"} for n, one in enumerate(WORKED)), ASKED), ("LORE106", UNKNOWN)),
    "the working directory is another": Case(codex(*WORKED), codex(RULES, say("user", PLACE["content"][0]["text"].replace("app", "lib")), *WORKED[2:], ASKED), ("LORE101", WASTE)),
    "the environment is told anew": Case(codex(*WORKED), codex(*WORKED, say("user", "<environment_context>\n  <current_date>2026-09-02</current_date>\n</environment_context>"), ASKED)),
    "a developer's message is added": Case(codex(*WORKED), codex(*WORKED, MODE, ASKED)),
    "a developer's message at the top is another": Case(codex(*WORKED), codex(say("developer", "<permissions instructions>\nAll is allowed.\n</permissions instructions>"), *WORKED[1:], ASKED), ("LORE100", WASTE)),
    "instructions hold the time": Case(codex(*OPENED, instructions=LONG + "It is 10:30 now."), codex(*WORKED, instructions=LONG + "It is 10:31 now."), ("LORE101", WASTE)),
    "effort is raised": Case(codex(*OPENED), codex(*WORKED, reasoning={"effort": "xhigh", "summary": "auto"}), ("LORE120", WASTE)),
    "it is compacted": Case(codex(*WORKED, ASKED), codex(RULES, PLACE, WORKED[2], ASKED, HANDED, say("user", "Go on.")), ("LORE125", EXPECTED)),
    "the cache key is another": Case(codex(*WORKED), codex(*WORKED, ASKED, prompt_cache_key="0199b"), ("LORE122", UNKNOWN)),
    "it continues a response that is recorded": Case(codex(*OPENED), codex(shell(1)[1], previous_response_id="resp_1"), answers=({"id": "resp_1", "output": [reason(1), shell(1)[0]]}, None)),
    "it continues a response that is not": Case(codex(*OPENED), codex(ASKED, previous_response_id="resp_9"), ("LORE132", EXPECTED), ("LORE132", "problem")),
}  # fmt: skip
for case in CODEX.values():
    case.url = "https://api.openai.com/v1/responses"


def called(n, arguments=None):
    return {
        "id": f"call_{n}",
        "type": "function",
        "function": {"name": "read", "arguments": arguments or json.dumps({"path": f"f{n}.py", "lines": 40})},
    }


def told(n, said=None):
    return {"role": "tool", "tool_call_id": f"call_{n}", "content": said or f"def parse_{n}(text): ...\n" * 40}


def chat(*messages, name="gpt-5.1", system=LONG * 4, **fields):
    tools = [
        {
            "type": "function",
            "function": {
                "name": "read",
                "description": "Reads a file.",
                "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
            },
        }
    ]
    return {"model": name, "messages": [{"role": "system", "content": system}, *messages], "tools": tools, **fields}


WISH = {"role": "user", "content": "Mend the parsers in f1.py and f2.py."}
CALLS = {"role": "assistant", "content": None, "tool_calls": [called(1), called(2)]}
TOLD = (WISH, CALLS, told(1), told(2))
OK = {"role": "assistant", "content": "Both are mended.", "refusal": None}
THEN = {"role": "user", "content": "Then write tests."}
SCHEMA = {
    "type": "json_schema",
    "json_schema": {"name": "answer", "schema": {"type": "object", "properties": {"ok": {"type": "boolean"}}}},
}
CHAT = {
    "parallel calls and their results": Case(chat(WISH), chat(*TOLD)),
    "the results stand in another order": Case(chat(*TOLD), chat(WISH, CALLS, told(2), told(1), OK, THEN), ("LORE100", WASTE)),
    "arguments are written anew": Case(chat(*TOLD), chat(WISH, {**CALLS, "tool_calls": [called(1, '{"path":"f1.py","lines":40}'), called(2)]}, told(1), told(2), OK, THEN), ("LORE106", WASTE)),
    "arguments have their members in another order": Case(chat(*TOLD), chat(WISH, {**CALLS, "tool_calls": [called(1, '{"lines": 40, "path": "f1.py"}'), called(2)]}, told(1), told(2), OK, THEN), ("LORE105", WASTE)),
    "calls are named anew": Case(chat(*TOLD), chat(WISH, {**CALLS, "tool_calls": [{**called(1), "id": "a1"}, {**called(2), "id": "a2"}]}, {**told(1), "tool_call_id": "a1"}, {**told(2), "tool_call_id": "a2"}, OK, THEN), ("LORE108", WASTE)),
    "a schema is asked for": Case(chat(*TOLD), chat(*TOLD, OK, THEN, response_format=SCHEMA), ("LORE135", WASTE)),
    "a tool is forced": Case(chat(*TOLD), chat(*TOLD, OK, THEN, tool_choice="required"), ("LORE121", EXPECTED)),
    "a refusal of null is left out": Case(chat(*TOLD, OK, THEN), chat(*TOLD, {"role": "assistant", "content": "Both are mended."}, THEN, {"role": "assistant", "content": "Here they are."}, THEN), ("LORE106", EXPECTED)),
    "the last message is rewritten on exact breakpoints": Case(chat(WISH, OK, {"role": "user", "content": "Then write tests. It is 10:30 now."}, name="gpt-5.6-sol"), chat(WISH, OK, {"role": "user", "content": "Then write tests. It is 10:31 now."}, OK, THEN, name="gpt-5.6-sol"), ("LORE133", WASTE)),
}  # fmt: skip
for case in CHAT.values():
    case.url = "https://api.openai.com/v1/chat/completions"


def deep(*messages):
    return chat(*messages, name="deepseek-reasoner")


THOUGHT = {**CALLS, "content": "", "reasoning_content": "Both index an empty text."}
OPENCODE = {
    "reasoning is sent again": Case(deep(WISH, THOUGHT, told(1), told(2)), deep(WISH, THOUGHT, told(1), told(2), OK, THEN)),
    "reasoning is dropped": Case(deep(WISH, THOUGHT, told(1), told(2)), deep(WISH, {**CALLS, "content": ""}, told(1), told(2), OK, THEN), ("LORE115", WASTE)),
    "a result is cut": Case(deep(*TOLD, OK, THEN), deep(WISH, CALLS, told(1, "[Old tool result content cleared]"), told(2), OK, THEN, OK, THEN), ("LORE117", WASTE)),
    "the working tree's state is in the system prompt": Case(chat(WISH, system=LONG + "\ngitStatus:\nM src/a.py\n"), chat(*TOLD, system=LONG + "\ngitStatus:\nM src/a.py\nM src/b.py\n"), ("LORE110", WASTE)),
}  # fmt: skip
for case in OPENCODE.values():
    case.url = "https://api.deepseek.com/chat/completions"


def content(role, *parts):
    return {"role": role, "parts": [{"text": one} if isinstance(one, str) else one for one in parts]}


def gemini(*contents, system=LONG * 4):
    tools = [
        {
            "functionDeclarations": [
                {"name": "read_file", "description": "Reads a file.", "parametersJsonSchema": {"type": "object"}}
            ]
        }
    ]
    return {
        "contents": [*contents],
        "systemInstruction": {"role": "user", "parts": [{"text": system}]},
        "tools": tools,
        "generationConfig": {"temperature": 1, "thinkingConfig": {"includeThoughts": True}},
    }


SETUP = content(
    "user",
    "This is the Gemini CLI. We are setting up the context for our chat.\nFolder structure:\n├───a.py\n└───b.py\n",
)
CALLING = content(
    "model", {"functionCall": {"name": "read_file", "args": {"path": "a.py"}}, "thoughtSignature": "CtQBAcu98Pa"}
)
RESPONSE = content(
    "user",
    {"functionResponse": {"id": "r1", "name": "read_file", "response": {"output": "def parse(text): ...\n" * 40}}},
)
WENT = (SETUP, content("user", "Mend the parser."), CALLING, RESPONSE)
GEMINI = {
    "it goes on": Case(gemini(*WENT[:2]), gemini(*WENT)),
    "a thought's signature is dropped": Case(gemini(*WENT), gemini(*WENT[:2], content("model", {"functionCall": CALLING["parts"][0]["functionCall"]}), RESPONSE, content("model", "Done."), content("user", "Thanks.")), ("LORE115", WASTE)),
    "a response is cut": Case(gemini(*WENT), gemini(*WENT[:3], content("user", {"functionResponse": {"id": "r1", "name": "read_file", "response": {"output": "[truncated]"}}}), content("model", "Done."), content("user", "Thanks.")), ("LORE117", WASTE)),
    "the system prompt holds the date": Case(gemini(*WENT[:2], system=LONG + "Today is 2026-09-01."), gemini(*WENT, system=LONG + "Today is 2026-09-02."), ("LORE101", WASTE)),
    "the folder's tree is rendered anew": Case(gemini(*WENT), gemini(content("user", SETUP["parts"][0]["text"] + "└───c.py\n"), *WENT[1:], content("model", "Done."), content("user", "Thanks.")), ("LORE110", WASTE)),
}  # fmt: skip
for case in GEMINI.values():
    case.url = "https://generativelanguage.googleapis.com/v1beta/models/gemini-3-pro-preview:streamGenerateContent"

POINT = {"cachePoint": {"type": "default"}}


def bedrock(*messages, described="Reads a file."):
    spec = {"toolSpec": {"name": "read", "description": described, "inputSchema": {"json": {"type": "object"}}}}
    *before, last = messages
    pointed = {**last, "content": [*last["content"], POINT]}
    return {
        "system": [{"text": LONG * 48}, POINT],
        "toolConfig": {"tools": [spec, POINT]},
        "messages": [*before, pointed],
        "inferenceConfig": {"maxTokens": 4096},
    }


BEGUN = {"role": "user", "content": [{"text": "Mend the parser."}]}
STEPPED = ({"role": "assistant", "content": [{"text": "I read it."}, {"toolUse": {"toolUseId": "t1", "name": "read", "input": {"path": "a.py"}}}]},
           {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": [{"text": "def parse(text): ...\n" * 40}], "status": "success"}}]})  # fmt: skip
BEDROCK = {
    "cache points roll on": Case(bedrock(BEGUN), bedrock(BEGUN, *STEPPED)),
    "a tool's description is another": Case(bedrock(BEGUN), bedrock(BEGUN, *STEPPED, described="Reads a file. Agents: a, b."), ("LORE104", WASTE)),
}  # fmt: skip
for case in BEDROCK.values():
    case.url = "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-opus-4-8-v1:0/converse"

AGENTS = {
    "Claude Code": CLAUDE,
    "Codex": CODEX,
    "chat": CHAT,
    "OpenCode": OPENCODE,
    "Gemini CLI": GEMINI,
    "Bedrock": BEDROCK,
}
CASES = {f"{agent}: {name}": case for agent, cases in AGENTS.items() for name, case in cases.items()}


def usage(bill):
    uncached, read, write = bill
    return {
        "input_tokens": uncached,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": write,
        "output_tokens": 50,
    }


def recording(case):
    """Write both requests as a recording proxy does."""
    for n, (body, bill, answer, session) in enumerate(
        zip(case.bodies, case.bills, case.answers, case.sessions, strict=True)
    ):
        said = {"content-type": "application/json", **({"x-claude-code-session-id": session} if session else {})}
        request = {
            "timestamp": 1_788_253_200 + n * case.after,
            "method": "POST",
            "url": case.url,
            "headers": said,
            "body": body,
        }
        response = {"status": 200, "body": answer or ({"type": "message", "usage": usage(bill)} if bill else {})}
        yield json.dumps({"request": request, "response": response}) + "\n"


@pytest.mark.parametrize("name", CASES)
def test_a_pair_is_judged_as_a_careful_engineer_would(name, tmp_path, capsys):
    path = tmp_path / "recording.jsonl"
    path.write_text("".join(recording(CASES[name])), "utf-8")
    main(["check", str(path), "--json"])
    answer = json.loads(capsys.readouterr().out)
    found = {(one["code"], one["kind"]): one["evidence"] for one in answer["findings"]}
    found |= {(one["code"], "problem"): one["message"] for one in answer["problems"]}
    assert set(found) == CASES[name].said, found


def test_the_table_holds_each_kind_of_answer():
    kinds = {kind for case in CASES.values() for _, kind in case.said}
    assert kinds >= {WASTE, UNKNOWN, EXPECTED}
    assert sum(not case.said for case in CASES.values()) >= 15

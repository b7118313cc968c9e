# ruff: noqa: E501 - one message a line reads better
"""Pairs of requests as real agents send them: what a careful engineer says of each, and nothing else.

Each case is two bodies with where they went, when, and what was billed; it goes through `lore check` as a recording.
Other causes are shown by the catalogue and by faults; here are those that only such bodies show.
"""

from __future__ import annotations

import json

import pytest

from lore.cli.main import main

HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
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
NOTE = "<system-reminder>\nThe task tools have not been used recently.\n</system-reminder>"
FIRST = user(REMINDER, "Mend the parser in f1.py, please.")
READING = (model(thinking(), "I read it.", use(1)), user(result(1)))
DONE = model("It is mended: an empty text gives None.")
NEXT = user("Then write a test for it.")
LATE = tool("mcp__jira__get_issue", defer_loading=True)
TOOL_SEARCH = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
DISCOVERED = (model({"type": "server_tool_use", "id": "srvtoolu_2", "name": "tool_search_tool_regex", "input": {"query": "jira"}},
                    {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_2", "content": {"type": "tool_search_tool_search_result", "tool_references": [{"type": "tool_reference", "tool_name": "mcp__jira__get_issue"}]}},
                    use(3, "mcp__jira__get_issue", key="PARSE-17")), user(result(3, "PARSE-17: parser fails")))  # fmt: skip
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
    "a reminder behind a result is gone": Case(claude(FIRST, READING[0], user(result(1), NOTE)), claude(FIRST, *READING, DONE, NEXT), ("LORE156", EXPECTED)),
    "a gateway moves it to the top": Case(claude(FIRST, *READING, OPERATOR, DONE, NEXT), claude(FIRST, *READING, DONE, NEXT, model("Yes."), user("Go on."), more=(OPERATOR["content"][0],)), ("LORE111", WASTE)),
    "thinking is signed anew": Case(claude(FIRST, *READING), claude(FIRST, model(thinking("Another"), "I read it.", use(1)), READING[1], DONE, NEXT), ("LORE115", WASTE)),
    "a deferred tool is discovered": Case(claude(FIRST, tools=(READ, TOOL_SEARCH, LATE)), claude(FIRST, *DISCOVERED, tools=(READ, TOOL_SEARCH, LATE))),
    "a discovered tool is loaded into the list": Case(claude(FIRST, *DISCOVERED, tools=(READ, TOOL_SEARCH, LATE)), claude(FIRST, *DISCOVERED, DONE, NEXT, tools=(READ, TOOL_SEARCH, tool("mcp__jira__get_issue"))), ("LORE124", WASTE)),
    "a picture in a result became text": Case(claude(FIRST, READING[0], user(result(1, [picture()]))), claude(FIRST, READING[0], user(result(1, [text("[image omitted]")])), DONE, NEXT), ("LORE118", WASTE)),
    "a picture became text": Case(claude(user("See:", picture()), DONE, NEXT), claude(user("See:", "[image removed]"), DONE, NEXT, model("Yes."), user("Go on.")), ("LORE118", WASTE)),
    "the skills stand in another order after a resume": Case(claude(user("<system-reminder>\nSkills:\n- commit\n- review\n</system-reminder>", "Mend it."), *READING), claude(user("<system-reminder>\nSkills:\n- review\n- commit\n</system-reminder>", "Mend it."), *READING, DONE, NEXT), ("LORE123", WASTE), after=1500),
    "a call's arguments are sorted": Case(claude(FIRST, model(use(1, path="a", lines=2)), user(result(1))), claude(FIRST, model(use(1, lines=2, path="a")), user(result(1)), DONE, NEXT), ("LORE105", WASTE)),
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
CODEX = {
    "reasoning comes without what it holds nothing in": Case(codex(*WORKED), codex(*({k: v for k, v in one.items() if v is not None} for one in WORKED), ASKED), ("LORE106", EXPECTED)),
    "items come back with their ids": Case(codex(*WORKED), codex(*({**one, "id": f"item_{n}"} for n, one in enumerate(WORKED)), ASKED), ("LORE106", UNKNOWN)),
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
CHAT = {
    "arguments have their members in another order": Case(chat(*TOLD), chat(WISH, {**CALLS, "tool_calls": [called(1, '{"lines": 40, "path": "f1.py"}'), called(2)]}, told(1), told(2), OK, THEN), ("LORE105", WASTE)),
    "calls are named anew": Case(chat(*TOLD), chat(WISH, {**CALLS, "tool_calls": [{**called(1), "id": "a1"}, {**called(2), "id": "a2"}]}, {**told(1), "tool_call_id": "a1"}, {**told(2), "tool_call_id": "a2"}, OK, THEN), ("LORE108", WASTE)),
}  # fmt: skip
for case in CHAT.values():
    case.url = "https://api.openai.com/v1/chat/completions"


AGENTS = {
    "Claude Code": CLAUDE,
    "Codex": CODEX,
    "chat": CHAT,
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

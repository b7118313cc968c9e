"""With an automatic prefix cache an agent built with lore reads as large a share as a careful hand-written one."""

import json
from collections.abc import Callable, Iterator
from os.path import commonprefix
from typing import Any, NamedTuple

import pytest

import lore
from lore.events import compact_applied, knowledge

RULES = " ".join(f"Rule {n}: name the file of part {n}, the reason, and the smallest change." for n in range(40))
ABOUT = {name: f"{name} in the repository. " * 8 for name in ("read_file", "grep", "run_tests")}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
TOOLS = [{"name": name, "description": about, "input_schema": SCHEMA} for name, about in ABOUT.items()]
FUNCTIONS = [{"name": name, "description": about, "parameters": SCHEMA} for name, about in ABOUT.items()]
FIRST = ("config", "tools", "systemInstruction", "instructions")  # members that a model gets first
LOOPS = [1, 0, 2, 3, 0, 1, 0, 2]  # calls that answer each question, one after the other
RECALLED, SUMMARY = "Earlier the person liked short answers.", "Some parts were looked at."
KEPT = [0, 3]  # messages that a compaction keeps: the more, the more has to be read again without a cache


class Api(NamedTuple):
    """How one API writes what an agent says."""

    dialect: str
    model: str
    answer: Callable[[str, str], Any]  # text, or the id of a call -> the response's messages
    response: Callable[[Any], Any]  # these -> the response
    body: Callable[[str, list[tuple[str, Any]], str], dict[str, Any]]  # system prompt, history, context of the turn


def chat_answer(text: str, call: str) -> Any:
    calls = [{"id": call, "type": "function", "function": {"name": "grep", "arguments": "{}"}}]
    return (
        {"role": "assistant", "content": None, "tool_calls": calls} if call else {"role": "assistant", "content": text}
    )


def chat_body(system: str, history: list[tuple[str, Any]], context: str) -> dict[str, Any]:
    write = {
        "user": lambda text: {"role": "user", "content": text},
        "answer": lambda message: message,
        "result": lambda pair: {"role": "tool", "tool_call_id": pair[0], "content": pair[1]},
    }
    messages = [write[kind](value) for kind, value in history]
    tools = [{"type": "function", "function": function} for function in FUNCTIONS]
    system_message, now = ({"role": "system", "content": text} for text in (system, context))
    return {"tools": tools, "messages": [system_message, *messages, now]}


def responses_answer(text: str, call: str) -> Any:
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    return [{"type": "function_call", "call_id": call, "name": "grep", "arguments": "{}"}] if call else [message]


def responses_body(system: str, history: list[tuple[str, Any]], context: str) -> dict[str, Any]:
    write = {
        "user": lambda text: [{"role": "user", "content": text}],
        "answer": lambda items: items,
        "result": lambda pair: [{"type": "function_call_output", "call_id": pair[0], "output": pair[1]}],
    }
    items = [item for kind, value in history for item in write[kind](value)]
    tools = [{"type": "function", **function} for function in FUNCTIONS]
    return {"tools": tools, "instructions": system, "input": [*items, {"role": "developer", "content": context}]}


def gemini_answer(text: str, call: str) -> Any:
    return {"role": "model", "parts": [{"functionCall": {"name": "grep", "args": {}}} if call else {"text": text}]}


def gemini_body(system: str, history: list[tuple[str, Any]], context: str) -> dict[str, Any]:
    write = {
        "user": lambda text: {"role": "user", "parts": [{"text": text}]},
        "answer": lambda content: content,
        "result": lambda pair: {
            "role": "user",
            "parts": [{"functionResponse": {"name": "grep", "response": {"result": pair[1]}}}],
        },
    }
    *before, last = [write[kind](value) for kind, value in history]
    contents = [*before, {**last, "parts": [*last["parts"], {"text": context}]}]
    tools = [{"functionDeclarations": FUNCTIONS}]
    return {"systemInstruction": {"parts": [{"text": system}]}, "tools": tools, "contents": contents}


APIS = [
    Api("openai-chat", "gpt-5.5", chat_answer, lambda answer: {"choices": [{"message": answer}]}, chat_body),
    Api("openai-responses", "gpt-5.5", responses_answer, lambda answer: {"output": answer}, responses_body),
    Api("gemini", "gemini-3-pro", gemini_answer, lambda answer: {"candidates": [{"content": answer}]}, gemini_body),
]


def texts_of(value: Any) -> Iterator[str]:
    """Yield what a model gets of a body, in render order: texts, calls and roles, without the punctuation of JSON."""
    if isinstance(value, dict):
        names = [name for name in value if name not in ("model", "type", "prompt_cache_key")]
        for name in sorted(names, key=lambda name: name not in FIRST):
            yield from texts_of(value[name])
    elif isinstance(value, list):
        for part in value:
            yield from texts_of(part)
    elif value is not None:
        yield str(value)


class PrefixCache:
    """A cache of whole prompts: a request reads the longest common prefix of at least 4,096 bytes."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.read = self.sent = 0

    def bill(self, body: Any) -> None:
        prompt = "\n".join(texts_of(json.loads(json.dumps(body))))
        longest = max((len(commonprefix([old, prompt])) for old in self.prompts), default=0)
        self.read += longest if longest >= 4096 else 0
        self.sent += len(prompt)
        self.prompts.append(prompt)

    @property
    def share(self) -> float:
        return self.read / self.sent


class BreakpointCache(PrefixCache):
    """The cache of GPT-5.6 and later models (OpenAI's prompt caching guide, October 2026).

    A request writes an entry at its last three breakpoints and one at its end, and reads the longest entry that ends
    at one of its last 80 breakpoints.
    """

    def __init__(self) -> None:
        super().__init__()
        self.entries: set[str] = set()

    def bill(self, body: Any) -> None:
        prompt, marked = "", list[str]()
        for text in texts_of(json.loads(json.dumps(body))):
            if text == "explicit":  # the mode of a breakpoint, which follows the text that it ends
                marked.append(prompt)
            else:
                prompt += f"\n{text}"
        found = [len(entry) for entry in (*marked[-80:], prompt) if entry in self.entries and len(entry) >= 4096]
        self.entries.update((*marked[-3:], prompt))
        self.read += max(found, default=0)
        self.sent += len(prompt)
        self.prompts.append(prompt)


def with_breakpoints(body: dict[str, Any]) -> dict[str, Any]:
    """Set a breakpoint on the system prompt, and on each text of the user's and result before the turn's context."""
    root = "messages" if "messages" in body else "input"
    *messages, context = body[root]
    if instructions := body.get("instructions"):
        messages.insert(0, {"role": "system", "content": instructions})
    kind = "text" if root == "messages" else "input_text"
    for at, message in enumerate(messages):
        for key in ("content", "output"):
            if isinstance(message.get(key), str) and message.get("role") != "assistant":
                part = {"type": kind, "text": message[key], "prompt_cache_breakpoint": {"mode": "explicit"}}
                messages[at] = {**message, key: [part]}
    return {"tools": body["tools"], root: [*messages, context]}


def news(number: int) -> str:
    return {3: "1.1 is out.", 6: "1.2 is out."}.get(number, "")


def run_with_lore(api: Api, cache: PrefixCache, keep: int) -> None:
    session = lore.Session(api.model, system=RULES, tools=TOOLS, session_id="s-1", dialect=api.dialect)
    session.apply(knowledge("add", "release", title="release", content="1.0 is out."))
    for number, calls in enumerate(LOOPS):
        if news(number):
            session.apply(knowledge("update", "release", title="release", content=news(number)))
        if number == 5 and keep:
            session.compact(SUMMARY, keep=keep)
        elif number == 5:
            session.apply(compact_applied("d1", "manual", summary=SUMMARY))
        session.user(f"Which check does part {number} lack?")
        for step in range(calls + 1):
            cache.bill(session.request(current_time=f"10:0{number}:0{step}", memory_recall=RECALLED))
            call = f"c{number}{step}" if step < calls else ""
            answered = session.assistant(api.response(api.answer(f"Part {number} lacks a check. " * 9, call)))
            for tool_call in answered.calls:
                session.result(tool_call.call_id, "a key and its value; " * 30)


def run_by_hand(api: Api, cache: PrefixCache, keep: int) -> None:
    """Send the same in a layout made by hand: news before the question, the turn's context last."""
    entry, history = "1.0 is out.", list[tuple[str, Any]]()
    for number, calls in enumerate(LOOPS):
        if news(number):
            history.append(("user", f"<news>release: {news(number)}</news>"))
        if number == 5:
            entry, history = news(3), [("user", SUMMARY), *history[len(history) - keep :]]
        history.append(("user", f"Which check does part {number} lack?"))
        for step in range(calls + 1):
            context = f"<context>Now: 10:0{number}:0{step}. Memory: {RECALLED}</context>"
            cache.bill(api.body(f"{RULES}\n\n## Known\n- release: {entry}", history, context))
            call = f"c{number}{step}" if step < calls else ""
            history.append(("answer", api.answer(f"Part {number} lacks a check. " * 9, call)))
            if call:
                history.append(("result", (call, "a key and its value; " * 30)))


@pytest.mark.parametrize("keep", KEPT)
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.dialect)
def test_lore_reads_the_share_of_a_careful_agent(api, keep):
    by_lore, by_hand = PrefixCache(), PrefixCache()
    run_with_lore(api, by_lore, keep)
    run_by_hand(api, by_hand, keep)
    assert len(by_lore.prompts) == len(by_hand.prompts) == sum(LOOPS) + len(LOOPS)
    assert by_lore.share >= by_hand.share > 0.7


@pytest.mark.parametrize("keep", KEPT)
@pytest.mark.parametrize("api", APIS[:2], ids=lambda api: api.dialect)
def test_share_at_exact_breakpoints_is_that_of_careful_agent(api, keep):
    """Chat Completions had none on tool results: in a tool loop all of it was sent again, 1.8 points of the share."""
    by_lore, by_hand = BreakpointCache(), BreakpointCache()
    run_with_lore(api._replace(model="gpt-6-sol"), by_lore, keep)
    run_by_hand(api._replace(body=lambda *said: with_breakpoints(api.body(*said))), by_hand, keep)
    assert len(by_lore.prompts) == len(by_hand.prompts) == sum(LOOPS) + len(LOOPS)
    assert by_lore.share >= by_hand.share > 0.7


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.dialect)
def test_forty_new_facts_cost_no_share(api):
    by_lore, by_hand, history = PrefixCache(), PrefixCache(), list[tuple[str, Any]]()
    session = lore.Session(api.model, system=RULES, tools=TOOLS, session_id="s-1", dialect=api.dialect)
    session.apply(knowledge("add", "first", title="first", content="1.0 is out."))
    for number in range(40):
        fact, question = f"Release {number} is out; team {number % 5} has it.", f"What of part {number}?"
        session.apply(knowledge("add", f"fact-{number}", title=f"fact-{number}", content=fact))
        session.user(question)
        by_lore.bill(session.request(current_time=f"10:{number}"))
        answer = api.answer(f"Part {number} lacks a check. " * 9, "")
        session.assistant(api.response(answer))
        history.append(("user", f"<news>fact-{number}: {fact}</news>\n{question}"))
        by_hand.bill(api.body(f"{RULES}\n\nKnown:\n- first: 1.0 is out.", history, f"Now: 10:{number}"))
        history.append(("answer", answer))
    assert by_lore.share >= by_hand.share > 0.9

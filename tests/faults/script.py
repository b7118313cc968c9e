"""A conversation of an agent, in no dialect: what its requests hold, turn by turn, from a seed.

Rules: nothing in it moves from turn to turn, and nothing in it looks as if it could: no dates, no ids, no
counts. What moves is put in by the injectors.
"""

import base64
import random
import re
from dataclasses import dataclass, field
from typing import Any

WORDS = re.findall(
    r"\w+",
    """
    agent answer argument array branch buffer build cache call change check class client close code column
    command commit compare config content context count cursor data default define delete depth detail diff
    document edit error event example expect export field file find fix flag folder format function graph
    guard handle hash header helper history hook import index input insert item join key label layer length
    limit line list load log loop match member merge message method module name node note number object offset
    option order output owner page parse part path pattern place plan point prefix prompt property query queue
    range reader record result return rule runner schema scope search section segment server session shape
    signal size slice source stable stack state step stream string style suite table target task template test
    text thread tool trace tree turn type update user value vector version view walk window worker writer
    """,
)
TOOLS = (
    "read_file",
    "write_file",
    "edit_file",
    "list_folder",
    "search_text",
    "run_command",
    "fetch_page",
    "ask_user",
    "make_plan",
    "open_browser",
    "query_table",
    "send_note",
)


@dataclass
class Tool:
    name: str
    description: str
    schema: dict[str, Any]
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Message:
    role: str
    blocks: list[dict[str, Any]]
    flat: bool = False  # its only text is a string, if the dialect has that


@dataclass
class Request:
    """One request. A breakpoint is ("tool", n), ("system", n) or ("message", n, block)."""

    system: list[str]
    tools: list[Tool]
    messages: list[Message]
    params: dict[str, Any] = field(default_factory=dict)
    model: str = ""
    breakpoints: list[tuple[Any, ...]] = field(default_factory=list)
    breakpoint: dict[str, Any] = field(default_factory=dict)
    flat_system: bool = False


@dataclass
class Turn:
    request: Request
    at: float = 0.0
    answered: float = 0.0
    style: dict[str, Any] = field(default_factory=dict)  # of `json.dumps`
    call: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, int | None] | None = None
    bill: str = ""  # what the provider does whatever the bytes say: "miss", "older", "warm"
    verdict: str = ""
    response_id: str = ""
    patch: Any = None  # changes the body's text last of all
    output: str = ""


@dataclass
class Capture:
    """A recorded conversation of one dialect, and how it was served."""

    dialect: str
    seed: int
    turns: list[Turn]
    chance: random.Random
    ttl: str = "5m"
    billed: bool = True
    name: str = ""


def prose(chance: random.Random, sentences: int) -> str:
    parts = []
    for _ in range(sentences):
        words = [chance.choice(WORDS) for _ in range(chance.randint(6, 14))]
        parts.append(" ".join(words).capitalize() + chance.choice((".", ".", ".", ":", "!")))
    return " ".join(parts)


def code(chance: random.Random, lines: int) -> str:
    indent = ("", "    ", "        ")
    code_lines = []
    for _ in range(lines):
        target, function, argument, second_argument = (chance.choice(WORDS) for _ in range(4))
        code_lines.append(f'{chance.choice(indent)}{target} = {function}({argument}, "{second_argument}")')
    return "\n".join(code_lines)


def token(chance: random.Random, size: int, letters: str = "abcdefghijklmnopqrstuvwxyz") -> str:
    return "".join(chance.choice(letters) for _ in range(size))


def signature(chance: random.Random) -> str:
    return base64.b64encode(chance.randbytes(96)).decode()


def picture(chance: random.Random, size: int = 900) -> str:
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + chance.randbytes(size)).decode()


def tool(chance: random.Random, name: str) -> Tool:
    members = chance.sample(WORDS, chance.randint(2, 5))
    properties: dict[str, Any] = {}
    for member in members:
        kind = chance.choice(("string", "number", "boolean", "array", "string"))
        properties[member] = {"type": kind, "description": prose(chance, 1)}
        if kind == "string" and chance.random() < 0.4:
            properties[member]["enum"] = chance.sample(WORDS, 3)
        if kind == "array":
            properties[member]["items"] = {"type": "string"}
        if kind == "number":
            properties[member]["minimum"] = chance.choice((0.5, 0.25, 1.5))
    schema = {"type": "object", "properties": properties, "required": members[:2]}
    return Tool(name, prose(chance, chance.randint(2, 4)), schema)


def opening(chance: random.Random) -> Message:
    """Return the first message as agents render it: the environment, then the task."""
    skills = "\n".join(f"- {word}: {prose(chance, 1)}" for word in chance.sample(WORDS, 6))
    reminder = (
        "<system-reminder>\nThe following skills are available:\n\n" + skills + "\n</system-reminder>\n"
        "<environment>\nPlatform: linux\nShell: bash\nOpen editors: "
        + ", ".join(f"{word}.py" for word in chance.sample(WORDS, 3))
        + "\n</environment>\n"
    )
    return Message("user", [text(reminder), text(prose(chance, 3))])


def text(words: str) -> dict[str, Any]:
    return {"kind": "text", "text": words}


def call(chance: random.Random, tools: list[Tool]) -> dict[str, Any]:
    used = chance.choice(tools)
    arguments: dict[str, Any] = {}
    for member, kind in used.schema["properties"].items():
        arguments[member] = {
            "string": f"{chance.choice(WORDS)}/{chance.choice(WORDS)}.py",
            "number": chance.choice((2.5, 0.75, 4.25)),
            "boolean": True,
            "array": ["a b", "c"],
        }[kind["type"]]
    return {"kind": "call", "id": "call_" + token(chance, 12), "name": used.name, "input": arguments}


def answer(chance: random.Random, tools: list[Tool], calls: int, *, thinking: bool) -> Message:
    blocks = []
    if thinking:
        blocks.append({"kind": "thinking", "text": prose(chance, 2), "signature": signature(chance)})
    blocks.append(text(prose(chance, chance.randint(1, 2))))
    blocks += [call(chance, tools) for _ in range(calls)]
    return Message("assistant", blocks)


def results(chance: random.Random, message: Message) -> Message:
    calls = [tool_call for tool_call in message.blocks if tool_call["kind"] == "call"]
    return Message(
        "user",
        [
            {
                "kind": "result",
                "id": tool_call["id"],
                "name": tool_call["name"],
                "text": code(chance, chance.randint(6, 18)),
            }
            for tool_call in calls
        ],
    )


def conversation(chance: random.Random, tools: list[Tool], rounds: int) -> tuple[list[Message], list[int]]:
    """Return the messages, and after how many of them each request was sent.

    The first rounds always hold what injectors look for: calls and results, thinking, an image, plain words.
    """
    messages, message_counts = [opening(chance)], [1]
    messages.append(answer(chance, tools, chance.randint(1, 2), thinking=True))
    messages.append(results(chance, messages[-1]))
    message_counts.append(len(messages))
    messages.append(answer(chance, tools, 0, thinking=False))
    question = Message(
        "user", [text(prose(chance, 3)), {"kind": "image", "data": picture(chance), "media": "image/png"}]
    )
    messages.append(question)
    message_counts.append(len(messages))
    for number in range(rounds):
        messages.append(answer(chance, tools, chance.randint(1, 3), thinking=chance.random() < 0.7))
        messages.append(results(chance, messages[-1]))
        message_counts.append(len(messages))
        if number % 2:
            messages.append(answer(chance, tools, 0, thinking=False))
            messages.append(Message("user", [text(prose(chance, 2))]))
            message_counts.append(len(messages))
    return messages, message_counts


def system(chance: random.Random) -> list[str]:
    return [prose(chance, 4), "# Rules\n" + "\n".join(f"- {prose(chance, 1)}" for _ in range(14)), prose(chance, 8)]

"""Captures written by hand: calls of a recording proxy, one a line, and the verdicts on them."""

from pathlib import Path
from typing import Any

from lore.judge.base import TurnVerdict
from lore.model.cause import Place
from lore.model.results import Finding
from lore.recording.base import Problems
from lore.recording.opening import Options
from lore.run.checking.verdicts import verdicts
from lore.run.rules import Dated
from model.making import dumps

START = 1_789_000_000.0  # September 2026
TEXT = "Say in one sentence what you changed, and why it was needed. "
SYSTEM = TEXT * 400  # some six thousand tokens
MARK = {"cache_control": {"type": "ephemeral"}}
ANTHROPIC = "https://api.anthropic.com/v1/messages"


def tool(name: str, **fields: Any) -> dict[str, Any]:
    """Return a tool with a description."""
    return {"name": name, "description": f"Use {name}. " * 40, "input_schema": {"type": "object"}, **fields}


def text(role: str, words: str, **fields: Any) -> dict[str, Any]:
    """Return a message of one text."""
    return {"role": role, "content": [{"type": "text", "text": words, **fields}]}


def asks(*messages: dict[str, Any], tools: tuple[str, ...] = ("ls", "cat"), system: str = SYSTEM,
         model: str = "claude-opus-5", **fields: Any) -> dict[str, Any]:  # fmt: skip
    """Return an Anthropic request with a breakpoint at its end."""
    *before, last = messages
    marked = {**last, "content": [*last["content"][:-1], {**last["content"][-1], **MARK}]}
    body: dict[str, Any] = {"model": model, "max_tokens": 4096}
    if tools:
        body["tools"] = [tool(name) for name in tools]
    return {**body, "system": [{"type": "text", "text": system, **MARK}], "messages": [*before, marked], **fields}


def usage(read: int, write: int, uncached: int = 4, **fields: Any) -> dict[str, Any]:
    """Return a usage of Anthropic's."""
    return {
        "input_tokens": uncached, "cache_read_input_tokens": read, "cache_creation_input_tokens": write,
        "output_tokens": 20, **fields,
    }  # fmt: skip


def call(at: float, body: dict[str, Any], bill: dict[str, Any] | None, *, url: str = ANTHROPIC, status: int = 200,
         answer: str = "done", headers: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:  # fmt: skip
    """Return a call `at` seconds after the start; `fields` belong to its response."""
    response: dict[str, Any] = {
        "id": f"msg_{at}", "type": "message", "role": "assistant", "content": [{"type": "text", "text": answer}],
        **({} if bill is None else {"usage": bill}), **fields,
    }  # fmt: skip
    return {
        "request": {"url": url, "method": "POST", "headers": {}, "body": body, "timestamp": START + at},
        "response": {"status_code": status, "headers": headers or {}, "body": response, "timestamp": START + at + 1},
        "logged_at": START + at + 2,
    }


def put(folder: Path, *calls: dict[str, Any], name: str = "calls.jsonl") -> Path:
    """Write a capture."""
    path = folder / name
    path.write_bytes(b"".join(dumps(exchange) + b"\n" for exchange in calls))
    return path


def judged(folder: Path, *calls: dict[str, Any]) -> tuple[list[TurnVerdict], list[Finding]]:
    """Return the verdict on each request of a capture, and the findings about whole chains."""
    turn_verdicts: list[TurnVerdict] = []
    final_findings: list[Finding] = []
    recording = Options().open(str(put(folder, *calls)), Problems())
    for verdict, ended in verdicts(recording, Dated().judge(), Place("calls.jsonl")):
        final_findings += ended
        if verdict is not None:
            turn_verdicts.append(verdict)
    return turn_verdicts, final_findings


def break_codes(verdict: TurnVerdict) -> list[str]:
    """Return the codes of the causes of a cache break."""
    return [] if verdict.pair is None or not verdict.pair.is_break else [str(cause.code) for cause in verdict.causes]


def compared_turn(verdict: TurnVerdict) -> tuple[str, int] | None:
    """Return chain and number of the turn that a verdict compares with."""
    return None if verdict.pair is None else (verdict.pair.previous.chain, verdict.pair.previous.number)

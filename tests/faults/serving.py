"""Stable captures of every dialect, a provider's usage for them, and lore's findings.

The usage comes from a cache of ten lines (`bill`): entries at breakpoints, or any common beginning if a provider
caches by itself. Captures are read through a format of these tests alone, so that an exchange has all of its fields:
endpoint, session, beta features, times.
"""

import copy
import json
import pickle
import random
from pathlib import Path
from typing import Any, ClassVar

from faults.bodies import body
from faults.script import TOOLS, Capture, Request, Turn, conversation, system, token, tool
from lore.formats.base import Clock, Read
from lore.formats.lines import Line, TextReader
from lore.formats.registry import READERS
from lore.model.events import Usage, Verdict
from lore.model.results import Finding
from lore.model.turn import Call, Exchange
from lore.recording.opening import Options
from lore.run.checking.check import check
from lore.run.checking.verdicts import CheckContext
from oracle.naive import Seg, common_bytes, common_segments, flatten

MODELS = {
    "anthropic": ("claude-sonnet-4-6", "claude-opus-4-8", "claude-sonnet-5"),
    "openai-chat": ("gpt-5.2", "deepseek-v4-flash", "gpt-5.6-sol"),
    "openai-responses": ("gpt-5.2", "gpt-5.6-terra", "gpt-5.4"),
    "gemini": ("gemini-3.1-pro", "gemini-2.5-flash"),
    "bedrock": ("anthropic.claude-sonnet-4-5-20250929-v1:0", "us.anthropic.claude-sonnet-4-6"),
}
HOSTS = {
    "anthropic": "api.anthropic.com/v1/messages",
    "openai-chat": "",
    "openai-responses": "api.openai.com/v1/responses",
    "gemini": "generativelanguage.googleapis.com/v1beta/models",
    "bedrock": "bedrock-runtime.us-east-1.amazonaws.com/x",
}
WITH_BREAKPOINTS = ("anthropic", "bedrock")
BYTES = 4  # a token
SHORTEST = 1024  # tokens: models with breakpoints cache no shorter prompt


def params(dialect: str) -> dict[str, Any]:
    thinking = {"type": "enabled", "budget_tokens": 10000}
    by_dialect: dict[str, dict[str, Any]] = {
        "anthropic": {
            "max_tokens": 32000,
            "stream": True,
            "thinking": thinking,
            "tool_choice": {"type": "auto"},
            "metadata": {"user_id": "user_account_session"},
        },
        "openai-chat": {
            "max_completion_tokens": 16000,
            "stream": True,
            "stream_options": {"include_usage": True},
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            "reasoning_effort": "medium",
        },
        "openai-responses": {
            "store": False,
            "stream": True,
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            "reasoning": {"effort": "medium", "summary": "auto"},
            "text": {"verbosity": "medium"},
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": "conversation",
        },
        "gemini": {
            "generationConfig": {
                "temperature": 0.5,
                "maxOutputTokens": 16000,
                "thinkingConfig": {"thinkingBudget": 8192},
            },
            "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        },
        "bedrock": {
            "inferenceConfig": {"maxTokens": 16000, "temperature": 1},
            "toolConfig": {"toolChoice": {"auto": {}}},
            "additionalModelRequestFields": {"thinking": thinking},
        },
    }
    return copy.deepcopy(by_dialect[dialect])


def breakpoints(request: Request, dialect: str) -> list[tuple[Any, ...]]:
    """Return where agents set them: the last tool, the last system block, the last two user messages."""
    user_places = [number for number, message in enumerate(request.messages) if message.role == "user"][-2:]
    rolling: list[tuple[Any, ...]] = [("message", n, len(request.messages[n].blocks) - 1) for n in user_places]
    if dialect in WITH_BREAKPOINTS:
        return [("tool", len(request.tools) - 1), ("system", len(request.system) - 1), *rolling]
    return []


_made: dict[tuple[Any, ...], bytes] = {}


def stable(dialect: str, seed: int, *, model: str = "", ttl: str = "", billed: bool | None = None) -> Capture:
    """Return a capture in which nothing moves but the breakpoints."""
    key = dialect, seed, model, ttl, billed
    if key not in _made:
        _made[key] = pickle.dumps(_stable(*key))
    return pickle.loads(_made[key])  # noqa: S301


def _stable(dialect: str, seed: int, model: str, ttl: str, billed: bool | None) -> Capture:
    chance = random.Random(f"{dialect}/{seed}")
    tools = [tool(chance, name) for name in TOOLS[: chance.randint(4, 12)]]
    messages, message_counts = conversation(chance, tools, chance.randint(2, 4))
    model = model or MODELS[dialect][seed % len(MODELS[dialect])]
    ttl = ttl or ("5m" if seed % 3 else "1h")
    if dialect == "openai-chat" and not model.startswith("deepseek"):
        for message in messages:
            message.blocks = [block for block in message.blocks if block["kind"] != "thinking"]
    prompt = system(chance)
    at, turns = 1_790_000_000.0 + seed * 86_400, []
    breakpoint = {"type": "ephemeral", **({"ttl": "1h"} if ttl == "1h" else {})}
    for count in message_counts:
        request = Request(prompt, tools, messages[:count], params(dialect), model, breakpoint=breakpoint)
        request.breakpoints = breakpoints(request, dialect)
        turn = Turn(copy.deepcopy(request), at, at + chance.uniform(1, 4))
        turn.call = {"endpoint": HOSTS[dialect], "session": f"session-{dialect}-{seed}"} if seed % 2 else {}
        turns.append(turn)
        at += chance.uniform(8, 70)
    return Capture(dialect, seed, turns, chance, ttl, billed=bool(seed % 4) if billed is None else billed)


# usage


def segments(capture: Capture, turn: Turn) -> list[Seg]:
    """Flatten a turn by the oracle, from the text that was sent."""
    host = turn.call.get("endpoint", "")
    at_anthropic = "anthropic.com" in host or (not host and turn.request.model.startswith("claude-"))
    fields = json.loads(spelled(capture, turn), object_pairs_hook=dict)
    flat = flatten(fields, capture.dialect, drops_header=at_anthropic)
    deferred = {
        f"tools[{at}]" for at, tool in enumerate(fields.get("tools") or []) if tool.get("defer_loading") is True
    }  # they are outside the prefix
    return [segment for segment in flat if segment.path.partition(".")[0] not in deferred]


def spelled(capture: Capture, turn: Turn) -> str:
    style = {"ensure_ascii": False, "separators": (",", ":"), **turn.style}
    plain = json.dumps(body(turn.request, capture.dialect), **style)
    return turn.patch(plain) if turn.patch else plain


def _salts(request: Request, dialect: str) -> tuple[str, str]:
    """Return the request fields, other than their bytes, that head and messages depend on."""
    head = {"model": request.model}
    message_fields = {
        key: value for key, value in request.params.items() if key not in ("metadata", "context_management")
    }
    if (
        dialect not in WITH_BREAKPOINTS
    ):  # no documentation of theirs says that the choice of tools is part of the prefix
        message_fields = {key: value for key, value in message_fields.items() if "tool" not in key}
        head |= message_fields
    return json.dumps(head), json.dumps(message_fields)


def bill(capture: Capture) -> None:
    """Set the tokens that each turn read, wrote and sent uncached."""
    earlier: list[tuple[Turn, list[Seg], list[int]]] = []
    for turn in capture.turns:
        segs = segments(capture, turn)
        sums = [0]
        for segment in segs:
            sums.append(sums[-1] + segment.size)
        ends = [n + 1 for n, segment in enumerate(segs) if segment.has_breakpoint and sums[n + 1] >= SHORTEST * BYTES]
        ends = ends if capture.dialect in WITH_BREAKPOINTS else []
        read = 0
        for before, others, there in earlier:
            read = max(read, _reusable(capture, before, others, there, turn, segs, sums))
        if turn.bill == "miss" or (capture.dialect in WITH_BREAKPOINTS and not ends):
            read = 0
        elif turn.bill == "older" and len(earlier) > 1:
            read = earlier[-2][2][-1] // BYTES
        last = sums[ends[-1]] if ends else sums[-1]
        total, last = sums[-1] // BYTES, last // BYTES
        if turn.usage is None:
            explicit = capture.dialect in WITH_BREAKPOINTS
            write = max(0, last - read) if explicit and ends else 0
            turn.usage = {"uncached": total - read - write, "read": read, "write": write, "output": 200}
            if explicit:
                turn.usage["5m" if capture.ttl == "5m" else "1h"] = write
        if turn.usage.get("read") is not None:
            earlier.append((turn, segs, ends and [sums[end] for end in ends] or [sums[-1]]))


def _reusable(capture, before: Turn, others: list[Seg], there: list[int], turn: Turn, segs: list[Seg], sums) -> int:
    previous, current = (_salts(sent_turn.request, capture.dialect) for sent_turn in (before, turn))
    if previous[0] != current[0]:
        return 0
    common = common_segments(others, segs)
    if previous[1] != current[1]:
        common = min(common, sum(segment.section != "messages" for segment in segs))
    if capture.dialect in WITH_BREAKPOINTS:
        return max((end for end in there if end <= sums[common]), default=0) // BYTES
    tokens = common_bytes(others, segs) // BYTES
    return tokens // 128 * 128 if tokens >= 1024 else 0


# lore's findings


class Injected(TextReader):
    """The format of these captures: one exchange a line, with all facts."""

    name: ClassVar[str] = "injected"
    clock: ClassVar[Clock] = "first_line"

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return False

    def read_line(self, line: Line) -> list[Read]:
        return [Read(_exchange(json.loads(line.data)), line.number, 0)]


def _exchange(record: dict[str, Any]) -> Exchange:
    usage = record["usage"]
    names = ("uncached", "read", "write", "output", "5m", "1h")
    call = dict(record["call"])
    if "betas" in call:
        call["betas"] = tuple(call["betas"])
    return Exchange(
        record["body"].encode("utf-8"),
        "wire",
        record["at"],
        usage and Usage(*(usage.get(name) for name in names)),
        Verdict(record["verdict"]) if record["verdict"] else None,
        record["answered"],
        record["response_id"],
        record["output"].encode(),
        Call(**call),
    )


def written(capture: Capture, later: int = 0) -> bytes:
    """Write a capture in the format of these tests, all its times `later` by so many seconds."""
    if capture.billed:
        bill(capture)
    lines = []
    for turn in capture.turns:
        record = {
            "body": spelled(capture, turn),
            "at": turn.at + later,
            "answered": turn.answered and turn.answered + later,
            "usage": turn.usage if capture.billed else None,
            "verdict": turn.verdict,
            "response_id": turn.response_id,
            "output": turn.output,
            "call": turn.call,
        }
        lines.append(json.dumps(record).encode() + b"\n")
    return b"".join(lines)


def judged(captures: list[Capture], folder: Path) -> list[list[Finding]]:
    """Return what `lore check` finds in each capture."""
    paths = []
    for number, capture in enumerate(captures):
        path = folder / f"{number:04}-{token(random.Random(number), 4)}.jsonl"
        path.write_bytes(written(capture, number))  # equal requests of two captures are no copies
        paths.append(str(path))
    READERS[Injected.name] = Injected
    try:
        findings = check(paths, CheckContext(options=Options(format=Injected.name))).result.findings
    finally:
        del READERS[Injected.name]
    by_path: dict[str, list[Finding]] = {path: [] for path in paths}
    for finding in findings:
        by_path[finding.path].append(finding)
    return [by_path[path] for path in paths]


def waste(findings: list[Finding]) -> list[str]:
    """Return the codes of waste, in order."""
    return [
        f"{finding.code} at {finding.turn}: {finding.evidence[:100]}" for finding in findings if finding.kind == "waste"
    ]

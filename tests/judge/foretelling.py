"""Recorded turns for rules that compare usage with predictions, and the findings of these rules."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from lore.judge.judge import Judge
from lore.model.cause import Place
from lore.model.events import Usage
from lore.model.results import Finding
from lore.model.turn import Turn
from lore.run.rules import Dated
from model.making import parsed, turn

START = 1_789_000_000.0  # September 2026
SYSTEM = "Say in one sentence what you changed, and why it was needed. " * 200
CACHE_CONTROL = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
PLACE = Place("a.jsonl")


def body(*texts: str, system: str = SYSTEM, head: dict[str, str] | None = CACHE_CONTROL,
         breakpoint: dict[str, str] | None = CACHE_CONTROL,
         model: str = "claude-opus-5", **more: Any) -> dict[str, Any]:  # fmt: skip
    """Return an Anthropic request: system prompt and history, each ending with a breakpoint."""
    messages = [
        {"role": "user" if number % 2 == 0 else "assistant", "content": [{"type": "text", "text": text}]}
        for number, text in enumerate(texts)
    ]
    if breakpoint is not None:
        messages[-1]["content"][-1]["cache_control"] = breakpoint  # pyright: ignore[reportArgumentType]
    system_block = {"type": "text", "text": system, **({} if head is None else {"cache_control": head})}
    return {"model": model, "max_tokens": 9, "system": [system_block], "messages": messages, **more}


def answered_turn(at: float, request: dict[str, Any], bill: Usage | None, chain: str = "main", **fields: Any) -> Turn:
    """Return a turn `at` seconds after the start, answered two seconds later."""
    fields = {"sent": START + at, "answered": START + at + 2, **fields}
    return replace(turn(parsed(request), int(at) + 1, usage=bill, **fields), chain=chain)


def bill(read: int | None, write: int | None, uncached: int = 3, hour: int | None = None) -> Usage:
    """Return an Anthropic usage; writes that are not for one hour live five minutes."""
    if hour is None:
        return Usage(uncached, read, write)
    return Usage(uncached, read, write, write_1h_tokens=hour, write_5m_tokens=(write or 0) - hour)


def chain_findings(turns: Sequence[Turn], judge: Judge | None = None) -> list[Finding]:
    """Return the findings about whole chains: LORE304 and later."""
    judge = judge or Dated().judge()
    for current in turns:
        judge.turn(current)
    return [finding for finding in judge.finish(PLACE) if finding.code > "LORE303"]


def chain_codes(turns: Sequence[Turn]) -> list[str]:
    """Return the codes of the findings about whole chains."""
    return [finding.code for finding in chain_findings(turns)]

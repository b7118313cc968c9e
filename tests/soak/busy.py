"""Write busy sessions: everything that may happen in a long one, and nothing that is waste.

In: turns, a seed, how often to compact. Out: the lines of a lore log: streamed answers, parallel calls,
subagents, rewinds, compactions that keep the newest items, knowledge, layers, changed sessions. Every
break of the prefix has an event that entitles it to, so a judge finds no waste and no damage.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

PLAIN = "lore folds what was said and keeps the prefix still while tools run and people wait"
WORDS = (*PLAIN.split(), "café", "日本", "\\", '"', "\n", "\u2028", "\U0001f600")
KEPT = 4  # items that a compaction preserves


def lines(turns: int, *, seed: int = 1, compact_every: int = 50) -> Iterator[bytes]:
    """Yield the lines of a log with this many main turns, each with its line feed."""
    session = _Session(random.Random(seed))
    yield from session.begin()
    for number in range(1, turns + 1):
        yield from session.turn(number)
        if number % compact_every == 0:
            yield from session.compact(number)
        elif number % 7 == 0:
            yield from session.something(number)


class _Session:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._uuids: list[str] = []
        self._sides = 0

    def begin(self) -> Iterator[bytes]:
        tools = [{"name": name, "description": self._text(40), "input_schema": {}} for name in ("read", "write")]
        yield _line("session_started", session_id="soak", model="claude-opus-4-8", dialect="anthropic",
                    system=[self._text(80), "Be brief."], tools=tools)  # fmt: skip
        yield _line("layer", name="rules", when="once_at_start", text=self._text(30))
        yield _line("knowledge", op="add", id="known1", category="c", title="t", content=self._text(20))

    def turn(self, number: int) -> Iterator[bytes]:
        chance, response = self._chance, f"r{number}"
        if number == 1 or chance.random() < 0.4:
            yield self._item("user_message", f"u{number}", text=self._text(60))
        context = {"current_time": f"turn {number}", "extra": [self._text(15)]} if chance.random() < 0.7 else None
        yield _line("turn_started", turn=number, at=_at(number), **({} if context is None else {"context": context}))
        yield self._item("assistant_message", f"a{number}", text="", response_id=response)
        for _ in range(chance.randint(1, 3)):
            yield _line("patch_text", uuid=f"a{number}", delta_text=self._text(25))
        calls = [f"c{number}-{place}" for place in range(chance.randint(0, 3))]
        for call in calls:
            yield self._item("tool_call", f"t{call}", call_id=call, name="read", input={"path": self._text(3)},
                             status="running", response_id=response)  # fmt: skip
        yield _line("turn_completed", turn=number, at=_at(number))
        for call in calls:
            if chance.random() < 0.1:
                yield _line("patch_tool_call", call_id=call, status="failed", error="no such file")
            else:
                yield _line("patch_tool_call", call_id=call, status="completed", output=self._text(120))

    def compact(self, number: int) -> Iterator[bytes]:
        kept = [uuid for uuid in self._uuids[-KEPT:] if not uuid.startswith("t")]
        yield _line("compact_started", trigger="auto", pre_tokens=1000)
        yield _line("compact_applied", uuid=f"d{number}", trigger="auto", preserved_uuids=kept, summary=self._text(40))
        self._uuids = kept

    def something(self, number: int) -> Iterator[bytes]:
        """One of the rarer things."""
        match self._chance.randrange(6):
            case 0:
                gone = [uuid for uuid in self._uuids[-2:] if uuid[0] in "ua"]
                if gone:
                    yield _line("remove", uuids=gone)
                    self._uuids = [uuid for uuid in self._uuids if uuid not in gone]
            case 1:
                yield _line("session_changed", params={"max_tokens": 1000 + number})
            case 2:
                yield _line("knowledge", op="update", id="known1", content=self._text(10))
            case 3:
                yield _line("layer", name="mood", when="every_turn", text=self._text(10))
            case 4:
                yield _line("cache_reset", reason=f"after {number}")
            case _:
                yield from self._subagent()

    def _subagent(self) -> Iterator[bytes]:
        self._sides += 1
        chain = f"agent-{self._sides % 3}"
        uuid = f"s{self._sides}"
        user = {"type": "user_message", "uuid": f"u{uuid}", "text": self._text(30)}
        said = {"type": "assistant_message", "uuid": f"a{uuid}", "text": self._text(30)}
        yield _line("append", chain=chain, item=user)
        yield _line("turn_started", chain=chain, turn=self._sides)
        yield _line("append", chain=chain, item=said)
        yield _line("turn_completed", chain=chain, turn=self._sides)

    def _item(self, kind: str, uuid: str, **fields: object) -> bytes:
        self._uuids.append(uuid)
        return _line("append", item={"type": kind, "uuid": uuid, **fields})

    def _text(self, words: int) -> str:
        return " ".join(self._chance.choices(WORDS, k=self._chance.randint(1, words)))


def _line(kind: str, **record: object) -> bytes:
    return json.dumps({"kind": kind, **record}, ensure_ascii=False).encode() + b"\n"


def _at(number: int) -> str:
    return f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z"

"""lore's own logs, as bytes, as lines, and as the events in them."""

from typing import Any, NamedTuple

from hypothesis import strategies as st

from helpers.strategies.spelling import Spelled, blocks, camel, clean_texts, numbers, styles, texts, values, write
from lore.formats.base import Read, Reader
from lore.formats.lore_log import LoreLog
from lore.model import events as e
from lore.model.codes import Problem

CHAINS = ("main", "main", "main", "agent-1", "utility-2")
FACTS = ("abcde", "abcdef1", "abcdef2", "abcdefgh", "zzzzz9", "q")


class Log(NamedTuple):
    """A log: its lines (without ends), all of its bytes, the events that it holds."""

    lines: tuple[bytes, ...]
    data: bytes
    events: tuple[e.Event, ...]


def read_all(reader: Reader, data: bytes) -> list[Read]:
    """Feed everything at once."""
    return list(reader.read([data]))


def events_of(data: bytes, reader: type[Reader] = LoreLog) -> tuple[e.Event, ...]:
    """Return the events of a recording, problems left out."""
    return tuple(read.value for read in read_all(reader(), data) if not isinstance(read.value, Problem))  # type: ignore[misc]


class _Author:
    """Write a session, one operation after another, knowing what a real writer knows."""

    def __init__(self, draw: Any, *, damage: bool) -> None:
        self.draw = draw
        self.damage = damage
        self.records: list[dict[str, Any]] = []
        self.number = 0
        self.turns: dict[str, int] = {}
        self.uuids: dict[str, list[str]] = {}
        self.calls: dict[str, list[str]] = {}

    def new(self, prefix: str) -> str:
        self.number += 1
        return f"{prefix}{self.number}"

    def say(self, chain: str, **record: Any) -> None:
        if chain != "main":
            record["chain"] = chain
        self.records.append(record)

    def item(self, chain: str, item: dict[str, Any]) -> None:
        self.uuids.setdefault(chain, []).append(item["uuid"])
        self.say(chain, kind="append", item=item)

    def draw_known_id(self, chain: str, table: dict[str, list[str]]) -> str:
        """Draw an earlier id, or (rarely, in damaged logs) an unknown one."""
        pool = table.get(chain) or ["nobody"]
        return self.draw(st.sampled_from([*pool[-4:], "nobody"] if self.damage else pool[-4:]))

    def text(self) -> dict[str, Any]:
        if self.draw(st.booleans()):
            return {"text": self.draw(texts)}
        return {"blocks": self.draw(st.lists(blocks, max_size=2))}

    # what may happen in a session

    def user(self, chain: str) -> None:
        self.item(chain, {"type": "user_message", "uuid": self.new("u"), **self.text()})

    def turn(self, chain: str) -> None:
        number = self.turns[chain] = self.turns.get(chain, 0) + 1
        context = {}
        if self.draw(st.booleans()):
            context["current_time"] = f"2026-01-01T00:0{number % 10}:00Z"
            context["memory_recall"] = [{"id": "m1", "title": "t", "content": self.draw(texts), "score": 0.5}]
        at = f"2026-01-01T00:{number % 60:02}:00Z"
        self.say(chain, kind="turn_started", turn=number, at=at, **({"context": context} if context else {}))

    def end(self, chain: str) -> None:
        usage = self.draw(
            st.sampled_from(
                [None, {}, {"uncached_tokens": 3, "read_tokens": 1000}, {"output_tokens": 7, "write_tokens": 90}]
            )
        )
        kind = self.draw(st.sampled_from(["turn_completed", "turn_completed", "turn_failed", "turn_canceled"]))
        more = {} if usage is None else {"usage": usage}
        self.say(chain, kind=kind, turn=self.turns.get(chain, 0), **more)

    def answer(self, chain: str) -> None:
        self.turn(chain)
        self.item(
            chain, {"type": "assistant_message", "uuid": self.new("a"), **self.text(), "response_id": self.new("r")}
        )
        self.end(chain)

    def loop(self, chain: str) -> None:
        """A response with parallel calls, and their results."""
        self.turn(chain)
        response, calls = self.new("r"), []
        if self.draw(st.booleans()):
            self.item(
                chain, {"type": "assistant_message", "uuid": self.new("a"), "text": "so", "response_id": response}
            )
        for _ in range(self.draw(st.integers(1, 3))):
            calls.append(self.new("c"))
            self.calls.setdefault(chain, []).append(calls[-1])
            call = {"type": "tool_call", "uuid": self.new("t"), "call_id": calls[-1], "name": "read"}
            self.item(chain, {**call, "input": self.draw(values), "status": "running", "response_id": response})
        self.end(chain)
        for call_id in calls:
            status = self.draw(st.sampled_from(["completed", "failed"]))
            more = {"output": self.draw(texts)} if status == "completed" else {"error": "no\u2028luck"}
            self.say(chain, kind="patch_tool_call", call_id=call_id, status=status, **more)

    def stream(self, chain: str) -> None:
        """A response that arrives in pieces; a surrogate pair may be cut between two of them."""
        self.turn(chain)
        uuid = self.new("a")
        self.item(chain, {"type": "assistant_message", "uuid": uuid, "text": "", "response_id": self.new("r")})
        for _ in range(self.draw(st.integers(1, 3))):
            self.say(chain, kind="patch_text", uuid=uuid, delta_text=self.draw(texts))
        self.end(chain)

    def compact(self, chain: str) -> None:
        uuids = self.uuids.get(chain, [])
        keep = self.draw(st.sampled_from(["some", "none", "missing", "unknown", "partly"]))
        preserved = {"some": uuids[-2:], "none": [], "unknown": ["nobody", "noone"], "partly": [*uuids[-1:], "nobody"]}
        uuid = self.new("d")
        self.say(chain, kind="compact_started", trigger="overflow", pre_tokens=100)
        self.say(
            chain, kind="compact_applied", uuid=uuid, trigger=self.draw(st.sampled_from(["auto", "manual", "gap"])),
            **({} if keep == "missing" else {"preserved_uuids": preserved[keep]}),
            **self.draw(st.sampled_from([{}, {"summary": "what was"}, {"summary": "cut \ud83d", "post_tokens": 5}])),
        )  # fmt: skip
        uuids.append(uuid)

    def rewind(self, chain: str) -> None:
        uuids = self.uuids.get(chain, ["nobody"])
        removed = uuids[-self.draw(st.integers(1, 3)) :]
        self.say(chain, kind="remove", uuids=removed)
        self.uuids[chain] = [uuid for uuid in uuids if uuid not in removed]

    def clear(self, chain: str) -> None:
        call_ids = [self.draw_known_id(chain, self.calls)]
        self.say(chain, kind="tool_result_cleared", call_ids=call_ids)

    def change(self, chain: str) -> None:
        what = self.draw(
            st.sampled_from(
                [
                    {"model": "claude-opus-4-8"},
                    {"model": "gpt-5"},
                    {"system": ["one", "two"]},
                    {"tools": [{"name": "write", "input_schema": {"n": Spelled(("1.0", "1e0"))}}]},
                    {"params": {"max_tokens": 9}},
                ]
            )
        )
        self.say(chain, kind="session_changed", **what)

    def reset(self, chain: str) -> None:
        self.say(chain, kind="cache_reset", reason="asked for")

    def layer(self, _: str) -> None:
        when = self.draw(st.sampled_from(["once_at_start", "every_turn"]))
        name = self.draw(st.sampled_from(["rules", "mood"]))
        self.say("main", kind="layer", name=name, when=when, text=self.draw(texts))

    def learn(self, chain: str) -> None:
        op = self.draw(st.sampled_from(["add", "create", "update", "remove"]))
        more = {} if op == "remove" else {"category": "c", "title": "t", "content": self.draw(clean_texts)}
        self.say(chain, kind="knowledge", op=op, id=self.draw(st.sampled_from(FACTS)), **more)

    def delta(self, chain: str) -> None:
        selector = {"target": "messages", "insert_at": 0, "mut": [1]}
        content = [{"role": "user", "text": self.draw(texts)}]
        self.say(chain, kind="prompt_delta", seq=self.draw(st.integers(0, 2)), selector=selector, content=content)

    def persist(self, chain: str) -> None:
        self.say(chain, kind="context_persisted", turn=1, insert_at=0, content=self.draw(texts))

    def late_patch(self, chain: str) -> None:
        if self.draw(st.booleans()):
            self.say(chain, kind="patch_text", uuid=self.draw_known_id(chain, self.uuids), delta_text=self.draw(texts))
            return
        call_id = self.draw_known_id(chain, self.calls)
        self.say(chain, kind="patch_tool_call", call_id=call_id, status="completed", output=self.draw(texts))

    def duplicate(self, chain: str) -> None:
        """An item under a uuid that came before, perhaps of another kind or another call."""
        uuid = self.draw_known_id(chain, self.uuids)
        kind = self.draw(st.sampled_from(["user_message", "tool_call"]))
        if kind == "user_message":
            self.say(chain, kind="append", item={"type": kind, "uuid": uuid, "text": self.draw(texts)})
            return
        call = self.draw(st.sampled_from([self.draw_known_id(chain, self.calls), "c-other"]))
        item = {"type": kind, "uuid": uuid, "call_id": call, "name": "again", "input": {}}
        self.say(chain, kind="append", item=item)

    def reuse_call(self, chain: str) -> None:
        """A second call under a call id that came before (some providers count from zero each turn)."""
        call = {
            "type": "tool_call",
            "uuid": self.new("t"),
            "call_id": self.draw_known_id(chain, self.calls),
            "name": "twice",
        }
        self.item(chain, {**call, "input": {}})

    def collide(self, chain: str) -> None:
        """A compaction under the uuid of an item that it keeps."""
        uuid = self.draw_known_id(chain, self.uuids)
        self.say(chain, kind="compact_applied", uuid=uuid, trigger="manual", preserved_uuids=[uuid])

    def unknown(self, chain: str) -> None:
        self.say(chain, kind="telemetry", anything=self.draw(values))

    def opaque(self, chain: str) -> None:
        self.say(chain, kind="opaque", record={"was": self.draw(values)})


CALM = ("user", "answer", "loop", "stream")
SAID = ("compact", "rewind", "clear", "change", "reset", "layer", "learn", "delta", "persist", "unknown", "opaque")
DAMAGED = ("late_patch", "duplicate", "reuse_call", "collide", "end", "turn")


@st.composite
def lore_logs(draw: Any, *, damage: bool = True, odd_lines: bool = True, max_size: int = 14) -> Log:
    """A lore log; `damage`: unknown and duplicated ids too; `odd_lines`: camelCase, blank and joined lines."""
    author = _Author(draw, damage=damage)
    started = {"kind": "session_started", "v": 1, "session_id": "s-1", "at": "2026-01-01T00:00:00Z"}
    header = {
        "model": draw(st.sampled_from(["claude-opus-5", "claude-sonnet-4-5", "gpt-5"])),
        "dialect": draw(st.sampled_from(["anthropic", "openai-chat"])),
        "system": draw(st.sampled_from(["You help.", ["You help.", "cut \ud83d"], ""])),
        "tools": [{"name": "read", "description": draw(texts), "input_schema": {"max": draw(numbers)}}],
        "params": {"max_tokens": 100, "temperature": Spelled(("1.0", "1e0"))},
    }
    author.records.append({**started, **header})
    choices = (*CALM, *CALM, *SAID, *(DAMAGED if damage else ()))
    for name in draw(st.lists(st.sampled_from(choices), max_size=max_size)):
        getattr(author, name)(draw(st.sampled_from(CHAINS)))
    style = draw(styles)
    lines = [write(camel(record) if odd_lines and draw(st.booleans()) else record, style) for record in author.records]
    if odd_lines:
        lines = draw(_oddly(lines))
    end = draw(st.sampled_from([b"\n", b""]))
    data = b"\n".join(lines) + end
    return Log(tuple(lines), data, events_of(data))


@st.composite
def _oddly(draw: Any, lines: list[bytes]) -> list[bytes]:
    """Spoil a few lines: blank, joined, CR at the end, torn, of no kind."""
    result = list(lines)
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(1, len(result)))
        odd = draw(
            st.sampled_from(
                [b"", b"  \r", b"{", b"null", b"[1,2]", b'{"no":"kind"}', b'{"kind":"append"}', b"\xff\xfe",
                 b'{"kind":5}',
                 b'{"kind":"cache_reset","reason":"one"}{"kind":"cache_reset","reason":"two"}',
                 b'{"kind":"cache_reset","reason":"cr"}\r']
            )
        )  # fmt: skip
        result.insert(place, odd)
    return result

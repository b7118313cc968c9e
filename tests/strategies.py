"""Generated sessions, in the spellings that real writers use.

`write` is an encoder of its own: it spells one value in many ways (key order, white space, escapes, floats),
lone surrogates and integers past 2^64 included. Strategies draw short lists of operations from small pools, so
that ids meet each other and what fails shrinks to a log that a person can read:

- `lore_logs`      lore's own log as bytes, as lines, and as the events in it
- `any_events`     events in any order, whether they make sense or not
- `claude_logs`    Claude Code logs as bytes
- `bodies`, `conversations`, `body_files`    request bodies of both dialects, alone, growing, in files
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from hypothesis import strategies as st
from msgspec import Raw

from lore.formats.base import Read, Reader
from lore.formats.lore_log import LoreLog
from lore.model import events as e
from lore.model import items as i
from lore.model.problems import Problem

# Strings that broke real readers: surrogates cut in half, separators that `splitlines` takes for line ends,
# escapes inside escapes, credentials, terminal escapes, text that looks like JSON.
AWKWARD: tuple[str, ...] = (
    "plain",
    "",
    " ",
    "two\nlines\r\n",
    'tab\tquote"back\\slash/',
    "\u2028 and \u2029 and \u0085",
    "caf\u00e9 \u00fc\u00df",
    "\U0001f469\u200d\U0001f4bb",
    "cut \ud83d",
    "\udc69 begins low",
    "\ud83d\ude00 as two halves",
    "\x00\x01\x1f\x7f",
    "\x1b[31mred\x1b[0m",
    "\ufeffbom",
    '{"type":"text","cache_control":{}}',
    "\\ud83d is text here",
    "\\u0000",
    "{}[],:",
    "]]>&amp;<!--",
    "Today is 2026-01-02.",
    "%s {0} ${HOME} `id`",
    "x" * 300,
    "null",
    "data: sk-ant-api03-not-a-key",
)


class Spelled(NamedTuple):
    """A number that may be written in several ways."""

    forms: tuple[str, ...]


NUMBERS: tuple[Any, ...] = (
    0,
    -1,
    18446744073709551616,
    -18446744073709551617,
    123456789012345678901234567890,
    Spelled(("1.0", "1.00", "1e0", "10E-1")),
    Spelled(("1e16", "1E16", "1.0e+16", "10000000000000000.0")),
    Spelled(("3e-5", "0.00003", "3.0E-05")),
    Spelled(("-0.0", "-0e0")),
)


class Style(NamedTuple):
    """How a writer spells: key order, white space, escapes, which form of a float."""

    reverse: bool = False
    spaced: bool = False
    escapes: str = "few"
    floats: int = 0


PLAIN = Style()
_TAGS = dict.fromkeys(("kind", "type", "role", "status", "op"), PLAIN)  # no writer escapes the letters of a tag


def write(value: Any, style: Style = PLAIN) -> bytes:
    """Write a value as JSON; lone surrogates are always escapes, so that the result is UTF-8."""
    match value:
        case Spelled(forms):
            return forms[style.floats % len(forms)].encode()
        case Raw():
            return bytes(value)
        case str():
            return _string(value, style.escapes)
        case dict():
            members = list(value.items())
            parts = [
                _string(key, "few") + (b": " if style.spaced else b":") + write(one, _TAGS.get(key, style))
                for key, one in (reversed(members) if style.reverse else members)
            ]
            return b"{" + (b", " if style.spaced else b",").join(parts) + b"}"
        case list() | tuple():
            return b"[" + (b" ,\t" if style.spaced else b",").join(write(one, style) for one in value) + b"]"
        case _:
            return json.dumps(value).encode()


def _string(text: str, escapes: str) -> bytes:
    if escapes == "few":
        return json.dumps(text, ensure_ascii=False).encode("utf-8", "backslashreplace")
    if escapes == "ascii":
        return json.dumps(text).encode()
    return b'"' + b"".join(b"\\u%04x" % unit for unit in _units(text)) + b'"'


def _units(text: str) -> list[int]:
    data = text.encode("utf-16-be", "surrogatepass")
    return [data[n] << 8 | data[n + 1] for n in range(0, len(data), 2)]


def camel(value: Any) -> Any:
    """Spell the keys of a record, and of the item in it, in camelCase."""
    if not isinstance(value, dict):
        return value
    humped = {re.sub(r"_([a-z0-9])", lambda m: m[1].upper(), key): one for key, one in value.items()}
    return {key: camel(one) if key == "item" else one for key, one in humped.items()}


texts = st.sampled_from(AWKWARD)
clean_texts = st.sampled_from([one for one in AWKWARD if one == one.encode("utf-8", "ignore").decode()])
numbers = st.sampled_from(NUMBERS)
styles = st.builds(
    Style, st.booleans(), st.booleans(), st.sampled_from(["few", "ascii", "all"]), st.integers(min_value=0, max_value=3)
)
values = st.one_of(
    texts,
    numbers,
    st.none(),
    st.booleans(),
    st.just([]),
    st.builds(lambda a, b: {"a": a, "\u00fc": [b, {}], "": a}, texts, numbers),
)
blocks = st.one_of(
    st.builds(lambda t: {"type": "text", "text": t}, texts),
    st.builds(lambda t, s: {"type": "thinking", "text": t, "signature": s}, texts, st.sampled_from(["", "c2ln"])),
    st.just({"type": "image", "media_type": "image/png", "data": "aGk="}),
    st.builds(lambda v: {"type": "raw", "json": {"type": "text", "text": "raw", "citations": [v]}}, values),
)

CHAINS = ("main", "main", "main", "agent-1", "utility-2")
FACTS = ("abcde", "abcdef1", "abcdef2", "abcdefgh", "zzzzz9", "q")


class Log(NamedTuple):
    """A log: its lines (without ends), all of its bytes, the events that it holds."""

    lines: tuple[bytes, ...]
    data: bytes
    events: tuple[e.Event, ...]


def read_all(reader: Reader, data: bytes) -> list[Read]:
    """Feed everything at once."""
    return [*reader.feed(data), *reader.finish()]


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

    def known(self, chain: str, table: dict[str, list[str]]) -> str:
        """An id that came before, or (rarely, in damaged logs) one that nobody knows."""
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
                [None, {}, {"fresh_tokens": 3, "read_tokens": 1000}, {"output_tokens": 7, "write_tokens": 90}]
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
        known = self.uuids.get(chain, [])
        keep = self.draw(st.sampled_from(["some", "none", "missing", "unknown", "partly"]))
        kept = {"some": known[-2:], "none": [], "unknown": ["nobody", "noone"], "partly": [*known[-1:], "nobody"]}
        uuid = self.new("d")
        self.say(chain, kind="compact_started", trigger="overflow", pre_tokens=100)
        self.say(
            chain, kind="compact_applied", uuid=uuid, trigger=self.draw(st.sampled_from(["auto", "manual", "gap"])),
            **({} if keep == "missing" else {"preserved_uuids": kept[keep]}),
            **self.draw(st.sampled_from([{}, {"summary": "what was"}, {"summary": "cut \ud83d", "post_tokens": 5}])),
        )  # fmt: skip
        known.append(uuid)

    def rewind(self, chain: str) -> None:
        known = self.uuids.get(chain, ["nobody"])
        gone = known[-self.draw(st.integers(1, 3)) :]
        self.say(chain, kind="remove", uuids=gone)
        self.uuids[chain] = [uuid for uuid in known if uuid not in gone]

    def clear(self, chain: str) -> None:
        call_ids = [self.known(chain, self.calls)]
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
            self.say(chain, kind="patch_text", uuid=self.known(chain, self.uuids), delta_text=self.draw(texts))
            return
        call_id = self.known(chain, self.calls)
        self.say(chain, kind="patch_tool_call", call_id=call_id, status="completed", output=self.draw(texts))

    def duplicate(self, chain: str) -> None:
        """An item under a uuid that came before, perhaps of another kind or another call."""
        uuid = self.known(chain, self.uuids)
        kind = self.draw(st.sampled_from(["user_message", "tool_call"]))
        if kind == "user_message":
            self.say(chain, kind="append", item={"type": kind, "uuid": uuid, "text": self.draw(texts)})
            return
        call = self.draw(st.sampled_from([self.known(chain, self.calls), "c-other"]))
        item = {"type": kind, "uuid": uuid, "call_id": call, "name": "again", "input": {}}
        self.say(chain, kind="append", item=item)

    def reuse_call(self, chain: str) -> None:
        """A second call under a call id that came before (some providers count from zero each turn)."""
        call = {"type": "tool_call", "uuid": self.new("t"), "call_id": self.known(chain, self.calls), "name": "twice"}
        self.item(chain, {**call, "input": {}})

    def collide(self, chain: str) -> None:
        """A compaction under the uuid of an item that it keeps."""
        uuid = self.known(chain, self.uuids)
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
    lines = [write(camel(one) if odd_lines and draw(st.booleans()) else one, style) for one in author.records]
    if odd_lines:
        lines = draw(_oddly(lines))
    end = draw(st.sampled_from([b"\n", b""]))
    data = b"\n".join(lines) + end
    return Log(tuple(lines), data, events_of(data))


@st.composite
def _oddly(draw: Any, lines: list[bytes]) -> list[bytes]:
    """Spoil a few lines: blank, joined, CR at the end, torn, of no kind."""
    made = list(lines)
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(1, len(made)))
        odd = draw(
            st.sampled_from(
                [b"", b"  \r", b"{", b"null", b"[1,2]", b'{"no":"kind"}', b'{"kind":"append"}', b"\xff\xfe",
                 b'{"kind":5}',
                 b'{"kind":"cache_reset","reason":"one"}{"kind":"cache_reset","reason":"two"}',
                 b'{"kind":"cache_reset","reason":"cr"}\r']
            )
        )  # fmt: skip
        made.insert(place, odd)
    return made


# events in any order


_uuid = st.sampled_from(["u1", "u2", "u3", "u4"])
_call = st.sampled_from(["c1", "c2", "c3"])
_raw = st.builds(lambda t: Raw(write(t)), texts)
_block = st.one_of(
    st.builds(i.TextBlock, _raw),
    st.builds(i.ThinkingBlock, _raw),
    st.builds(i.RawBlock, st.builds(Raw, st.just(b"{}"))),
)
_blocks = st.one_of(st.none(), st.lists(_block, max_size=2).map(tuple))
_response = st.sampled_from([None, None, "r1", "r2"])
_item = st.one_of(
    st.builds(i.UserMessage, _uuid, _raw),
    st.builds(lambda u, b: i.UserMessage(u, blocks=b), _uuid, _blocks),
    st.builds(lambda u, t, r: i.AssistantMessage(u, text=t, response_id=r), _uuid, _raw, _response),
    st.builds(
        lambda u, c, r, s: i.ToolCall(u, c, "tool", Raw(b"{}"), status=s, response_id=r),
        _uuid, _call, _response, st.sampled_from(["running", "completed"]),
    ),
    st.builds(i.CompactDivider, _uuid, st.just("manual")),
    st.builds(i.OpaqueItem, _uuid, _raw),
)  # fmt: skip
_usage = st.one_of(
    st.none(), st.builds(e.Billed, st.one_of(st.none(), st.integers(0, 9)), st.one_of(st.none(), st.just(3)))
)
_number = st.integers(0, 3)
_kinds = st.one_of(
    st.builds(lambda: e.SessionStarted(session_id="s", model="m", system=Raw(b'"sys"'))),
    st.builds(lambda m: e.SessionChanged(model=m, params=Raw(b"{}")), st.sampled_from(["m", "n"])),
    st.builds(
        lambda w, t: e.Layer(name="l", when=w, text=t),
        st.sampled_from(["once_at_start", "every_turn", "never"]), _raw,
    ),
    st.builds(lambda item: e.Append(item=item), _item),
    st.builds(lambda item: e.Append(item=item), _item),
    st.builds(lambda u, t: e.PatchText(uuid=u, delta_text=t), _uuid, _raw),
    st.builds(
        lambda c, s, t: e.PatchToolCall(call_id=c, status=s, output=t),
        _call, st.sampled_from(["completed", "failed"]), _raw,
    ),
    st.builds(lambda c: e.ToolResultCleared(call_ids=tuple(c)), st.lists(_call, max_size=2)),
    st.builds(lambda u: e.Remove(uuids=tuple(u)), st.lists(_uuid, max_size=2)),
    st.builds(lambda: e.CompactStarted(trigger="manual")),
    st.builds(
        lambda u, p, s: e.CompactApplied(uuid=u, trigger="auto", preserved_uuids=p, summary=s),
        _uuid, st.one_of(st.none(), st.lists(_uuid, max_size=3).map(tuple)), _raw,
    ),
    st.builds(lambda n: e.TurnStarted(turn=n, context=Raw(b'{"extra":["x"]}')), _number),
    st.builds(lambda n, u: e.TurnCompleted(turn=n, usage=u), _number, _usage),
    st.builds(lambda n, u: e.TurnFailed(turn=n, usage=u, error="x"), _number, _usage),
    st.builds(lambda n: e.TurnCanceled(turn=n), _number),
    st.builds(
        lambda op, i, t: e.Knowledge(op=op, id=i, content=t),
        st.sampled_from(["add", "update", "remove", "guess"]), st.sampled_from(FACTS), clean_texts,
    ),
    st.builds(
        lambda n, s: e.PromptDelta(seq=n, selector=Raw(s)),
        _number, st.sampled_from([b'{"target":"messages","insert_at":1}', b"{}", b"5"]),
    ),
    st.builds(lambda t: e.ContextPersisted(turn=1, insert_at=0, content=t), _raw),
    st.builds(lambda: e.CacheReset(reason="why not")),
    st.builds(lambda t: e.OpaqueEvent(record=t), _raw),
)  # fmt: skip


@st.composite
def any_events(draw: Any, max_size: int = 20) -> list[e.Event]:
    """Events of every kind, in any order, on several chains, about few ids."""
    import msgspec  # noqa: PLC0415 - only `replace` is wanted

    found = draw(st.lists(st.tuples(_kinds, st.sampled_from(("main", "main", "side"))), max_size=max_size))
    return [msgspec.structs.replace(event, chain=chain) for event, chain in found]


# Claude Code


class _Claude:
    """Write a Claude Code log as the program does."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.lines: list[Any] = []
        self.number = 0
        self.last: dict[str, str | None] = {}
        self.prompts: list[tuple[str, str | None]] = []

    def line(self, kind: str, chain: str = "main", **more: Any) -> str:
        self.number += 1
        uuid = f"id-{self.number}"
        record = {
            "parentUuid": self.last.get(chain), "isSidechain": chain != "main", "sessionId": "s-1", "type": kind,
            "uuid": uuid, "timestamp": f"2026-01-01T00:{self.number % 60:02}:00.000Z", **more,
        }  # fmt: skip
        if chain.startswith("agent"):
            record["agentId"] = chain
        self.lines.append(record)
        self.last[chain] = uuid
        return uuid

    def prompt(self, chain: str) -> None:
        parent = self.last.get(chain)
        content = self.draw(texts) if self.draw(st.booleans()) else [{"type": "text", "text": self.draw(texts)}]
        uuid = self.line("user", chain, message={"role": "user", "content": content})
        if chain == "main":
            self.prompts.append((uuid, parent))

    def rewind(self, chain: str) -> None:
        if chain == "main" and self.prompts:
            self.last[chain] = self.prompts[-1][1]
            self.prompt(chain)

    def answer(self, chain: str) -> None:
        response = {
            "id": f"msg-{self.number}",
            "role": "assistant",
            "model": self.draw(st.sampled_from(["m-1", "m-2"])),
        }
        usage = {
            "input_tokens": 3,
            "cache_read_input_tokens": 900,
            "cache_creation_input_tokens": 20,
            "output_tokens": 5,
        }
        content: list[dict[str, Any]] = []
        if self.draw(st.booleans()):
            content.append({"type": "thinking", "thinking": self.draw(texts), "signature": "c2ln"})
        content.append({"type": "text", "text": self.draw(texts)})
        calls = [f"toolu-{self.number}-{n}" for n in range(self.draw(st.integers(0, 2)))]
        content += [{"type": "tool_use", "id": one, "name": "Read", "input": {"v": self.draw(values)}} for one in calls]
        for block in content:
            self.line("assistant", chain, message={**response, "content": [block], "usage": usage})
        for one in calls:
            result = {"tool_use_id": one, "type": "tool_result", "content": self.draw(texts)}
            self.line("user", chain, message={"role": "user", "content": [result]}, toolUseResult="x")

    def compact(self, chain: str) -> None:
        meta: dict[str, Any] = {"trigger": "auto", "preTokens": 1000}
        if self.draw(st.booleans()):
            meta["preservedMessages"] = {"anchorUuid": "a", "uuids": [f"id-{self.number}", "id-none"]}
        self.last[chain] = None
        self.line("system", chain, subtype="compact_boundary", compactMetadata=meta, logicalParentUuid="id-1")
        if self.draw(st.booleans()):
            summary = {"role": "user", "content": self.draw(texts)}
            self.line("user", chain, isCompactSummary=True, isVisibleInTranscriptOnly=True, message=summary)

    def micro(self, chain: str) -> None:
        meta = {"trigger": "auto", "compactedToolIds": [f"toolu-{self.number}-0", "toolu-none"]}
        self.line("system", chain, subtype="microcompact_boundary", microcompactMetadata=meta)

    def attachment(self, chain: str) -> None:
        self.line("attachment", chain, attachment={"type": "file", "content": self.draw(values)})

    def metadata(self, _: str) -> None:
        self.lines.append({"type": "file-history-snapshot", "messageId": "m", "snapshot": {}})

    def odd(self, chain: str) -> None:
        self.line("brand-new", chain, anything=self.draw(values))

    def synthetic(self, chain: str) -> None:
        message = {"id": "x", "model": "<synthetic>", "role": "assistant", "content": [{"type": "text", "text": "err"}]}
        self.line("assistant", chain, message=message)


@st.composite
def claude_logs(draw: Any, max_size: int = 10) -> bytes:
    """A Claude Code log, with sidechains, compactions, rewinds, and lines that a crash left behind."""
    author = _Claude(draw)
    author.prompt("main")
    names = ("prompt", "answer", "answer", "rewind", "compact", "micro", "attachment", "metadata", "odd", "synthetic")
    for name in draw(st.lists(st.sampled_from(names), max_size=max_size)):
        getattr(author, name)(draw(st.sampled_from(["main", "main", "agent-7", "side"])))
    style = draw(styles)
    lines = draw(_oddly([write(one, style) for one in author.lines]))
    return b"\n".join(lines) + draw(st.sampled_from([b"\n", b""]))


# request bodies

MARK = {"type": "ephemeral"}
DIALECTS = ("anthropic", "openai-chat")


@st.composite
def _anthropic(draw: Any, length: int) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"n": {"maximum": draw(numbers)}}}
    messages: list[dict[str, Any]] = []
    for number in range(length):
        messages.append({"role": "user", "content": [{"type": "text", "text": draw(texts)}]})
        call = f"toolu_{number}"
        said = [
            {"type": "text", "text": draw(texts)},
            {"type": "tool_use", "id": call, "name": "read", "input": {"v": draw(values)}},
        ]
        messages.append({"role": "assistant", "content": said})
        inner = [{"type": "text", "text": draw(texts)}, {"type": "text", "text": "end"}]
        result = {"type": "tool_result", "tool_use_id": call, "content": inner if draw(st.booleans()) else draw(texts)}
        messages.append({"role": "user", "content": [result, {"type": "text", "text": draw(texts)}]})
    return {
        "model": "claude-sonnet-4-5",
        "max_tokens": 1024,
        "tools": [
            {"name": "read", "description": draw(texts), "input_schema": schema},
            {"name": "b", "input_schema": {}},
        ],
        "system": [{"type": "text", "text": draw(texts)}, {"type": "text", "text": "two"}],
        "messages": messages,
    }


@st.composite
def _openai(draw: Any, length: int) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"n": {"maximum": draw(numbers)}}}
    messages: list[dict[str, Any]] = [{"role": "system", "content": [{"type": "text", "text": draw(texts)}]}]
    for number in range(length):
        messages.append({"role": "user", "name": "ann", "content": [{"type": "text", "text": draw(texts)}]})
        call = {"id": f"call_{number}", "type": "function", "function": {"name": "read", "arguments": '{"a": 1}'}}
        messages.append({"role": "assistant", "content": draw(st.sampled_from([None, "so"])), "tool_calls": [call]})
        messages.append(
            {"role": "tool", "tool_call_id": call["id"], "content": [{"type": "text", "text": draw(texts)}]}
        )
    return {
        "model": "gpt-5",
        "messages": messages,
        "tools": [
            {"type": "function", "function": {"name": "read", "description": draw(texts), "parameters": parameters}}
        ],
    }


@st.composite
def bodies(draw: Any, dialect: str | None = None, min_length: int = 1) -> dict[str, Any]:
    """One request body, as a value."""
    dialect = dialect or draw(st.sampled_from(DIALECTS))
    length = draw(st.integers(min_length, 3))
    return draw(_anthropic(length) if dialect == "anthropic" else _openai(length))


@st.composite
def conversations(draw: Any) -> list[dict[str, Any]]:
    """Bodies that grow by one exchange each, as values."""
    body = draw(bodies(min_length=2))
    step = 3
    start = len(body["messages"]) % step
    ends = range(start + step, len(body["messages"]) + 1, step)
    return [{**body, "messages": body["messages"][:end]} for end in ends]


def places_for_marks(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the objects of a body that may carry a cache mark."""
    found: list[dict[str, Any]] = [*body.get("tools", ())]
    if isinstance(body.get("system"), list):
        found += body["system"]
    for message in body["messages"]:
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            found.append(block)
            if isinstance(block.get("content"), list):
                found += block["content"]
    return found


def marked(body: dict[str, Any], places: set[int], *, first: bool = False) -> dict[str, Any]:
    """Return a copy of a body with marks on these of its places, as first or as last member."""
    targets = {id(place): number in places for number, place in enumerate(places_for_marks(body))}

    def copy(value: Any) -> Any:
        if isinstance(value, Spelled):
            return value
        if isinstance(value, list):
            return [copy(one) for one in value]
        if not isinstance(value, dict):
            return value
        made = {key: copy(one) for key, one in value.items()}
        if not targets.get(id(value)):
            return made
        return {"cache_control": MARK, **made} if first else {**made, "cache_control": MARK}

    return copy(body)


@st.composite
def body_files(draw: Any) -> bytes:
    """A file of request bodies: one body over several lines, JSON Lines of bodies, or of records."""
    style = draw(styles)
    shape = draw(st.sampled_from(["pretty", "lines", "records", "texts"]))
    if shape == "pretty":
        body = write(draw(bodies()), style)
        end = draw(st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\n \n"]))
        return draw(st.sampled_from([b"", b"\xef\xbb\xbf", b"\n"])) + b"{" + end + body[1:-1] + end + b"}" + end
    made: list[bytes] = []
    for number, body in enumerate(draw(conversations())):
        text = write(body, style)
        record: dict[str, Any] = {"ts": 1767225600 + number, "usage": {"input_tokens": 10, "output_tokens": 1}}
        if shape == "records":
            text = write({"request": Raw(text), **record})
        elif shape == "texts":
            text = write({"request": text.decode("utf-8"), **record})
        made.append(text)
    return b"\n".join(draw(_oddly(made))) + draw(st.sampled_from([b"\n", b""]))

"""What long sessions of agents take in memory: `lore check` as a process of its own, over sessions that are made here.

In: a folder, a number of bytes, the command. Out: figures as (measure, bar, measured, met), the fields of a row. A
session is compacted every hundred requests, where its agent compacts; each request has a call with two kilobytes of
output. Documents have the size that is asked for, too, though their agents write none so long.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from orjson import dumps

from bench import memory
from bench.reading import Fields, text
from formats import codex, copilot, gemini, kimi, kimi_session, opencode, openhands, pi, qwen

REQUESTS = 100  # between compactions
BAR = "at most 200 MB"
_START = datetime(2026, 2, 1, tzinfo=UTC)
_HOUR = re.compile(rb"2026-\d\d-\d\dT\d\d:")
Chunk = Callable[[int], bytes]


def _chunks(size: int, chunk: Chunk) -> Iterator[bytes]:
    """Make chunks of a session, each an hour after the one before, up to a size."""
    written = 0
    for number in itertools.count():
        if written >= size:
            return
        data = chunk(number)
        written += len(data)
        yield data


def _later(data: bytes, number: int) -> bytes:
    return _HOUR.sub(f"{_START + timedelta(hours=number):%Y-%m-%dT%H:}".encode(), data)


def codex_rollout(size: int) -> Iterator[bytes]:
    """A rollout of Codex CLI."""
    made = codex.Rollout().meta().context()

    def chunk(number: int) -> bytes:
        made.lines, made.second = made.lines if number == 0 else [], 0
        made.user("go on")
        for turn in range(REQUESTS):
            call = f"c{number}-{turn}"
            made.thought().call(call).count(10_000 + 700 * turn, 9_984 + 700 * turn if turn else 0)
            made.result(call, text(turn))
        kept = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text(number)}]}]
        made.line("compacted", {"message": "", "replacement_history": kept})
        return _later(made.data(), number)

    return _chunks(size, chunk)


def copilot_log(size: int) -> Iterator[bytes]:
    """A log of Copilot CLI."""
    ids = re.compile(rb'"(e|m|msg_)(\d+)"')

    def chunk(number: int) -> bytes:
        made = copilot.Log()
        if number == 0:
            made.start().system()
        made.user("go on")
        for turn in range(REQUESTS):
            made.answer("", f"c{number}-{turn}").result(f"c{number}-{turn}", text(turn, 1_000))
        made.line("session.compaction_start", {"systemTokens": 1}).compact(text(number))
        if number:
            made.lines[0]["parentId"] = "before"
        data = ids.sub(rb'"\g<1>%d-\2"' % number, made.data())
        return _later(data.replace(b'"before"', b'"e%d-%d"' % (number - 1, 3 * REQUESTS + 3)), number)

    return _chunks(size, chunk)


def gemini_chat(size: int) -> Iterator[bytes]:
    """A chat of Gemini CLI, each response written again as its calls end."""

    def chunk(number: int) -> bytes:
        made = gemini.Chat()
        made.user(f"u{number}", "go on")
        for turn in range(REQUESTS):
            name, bill = f"m{number}-{turn}", gemini.tokens(10_000 + 700 * turn, 9_000)
            made.model(name, "I look.", bill)
            made.model(name, "I look.", bill, toolCalls=[gemini.call(f"c{number}-{turn}", text(turn))])
        state = {"text": f"<state_snapshot>{text(number)}</state_snapshot>"}
        summary = {"id": f"s{number}", "timestamp": made.at(), "type": "user", "content": [state]}
        data = made.set(messages=[summary]).data()
        return _later(data if number == 0 else data.partition(b"\n")[2], number)

    return _chunks(size, chunk)


def qwen_chat(size: int) -> Iterator[bytes]:
    """A chat of Qwen Code."""
    made = qwen.Chat()

    def chunk(number: int) -> bytes:
        made.lines = []
        made.user(f"u{number}", "go on")
        for turn in range(REQUESTS):
            call, bill = f"c{number}-{turn}", qwen.usage(10_000 + 700 * turn, 9_984)
            made.model(f"m{number}-{turn}", {"text": "I look."}, qwen.call(call), usage=bill)
            made.result(f"r{number}-{turn}", call, text(turn))
        history = [qwen.content("user", {"text": text(number)}), qwen.content("model", {"text": "Got it."})]
        info = {"originalTokenCount": 80_000, "newTokenCount": 900, "compressionStatus": 1}
        made.system(f"k{number}", "chat_compression", {"info": info, "compressedHistory": history})
        return _later(made.data(), number)

    return _chunks(size, chunk)


def kimi_wire(size: int) -> Iterator[bytes]:
    """A log of Kimi Code."""
    made = kimi.Wire()

    def chunk(number: int) -> bytes:
        made.lines = made.lines if number == 0 else []
        made.message("go on")
        for turn in range(REQUESTS):
            call = f"c{number}-{turn}"
            made.step(kimi.text("I look."), usage=kimi.usage(700, 10_000 + 700 * turn), calls=(call,))
            made.result(call, text(turn))
        made.record("full_compaction.begin", source="auto").record("usage.record", usage=kimi.usage(900, 80_000))
        sums = {"compactedCount": 2 * REQUESTS, "tokensBefore": 80_000, "tokensAfter": 900}
        made.record("context.apply_compaction", summary=text(number), **sums, keptUserMessageCount=1)
        made.record("full_compaction.complete")
        for record in made.lines:
            if "time" in record:
                record["time"] += 3_600_000 * number
        return made.data()

    return _chunks(size, chunk)


def chat(size: int) -> Iterator[bytes]:
    """A plain chat, a message a line, which nothing compacts."""

    def chunk(number: int) -> bytes:
        return b"".join(dumps(message) + b"\n" for message in _messages(number))

    return _chunks(size, chunk)


def chat_document(size: int) -> Iterator[bytes]:
    """A plain chat as one array."""

    def chunk(number: int) -> bytes:
        return (b"," if number else b"[") + dumps(_messages(number))[1:-1]

    yield from _chunks(size, chunk)
    yield b"]"


def _messages(number: int) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [{"role": "user", "content": "go on"}]
    for turn in range(REQUESTS):
        call = {"id": f"c{number}-{turn}", "type": "function", "function": {"name": "run", "arguments": "{}"}}
        made.append({"role": "assistant", "content": "I look.", "tool_calls": [call]})
        made.append({"role": "tool", "tool_call_id": call["id"], "content": text(turn)})
    return made


def pi_session(size: int) -> Iterator[bytes]:
    """A session of pi that is compacted every hundred requests."""
    written, number = 0, 0
    yield pi.Pages().data()
    last = "null"
    while written < size:
        number += 1
        made = pi.Pages()
        made.number, made.leaf, made.lines = 400 * number, None if last == "null" else last, []
        kept = f"{made.number:08x}"
        made.user("go on")
        for turn in range(100):
            call = {"type": "toolCall", "id": f"c{number}-{turn}", "name": "bash", "arguments": {"command": "ls"}}
            read = 10_000 + 700 * turn
            made.answer(call, bill=(10, read if turn else 0, 700 if turn else 10_700, 40))
            made.result(call["id"], text(turn))
        made.entry("compaction", summary=text(number), firstKeptEntryId=kept, tokensBefore=80_000)
        last = str(made.leaf)
        data = made.data()
        written += len(data)
        yield data


def opencode_export(size: int) -> Iterator[bytes]:
    """An export of OpenCode that is compacted every hundred requests."""
    written, number, before = 0, 0, b""
    made = opencode.Export()
    yield json.dumps({"info": made.info})[:-1].encode() + b', "messages": ['
    while written < size:
        number += 1
        made.messages, offset = [], 300 * number
        made.user("go on")
        for turn in range(100):
            tool = made.tool(f"c{number}-{turn}", text(turn))
            made.answer(tool, bill=(710, 10_000 + 700 * turn, 40))
        made.message("user", [made.part("compaction", auto=True)], agent="build")
        made.answer(text(number), bill=(80_000, 0, 400), agent="compaction", mode="compaction", summary=True)
        for place, message in enumerate(made.messages):
            _moved(message, offset + place)
        data = json.dumps(made.messages)[1:-1].encode()
        written += len(data)
        yield before + data
        before = b","
    yield b"]}"


def _moved(message: dict[str, Any], place: int) -> None:
    """Give a message the name and the time of its place."""
    info = message["info"]
    info["id"] = f"msg_{place:09}"
    info["time"] = {"created": opencode.START + place * 10_000, "completed": opencode.START + place * 10_000 + 4_000}


def openhands_folder(folder: Path, size: int) -> None:
    """A conversation of OpenHands: a file an event, of ten kilobytes where it is a result."""
    rows, name = openhands.Talk(), itertools.count()
    (folder / openhands.EVENTS).mkdir(parents=True)

    def chunk(number: int) -> bytes:
        made = openhands.Talk() if number else openhands.Talk().system()
        made.user("go on")
        for turn in range(REQUESTS):
            call, response = f"c{number}-{turn}", f"r{number}-{turn}"
            made.action(call, response, "I look.").result(call, text(turn, 10_000))
            rows.bill(response, 10_000 + 700 * turn, 9_000)
        gone = [f"e{number}-{event}" for event in range(1, len(made.events) - 1)]
        made.event("Condensation", forgotten_event_ids=gone, summary=text(number), summary_offset=1)
        written = b""
        for place, event in enumerate(made.events):
            data = _later(dumps({**event, "id": f"e{number}-{place}"}), number)
            (folder / openhands.EVENTS / f"event-{next(name):05}-{place:08x}.json").write_bytes(data)
            written += data
        return written

    for _ in _chunks(size, chunk):
        pass
    (folder / openhands.STATE).write_bytes(rows.state())


def kimi_folder(folder: Path, size: int) -> None:
    """A session of Kimi CLI: the screen's log, and a file of messages for each time that it was compacted."""
    made = kimi_session.KimiSession()
    folder.mkdir()
    with (folder / kimi_session.WIRE).open("wb") as wire:

        def chunk(number: int) -> bytes:
            made.user("go on")
            for turn in range(REQUESTS):
                call, bill = f"c{number}-{turn}", kimi_session.counts(700, 10_000 + 700 * turn)
                made.step(kimi.text("I look."), usage=bill, calls=(call,), output=text(turn))
            made.compact(text(number))
            told, before = kimi_session.lines(made.wire), kimi_session.lines(made.aside.pop())
            made.wire = []
            wire.write(told)
            (folder / f"context_{number + 1}.jsonl").write_bytes(before)
            return told + before

        for _ in _chunks(size, chunk):
            pass
    (folder / kimi_session.CONTEXT).write_bytes(kimi_session.lines(made.context))


class Session(NamedTuple):
    """A long session: of whom, its name, what makes it (its bytes, or a folder)."""

    agent: str
    name: str
    made: Callable[[int], Iterator[bytes]] | None = None
    folder: Callable[[Path, int], None] | None = None
    is_never_compacted: bool = False

    def write(self, folder: Path, size: int) -> Path:
        """Write it; return where it lies."""
        path = folder / self.name
        if self.folder is not None:
            self.folder(path, size)
        elif self.made is not None:
            with path.open("wb") as file:
                file.writelines(self.made(size))
        return path


SESSIONS = (
    Session("pi", "pi.jsonl", pi_session),
    Session("Codex CLI", "rollout.jsonl", codex_rollout),
    Session("Copilot CLI", "events.jsonl", copilot_log),
    Session("Gemini CLI", "gemini.jsonl", gemini_chat),
    Session("Qwen Code", "qwen.jsonl", qwen_chat),
    Session("Kimi Code", "wire.jsonl", kimi_wire),
    Session("Kimi CLI (a folder)", "kimi", folder=kimi_folder),
    Session("OpenHands (a folder)", "openhands", folder=openhands_folder),
    Session("OpenCode (an export)", "opencode.json", opencode_export),
    Session("a plain chat, never compacted", "chat.jsonl", chat, is_never_compacted=True),
    Session("a plain chat as one array, never compacted", "chat.json", chat_document, is_never_compacted=True),
)


def peaks(folder: Path, size: int, command: tuple[str, ...]) -> Iterator[Fields]:
    """Peak memory of `lore check` on one long session of each kind."""
    for session in SESSIONS:
        measure = f"peak memory of `lore check` on {size:,} bytes of one session of {session.agent}"
        if not memory.measurable():
            yield measure, BAR, "this system does not say", None
            continue
        most = memory.of(session.write(folder, size), command, codes=("0", "1"))
        yield measure, BAR, f"{most / 1e6:,.0f} MB", most <= 200e6

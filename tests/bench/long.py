"""What long sessions of agents take in memory: `lore check` as a process of its own, over sessions that are made here.

In: a folder, a number of bytes, the command. Out: figures as (measure, bar, measured, met), the fields of a row. A
session is compacted every hundred requests, where its agent compacts; each request has a call with two kilobytes of
output. What nothing compacts is one prompt, which lore holds as a whole: chats and trajectories have ten times the size
of the largest that there are. A chat takes the most: its prompt is held at one and a half times its bytes (messages of
two kilobytes), so that 500 MB of it, 125 million tokens, would take 800 MB.
"""

from __future__ import annotations

import itertools
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from orjson import dumps

from bench import memory
from bench.reading import Fields, text
from formats import cline, codex, copilot, gemini, kimi, kimi_session, opencode, openhands, pi, qwen
from formats import test_mini_swe_agent as mini
from formats import test_swe_agent as swe
from lore.formats.folders import API, UI
from recording.test_opencode_store import SCHEMA, fill

REQUESTS = 100  # between compactions
BAR = "at most 100 MB"
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
    """An export of OpenCode."""
    yield json.dumps({"info": opencode.Export().info})[:-1].encode() + b', "messages": ['
    for number, messages in enumerate(_opencode(size)):
        yield (b"," if number else b"") + dumps(messages)[1:-1]
    yield b"]}"


def opencode_database(path: Path, size: int) -> None:
    """OpenCode's database, with one session."""
    made = opencode.Export()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
        for made.messages in _opencode(size):
            connection.execute("delete from session")
            fill(connection, made)


def _opencode(size: int) -> Iterator[list[dict[str, Any]]]:
    made = opencode.Export()
    written = 0
    for number in itertools.count(1):
        if written >= size:
            return
        made.messages = []
        made.user("go on")
        for turn in range(REQUESTS):
            tool = made.tool(f"c{number}-{turn}", text(turn))
            made.answer(tool, bill=(710, 10_000 + 700 * turn, 40))
        made.message("user", [made.part("compaction", auto=True)], agent="build")
        made.answer(text(number), bill=(80_000, 0, 400), agent="compaction", mode="compaction", summary=True)
        for place, message in enumerate(made.messages):
            _moved(message, 300 * number + place)
        written += len(dumps(made.messages))
        yield made.messages


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


def mini_trajectory(size: int) -> Iterator[bytes]:
    """A trajectory of mini-swe-agent."""

    def chunk(number: int) -> bytes:
        made: list[dict[str, Any]] = [] if number else [mini.SYSTEM, mini.TASK]
        for step in range(REQUESTS * number, REQUESTS * (number + 1)):
            bill = mini.usage(1_000 + 700 * step, 960)
            made += [mini.answer(step, bill, "ls"), mini.result(f"c{step}.0", text(step), 1_700_000_005.0 + 10 * step)]
        return (b",\n" if number else b"\n") + b",\n".join(map(dumps, made))

    yield mini.trajectory().partition(b'"messages": []')[0] + b'"messages": ['
    yield from _chunks(size, chunk)
    yield b"]}"


def swe_trajectory(size: int) -> Iterator[bytes]:
    """A trajectory of SWE-agent: each step holds the whole prompt."""
    query = [swe.SYSTEM, swe.TASK]

    def chunk(number: int) -> bytes:
        made = dumps(swe.step(number, *query))
        query.extend((swe.said(number), swe.seen(number, text(number))))
        return (b"," if number else b"") + made

    yield b'{"trajectory": ['
    yield from _chunks(size, chunk)
    yield b"]}"


def roo_task(folder: Path, size: int) -> None:
    """A task of Roo Code: what the screen was shown, and what was sent."""
    made = cline.Task().user("go on")
    for number in range(size // 4_200):
        made.request(tokens_in=700, tokens_out=40, cache_reads=10_000 + 700 * number, cache_writes=0)
        made.answer(text(number, 1_000), f"c{number}").show("tool", text(number, 1_000))
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": text(number, 1_000)}
        made.send("user", [result])
    folder.mkdir()
    (folder / UI).write_bytes(dumps(made.ui))
    (folder / API).write_bytes(dumps(made.api))


class Session(NamedTuple):
    """A long session: of whom, its name, what makes it (bytes, or a path to write), how long it is at most."""

    agent: str
    name: str
    made: Callable[[int], Iterator[bytes]] | None = None
    written: Callable[[Path, int], None] | None = None
    most: int = 10**9
    is_compacted: bool = True

    def write(self, folder: Path, size: int) -> Path:
        """Write it; return where it lies."""
        path = folder / self.name
        if self.written is not None:
            self.written(path, size)
        elif self.made is not None:
            with path.open("wb") as file:
                file.writelines(self.made(size))
        return path


CHAT, RUN, TASK = 80_000_000, 20_000_000, 30_000_000  # bytes: ten times what there is at most
SESSIONS = (
    Session("pi", "pi.jsonl", pi_session),
    Session("Codex CLI", "rollout.jsonl", codex_rollout),
    Session("Copilot CLI", "events.jsonl", copilot_log),
    Session("Gemini CLI", "gemini.jsonl", gemini_chat),
    Session("Qwen Code", "qwen.jsonl", qwen_chat),
    Session("Kimi Code", "wire.jsonl", kimi_wire),
    Session("Kimi CLI (a folder)", "kimi", written=kimi_folder),
    Session("OpenHands (a folder)", "openhands", written=openhands_folder),
    Session("OpenCode (an export)", "opencode.json", opencode_export),
    Session("OpenCode (a database)", "opencode.db", written=opencode_database),
    Session("plain messages, a line each", "chat.jsonl", chat, most=CHAT, is_compacted=False),
    Session("plain messages in one array", "chat.json", chat_document, most=CHAT, is_compacted=False),
    Session("mini-swe-agent", "run.traj.json", mini_trajectory, most=RUN, is_compacted=False),
    Session("SWE-agent", "run.traj", swe_trajectory, most=5 * RUN, is_compacted=False),
    Session("Roo Code (a task)", "roo", written=roo_task, most=TASK, is_compacted=False),
)


def peaks(folder: Path, size: int, command: tuple[str, ...]) -> Iterator[Fields]:
    """Peak memory of `lore check` on one long session of each kind."""
    for session in SESSIONS:
        length = min(size, session.most)
        measure = f"peak memory of `lore check` on {length:,} bytes of one session: {session.agent}"
        if not memory.measurable():
            yield measure, BAR, "this system does not say", None
            continue
        most = memory.of(session.write(folder, length), command, codes=("0", "1"))
        yield measure, BAR, f"{most / 1e6:,.0f} MB", most <= 100e6

"""Small recordings with a place for a text in every field that can hold one, and every command that shows some.

In: a place of `PLACES` and two texts; the second replaces the first in mid-session. Out: the files of a folder. A
command of `COMMANDS` runs there; its output, its messages and every file that it wrote are searched.
"""

import json
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from cli.running import lore

NAMES = {"requests": "r.jsonl", "session": "l.jsonl", "captured": "r.har", "log": "home/.claude/projects/-work/s.jsonl"}
Where = tuple[str | int, ...]


class Place(NamedTuple):
    """The place of a text in the records of a recording: a value, or (`member`) the name of a member."""

    recording: str
    where: Where
    text: str = "{}"
    member: bool = False


PLACES = {
    "system": Place("requests", ("system",)),
    "system, in the middle of a long one": Place("requests", ("system",), "word " * 5_000 + "{}" + " word" * 5_000),
    "tool name": Place("requests", ("tools", 0, "name")),
    "tool description": Place("requests", ("tools", 0, "description"), "reads with {} a file"),
    "schema member": Place("requests", ("tools", 0, "input_schema", "properties", "path"), member=True),
    "schema value": Place("requests", ("tools", 0, "input_schema", "properties", "path", "enum", 0)),
    "call": Place("requests", ("messages", 1, "content", 0, "input", "path")),
    "call id": Place("requests", ("messages", 1, "content", 0, "id")),
    "result": Place("requests", ("messages", 2, "content", 0, "content"), "it printed:\n{}\nand ended"),
    "result, at the end of a long one": Place(
        "requests", ("messages", 2, "content", 0, "content"), "line\n" * 900 + "{}"
    ),
    "message": Place("requests", ("messages", 0, "content"), "use {} for it"),
    "url in a message": Place("requests", ("messages", 0, "content"), "see https://example.org/a?b={}&c=d"),
    "file name in a message": Place("requests", ("messages", 0, "content"), "read /home/ann/{}.txt"),
    "model": Place("requests", ("model",)),
    "role": Place("requests", ("messages", 0, "role")),
    "block type": Place("requests", ("messages", 1, "content", 0, "type")),
    "parameter": Place("requests", ("metadata", "user_id")),
    "member of a body": Place("requests", ("extra",), member=True),
    "lifetime": Place("requests", ("tools", 0, "cache_control", "ttl")),
    "url": Place("captured", ("request", "url"), "https://api.anthropic.com/v1/messages?key={}"),
    "host": Place("captured", ("request", "url"), "https://{}.example.org/v1/messages"),
    "request header": Place("captured", ("request", "headers", 0, "value")),
    "beta header": Place("captured", ("request", "headers", 1, "value")),
    "name of a header": Place("captured", ("request", "headers", 0, "name")),
    "response header": Place("captured", ("response", "headers", 0, "value")),
    "request id": Place("captured", ("response", "headers", 1, "value")),
    "error of a server": Place(
        "captured", ("response", "content", "text"), '{{"type":"error","error":{{"message":"{}"}}}}'
    ),
    "stop reason": Place("captured", ("answer", "stop_reason")),
    "answer": Place("captured", ("answer", "content", 0, "text")),
    "counter": Place("captured", ("answer", "usage", "odd_tokens"), member=True),
    "reason of a miss": Place("captured", ("answer", "diagnostics", "cache_miss_reason", "type")),
    "folder": Place("log", ("cwd",), "/home/ann/{}"),
    "branch": Place("log", ("gitBranch",)),
    "version": Place("log", ("version",)),
    "session id": Place("log", ("sessionId",)),
    "client": Place("log", ("entrypoint",)),
    "said": Place("log", ("message", "content"), "use {}"),
    "model of an answer": Place("log", ("message", "model")),
    "answer's id": Place("log", ("message", "id")),
    "agent": Place("log", ("agentId",)),
    "record type": Place("log", ("type",)),
    "time": Place("log", ("timestamp",)),
    "title": Place("log", ("summary",)),
    "attachment": Place("log", ("attachment", "type")),
    "tool that came": Place("log", ("attachment", "addedNames", 0)),
    "file name": Place("requests", ()),
    "id of a session": Place("session", ("session_id",)),
    "user": Place("session", ("user_id",)),
    "project": Place("session", ("project_id",)),
    "layer": Place("session", ("text",)),
    "context": Place("session", ("context", "memory_recall")),
    "part of a context": Place("session", ("context", "current_time"), member=True),
    "id of knowledge": Place("session", ("id",)),
    "category": Place("session", ("category",)),
    "title of knowledge": Place("session", ("title",)),
    "what is known": Place("session", ("content",)),
    "summary": Place("session", ("summary",)),
    "sign": Place("session", ("before",)),
}


def body(turn: int) -> dict[str, Any]:
    """Return a request of a growing conversation."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}}
    messages = [
        {"role": "user", "content": "read it"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "text"}]},
        {"role": "assistant", "content": "read"},
        {"role": "user", "content": "go on"},
    ]
    schema = {"type": "object", "properties": {"path": {"type": "string", "enum": ["a", "b"]}}}
    return {
        "model": "claude-sonnet-4-5", "max_tokens": 64, "system": "You are exact.", "metadata": {"user_id": "u"},
        "tools": [{"name": "read", "description": "reads", "input_schema": schema}],
        "messages": messages[: 3 + 2 * turn], "extra": 1,
    }  # fmt: skip


def _captured(turn: int) -> dict[str, Any]:
    usage = {"input_tokens": 4, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 9_000, "output_tokens": 5}
    return {
        "request": {
            "method": "POST", "url": "https://api.anthropic.com/v1/messages", "body": body(turn),
            "headers": [{"name": "x-team", "value": "t"}, {"name": "anthropic-beta", "value": "b"}],
        },
        "response": {
            "status": 200, "headers": [{"name": "x-trace", "value": "t"}, {"name": "request-id", "value": "r"}],
            "content": {"mimeType": "application/json", "text": ""},
        },
        "answer": {
            "id": f"msg_{turn}", "type": "message", "role": "assistant", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "done"}], "usage": {**usage, "odd_tokens": 1},
            "diagnostics": {"cache_miss_reason": {"type": "tools_changed"}},
        },
    }  # fmt: skip


def _log(turn: int) -> list[dict[str, Any]]:
    """Return the lines of a turn: asked, answered, an attachment, a title."""
    usage = {"input_tokens": 4, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 9_000, "output_tokens": 5}
    base = {
        "sessionId": "s", "timestamp": f"2026-11-2{turn}T10:00:00Z", "isSidechain": False, "cwd": "/home/ann/work",
        "gitBranch": "main", "version": "2.1.12", "entrypoint": "cli", "agentId": "",
    }  # fmt: skip
    said = {"role": "assistant", "model": "claude-opus-4-5", "id": f"msg_{turn}", "usage": usage,
            "content": [{"type": "text", "text": "yes"}]}  # fmt: skip
    came = {"type": "deferred_tools_delta", "addedNames": [f"mcp__x__t{turn}"], "addedLines": ["t"], "removedNames": []}
    return [
        {**base, "type": "user", "uuid": f"u{turn}", "parentUuid": f"t{turn - 1}" if turn else None,
         "message": {"role": "user", "content": "go"}},
        {**base, "type": "assistant", "uuid": f"a{turn}", "parentUuid": f"u{turn}", "message": said},
        {**base, "type": "attachment", "uuid": f"t{turn}", "parentUuid": f"a{turn}", "attachment": came},
        {"type": "summary", "summary": "work", "leafUuid": f"a{turn}"},
    ]  # fmt: skip


def _session(turn: int) -> list[dict[str, Any]]:
    """Return the events of a turn of lore's own log."""
    begin = {"kind": "session_started", "v": 1, "session_id": "s", "user_id": "u", "project_id": "p",
             "at": "2026-11-20T10:00:00Z", "model": "claude-opus-4-5", "system": "be exact", "tools": []}  # fmt: skip
    at = f"2026-11-2{turn}T10:00:00Z"
    item = {"kind": "user_message", "uuid": f"u{turn}", "text": "go"}
    said = {"kind": "assistant_message", "uuid": f"a{turn}", "text": "yes"}
    usage = {"read_tokens": 0, "write_tokens": 9_000, "uncached_tokens": 1, "output_tokens": 5}
    return [
        *([begin] if turn == 0 else []),
        {"kind": "layer", "name": f"rules{turn}", "when": "every_turn", "text": "be brief"},
        {"kind": "knowledge", "op": "add", "id": f"k-1234{turn}", "category": "c", "title": "t", "content": "x"},
        {"kind": "append", "item": item},
        {"kind": "observed", "name": "effort", "before": "low", "after": "high"},
        {"kind": "turn_started", "turn": turn + 1, "at": at, "context": {"memory_recall": "m", "current_time": "noon"}},
        {"kind": "append", "item": said},
        {"kind": "turn_completed", "turn": turn + 1, "at": at, "usage": usage},
        *([{"kind": "compact_applied", "uuid": "c", "trigger": "manual", "summary": "s"}] if turn == 1 else []),
    ]


def planted(place: Place, texts: tuple[str, str]) -> dict[str, bytes]:
    """Return the files of a recording that holds the first text at a place until it holds the second."""
    name = NAMES[place.recording]
    match place.recording:
        case "requests":
            bodies = [_put(body(turn), place, text) for turn, text in enumerate(texts)]
            if not place.where:
                name = _file_name(texts[0])
            return {name: _lines(bodies)}
        case "session":
            events = [_put(event, place, texts[turn // 2]) for turn in range(4) for event in _session(turn)]
            return {name: _lines(events)}
        case "captured":
            return {name: _har([_put(_captured(turn), place, text) for turn, text in enumerate(texts)])}
        case _:
            lines = [_put(line, place, texts[turn // 2]) for turn in range(4) for line in _log(turn)]
            return {name: _lines(lines)}


def _put(record: dict[str, Any], place: Place, text: str) -> dict[str, Any]:
    inner: Any = record
    if place.where[-1:] == ("ttl",):  # no report shows text after a breakpoint
        record["tools"][0]["cache_control"] = {"type": "ephemeral", "ttl": "5m"}
    for key in place.where[:-1]:
        inner = inner.get(key) if isinstance(inner, dict) else inner[key]
        if inner is None:
            return record
    if place.where and (isinstance(inner, list) or place.where[-1] in inner):
        last, said = place.where[-1], place.text.format(text)
        if place.member:
            inner[said] = inner.pop(last)
        else:
            inner[last] = said
    return record


def _file_name(text: str) -> str:
    return f"{text}.jsonl"


def _lines(records: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode("utf-8", "surrogatepass")


def _har(records: list[dict[str, Any]]) -> bytes:
    entries: list[Any] = []
    for turn, record in enumerate(records):
        asked, told = record["request"], record["response"]
        asked["postData"] = {"mimeType": "application/json", "text": json.dumps(asked.pop("body"))}
        if told["content"]["text"]:
            told["status"] = 500
        else:
            told["content"]["text"] = json.dumps(record["answer"])
        entries.append(
            {"startedDateTime": f"2026-09-14T09:1{turn}:00.000Z", "time": 9, "request": asked, "response": told}
        )
    log = {"version": "1.2", "creator": {"name": "x", "version": "1"}, "entries": entries}
    return json.dumps({"log": log}, ensure_ascii=False).encode("utf-8", "surrogatepass")


class Command(NamedTuple):
    """Words of a command line, with FILE for the recording; whether it answers with content as it was recorded.

    `of`: the one kind of recordings that it takes; `then` are commands after it.
    """

    words: tuple[str, ...]
    verbatim: bool = False
    redacts: bool = True
    of: str = ""
    then: tuple[tuple[str, ...], ...] = ()


STORE = ("--store", "sqlite:s.db")
FORMS = ("terminal", "json", "jsonl", "markdown", "junit", "sarif", "github", "html=page.html")
COMMANDS = {
    **{f"check {form}": Command(("check", "FILE", "--report", form)) for form in FORMS},
    "check verbose": Command(("check", "FILE", "-v")),
    "diff-prefix in colour": Command(("diff-prefix", "FILE", "--color")),
    "check with a baseline": Command(("check", "FILE", "--baseline", "b.json", "--update-baseline")),
    "lint": Command(("lint", "FILE", "-v")),
    **{f"lint {form}": Command(("lint", "FILE", "--report", form)) for form in FORMS},
    "diff-prefix": Command(("diff-prefix", "FILE", "-v")),
    "diff-prefix json": Command(("diff-prefix", "FILE", "--json")),
    "simulate": Command(("simulate", "FILE", "--all", "-v")),
    "simulate json": Command(("simulate", "FILE", "--all", "--json")),
    "simulate page": Command(("simulate", "FILE", "--report", "html=pages")),
    "simulate reliability": Command(("simulate", "FILE", "--by", "reliability")),
    "simulate what-if": Command(("simulate", "FILE", "--what-if")),
    "assemble": Command(("assemble", "FILE"), verbatim=True, redacts=False),
    "assemble --explain": Command(("assemble", "FILE", "--explain"), redacts=False),
    "assemble --explain json": Command(("assemble", "FILE", "--explain", "--json"), redacts=False),
    "convert": Command(("convert", "FILE", "-v"), verbatim=True, redacts=False),
    "convert to bodies": Command(("convert", "FILE", "--to", "bodies", "-v"), verbatim=True, redacts=False),
    "compact": Command(("compact", "FILE", "--dry-run", "-v")),
    "compact json": Command(("compact", "FILE", "--dry-run", "--json")),
    "compact page": Command(("compact", "FILE", "--dry-run", "--report", "html=page.html")),
    "compare": Command(("compare", "FILE", "FILE")),
    "compare json": Command(("compare", "FILE", "FILE", "--json")),
    "compare page": Command(("compare", "FILE", "FILE", "--report", "html=page.html")),
    "fold": Command(("fold", "FILE", "-v")),
    "fold json": Command(("fold", "FILE", "--unpruned", "--json")),
    "report trace": Command(("report", "FILE", "--format", "trace")),
    "report json": Command(("report", "FILE", "--format", "json")),
    "report html": Command(("report", "FILE", "--format", "html", "-o", "page.html")),
    "replay": Command(("replay", "FILE", "--server", "http://127.0.0.1:9", "--dry-run", "-v")),
    "replay json": Command(("replay", "FILE", "--server", "http://127.0.0.1:9", "--dry-run", "--json")),
    "statusline": Command(("statusline", "FILE")),
    "statusline json": Command(("statusline", "FILE", "--json")),
    "watch": Command(("watch", "FILE", "--json")),
    "knowledge": Command(("knowledge", "list", "FILE"), redacts=False, of="session"),
    "knowledge json": Command(("knowledge", "list", "FILE", "--json"), redacts=False, of="session"),
    "store": Command(("store", "import", "FILE", *STORE), redacts=False,
                     then=(("store", "list", *STORE), ("store", "verify", *STORE))),
    "store json": Command(("store", "import", "FILE", "--json", *STORE), redacts=False,
                          then=(("store", "list", "--json", *STORE), ("store", "verify", "--json", *STORE))),
    "sessions": Command(("sessions", "--all"), of="log"),
    "sessions json": Command(("sessions", "--all", "--json"), of="log"),
    "overview": Command(("--since", "2026-01-01", "--by", "project"), of="log"),
    "overview json": Command(("--since", "2026-01-01", "--by", "model", "--json"), of="log"),
    "overview page": Command(("--since", "2026-01-01", "--report", "html=page.html"), of="log"),
    **({
        "tables": Command(("check", "FILE", "--report", "parquet=tables")),
    } if find_spec("pyarrow") else {}),
}  # fmt: skip


def shown(command: Command, name: str, *options: str) -> str:
    """Run a command on a file in this folder; return its output and every file that it wrote for others."""
    before = set(_files())
    ran = lore(*(name if word == "FILE" else word for word in command.words), *options)
    assert ran.code != 70, ran.err
    for words in command.then:
        after = lore(*words)
        ran = ran._replace(out=ran.out + after.out, err=ran.err + after.err)
    kept = ("home", "state", "s.db", "s.db-wal", "s.db-shm")
    written = [file for file in _files() if file not in before and file.parts[0] not in kept]
    texts = [file.read_text("utf-8", "replace") for file in written if file.suffix != ".parquet"]
    texts += [_rows(file) for file in written if file.suffix == ".parquet"]
    return "\n".join(["" if command.verbatim else ran.out, ran.err, *texts])


def _rows(table: Path) -> str:
    from pyarrow import parquet  # noqa: PLC0415 - few commands write tables

    return ascii(parquet.read_table(table).to_pylist())  # data, as in JSON: whatever prints it escapes it


def _files() -> Iterator[Path]:
    return (Path(folder, name) for folder, _, names in os.walk(".") for name in names)


def put(files: dict[str, bytes]) -> str:
    """Write the files of a recording into this folder; return the name of the first."""
    for name, data in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(data)
    return next(iter(files))

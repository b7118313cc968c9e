"""The table of formats, in the order in which their readers are asked whether a file is theirs.

A row names a format's reader, which is imported when it is needed; describes the format for a person: its agent, how
close its prompts are to the sent ones, which questions it can answer; and says how its files begin. `some` means: in a
part of the files, or derived (a history that was replaced). The parts of prompts that a log lacks are named by its
reader (`unseen`).

A plug-in publishes a row under the entry-point group `lore.formats` (`place` is a whole import path, `before` the
format whose reader is asked after it), or only a reader class, which is asked after all others.
"""

from __future__ import annotations

from itertools import chain as chained
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.formats.base import HOLDS, Reader
from lore.formats.beginning import SPACE, is_damaged, may_be_recording, parts_in
from lore.formats.folders import OPENING
from lore.formats.http import FIELDS, is_body
from lore.formats.lines import LineReader, begins_with_records, is_crowded, nonblank_lines, records_on_lines
from lore.formats.plain_chat.signs import is_data_set
from lore.model.codes import Problem
from lore.model.deferred import Registry, pattern
from lore.model.items import is_absent
from lore.model.jsonslice import Sliced, members_at

if TYPE_CHECKING:
    from lore.model.results.found import FormatResult, Holds
    from lore.model.turn import PromptBasis


class Format(Struct, frozen=True):
    """A format. `_log` fills in what holds for most session logs.

    The row of a plug-in is `Format("my_package.reader:Example", "Example's sessions", "reconstructed", …)`, which its
    entry point names: `example = "my_package:EXAMPLE"` in `[project.entry-points."lore.formats"]`. It is asked after
    lore's formats except plain chats, or before the one that it names.
    """

    place: str  # module and class of its reader
    title: str
    fidelity: str  # how close its prompts are to the sent ones
    requests: Holds = "unknown"  # which parts its files hold
    bills: Holds = "unknown"
    system_prompt: Holds = "unknown"
    tools: Holds = "unknown"
    compaction: Holds = "unknown"
    members: frozenset[str] = frozenset()  # all of them are keys of the first record
    signs: tuple[bytes, ...] = ()  # one of them is in the beginning of each file
    document: bool = False  # its files are one JSON document, and its reader looks for their records itself
    packed: bool = False  # folders or archives, read as one stream (`folders`)
    text: bool = False  # its files are plain text, in which a line may be JSON
    measures: bool = False  # its files measure an engine's cache, and need not hold requests
    by_time: bool = False  # its files give the times of requests, and may hold them in another order
    before: str = ""  # of a plug-in's row: the format whose reader is asked after it; empty: plain chats


def _log(
    place: str, title: str, *signs: bytes, fidelity: str = "reconstructed", members: frozenset[str] = frozenset(),
    document: bool = False, packed: bool = False, **answers: Holds,
) -> Format:  # fmt: skip
    """Return the row of an agent's session log: system prompt and tools are in few of them."""
    usual = Format(place, title, fidelity, "yes", "yes", "no", "no", "yes", members, signs, document, packed)
    return replace(usual, **answers)


def _requests(
    place: str, title: str, fidelity: str, *signs: bytes, bills: Holds = "yes", document: bool = False,
    packed: bool = False, by_time: bool = False,
) -> Format:  # fmt: skip
    """Return the row of recorded requests: whole prompts, and a compaction as far as they show it."""
    return Format(
        place, title, fidelity, "yes", bills, "yes", "yes", "some", signs=signs, document=document, packed=packed,
        by_time=by_time,
    )  # fmt: skip


# Formats whose records look alike in a file that lacks its first line.
_ALIKE = {"pi": ("flue",), "flue": ("pi",)}
LAST = frozenset(("chat", "chat-json"))  # asked only if no reader of a plug-in recognises a file
GENERIC = LAST | {"bodies"}  # formats that many programs write
FORMATS: dict[str, Format] = {
    "lore": _log("lore_log:LoreLog", "lore's own session log", system_prompt="yes", tools="yes",
        members=frozenset(("kind",))),
    "gemini-cli": _log("agents.gemini:GeminiCli", "Gemini CLI's chats, JSON Lines",
        members=frozenset(("sessionId", "projectHash"))),
    # Qwen Code before Claude Code, whose records have the same members around messages; both before formats whose signs
    # the whole beginning of such a log would be searched for
    "qwen-code": _log("agents.qwen:QwenCode", "Qwen Code's chats", b'"parentUuid"'),
    "claude-code": _log("claude.reader:ClaudeCode", "Claude Code's session logs", b'"sessionId"', b'"session_id"',
        b'"leafUuid"', b'"messageId"', b'"type":"assistant"', b'"type": "assistant"'),
    "gemini-cli-json": _log("agents.gemini:GeminiCliDocument", "Gemini CLI's chats, JSON documents", b'"projectHash"',
        b'"gemini"', compaction="no", document=True),
    "gemini-cli-stream": _log("agents.gemini_stream:GeminiStream", "what Gemini CLI prints as stream-json",
        bills="some", compaction="no", members=frozenset(("type", "timestamp"))),
    "managed-agents-list": _log("agents.managed_agents:ManagedAgentsList",
        "events of Managed Agents as the API lists them", b'"processed_at"', document=True),
    "managed-agents": _log("agents.managed_agents:ManagedAgents", "session events of Anthropic's Managed Agents",
        b'"processed_at"', system_prompt="some"),
    "kimi-code": _log("agents.kimi:KimiCode", "Kimi Code's wire.jsonl", b'"protocol_version"', b'"context.append_',
        b'"llm.', b'"usage.record"', fidelity="structural", system_prompt="some", tools="some"),
    "codex": _log("codex.reader:Codex", "Codex CLI's rollouts", b'"payload"', fidelity="structural",
        system_prompt="yes", tools="some"),
    "copilot": _log("copilot.reader:Copilot", "GitHub Copilot CLI's events.jsonl", b'"parentId"', fidelity="structural",
        bills="some", system_prompt="yes"),
    "deepseek-harness": _log("agents.deepseek:DeepSeekHarness", "sessions of DeepSeek Harness", b'"createdAt"',
        b'"surfaceOp"', fidelity="structural", system_prompt="yes", tools="yes"),
    "pi": _log("agents.pi:Pi", "sessions of pi, oh-my-pi and OpenClaw", b'"session"', b'"parentId"',
        b'"cacheRead"', b'"toolResult"'),
    "opencode-run": _log("agents.opencode:OpenCodeRun", "what `opencode run --format json` prints",
        compaction="no", members=frozenset(("type", "timestamp", "sessionID"))),
    "opencode": _log("agents.opencode:OpenCode", "sessions of OpenCode and Kilo CLI", b'"info"', document=True),
    "assembled": Format("lore_log:AssembledLog", "what `lore assemble --all` writes", "as written", "yes", "no", "yes",
        "yes", "some", members=frozenset(("turn", "chain"))),
    "cline": _log("agents.cline:Cline", "one file of such a task; sessions of Cline's command line", b'"ts"',
        b'"system_prompt"', b'"metrics"', bills="some", system_prompt="some", document=True),
    "cline-task": _log("agents.cline:ClineTask", "tasks of Cline, Roo Code and Kilo Code, a folder each", packed=True),
    "har": _requests("captures.recorders:Har", "HAR files of browsers and proxies", "wire", b'"entries"', document=True,
        by_time=True),
    "vcr": _requests("captures.vcr:Vcr", "cassettes of VCR and httpmock, YAML and JSON", "wire", b"interactions",
        b"when:", b"equest:", b"requests:", document=True),
    "httprr": replace(_requests("captures.httprr:Httprr", "httprr traces of Go programs", "wire", b"httprr trace"),
        text=True),
    "claude-tap": _requests("captures.recorders:ClaudeTap", "exports of claude-tap", "parsed", b'"packets"',
        document=True),
    "cassette": _requests("captures.recorders:Cassette", "JSON cassettes with entries", "parsed", b'"entries"',
        b'"Entries"', document=True),
    "lore-capture": _requests("captures.lore_capture:LoreCapture", "captures of `lore record`", "wire",
        b'"lore_capture"', b'"part"'),
    "proxy-list": _requests("captures.recorders:ProxyList", "logs of proxies, one document; nock's fixtures", "parsed",
        b'"headers"', b'"scope"', document=True),
    "proxy": _requests("captures.recorders:ProxyLines", "logs of recording proxies, JSON Lines", "parsed", b'"body"',
        b'"parsed_body"', b'"body_json"', b'"body_raw"', b'"rawBody"', b'"body_base64"', b'"bodyBase64"',
        b'"postData"', b'"payload"', b'"json"', b'"request_body"', b'"content"', b'"body_segments"', b'"json_body"',
        b'"json_body_str"', b'"reqBody"', b'"requestBody"', b'"bodyPatterns"', b'"RequestBody"'),
    "body-pairs": _requests("captures.bodies:BodyPairs", "a folder of request and response files", "wire", packed=True),
    "completions": _requests("captures.litellm:Completions", "a folder of LiteLLM completions, a file a request",
        "structural", packed=True),
    "inspect-archive": _requests("captures.inspect_log:InspectArchive", "logs of Inspect evaluations, .eval", "parsed",
        packed=True),
    "inspect": _requests("captures.inspect_log:InspectLog", "logs of Inspect evaluations, JSON", "parsed", b'"eval"',
        document=True),
    "claude-events": _requests("captures.telemetry:ClaudeEvents", "request bodies in Claude Code's telemetry events",
        "wire", b"api_request_body", b"api_response_body"),
    "otel-genai": _requests("captures.telemetry:GenAI", "OpenTelemetry spans of model calls", "structural",
        b"gen_ai.", b'"gen_ai"', b'"start_ns"', b"llm.input_messages.", b'"input_messages"', b'"ai.prompt.messages"',
        by_time=True),
    "litellm": _requests("captures.litellm:LiteLLM", "LiteLLM's logging payloads", "structural", b'"model_parameters"',
        b'"proxy_server_request"', b'"standard_logging_object"', b'"litellm_params"', b'"hidden_params"', b'"args"',
        b'"kwargs"', b'"cost"', by_time=True),
    "bodies": _requests("captures.bodies:Bodies", "request bodies, alone or with their responses", "wire",
        bills="some"),
    "chat": _log("plain_chat.reader:Chat", "plain chats, a message or a conversation a line", b'"role"', b'"from"',
        b'"type"', requests="some", bills="some", system_prompt="some", compaction="no"),
    "chat-json": _log("plain_chat.reader:ChatDocument", "plain chats, one JSON document", b'"role"', b'"from"',
        b'"type"', requests="some", bills="some", system_prompt="some", compaction="no",
        document=True),
}  # fmt: skip


# Formats of lore's own plug-ins, by plug-in: an installation may lack these.
_PLUG_INS = {
    "formats": (
        "codex-exec", "flue", "kimi-cli", "kimi-cli-session", "mini-swe-agent", "openfang", "openhands", "sidecode",
        "swe-agent",
    ),
    "engines": ("engine-metrics", "llama-log", "sglang-log", "vllm-log"),
}  # fmt: skip
READERS = Registry[type[Reader]]({name: f"lore.formats.{row.place}" for name, row in FORMATS.items()})
_SYSTEM = "the system prompt and "
_NEITHER = _SYSTEM + "the schemas of tools"
_BY_PURPOSE = {"events": "reconstructed", "exchanges": "parsed", "turns": "as written"}


def add_format(name: str, added: Format | type[Reader]) -> None:
    """Add a format of a plug-in: a row, whose reader is imported when it is needed, or a reader class."""
    if not isinstance(added, Format):
        READERS[name] = added
        return
    READERS.data[name] = added.place  # pyright: ignore[reportArgumentType]
    first_after = added.before if added.before in FORMATS else next(other for other in FORMATS if other in LAST)
    rows, place = list(FORMATS.items()), list(FORMATS).index(first_after)
    FORMATS.clear()
    FORMATS.update([*rows[:place], (name, added), *rows[place:]])


def row_of(name: str) -> Format:
    """Return the row of a format; the reader class of a plug-in describes itself."""
    if name in FORMATS:
        return FORMATS[name]
    kind = READERS[name]
    title = (kind.__doc__ or "").strip().partition("\n")[0] or name
    return Format("", title.rstrip("."), _BY_PURPOSE[kind.yields], "yes")


def reader_of(head: bytes) -> Reader | None:
    """Return a reader for a file that begins like this; None if no reader recognises it."""
    if (is_text := not may_be_recording(head)) or is_damaged(head):
        texts = [name for name, row in FORMATS.items() if row.text]
        match = next((READERS[name]() for name in texts if READERS[name].recognises(head)), None)
        if match is not None or is_text:
            return match
    if is_crowded(head):
        return None
    line = next(nonblank_lines(head), b"").strip(SPACE)
    opening = members_at(line)
    is_alone = len(line) == len(head.strip(SPACE))
    if is_alone and opening and opening.keys() <= FIELDS and is_body(opening):
        from lore.formats.captures.bodies import Bodies  # noqa: PLC0415 - most files are not bodies

        return Bodies(Sliced.of(line, opening))  # most files of folders with bodies
    is_pack = head.startswith(OPENING)
    names = [name for name, row in FORMATS.items() if is_pack or not row.packed]
    generic = [name for name in names if name in GENERIC]
    specific = [name for name in names if name not in GENERIC]
    signs = _Signs(head)
    has_lines = is_pack or begins_with_records(head)
    # an object is searched for records only if no reader of documents recognises it
    is_object = not has_lines and not opening and line[:1] == b"{"
    documents = [name for name in specific if FORMATS[name].document] if is_object else []
    match = _first_that_recognises(head, b"", documents, signs)
    records = head if has_lines or match else records_on_lines(head)
    match = match or _first_that_recognises(head, records, specific, signs)
    inner = _reader_of_part(head, [name for name in names if name not in LAST], signs) if match is None else None
    if inner is not None:
        return inner
    match = match or _first_that_recognises(head, head, generic, signs)
    match = match or _first_that_recognises(head, records, generic, signs)
    if match is not None and is_data_set(head):
        return None
    if match is None or match in LAST:
        classes = (name for name in READERS if name not in FORMATS)
        match = next((name for name in classes if READERS[name].recognises(head)), match)
    return None if match is None else READERS[rank_alike(head, match)[0]]()


def reader_as(name: str, head: bytes) -> Reader:
    """Return the reader of this name; if it recognises only a part of a file with this head, a reader of the part."""
    is_known = name not in FORMATS or READERS[name].recognises(head)
    return (None if is_known else _reader_of_part(head, [name], _Signs(head))) or READERS[name]()


_LINES = pattern(rb"\s*\{[^\n]*\}[ \t\r]*\n\s*\{")  # records on lines, though the first may be damaged
_PARTS = 16  # objects and lists of a document, in which records are looked for


def _reader_of_part(head: bytes, names: list[str], signs: _Signs) -> Reader | None:
    """Return a reader of a document in a document, or of the records in one of its arrays, which no format names."""
    if _LINES.match(head) is not None:
        return None
    parts = list(islice(parts_in(head), _PARTS))
    objects, lists = ([(at, "") for _, at in parts if head[at] == opening] for opening in b"{[")
    inner = ((at, path) for at, _ in objects for path, _ in parts_in(head[at:]))
    arrays = (place for place in islice(chained(((0, path) for path, _ in parts), inner), _PARTS) if place[1])
    documents = [name for name in names if FORMATS[name].document]
    for start, array in chained(objects, arrays, lists):  # of several lists only the first is read as a document
        records = records_on_lines(head[start:], array) if array else b""
        if array and not records:
            continue
        beginning, candidates = (b"", names) if array else (head[start:], documents)
        match = _first_that_recognises(beginning, records, candidates, signs)
        if match is not None and isinstance(reader := READERS[match](), LineReader):
            reader.start, reader.array = start, array
            return reader
    return None


_QUOTED_WORD = pattern(rb'"\w++"')
_START = 4096  # bytes in which most files show whose they are


class _Signs:
    """The signs in a file's beginning, which is searched once for all quoted words, not for each of 60."""

    def __init__(self, head: bytes) -> None:
        self._head = head
        self._start = head[:_START]
        self._quoted_words: set[bytes] | None = None  # until they are asked for

    def has_one_of(self, signs: tuple[bytes, ...]) -> bool:
        if any(sign in self._start for sign in signs):
            return True
        if self._quoted_words is None:
            self._quoted_words = {word[0] for word in _QUOTED_WORD.finditer(self._head)}
        return any(sign in (self._quoted_words if _QUOTED_WORD.fullmatch(sign) else self._head) for sign in signs)


def _first_that_recognises(head: bytes, records: bytes, names: list[str], signs: _Signs) -> str | None:
    """Return the first of these formats whose reader recognises a file: readers of records by its `records`."""
    opening = members_at(next(nonblank_lines(records), b"").strip(SPACE)).keys()
    for name in names:
        row = FORMATS[name]
        if opening >= row.members and (not row.signs or signs.has_one_of(row.signs)):
            reader = READERS[name]  # importing one takes longer than these tests
            reads_records = getattr(reader, "reads_arrays", False)
            if reader.recognises(records if records and reads_records else head):
                return name
    return None


def rank_alike(head: bytes, name: str) -> list[str]:
    """Return a format and similar ones that recognise the file too, the one with the fewest problems first."""
    alike = [other for other in _ALIKE.get(name, ()) if other in READERS and READERS[other].recognises(head)]
    if not alike:
        return [name]
    whole = head[: head.rfind(b"\n") + 1] or head
    problems: dict[str, int] = {}
    for candidate in (name, *alike):
        reads = READERS[candidate]().read([whole])
        problems[candidate] = len({read.line for read in reads if isinstance(read.value, Problem)})
    return sorted(problems, key=problems.__getitem__)


def plug_in_of(name: str) -> str:
    """Return the name of lore's plug-in that has a format; empty if none has it."""
    return next((plug_in for plug_in, names in _PLUG_INS.items() if name in names), "")


def formats() -> list[FormatResult]:
    """Return all formats: session logs first, each kind in the order in which its readers are tried."""
    from lore.model.results.found import FormatResult  # noqa: PLC0415 - only `lore formats` lists them

    results: list[FormatResult] = []
    for kind, holds in HOLDS.items():
        for name in (*FORMATS, *(name for name in READERS if name not in FORMATS)):
            if READERS[name].yields == kind:
                row = row_of(name)
                results.append(FormatResult(
                    name, row.title, holds, row.fidelity, row.requests, row.bills, row.system_prompt, row.tools,
                    row.compaction, lacks_of(name) or None,
                ))  # fmt: skip
    return results


def lacks_of(name: str, basis: PromptBasis | None = None) -> str:
    """Return what a format's logs, or the log that `basis` is of, lack of prompts; empty: nothing, or unknown."""
    row = FORMATS.get(name)
    neither = row is not None and row.system_prompt == row.tools == "no"
    what = getattr(READERS.get(name), "unseen", "") or (_NEITHER if neither else "")
    if basis is None or not what.startswith(_SYSTEM):
        return what
    has_system, has_tools = (not (part is None or (isinstance(part, Raw) and is_absent(part))) for part in basis.head)
    what = what.removeprefix(_SYSTEM) if has_system else what
    return "" if has_system and has_tools else what

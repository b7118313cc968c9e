"""Records of Claude Code's logs: their schema, the items that content becomes, and signals.

The live stream of the SDK writes the same records in snake_case. Content is decoded in one pass, or block by block if
some blocks have an unknown shape; those are kept verbatim. A signal is what a record shows, apart from its text, that
may change a prompt or the cache; it is read from the beginning of long content.

Source: counts over 769 public sessions, versions 1.0 to 2.1.219; the types of Anthropic's SDK.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw, Struct

from lore.formats.builder import SessionBuilder
from lore.formats.http import visible_value
from lore.formats.values import Parts, count_in, opens, text_at, text_in
from lore.model import items, lenient
from lore.model.canonical import encode, text_of
from lore.model.items import NULL, RawBlock, TextBlock, is_absent
from lore.model.jsonslice import array, members_at
from lore.model.mask import cut_masked
from lore.model.state import LONGEST, QUOTED, Sign, bounded_names

TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}  # types of records, and the field
# Types of records that the model never sees, counted up to 2.1.219.
METADATA = frozenset((
    *TITLES, "progress", "file-history-snapshot", "file-history-delta", "queue-operation", "last-prompt", "mode",
    "permission-mode", "agent-name", "pr-link", "bridge-session", "frame-link", "tag",
))  # fmt: skip
PRINTED = frozenset(("result", "stream_event", "rate_limit_event", "tool_progress"))  # by `claude -p` alone
MODELLED = frozenset(("user", "assistant", "system", "attachment"))
_TYPES = METADATA | MODELLED
# Claude Code writes one of these in every record.
_IDS = (b'"sessionId"', b'"session_id"', b'"leafUuid"', b'"messageId"')
_ANSWER = (b'"type":"assistant"', b'"type": "assistant"')  # an answer whose ids were removed has one of them and
_USAGE = b'"cache_read_input_tokens"'


# Reasoning; newer versions keep only its signature.
class _ClaudeThinking(Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag="thinking"):
    thinking: Raw
    signature: str | None = None


class ClaudeToolUse(Struct, frozen=True, gc=False, tag="tool_use"):
    """A tool call. Unknown members, as `caller`, are ignored."""

    id: str
    name: str
    input: Raw


class ToolResult(Struct, frozen=True, gc=False, tag="tool_result"):
    """The result of a call."""

    tool_use_id: str
    content: Raw = NULL  # a text, a list of blocks, or absent
    is_error: bool | None = None


class _ClaudeSource(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    type: Literal["base64"]
    media_type: str
    data: Raw


class _ClaudeImage(Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag="image"):
    source: _ClaudeSource


Known: TypeAlias = TextBlock | _ClaudeThinking | ClaudeToolUse | ToolResult | _ClaudeImage
Part: TypeAlias = Known | RawBlock


class ClaudeMessage(Struct, frozen=True, gc=False):
    """`message` of a user or assistant record."""

    id: str | None = None  # of the response
    model: str | None = None
    stop_reason: str | None = None
    usage: Raw = NULL
    diagnostics: Raw = NULL  # the provider's verdict about a cache miss
    content: list[Known] | Raw = NULL  # JSON if it is a text, or has blocks of unknown shape


class ClaudeRecord(Struct, frozen=True, gc=False, rename="camel"):
    """One line."""

    type: str
    uuid: str | None = None
    parent_uuid: str | None = None
    is_sidechain: bool | None = None  # of a subagent
    parent_tool_use_id: str | None = msgspec.field(default=None, name="parent_tool_use_id")  # the call of a subagent
    agent_id: str | None = None
    team_name: str | None = None  # of an agent team
    agent_name: str | None = None  # of a teammate; the lead of a team has none
    cost: Raw = msgspec.field(default=NULL, name="costUSD")  # of the response, up to version 1.0
    session_id: str | None = None
    timestamp: str | None = None
    subtype: str | None = None
    is_meta: bool | None = None
    origin: Raw = NULL
    forked_from: Raw = NULL  # the record that a fork copied
    is_compact_summary: bool | None = None
    is_visible_in_transcript_only: bool | None = None
    compact_metadata: Raw = NULL
    microcompact_metadata: Raw = NULL
    version: Raw = NULL
    effort: Raw = NULL
    permission_mode: Raw = NULL
    thinking_metadata: Raw = NULL
    plan_content: Raw = NULL  # the accepted plan that a new conversation begins with
    attachment: Raw = NULL
    entrypoint: Raw = NULL  # the program that ran the client
    operation: Raw = NULL  # on the queue of prompts
    tool_use_result: Raw = NULL  # details of a tool's result
    message: ClaudeMessage | None = None


class _RecordedMessage(ClaudeMessage, frozen=True, gc=False):
    content: Raw = NULL


class _Record(ClaudeRecord, frozen=True, gc=False, rename="camel"):
    message: _RecordedMessage | None = None


class _BlockMessage(ClaudeMessage, frozen=True, gc=False):
    content: list[Known] = []


class _BlockRecord(ClaudeRecord, frozen=True, gc=False, rename="camel"):
    message: _BlockMessage | None = None


class RunSums(Struct):
    """Sums over the responses of one run of `claude -p`."""

    requests: int = 0
    output_tokens: int = 0
    has_cost: bool = False  # a record states the cost of its response


# What a compaction kept: a list of records, or the first and the last record of a path of parents.
class _Preserved(Struct, frozen=True, rename="camel"):
    uuids: tuple[str, ...] | None = None
    head_uuid: str | None = None
    tail_uuid: str | None = None


class Compact(Struct, frozen=True, rename="camel"):
    """`compactMetadata` and `microcompactMetadata`."""

    trigger: str | None = None
    pre_tokens: int | None = None
    post_tokens: int | None = None
    duration_ms: int | float | None = None
    preserved_messages: _Preserved | None = None
    preserved_segment: _Preserved | None = None
    compacted_tool_ids: tuple[str, ...] | None = None  # calls whose results were cleared


_PARTS = Parts[Known](
    Known,
    {TextBlock: attrgetter("text"), _ClaudeThinking: attrgetter("thinking"), _ClaudeImage: attrgetter("source.data")},
)
_RECORD, _BLOCK_RECORD = lenient.DECODERS[_Record], lenient.DECODERS[_BlockRecord]
_TEXT, _BEGINNING = b'"user","content":"', 1024  # a message that is a text, and the part of a record that shows it
_SNAKE = re.compile(
    rb'"(?:parent_uuid|(?:micro)?compact_metadata|is_(?:sidechain|meta|compact_summary|visible_in_transcript_only))"'
)


# decoding


def decode_record(data: bytes, misfits: set[str]) -> ClaudeRecord:
    """Decode a line in either spelling; raise ValueError if it is not a record.

    The paths of members that are left out for their type are added to `misfits`. Blocks are decoded with their record,
    if all are of known shapes and the message is not a text.
    """
    try:
        if data.find(_TEXT, 0, _BEGINNING) < 0:
            block_record = _BLOCK_RECORD.decode(data)
            message, is_plain = block_record.message, block_record.parent_uuid is not None or block_record.uuid is None
            if is_plain and (message is None or (message.content and _PARTS.are_sound(message.content))):
                return block_record
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        record = _RECORD.decode(data)
        if record.parent_uuid is not None or record.uuid is None or _SNAKE.search(data) is None:
            return record
    except (msgspec.DecodeError, RecursionError):
        pass
    return lenient.convert(data, _Record, misfits)


def is_record(line: bytes) -> bool:
    """Return whether a line is a record of a known type, or an answer with usage whose ids were removed."""
    has_id = any(marker in line for marker in _IDS)
    if not has_id and (_USAGE not in line or not any(marker in line for marker in _ANSWER)):
        return False
    try:
        line.decode("utf-8")
        record = decode_record(line, set())
        is_answer = record.type == "assistant" and record.message is not None and not is_absent(record.message.usage)
        is_named = record.type != "system" or record.uuid is not None  # Droid prints such a record without an id
        return record.type in _TYPES and is_named if has_id else is_answer
    except (ValueError, RecursionError):
        return False


def compaction_of(metadata: Raw, session: SessionBuilder) -> Compact:
    """Decode a compaction's metadata in either spelling; report members of a wrong type to the session."""
    return Compact() if is_absent(metadata) else lenient.convert(bytes(metadata), Compact, session.misfits)


def message_of(record: ClaudeRecord) -> ClaudeMessage:
    """Return the message of a record; raise ValueError if it has none."""
    if record.message is None:
        raise ValueError("the record has no message")
    return record.message


def parts_of(content: list[Known] | Raw) -> Sequence[Part]:
    """Return the parts of a message; raise ValueError if the content is neither a text nor a list of blocks."""
    if isinstance(content, list):
        return content
    match opens(content):
        case '"':
            return [TextBlock(content)]
        case "[":
            return _PARTS.decode(content)
        case _:
            raise ValueError("content is neither text nor blocks")


def fork_source(record: ClaudeRecord) -> str:
    """Return the session that a fork copied the record from; empty if the session wrote it itself."""
    fork = record.forked_from
    return "" if is_absent(fork) else text_at(members_at(fork), "sessionId")


@lru_cache(64)
def format_setting(raw: bytes) -> str:
    """Return a setting's value as a short masked text; empty if it is absent."""
    return "" if raw == b"null" else cut_masked(raw.decode("utf-8", "replace").strip('"'), LONGEST)


# items


def prompt_item(uuid: str, record: ClaudeRecord, parts: Sequence[Part]) -> items.UserMessage:
    """Return a user's message of one text or several parts, with its source: a person, the scheduler or the client."""
    kind = b"" if is_absent(record.origin) else members_at(record.origin).get("kind", b"")
    is_scheduled = kind == b'"task-notification"'
    source = "context_injection" if record.is_meta else "tick" if is_scheduled else "user"
    content = message_of(record).content
    if not isinstance(content, list) and opens(content) == '"':
        return items.UserMessage(uuid, text=content, source=source)
    return items.UserMessage(uuid, blocks=tuple(map(_block_of, parts)), source=source)


def response_item(uuid: str, part: Part, message: ClaudeMessage, response: str) -> items.Item:
    """Return a part of a response as an item: a call or a message."""
    if type(part) is ClaudeToolUse:
        return items.ToolCall(uuid, part.id, part.name, part.input, response_id=response)
    content = message.content
    if not isinstance(content, list) and opens(content) == '"':
        return items.AssistantMessage(uuid, text=content, response_id=response)
    stop = message.stop_reason
    return items.AssistantMessage(uuid, blocks=(_block_of(part),), stop_reason=stop, response_id=response)


def _block_of(part: Part) -> items.Block:
    if type(part) is TextBlock or type(part) is RawBlock:
        return part
    if type(part) is _ClaudeThinking:
        return items.ThinkingBlock(part.thinking, part.signature)
    if type(part) is _ClaudeImage:
        return items.ImageBlock(part.source.media_type, part.source.data)
    return RawBlock(Raw(msgspec.json.encode(part)))  # a call or a result among the content of another role


def output_of(content: Raw) -> Raw:
    """Return a result as lore keeps it: a text as it is, a list as blocks, nothing as an empty text."""
    match opens(content):
        case '"':
            return content
        case "[":
            return Raw(b"[%b]" % b",".join([msgspec.json.encode(_block_of(part)) for part in parts_of(content)]))
        case "n":
            return Raw(b'""')
        case _:
            return Raw(b'[{"type":"raw","json":%b}]' % bytes(content))


def summary_of(parts: Sequence[Part]) -> Raw:
    """Return the text of a summary that is one text or a list of blocks."""
    if len(parts) == 1 and isinstance(parts[0], TextBlock):
        return parts[0].text
    return Raw(encode("\n\n".join([text_of(bytes(part.text)) for part in parts if isinstance(part, TextBlock)])))


STARTED = b'"SessionStart:'  # the hooks that run when a process of the client begins or resumes a session
RESUMED = b'"SessionStart:resume"'
PENDING = "pendingMcpServers"  # tool servers that are not connected: a new process, or a server that dropped out
# Records that a process of the client writes when it begins, and together with the latest prompt (`last-prompt`). Two
# of them without it are a new process: 16 of 16 reads fell that had not expired (665 sessions, 2.1.79 to 2.1.170).
WRITTEN_AT_START = frozenset(("ai-title", "custom-title", "agent-name", "mode", "permission-mode"))
WRITTEN_AGAIN, LAST_PROMPT = "titleAndMode", "last-prompt"
# The desktop app ends idle processes: after their last record the next prompt is the first from a queue.
QUEUE, QUEUED, DESKTOP = "queue-operation", b'"enqueue"', b'"claude-desktop"'
_ATTACHMENTS = {
    "deferred_tools_delta": "tools-delta",
    "mcp_instructions_delta": "instructions-delta",
    "hook_additional_context": "hook-context",
}
CLIENT_TEXTS = (b'"<command-', b'"<local-command-', b'"[Request interrupted')  # the client's own, not prompts
_EXITS = ("/exit", "/quit")  # commands that end the process
PLAN = "planContent"  # the field of a log that holds an accepted plan: its name for the work on one
# What the client writes as it takes up an interrupted session: 9 of 11 reads fell, to tools and system prompt.
CONTINUED = "Continue from where you left off."
# The answer that a new process writes for a prompt without one: 31 of 32 reads fell, 17 of 17 within five minutes.
_NOTHING_ASKED = "No response requested."
_CONTINUED = b'"%b"' % CONTINUED.encode()
_PLAN = b'"Implement the following plan'  # how a client opens the conversation that carries out an accepted plan
# The main agent's message to a subagent. After the subagent's last answer it is resumed from its log: reads fell to the
# head (anthropics/claude-code#91971, #87215), and without the thinking before it (#94728).
_COORDINATOR = b'"The coordinator sent a message while you were working:'
# What a new process says of a background task that the previous one was running (2.1.219).
_TASK_NOTICE, _PROCESS_EXITED = b'"<task-notification>', b"the previous Claude Code process exited"
_EFFORT = re.compile(rb'"<local-command-stdout>Set effort level to ([a-z]+)')  # what `/effort` prints
_COMMAND = re.compile(rb"<command-name>(/?[\w:.-]+)")
_HEAD = 256  # bytes of a result or text that are searched, characters of a hook's text
# What hooks of the desktop app's preview add, which no settings switch off (anthropics/claude-code#51587).
_PREVIEW = re.compile(r" is now visible in the (?:Browser|preview) (?:pane|panel)\.?$")
_NAMES = lenient.DECODERS[tuple[str, ...] | str]


class PromptFacts(NamedTuple):
    """What the beginnings of a user message's texts show."""

    signals: list[Sign]
    effort: str  # that the output of `/effort` says was set; empty without one
    clears: bool  # `/clear` begins a new conversation in the same log
    carries_out_plan: bool  # so does this, after a plan was presented: its context is cleared
    from_coordinator: bool  # the main agent's message to a subagent


def facts_of_prompt(parts: Sequence[Part], *, is_meta: bool) -> PromptFacts:
    """Return what the texts and images of a user's message show; `is_meta`: the client wrote it."""
    signals: list[Sign] = []
    effort, clears, carries_out_plan, from_coordinator = "", False, False, False
    for part in parts:
        if type(part) is not TextBlock:
            signals += [Sign("image")] if type(part) is _ClaudeImage else []
            continue
        text = head_of(part.text)
        if text.startswith(b'"<command-'):
            command = _COMMAND.search(text)
            names = bounded_names((command[1].decode(),)) if command else ()
            signals.append(Sign("slash-command", names))
            if names and names[0] in _EXITS:
                signals.append(Sign("restart", names))
            clears = clears or names == ("/clear",)
        elif is_meta and text == _CONTINUED:
            signals.append(Sign("restart", (CONTINUED,)))
        elif text.startswith(b'"[Request interrupted'):
            signals.append(Sign("interrupt"))
        elif text.startswith(_PLAN):
            carries_out_plan = True
        elif text.startswith(_TASK_NOTICE) and _PROCESS_EXITED in bytes(part.text)[:_NOTICE]:
            signals.append(Sign("restart", ("<task-notification>",)))
        elif text.startswith(_COORDINATOR):
            from_coordinator = True
        elif not effort and (printed := _EFFORT.match(text)) is not None:
            effort = printed[1].decode()
    return PromptFacts(signals, effort, clears, carries_out_plan, from_coordinator)


def is_placeholder(name: str) -> bool:
    """Return whether a redactor wrote this in place of an id."""
    return bool(name) and not name.startswith(("msg_", "toolu_")) and not visible_value(name)


def is_thinking(part: Part) -> bool:
    """Return whether a part of a response is reasoning."""
    return type(part) is _ClaudeThinking or (type(part) is RawBlock and b'"redacted_thinking"' in head_of(part.json))


def signals_of_synthetic(parts: Sequence[Part]) -> Iterator[Sign]:
    """Yield the signal of an answer that the client wrote itself: a new process took up an interrupted session."""
    if any(isinstance(part, TextBlock) and text_in(part.text) == _NOTHING_ASKED for part in parts):
        yield Sign("restart", (_NOTHING_ASKED,))


def signals_of_result(content: Raw) -> Iterator[Sign]:
    """Yield the signals of a result that is a list: tools that a search found, images."""
    head = head_of(content)
    if b'"tool_reference"' in head:
        blocks = [members_at(block) for block in array(bytes(content))]
        is_sound = all(block.get("type", b"")[:1] == b'"' for block in blocks)
        tools = [block for block in blocks if block.get("type") == b'"tool_reference"' and is_sound]
        yield Sign("tool-reference", bounded_names(name for block in tools for name in names_in(block, "tool_name")))
    if b'"type":"image"' in head:
        yield Sign("image")


def signals_of_attachment(attachment: bytes, entrypoint: bytes = b"") -> Iterator[Sign]:
    """Yield the signals of an attachment: tools and instructions that came or went, hooks, a resumed session.

    `entrypoint` is the program that ran the client: only its desktop app has a preview.
    """
    attached = members_at(attachment)
    name = _ATTACHMENTS.get(attached.get("type", b"").strip(b'"').decode("utf-8", "replace"))
    hooks = names_in(attached, "hookName")
    if name is None:
        if "SessionStart:resume" in hooks:
            yield Sign("resume")
        elif "SessionStart:startup" in hooks:
            yield Sign("restart", ("SessionStart:startup",))
    elif name == "hook-context":
        text = " ".join(names_in(attached, "content"))
        if entrypoint == DESKTOP and _PREVIEW.search(text):
            name, text = "preview-context", text[-QUOTED:].rpartition("\\")[2].rpartition("/")[2]
        text = " ".join(text[:_HEAD].split())
        quoted = text if len(text) <= QUOTED else cut_masked(text, QUOTED - 1) + "…"
        yield Sign(name, bounded_names(hooks or names_in(attached, "hookEvent")), after=quoted)
    else:
        if names_in(attached, PENDING):  # a process that has just begun still connects to them
            yield Sign("restart", (PENDING,))
        added = names_in(attached, "addedNames", "readdedNames")
        yield Sign(name, bounded_names(added), bounded_names(names_in(attached, "removedNames")))


def refusals(subtype: str | None, line: bytes) -> Iterator[Sign]:
    """Yield the signal that a model refused and the client asked another one (anthropics/claude-code#67009)."""
    if subtype == "model_refusal_fallback":
        members = members_at(line)
        models = (names_in(members, key) for key in ("originalModel", "fallbackModel"))
        before, after = (next(iter(bounded_names(names)), "") for names in models)
        yield Sign("refusal", before=before, after=after)


_TASK = re.compile(rb"<task-id>([\w-]{1,64})</task-id>")
_TOKENS = re.compile(rb"<(?:subagent|total)_tokens>(\d{1,12})<")
_NOTICE = 65_536  # bytes between the two in a notice that a task has ended
_SUBAGENT_ANSWERS = (b'{"isAsync"', b'{"status"', b'{"agentId"', b'{"prompt"')  # other tools' begin otherwise
_ANSWER_BYTES = max(map(len, _SUBAGENT_ANSWERS))


def subagent_of_result(answer: Raw) -> tuple[str, int]:
    """Return the subagent that a tool's result is of, and its tokens; no name if it is of another tool."""
    if is_absent(answer) or not bytes(memoryview(answer)[:_ANSWER_BYTES]).startswith(_SUBAGENT_ANSWERS):
        return "", 0
    members = members_at(answer)
    return text_at(members, "agentId"), count_in(members.get("totalTokens", b"")) or 0


def subagent_of_notice(line: bytes) -> tuple[str, int]:
    """Return the subagent that a notice says has ended, and its tokens; no name if the line is no such notice."""
    task = _TASK.search(line) if b"<task-notification>" in line else None
    total = None if task is None else _TOKENS.search(line, task.end(), task.end() + _NOTICE)
    return ("", 0) if task is None or total is None else (task[1].decode(), int(total[1]))


def names_in(members: Mapping[str, bytes | Raw], *keys: str) -> list[str]:
    """Return the name or names that these members hold; members of another type are ignored."""
    names: list[str] = []
    for raw in (members[key] for key in keys if key in members):
        try:
            value = _NAMES.decode(raw)
        except (ValueError, RecursionError):
            continue
        names += [value] if isinstance(value, str) else value
    return names


def head_of(raw: Raw) -> bytes:
    """Return the beginning of a long text, or of other content."""
    return bytes(memoryview(raw)[:_HEAD])

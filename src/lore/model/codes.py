"""Finding codes, what is known of each without a recording, and problems, which bear one.

A promise: a code never changes its meaning, a new meaning gets a new code; a member of `Code` is its code's name in
capitals, and is equal to the code's text. Plug-ins add rows to `CODES`. Rows of the catalogue of causes that bytes
cannot show are `NOT_SHOWN`.
"""

from __future__ import annotations

from enum import StrEnum, unique
from typing import Literal, NamedTuple, Self, TypeAlias

from msgspec import Struct

CauseKind: TypeAlias = Literal["expected", "waste", "unattributable"]
Severity: TypeAlias = Literal["error", "warning", "note"]
Actor: TypeAlias = Literal["author", "user", "provider", "nobody"]
Reader: TypeAlias = Literal["author", "user"]
CauseSection: TypeAlias = Literal["tools", "system", "messages", "model", "parameters", "time", "outside"]

SEVERITY: dict[CauseKind, Severity] = {"waste": "error", "unattributable": "warning", "expected": "note"}


class About(NamedTuple):
    """What is known of a code without a recording.

    `fix` and `fix_user` are one imperative sentence each, for whoever writes the agent and for whoever runs it;
    `section` is the place that the code implies, None where it depends on the finding.
    """

    name: str
    kind: CauseKind
    fix: str
    fix_user: str = ""
    actor: Actor = "author"
    section: CauseSection | None = None


class _Row(str):
    """The text of a code with what is known of it, as long as its member is being made."""

    about: tuple[CauseKind, str, str, CauseSection | None, Actor]


def _row(
    code: str, kind: CauseKind, fix: str, user: str = "", section: CauseSection | None = None,
    actor: Actor | None = None,
) -> str:  # fmt: skip
    """Return a code's row: `user` is the fix for whoever runs the agent, where it is another one."""
    made = _Row(code)
    made.about = kind, fix, user or fix, section, actor or ("nobody" if kind == "expected" else "author")
    return made


@unique
class Code(StrEnum):
    """Every code of lore: its kind, its fixes (one where both readers do the same), its section, who can act.

    Without an actor it is the author, nobody where the cause is expected.
    """

    about: About

    def __new__(cls, row: str) -> Self:
        """Make a member, whose text is the code alone."""
        member = str.__new__(cls, row)
        member._value_ = str(row)
        return member

    def __init__(self, row: str) -> None:
        assert isinstance(row, _Row)
        kind, fix, user, section, actor = row.about
        self.about = About(self.name.lower().replace("_", "-"), kind, fix, user, actor, section)

    # fmt: off
    # LORE1xx, the prefix: why a request found less in the cache than stood there. LORE101 to LORE135 follow the
    # catalogue of known causes in its own numbering.
    PREFIX_MOVED = _row("LORE100", "waste",
        "Keep what was already sent as it is, and append instead.",
        "Leave off hooks and plug-ins that rewrite history, and report what else changed to the agent's author.")
    DATE_IN_PREFIX = _row("LORE101", "waste",
        "Freeze the date at session start, or move it into the tail of the prompt.",
        "Take clocks and dates out of your own instructions, and report an agent that writes them itself.")
    TOOLS_REORDERED = _row("LORE102", "waste",
        "Sort tools by name when they are registered.",
        "Name MCP servers in one fixed order, and report an agent that lists their tools in another one each time.",
        "tools")
    TOOLS_ADDED_OR_REMOVED = _row("LORE103", "waste",
        "Freeze the tool list before the first turn of a session.",
        "Connect MCP servers before the first message, or leave them off in this project.", "tools")
    TOOL_DEFINITION_CHANGED = _row("LORE104", "waste",
        "Keep text that changes out of tool descriptions.",
        "Add agents, skills and MCP servers between sessions, and report tools whose descriptions hold dates or paths.",
        "tools")
    KEY_ORDER_CHANGED = _row("LORE105", "waste",
        "Write JSON with one fixed key order, or replay the recorded text.",
        "Report it to the agent's author: no setting of yours changes the order of keys.")
    SERIALISATION_CHANGED = _row("LORE106", "unattributable",
        "Write requests with one JSON serialiser, one setting.",
        "Take out a proxy that rewrites bodies; else report it to the agent's author if the bill shows a loss.")
    BILLING_HEADER_CHANGED = _row("LORE107", "waste",
        "Switch the billing header off (CLAUDE_CODE_ATTRIBUTION_HEADER=0), or strip it in the proxy.",
        "Set CLAUDE_CODE_ATTRIBUTION_HEADER=0 where requests go to another server than Anthropic's.", "system", "user")
    ID_IN_PREFIX = _row("LORE108", "waste",
        "Move ids of requests, processes and files into headers or the tail.",
        "Take ids and temporary paths out of your own instructions, and report an agent that writes them itself.")
    TOKEN_REMINDER_IN_PREFIX = _row("LORE109", "waste",
        "Move token counts into the tail, or switch the reminder off.",
        "Switch the reminder of tokens off if the agent has a setting for it; else report it to the agent's author.")
    GIT_STATUS_IN_PREFIX = _row("LORE110", "waste",
        "Take the state of a repository once a session, and tell later changes in the tail.",
        "Switch off the snapshot of the repository if the agent has a setting for it; else report it to its author.")
    REMINDER_MOVED = _row("LORE111", "waste",
        "Leave reminders where they were sent, and append new ones.",
        "Update the agent, switch off hooks and editor notices that you do not need, and report it to its author.",
        "messages")
    CONTENT_SHAPE_CHANGED = _row("LORE112", "unattributable",
        "Always write message content as an array of blocks.",
        "Report it to the agent's author if the bill shows that reads fell; no setting of yours changes it.")
    LOOKBACK_EXCEEDED = _row("LORE113", "unattributable",
        "Keep a second breakpoint where the last one of the turn before stood, or set one after fewer blocks.",
        "Update the agent; else let it do fewer tool calls at a time, and report it to the agent's author.", "messages")
    BREAKPOINTS_MISSING = _row("LORE114", "unattributable",
        "Set a cache breakpoint at the end of the history in each request; on Anthropic's own API a cache_control of "
        "the request itself does that.",
        "Switch prompt caching on in the agent or the gateway, or report that it is missing.")
    THINKING_CHANGED = _row("LORE115", "waste",
        "Send thinking back as it came, and drop it only when you compact.",
        "Keep thinking on or off for a whole session, and report it to the agent's author if it goes on.", "messages")
    REASONING_DROPPED_BY_TEMPLATE = _row("LORE116", "expected",
        "Nothing to do where a provider does it; a model that you serve needs a template that keeps reasoning.",
        "Nothing to do: the provider leaves reasoning of earlier turns out of the prompt.", "messages")
    TOOL_RESULT_REWRITTEN = _row("LORE117", "waste",
        "Shorten tool results when they are created; clear old ones seldom, and many at once.",
        "Make tools print less (quieter commands, smaller reads), so that the agent has less to clear.", "messages")
    IMAGE_CHANGED = _row("LORE118", "waste",
        "Keep the encoded bytes of an image, and remove images only when you compact.",
        "Give images in a session of their own, and report an agent that encodes or drops them again.", "messages")
    MODEL_CHANGED = _row("LORE119", "expected",
        "Give work for another model to a subagent with its own prompt.",
        "Choose the model before the first message, or change it right after a compaction.", "model")
    GENERATION_SETTINGS_CHANGED = _row("LORE120", "waste",
        "Keep effort, thinking budget, verbosity, speed and service tier for the whole session.",
        "Choose effort, thinking and speed before the first message, and leave them for the session.", "parameters",
        "user")
    TOOL_CHOICE_CHANGED = _row("LORE121", "waste",
        "Leave tool_choice alone, and ask for a tool in words.",
        "Report it to the agent's author: the choice of tools is not yours to set.", "parameters")
    REQUEST_FEATURES_CHANGED = _row("LORE122", "unattributable",
        "Freeze beta headers and request features when the session starts.",
        "Switch beta features of the agent on or off between sessions only.", "parameters")
    RESUME_RERENDERED = _row("LORE123", "waste",
        "Store the prompt as it was rendered, and send that again after a resume.",
        "Go on in the running session instead of resuming it, or begin a new one; report it to the agent's author.")
    DEFERRED_TOOLS_LOADED = _row("LORE124", "waste",
        "Append discovered tools in messages (tool_reference, tool_addition), not to the tool list.",
        "Load the tools that you need before the first message, or switch the deferred loading of tools off.", "tools")
    COMPACTION = _row("LORE125", "expected",
        "Compact seldom and much: each compaction pays for the prompt anew.",
        "Compact by hand where a piece of work ends, or begin a new session there.", "messages")
    MEMORY_IN_PREFIX = _row("LORE126", "waste",
        "Put memory and retrieved context behind the history, or freeze it for the session.",
        "Edit memory files between sessions, or switch off memory that is recalled anew for each request.")
    FIRST_MESSAGE_REWRITTEN = _row("LORE127", "waste",
        "Render the first message once, and send it again as it was.",
        "Leave off what changes the first message (open files, workspace state), and report it to the agent's author.",
        "messages")
    CACHE_EXPIRED = _row("LORE128", "expected",
        "Ask for a longer cache lifetime if pauses like this are common.",
        "Ask for the one-hour lifetime if the agent has a setting for it, or begin a new session after a long pause.",
        "time")
    PARALLEL_START = _row("LORE129", "expected",
        "Send one request first and the others once its response has begun.",
        "Start one agent first and the others once it answers.", "time")
    SERVER_SIDE_MISS = _row("LORE130", "unattributable",
        "Give requests of one conversation one cache key, so that they reach one machine, and send fewer at once.",
        "Nothing to do for one; where it is common, keep to one provider and region, and report times and request ids.",
        None, "provider")
    ENDPOINT_CHANGED = _row("LORE131", "unattributable",
        "Keep a conversation at one host, region and key.",
        "Pin a session to one provider, region and key in the settings of the router or gateway.", "outside", "user")
    CONTINUATION = _row("LORE132", "expected",
        "Record from the first request of a conversation, with responses, to judge it whole.",
        "Nothing to do, or let the agent send the whole history if it has a setting for it.")
    TAIL_WITHOUT_BREAKPOINT = _row("LORE133", "waste",
        "Set one explicit breakpoint at the end of what stays the same.",
        "Update the agent, switch off what rewrites the last message, and report it to the agent's author.", "messages")
    LIFETIME_LOST = _row("LORE134", "waste",
        "Let the gateway pass on the lifetime (ttl, beta headers) that clients ask for.",
        "Set the gateway to pass on ttl and beta headers, or ask the provider directly.", "outside", "user")
    OUTPUT_SCHEMA_CHANGED = _row("LORE135", "waste",
        "Keep one output schema for the session, or move it into a tool.",
        "Report it to the agent's author: the schema of answers is not yours to set.", "parameters")
    REWIND = _row("LORE143", "expected", "Nothing to do: history was taken back on purpose.", "", "messages")
    CACHE_RESET = _row("LORE144", "expected", "Nothing to do: the prefix was given up on purpose.")
    SESSION_CHANGED = _row("LORE145", "expected",
        "Change system prompt and tools between sessions where you can.",
        "Choose mode, tools and instructions before the first message where you can.")
    CHANGE_AFTER_LAST_BREAKPOINT = _row("LORE146", "expected",
        "Nothing to do: the change is behind the last cache breakpoint.", "", "messages")
    LATE_TOOL_RESULT = _row("LORE147", "waste",
        "Start turns after calls have results, or bring late results as new messages.",
        "Wait for tools to end before you write the next message, and report it to the agent's author.", "messages")
    BREAKPOINTS_FAR_APART = _row("LORE148", "unattributable",
        "Keep the breakpoint of the turn before, or send fewer blocks at a time.",
        "Nothing that you set places breakpoints; report it to the agent's author where the bill shows a loss.",
        "messages")
    TEXT_AFTER_TOOL_RESULT = _row("LORE149", "unattributable",
        "Put a program's own text into the message that carries the results, or give it the system role.",
        "Switch off reminders that follow tool results if the agent has a setting, else report it to its author.",
        "messages")
    ORPHAN_TOOL_PAIR = _row("LORE150", "unattributable",
        "Send each call together with its result, and drop both together.",
        "Begin a new session, and report to the agent's author which call lacks its result.", "messages")
    VOLATILE_BEFORE_HISTORY = _row("LORE151", "unattributable",
        "Move clocks, ids and token counts behind the history.",
        "Take clocks, ids and counts out of your own system prompt, and report an agent that writes them itself.",
        "system")
    TOO_MANY_BREAKPOINTS = _row("LORE152", "waste",
        "Set at most four cache breakpoints.",
        "Update the agent or the gateway, and report which of them sets too many breakpoints.")
    BREAKPOINT_ON_VOLATILE = _row("LORE153", "unattributable",
        "Set the breakpoint on the last block that stays the same.",
        "Take clocks and ids out of your own instructions, and report it to the agent's author.")
    CHAIN_RESTARTED = _row("LORE154", "expected",
        "Nothing to do: a request without tools began a conversation of its own.", "", "tools")
    OLDER_ENTRY_SERVED = _row("LORE155", "expected",
        "Nothing to do: an entry that was just written cannot be read at once.", "", "time")
    TAIL_REPLACED = _row("LORE156", "expected",
        "Keep the tail short, and put what rarely changes before the history or into durable deltas.",
        "Nothing to do while it is short; else show the model less of what changes with each message.", "messages")
    CLIENT_UPDATED = _row("LORE157", "waste",
        "Keep a session's system prompt and tools over an update, and leave the version out of the prompt.",
        "Update the client between sessions, and switch off updates while one is running.", "system", "user")
    HOOK_TEXT_MOVED = _row("LORE158", "waste",
        "Keep a hook's text where it was sent, also when a person speaks again.",
        "Make hooks print nothing, or only on failure.", "messages", "user")
    CLIENT_CAUSE_UNKNOWN = _row("LORE159", "unattributable",
        "Record request bodies, and look at what the client renders anew, in the section that a verdict names.",
        "Record request bodies (a proxy, or the client's own log of bodies), and report what they show.")
    IDLE_WITHIN_LIFETIME = _row("LORE160", "unattributable",
        "Report request ids to the provider, and see that the lifetime that was asked for is the one that is billed.",
        "Nothing to do for one; where it is common, ask the provider how long an entry of an hour lives.", "time",
        "provider")
    SKILL_LOADED = _row("LORE161", "unattributable",
        "Append a skill's text where it was loaded, and leave tools and system prompt as they are.",
        "Load skills in the first message of a session, and update the client.", "messages", "user")
    SLASH_COMMAND = _row("LORE162", "unattributable",
        "Keep commands that only speak to the client out of the prompt, in every later request too.",
        "Give slash commands between pieces of work, not in the middle of a long conversation.", "messages", "user")
    INTERRUPTED = _row("LORE163", "unattributable",
        "Keep what was sent before an interrupt, and append the notice of it behind.",
        "Let a step end before you write, or queue the message if the client can.", "messages", "user")
    ERROR_BETWEEN = _row("LORE164", "unattributable",
        "Send a retry with the same bytes to the same endpoint, and report request ids if errors are common.",
        "Nothing to do: the provider answered with an error in between, and the request was sent again.", "outside",
        "provider")
    PERMISSION_MODE_CHANGED = _row("LORE165", "unattributable",
        "Leave the permission mode out of system prompt and tools, and say it behind the history.",
        "Choose the permission mode before the first message.", "system", "user")
    SERVER_INSTRUCTIONS_CHANGED = _row("LORE166", "unattributable",
        "Freeze the instructions of servers when the session starts, and append later ones as a message.",
        "Connect MCP servers before the first message, or leave off those with instructions that you do not need.",
        "system", "user")
    CLIENT_RESTARTED = _row("LORE167", "waste",
        "Send a stored session's system prompt, tools and hooks as they were when a new process goes on with it.",
        "Go on in the running client instead of starting it anew, or begin a new session after a restart.", "system",
        "user")
    ANSWER_WITHOUT_THINKING = _row("LORE168", "waste",
        "Ask for thinking in every request of a session or in none, whatever the last answer held.",
        "Keep thinking on or off for a whole session, and update the agent if it goes on.", "messages")
    ROUTED_ELSEWHERE = _row("LORE170", "waste",
        "Pin a conversation to one provider and deployment: provider order, or affinity by session.",
        "Pin the provider in the settings of the router (OpenRouter: provider order; LiteLLM: deployment affinity).",
        "outside")
    COLD_COMPACTION = _row("LORE171", "waste",
        "Ask for the summary behind the conversation as it was sent: the same tools, system prompt, messages and "
        "breakpoints.",
        "Report it to the agent's author; until then compact seldom, and where the context is small.", "messages")
    BREAKPOINT_NOT_TAKEN = _row("LORE180", "waste",
        "Set the breakpoint on the last block that takes one: content that is not empty and not thinking.",
        "Update the agent and the gateway, and report which of them sets the breakpoint.")
    LIFETIMES_OUT_OF_ORDER = _row("LORE181", "waste",
        "Ask for the longer lifetime first: an hour in tools and system prompt, five minutes in the messages.",
        "Update the agent and the gateway, and report which of them mixes lifetimes.")
    VARYING_TEXT_IN_PREFIX = _row("LORE182", "unattributable",
        "Freeze it when the session starts, or move it behind the history.",
        "Take dates, paths and ids out of your own instructions, and report an agent that writes them anew each time.")
    TOOLS_UNSORTED = _row("LORE183", "expected",
        "Sort tools by name when they are registered, so that no map or connection decides their order.",
        "Nothing to do while their order stays; name MCP servers in one fixed order.", "tools")
    IMAGE_BEFORE_TEXT = _row("LORE184", "expected",
        "Put text that stays the same before images that change.",
        "Nothing to do where the image is the same in each request; else give it behind the text.", "messages")
    CACHE_KEY_MISSING = _row("LORE185", "expected",
        "Send one prompt_cache_key for requests that begin alike, a conversation's id for one.",
        "Nothing to do in small numbers; else report to the agent's author that requests have no prompt_cache_key.",
        "parameters")
    CACHE_SETTING = _row("LORE186", "unattributable",
        "Change the field of the request that works against its cache.",
        "Change the setting where the agent or the gateway has one, else report it.", "parameters")

    # LORE2xx, recordings: what in a transcript, a capture or an archive could not be read or folded.
    UNREADABLE_LINE = _row("LORE201", "waste", "Record the session again, or repair the line.")
    TORN_LAST_LINE = _row("LORE202", "unattributable", "Nothing to do if the session is still being written.")
    UNKNOWN_RECORD = _row("LORE203", "expected", "Nothing to do: the record is kept, and counted.")
    UNKNOWN_ID = _row("LORE204", "unattributable",
        "Record sessions from their beginning, in the order of events.",
        "Record sessions from their beginning, and go back to the original of a log that was cut or merged.")
    DUPLICATE_UUID = _row("LORE205", "unattributable",
        "Give every item its own uuid.",
        "Nothing to do for copies of a resumed session; else report it to the recorder's author.")
    DANGLING_PARENT = _row("LORE206", "unattributable",
        "Record sessions from their beginning.", "Keep the files of a session together and whole.")
    MALFORMED_RECORD = _row("LORE207", "waste",
        "Write the record as the format says.", "Update lore, and report a record that it still refuses.")
    PRESERVED_ITEMS_MISSING = _row("LORE208", "unattributable",
        "Record what a compaction keeps before it is applied.",
        "Keep a session's file whole; compare with `lore fold` what is left.")
    JOINED_LINES = _row("LORE209", "expected",
        "End every record with a line feed.", "Nothing to do: all records of the line were read.")
    REQUEST_NOT_JUDGED = _row("LORE210", "unattributable",
        "Record requests in a shape that lore knows, or leave them out.",
        "Leave requests of shapes that lore does not know out of the folder that is judged.")
    DIALECT_NOT_WRITTEN = _row("LORE211", "unattributable", "Choose a dialect that lore writes with --dialect.")
    BAD_HEADER = _row("LORE212", "unattributable",
        "Begin a log with one session_started record, version 1.",
        "Name the whole log, not a part of it, and do not join logs into one file.")
    TURN_OUT_OF_ORDER = _row("LORE213", "unattributable",
        "Number turns upwards and close the one that is open.",
        "Report it to the recorder's author: turns are numbered by the program that writes the log.")
    UNREADABLE_DELTA = _row("LORE214", "unattributable",
        "Write deltas before the turn that sends them, as {target: messages, insert_at: n}.",
        "Report it to the author of the agent that wrote the log.")
    UNREADABLE_FILE = _row("LORE215", "unattributable", "Make the file readable, or leave it out.", "", None, "user")
    NOT_ASSEMBLED = _row("LORE216", "unattributable",
        "Run the command again: this version assembles all parts.", "", None, "user")
    LINE_TOO_LONG = _row("LORE217", "waste",
        "Find out what wrote the line, and record the session without it.",
        "Find out which tool's output was recorded whole, and record the session without it.")
    DUPLICATE_TOOL_NAMES = _row("LORE218", "waste",
        "Give every tool a name of its own: providers refuse such lists.",
        "Leave one of two MCP servers off that offer tools of the same name.")
    CONTEXT_LEFT_OUT = _row("LORE219", "unattributable",
        "Begin turns after a message of the user or a tool's result.",
        "Report it to the author of the agent that wrote the log.")
    CAPTURE_TOO_LARGE = _row("LORE220", "waste",
        "Leave large downloads out of the capture, or split it into smaller ones.", "", None, "user")
    CASSETTE_REFUSED = _row("LORE221", "waste",
        "Record the cassette again with plain YAML: no tags, few anchors, no deep nesting.",
        "Leave the cassette out, or ask its author for one in plain YAML.")
    UNDECODABLE_REQUEST = _row("LORE222", "unattributable",
        "Record request bodies uncompressed and whole, as JSON.",
        "Let the recorder decompress bodies and keep them whole.", None, "user")
    REQUEST_NOT_KEPT = _row("LORE223", "unattributable",
        "Keep request bodies inside the capture, not in files beside it.",
        "Export the capture with the bodies of requests in it.", None, "user")
    UNDECODABLE_RESPONSE = _row("LORE224", "expected",
        "Record responses uncompressed, so that what was billed can be read.",
        "Let the recorder decompress responses, so that what was billed can be read.")
    ARCHIVE_REFUSED = _row("LORE225", "unattributable",
        "Record it again, or unpack the file yourself and name what is in it.",
        "Unpack the file yourself and name what is in it.", None, "user")
    RESPONSE_WITHOUT_REQUEST = _row("LORE226", "unattributable",
        "Keep both files of a pair, under the names they were given.",
        "Keep both files of a pair, under the names and times they were given.", None, "user")
    BODY_CUT = _row("LORE227", "unattributable",
        "Let Claude Code write bodies to files: OTEL_LOG_RAW_API_BODIES=file:DIR.", "", None, "user")
    CONTENT_NOT_RECORDED = _row("LORE228", "unattributable",
        "Switch on the recording of content where the recorder is set up.", "", None, "user")
    FIELDS_FILLED_IN = _row("LORE229", "expected",
        "Nothing to do: `lore convert` writes a log in which nothing is left to assume.")
    ENGINES_MIXED = _row("LORE230", "unattributable",
        "Log each engine and scrape each server to a file of its own, or let the collector name whose a line is.",
        "", None, "user")

    # LORE3xx, prediction against bill.
    BILLED_READ_FELL = _row("LORE301", "unattributable",
        "Compare sessions of the same time, and record bodies beside a log: nothing that was looked at explains it.",
        "Compare sessions of the same time; if all of them fell, report it to the provider.", None, "provider")
    VERDICT_DISAGREES = _row("LORE302", "unattributable",
        "Compare the three columns, and record the request whole on the wire.",
        "Believe the bill for what was paid, and record on the wire to learn more.")
    BILL_CONTRADICTS_BODY = _row("LORE303", "unattributable",
        "Record the body that the provider got, uncut, and the bill of that same request.",
        "Record behind the last gateway, uncut, so that bill and body belong together.")
    READ_SHORT_OF_PREDICTION = _row("LORE304", "unattributable",
        "Compare with other sessions of that time, and keep one host, key and cache key for requests that begin alike.",
        "Compare other sessions of the same time; if all of them fell, report it to the provider.", None, "provider")
    WRITES_NEVER_READ = _row("LORE305", "unattributable",
        "Leave cache breakpoints out, or set them where the next turn will read.",
        "Look whether the gateway or key has a cache at all, and report it to the agent's author.")
    PROMPT_UNDER_MINIMUM = _row("LORE306", "unattributable",
        "Leave the cache breakpoints out, or put more of what stays the same before them.",
        "Nothing to do: short prompts are not cached, whatever is set.")

    # LORE4xx, budgets, exemptions and baselines.
    REUSE_BELOW_BUDGET = _row("LORE401", "waste", "Mend the cache breaks named above, or lower check.min_reuse.")
    BREAKS_ABOVE_BUDGET = _row("LORE402", "waste", "Mend the cache breaks named above, or raise check.max_breaks.")
    LOST_TOKENS_ABOVE_BUDGET = _row("LORE403", "waste",
        "Mend the cache breaks named above, or raise check.max_lost_tokens.")
    EXEMPTION_UNUSED = _row("LORE404", "waste", "Remove the exemption: what it excused is mended.")
    BASELINE_STALE = _row("LORE405", "expected", "Write the baseline anew with --update-baseline: it is shorter now.")

    # fmt: on


# A bill fell and nothing was found: there is no fix.
UNEXPLAINED = (Code.BILLED_READ_FELL, Code.SERVER_SIDE_MISS)

CODES: dict[str, About] = {code: code.about for code in Code}


# What whoever runs the agent can do nothing about but report it.
_REPORTED = frozenset((
    Code.KEY_ORDER_CHANGED, Code.CONTENT_SHAPE_CHANGED, Code.TOOL_CHOICE_CHANGED, Code.OUTPUT_SCHEMA_CHANGED,
    Code.BREAKPOINTS_FAR_APART, Code.DUPLICATE_UUID, Code.TURN_OUT_OF_ORDER, Code.UNREADABLE_DELTA,
    Code.CONTEXT_LEFT_OUT, Code.PROMPT_UNDER_MINIMUM,
))  # fmt: skip


def actor_of(code: str, kind: CauseKind, reader: Reader = "author") -> Actor:
    """Say who can act on a finding; nobody needs to where it is expected, or where the code is not in the table.

    What its author can mend, whoever runs the agent can often avoid: where they read it, they are who can act.
    """
    known = CODES.get(code)
    if kind == "expected" or known is None:
        return "nobody"
    avoids = reader == "user" and known.actor == "author" and known.fix_user != known.fix and code not in _REPORTED
    return "user" if avoids else known.actor


def fix_of(code: str, reader: Reader, kind: CauseKind | None = None) -> str:
    """Return what a reader can do; the author's sentence where the code has none for users.

    A prompt that shrank without anybody saying by what (`kind` unattributable) is mended by no advice about tool
    results: request bodies show what it was.
    """
    unsure = kind == "unattributable" and code == Code.TOOL_RESULT_REWRITTEN
    known = CODES[Code.CLIENT_CAUSE_UNKNOWN if unsure else code]
    return (known.fix_user if reader == "user" else "") or known.fix


# What is left to do where a recording does already what the code's fix recommends.
DONE: dict[str, str] = {
    Code.CACHE_EXPIRED: "Begin anew after so long a pause, or compact before it: no longer lifetime can be asked for.",
    Code.ROUTED_ELSEWHERE: "Report it to the router: the request names its provider, and allows no other one.",
    Code.CLIENT_CAUSE_UNKNOWN: "Record behind the last gateway, or report the request ids to the provider: these "
    "bodies do not show it.",
    Code.VERDICT_DISAGREES: "Believe the bill for what was paid; record behind the last gateway, or report the request "
    "ids to the provider.",
}

# The fix where the code's own would be too general: by code, and the reason or setting that the evidence names.
FIXES: dict[tuple[str, str], str] = {
    (Code.BREAKPOINT_NOT_TAKEN, "message"): "Set it on the message's last content block instead of the message.",
    (Code.BREAKPOINT_NOT_TAKEN, "deferred-tool"): "Set it on the last tool that is not deferred.",
    (Code.BREAKPOINT_NOT_TAKEN, "not-input"): "Set it on an input part of a user's or system message.",
    (Code.BREAKPOINT_NOT_TAKEN, "lifetime"): 'Ask for "5m" or "1h", or leave the lifetime out.',
    (Code.BREAKPOINT_NOT_TAKEN, "section"): "Remove it there, and set one in a section where this model accepts it.",
    (Code.BREAKPOINT_NOT_TAKEN, "model"): "Send no cache breakpoints to this model.",
    (Code.BREAKPOINT_NOT_TAKEN, "other-api"): "Remove it, and use the breakpoints of the API that is called.",
    (Code.BREAKPOINT_NOT_TAKEN, "inside-result"): "Set it on the tool result itself, after its content.",
    (Code.BREAKPOINT_NOT_TAKEN, "automatic-cache"): "Leave it out: this cache takes what repeats by itself.",
    (Code.PROMPT_UNDER_MINIMUM, "unmarked"): (
        "Put more of what stays the same at the beginning, or leave it: so short a prompt costs little."
    ),
    (Code.CACHE_SETTING, "key-too-long"): "Shorten the key, to a hash of it for one.",
    (Code.CACHE_SETTING, "retention-shorter"): "Leave prompt_cache_retention out, or ask for 24h.",
    (Code.CACHE_SETTING, "retention-replaced"): "Use prompt_cache_options instead, or leave it out.",
    (Code.CACHE_SETTING, "reasoning-not-returned"): (
        'Ask for include: ["reasoning.encrypted_content"] and send reasoning items back, or store responses.'
    ),
    (Code.CACHE_SETTING, "truncation"): "Compact before the window is full, and leave truncation out.",
    (Code.CACHE_SETTING, "cached-content-beside"): (
        "Put system instruction, tools and tool config into the cached content, and leave them out of the request."
    ),
    (Code.VARYING_TEXT_IN_PREFIX, "date"): "Freeze the date when the session starts, or put it behind the history.",
    (Code.VARYING_TEXT_IN_PREFIX, "clock"): "Leave the time out, or put it behind the history.",
    (Code.VARYING_TEXT_IN_PREFIX, "directory"): "Put paths behind what all projects share, or behind the history.",
    (Code.VARYING_TEXT_IN_PREFIX, "repository"): (
        "Take the state of the repository once a session, and tell changes behind the history."
    ),
}


class Problem(Struct, frozen=True):
    """One thing that could not be read or did not fit. `line` counts from 1, `byte` from 0."""

    code: str
    message: str
    file: str | None = None
    line: int | None = None
    byte: int | None = None

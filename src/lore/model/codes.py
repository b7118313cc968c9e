"""Finding codes: a promise. A code never changes its meaning; a new meaning gets a new code.

LORE1xx prefix, LORE2xx transcript and fold, LORE3xx prediction against bill, LORE4xx budgets. LORE101 to
LORE135 follow the catalogue of known causes in its own numbering; its rows that bytes cannot show are
`NOT_SHOWN`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

CauseKind: TypeAlias = Literal["expected", "waste", "unattributable"]
Severity: TypeAlias = Literal["error", "warning", "note"]

SEVERITY: dict[CauseKind, Severity] = {"waste": "error", "unattributable": "warning", "expected": "note"}


class Code(NamedTuple):
    """A code's name, what kind of cause it is, and the fix in one imperative sentence."""

    name: str
    kind: CauseKind
    fix: str


CODES: dict[str, Code] = {
    "LORE100": Code("prefix-moved", "waste", "Keep what was already sent as it is, and append instead."),
    "LORE101": Code(
        "date-in-prefix", "waste", "Freeze the date at session start, or move it into the tail of the prompt."
    ),
    "LORE102": Code("tools-reordered", "waste", "Sort tools by name when they are registered."),
    "LORE103": Code("tools-added-or-removed", "waste", "Freeze the tool list before the first turn of a session."),
    "LORE104": Code("tool-definition-changed", "waste", "Keep text that changes out of tool descriptions."),
    "LORE105": Code("key-order-changed", "waste", "Write JSON with one fixed key order, or replay the recorded text."),
    "LORE106": Code("serialisation-changed", "unattributable", "Write requests with one JSON serialiser, one setting."),
    "LORE107": Code(
        "billing-header-changed",
        "waste",
        "Switch the billing header off (CLAUDE_CODE_ATTRIBUTION_HEADER=0), or strip it in the proxy.",
    ),
    "LORE108": Code("id-in-prefix", "waste", "Move ids of requests, processes and files into headers or the tail."),
    "LORE109": Code(
        "token-reminder-in-prefix", "waste", "Move token counts into the tail, or switch the reminder off."
    ),
    "LORE110": Code(
        "git-status-in-prefix",
        "waste",
        "Take the state of a repository once a session, and tell later changes in the tail.",
    ),
    "LORE111": Code("reminder-moved", "waste", "Leave reminders where they were sent, and append new ones."),
    "LORE112": Code("content-shape-changed", "unattributable", "Always write message content as an array of blocks."),
    "LORE113": Code(
        "lookback-exceeded",
        "unattributable",
        "Keep a second breakpoint where the last one of the turn before stood, or set one after fewer blocks.",
    ),
    "LORE114": Code(
        "breakpoints-missing",
        "unattributable",
        "Set a cache breakpoint behind a prefix of at least the model's minimum, or ask for automatic caching.",
    ),
    "LORE115": Code("thinking-changed", "waste", "Send thinking back as it came, and drop it only when you compact."),
    "LORE117": Code(
        "tool-result-rewritten",
        "waste",
        "Shorten tool results when they are created; clear old ones seldom, and many at once.",
    ),
    "LORE118": Code(
        "image-changed", "waste", "Keep the encoded bytes of an image, and remove images only when you compact."
    ),
    "LORE119": Code("model-changed", "expected", "Give work for another model to a subagent with its own prompt."),
    "LORE120": Code(
        "generation-settings-changed",
        "waste",
        "Keep effort, thinking budget, verbosity, speed and service tier for the whole session.",
    ),
    "LORE121": Code("tool-choice-changed", "waste", "Leave tool_choice alone, and ask for a tool in words."),
    "LORE122": Code(
        "request-features-changed",
        "unattributable",
        "Freeze beta headers and request features when the session starts.",
    ),
    "LORE123": Code(
        "resume-rerendered", "waste", "Store the prompt as it was rendered, and send that again after a resume."
    ),
    "LORE124": Code(
        "deferred-tools-loaded",
        "waste",
        "Append discovered tools in messages (tool_reference, tool_addition), not to the tool list.",
    ),
    "LORE125": Code("compaction", "expected", "Compact seldom and much: each compaction pays for the prompt anew."),
    "LORE126": Code(
        "memory-in-prefix",
        "waste",
        "Put memory and retrieved context behind the history, or freeze it for the session.",
    ),
    "LORE127": Code("first-message-rewritten", "waste", "Render the first message once, and send it again as it was."),
    "LORE128": Code("cache-expired", "expected", "Ask for a longer cache lifetime if pauses like this are common."),
    "LORE129": Code("parallel-start", "expected", "Send one request first and the others once its response has begun."),
    "LORE131": Code("endpoint-changed", "unattributable", "Keep a conversation at one host, region and key."),
    "LORE132": Code(
        "continuation",
        "expected",
        "Record from the first request of a conversation, with responses, to judge it whole.",
    ),
    "LORE133": Code(
        "tail-without-breakpoint", "waste", "Set one explicit breakpoint at the end of what stays the same."
    ),
    "LORE134": Code(
        "lifetime-lost", "waste", "Let the gateway pass on the lifetime (ttl, beta headers) that clients ask for."
    ),
    "LORE135": Code(
        "output-schema-changed", "waste", "Keep one output schema for the session, or move it into a tool."
    ),
    "LORE143": Code("rewind", "expected", "Nothing to do: history was taken back on purpose."),
    "LORE144": Code("cache-reset", "expected", "Nothing to do: the prefix was given up on purpose."),
    "LORE145": Code("session-changed", "expected", "Change system prompt and tools between sessions where you can."),
    "LORE146": Code(
        "change-after-last-breakpoint", "expected", "Nothing to do: the change is behind the last cache breakpoint."
    ),
    "LORE147": Code(
        "late-tool-result",
        "waste",
        "Start turns after calls have results, or bring late results as new messages.",
    ),
    "LORE148": Code(
        "breakpoints-far-apart",
        "unattributable",
        "Keep the breakpoint of the turn before, or send fewer blocks at a time.",
    ),
    "LORE149": Code(
        "text-after-tool-result",
        "unattributable",
        "Put a program's own text into the message that carries the results, or give it the system role.",
    ),
    "LORE150": Code(
        "orphan-tool-pair", "unattributable", "Send each call together with its result, and drop both together."
    ),
    "LORE151": Code(
        "volatile-before-history", "unattributable", "Move clocks, ids and token counts behind the history."
    ),
    "LORE152": Code("too-many-breakpoints", "waste", "Set at most four cache breakpoints."),
    "LORE153": Code(
        "breakpoint-on-volatile", "unattributable", "Set the breakpoint on the last block that stays the same."
    ),
    "LORE154": Code(
        "chain-restarted", "expected", "Nothing to do: a request without tools began a conversation of its own."
    ),
    "LORE155": Code(
        "older-entry-served", "expected", "Nothing to do: an entry that was just written cannot be read at once."
    ),
    "LORE201": Code("unreadable-line", "waste", "Record the session again, or repair the line."),
    "LORE202": Code("torn-last-line", "unattributable", "Nothing to do if the session is still being written."),
    "LORE203": Code("unknown-record", "expected", "Nothing to do: the record is kept, and counted."),
    "LORE204": Code("unknown-id", "unattributable", "Record sessions from their beginning, in the order of events."),
    "LORE205": Code("duplicate-uuid", "unattributable", "Give every item its own uuid."),
    "LORE206": Code("dangling-parent", "unattributable", "Record sessions from their beginning."),
    "LORE207": Code("malformed-record", "waste", "Write the record as the format says."),
    "LORE208": Code(
        "preserved-items-missing", "unattributable", "Record what a compaction keeps before it is applied."
    ),
    "LORE209": Code("joined-lines", "expected", "End every record with a line feed."),
    "LORE210": Code(
        "request-not-judged", "unattributable", "Record requests in a shape that lore knows, or leave them out."
    ),
    "LORE211": Code("dialect-not-written", "unattributable", "Choose a dialect that lore writes with --dialect."),
    "LORE212": Code("bad-header", "unattributable", "Begin a log with one session_started record, version 1."),
    "LORE213": Code("turn-out-of-order", "unattributable", "Number turns upwards and close the one that is open."),
    "LORE214": Code(
        "unreadable-delta",
        "unattributable",
        "Write deltas before the turn that sends them, as {target: messages, insert_at: n}.",
    ),
    "LORE215": Code("unreadable-file", "unattributable", "Make the file readable, or leave it out."),
    "LORE216": Code("not-assembled", "unattributable", "Run the command again: this version assembles all parts."),
    "LORE217": Code("line-too-long", "waste", "Find out what wrote the line, and record the session without it."),
    "LORE218": Code("duplicate-tool-names", "waste", "Give every tool a name of its own: providers refuse such lists."),
    "LORE219": Code(
        "context-left-out", "unattributable", "Begin turns after a message of the user or a tool's result."
    ),
    "LORE220": Code(
        "capture-too-large", "waste", "Leave large downloads out of the capture, or split it into smaller ones."
    ),
    "LORE221": Code(
        "cassette-refused", "waste", "Record the cassette again with plain YAML: no tags, few anchors, no deep nesting."
    ),
    "LORE222": Code("undecodable-request", "unattributable", "Record request bodies uncompressed and whole, as JSON."),
    "LORE223": Code(
        "request-not-kept", "unattributable", "Keep request bodies inside the capture, not in files beside it."
    ),
    "LORE224": Code(
        "undecodable-response", "expected", "Record responses uncompressed, so that what was billed can be read."
    ),
    "LORE225": Code(
        "archive-refused", "unattributable", "Record it again, or unpack the file yourself and name what is in it."
    ),
    "LORE226": Code(
        "response-without-request", "unattributable", "Keep both files of a pair, under the names they were given."
    ),
    "LORE227": Code(
        "body-cut", "unattributable", "Let Claude Code write bodies to files: OTEL_LOG_RAW_API_BODIES=file:DIR."
    ),
    "LORE228": Code(
        "content-not-recorded", "unattributable", "Switch on the recording of content where the recorder is set up."
    ),
    "LORE301": Code(
        "billed-read-fell", "unattributable", "Compare with the provider's verdict and with other sessions."
    ),
    "LORE302": Code(
        "verdict-disagrees", "unattributable", "Compare the three columns, and record the request whole on the wire."
    ),
    "LORE303": Code(
        "bill-contradicts-body",
        "unattributable",
        "Record the body that the provider got, uncut, and the bill of that same request.",
    ),
    "LORE304": Code(
        "read-short-of-prediction",
        "unattributable",
        "Compare with other sessions of that time, and keep one host, key and cache key for requests that begin alike.",
    ),
    "LORE305": Code(
        "writes-never-read", "unattributable", "Leave cache breakpoints out, or set them where the next turn will read."
    ),
    "LORE306": Code(
        "prompt-under-minimum",
        "unattributable",
        "Leave the cache breakpoints out, or put more of what stays the same before them.",
    ),
    "LORE401": Code("reuse-below-budget", "waste", "Mend the cache breaks named above, or lower check.min_reuse."),
    "LORE402": Code("breaks-above-budget", "waste", "Mend the cache breaks named above, or raise check.max_breaks."),
    "LORE403": Code(
        "lost-tokens-above-budget", "waste", "Mend the cache breaks named above, or raise check.max_lost_tokens."
    ),
    "LORE404": Code("exemption-unused", "waste", "Remove the exemption: what it excused is mended."),
    "LORE405": Code("baseline-stale", "expected", "Write the baseline anew with --update-baseline: it is shorter now."),
}

# Rows of the catalogue that bytes cannot show: each has a page that says why, and which code stands for it.
NOT_SHOWN: dict[str, str] = {
    "LORE116": "reasoning-dropped-by-template",
    "LORE130": "server-side-miss",
}

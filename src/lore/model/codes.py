"""Finding codes: a promise. A code never changes its meaning; a new meaning gets a new code.

LORE1xx prefix, LORE2xx transcript and fold, LORE3xx prediction against bill, LORE4xx budgets. LORE101 to
LORE135 follow the catalogue of known causes in its own numbering, so gaps are causes yet to come.
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
    "LORE108": Code("id-in-prefix", "waste", "Move ids of requests, processes and files into headers or the tail."),
    "LORE109": Code(
        "token-reminder-in-prefix", "waste", "Move token counts into the tail, or switch the reminder off."
    ),
    "LORE112": Code("content-shape-changed", "unattributable", "Always write message content as an array of blocks."),
    "LORE117": Code(
        "tool-result-rewritten",
        "waste",
        "Shorten tool results when they are created; clear old ones seldom, and many at once.",
    ),
    "LORE119": Code("model-changed", "expected", "Give work for another model to a subagent with its own prompt."),
    "LORE125": Code("compaction", "expected", "Compact seldom and much: each compaction pays for the prompt anew."),
    "LORE128": Code("cache-expired", "expected", "Ask for a longer cache lifetime if pauses like this are common."),
    "LORE143": Code("rewind", "expected", "Nothing to do: history was taken back on purpose."),
    "LORE144": Code("cache-reset", "expected", "Nothing to do: the prefix was given up on purpose."),
    "LORE145": Code("session-changed", "expected", "Change system prompt and tools between sessions where you can."),
    "LORE146": Code("change-after-last-mark", "expected", "Nothing to do: the change is behind the last cache mark."),
    "LORE147": Code(
        "late-tool-result",
        "waste",
        "Start turns after calls have results, or bring late results as new messages.",
    ),
    "LORE148": Code(
        "marks-far-apart", "unattributable", "Keep the mark of the turn before, or send fewer blocks at a time."
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
    "LORE301": Code(
        "billed-read-fell", "unattributable", "Compare with the provider's verdict and with other sessions."
    ),
    "LORE401": Code("reuse-below-budget", "waste", "Mend the busts named above, or lower check.min_reuse."),
    "LORE402": Code("busts-above-budget", "waste", "Mend the busts named above, or raise check.max_busts."),
    "LORE403": Code("lost-tokens-above-budget", "waste", "Mend the busts named above, or raise check.max_lost_tokens."),
}

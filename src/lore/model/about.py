"""What a finding code is: its number, its name, its kind, who can act on it and how.

Rules: a code never changes its meaning, a new meaning gets a new code; a member of `Code` is its code's name in
capitals, and is equal to the code's text. The tables are in `lore.model.codes`, which also hands these on.
"""

from __future__ import annotations

from enum import StrEnum, unique
from typing import Literal, NamedTuple, TypeAlias

CauseKind: TypeAlias = Literal["expected", "waste", "unattributable"]
Severity: TypeAlias = Literal["error", "warning", "note"]
Actor: TypeAlias = Literal["author", "user", "provider", "nobody"]
Reader: TypeAlias = Literal["author", "user"]
CauseSection: TypeAlias = Literal["tools", "system", "messages", "model", "parameters", "time", "outside"]


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


@unique
class Code(StrEnum):
    """Every code of lore, by its name."""

    PREFIX_MOVED = "LORE100"
    DATE_IN_PREFIX = "LORE101"
    TOOLS_REORDERED = "LORE102"
    TOOLS_ADDED_OR_REMOVED = "LORE103"
    TOOL_DEFINITION_CHANGED = "LORE104"
    KEY_ORDER_CHANGED = "LORE105"
    SERIALISATION_CHANGED = "LORE106"
    BILLING_HEADER_CHANGED = "LORE107"
    ID_IN_PREFIX = "LORE108"
    TOKEN_REMINDER_IN_PREFIX = "LORE109"  # noqa: S105  (no secret: a reminder of tokens)
    GIT_STATUS_IN_PREFIX = "LORE110"
    REMINDER_MOVED = "LORE111"
    CONTENT_SHAPE_CHANGED = "LORE112"
    LOOKBACK_EXCEEDED = "LORE113"
    BREAKPOINTS_MISSING = "LORE114"
    THINKING_CHANGED = "LORE115"
    TOOL_RESULT_REWRITTEN = "LORE117"
    IMAGE_CHANGED = "LORE118"
    MODEL_CHANGED = "LORE119"
    GENERATION_SETTINGS_CHANGED = "LORE120"
    TOOL_CHOICE_CHANGED = "LORE121"
    REQUEST_FEATURES_CHANGED = "LORE122"
    RESUME_RERENDERED = "LORE123"
    DEFERRED_TOOLS_LOADED = "LORE124"
    COMPACTION = "LORE125"
    MEMORY_IN_PREFIX = "LORE126"
    FIRST_MESSAGE_REWRITTEN = "LORE127"
    CACHE_EXPIRED = "LORE128"
    PARALLEL_START = "LORE129"
    ENDPOINT_CHANGED = "LORE131"
    CONTINUATION = "LORE132"
    TAIL_WITHOUT_BREAKPOINT = "LORE133"
    LIFETIME_LOST = "LORE134"
    OUTPUT_SCHEMA_CHANGED = "LORE135"
    REWIND = "LORE143"
    CACHE_RESET = "LORE144"
    SESSION_CHANGED = "LORE145"
    CHANGE_AFTER_LAST_BREAKPOINT = "LORE146"
    LATE_TOOL_RESULT = "LORE147"
    BREAKPOINTS_FAR_APART = "LORE148"
    TEXT_AFTER_TOOL_RESULT = "LORE149"
    ORPHAN_TOOL_PAIR = "LORE150"
    VOLATILE_BEFORE_HISTORY = "LORE151"
    TOO_MANY_BREAKPOINTS = "LORE152"
    BREAKPOINT_ON_VOLATILE = "LORE153"
    CHAIN_RESTARTED = "LORE154"
    OLDER_ENTRY_SERVED = "LORE155"
    TAIL_REPLACED = "LORE156"
    CLIENT_UPDATED = "LORE157"
    HOOK_TEXT_MOVED = "LORE158"
    CLIENT_CAUSE_UNKNOWN = "LORE159"
    IDLE_WITHIN_LIFETIME = "LORE160"
    SKILL_LOADED = "LORE161"
    SLASH_COMMAND = "LORE162"
    INTERRUPTED = "LORE163"
    ERROR_BETWEEN = "LORE164"
    PERMISSION_MODE_CHANGED = "LORE165"
    SERVER_INSTRUCTIONS_CHANGED = "LORE166"
    UNREADABLE_LINE = "LORE201"
    TORN_LAST_LINE = "LORE202"
    UNKNOWN_RECORD = "LORE203"
    UNKNOWN_ID = "LORE204"
    DUPLICATE_UUID = "LORE205"
    DANGLING_PARENT = "LORE206"
    MALFORMED_RECORD = "LORE207"
    PRESERVED_ITEMS_MISSING = "LORE208"
    JOINED_LINES = "LORE209"
    REQUEST_NOT_JUDGED = "LORE210"
    DIALECT_NOT_WRITTEN = "LORE211"
    BAD_HEADER = "LORE212"
    TURN_OUT_OF_ORDER = "LORE213"
    UNREADABLE_DELTA = "LORE214"
    UNREADABLE_FILE = "LORE215"
    NOT_ASSEMBLED = "LORE216"
    LINE_TOO_LONG = "LORE217"
    DUPLICATE_TOOL_NAMES = "LORE218"
    CONTEXT_LEFT_OUT = "LORE219"
    CAPTURE_TOO_LARGE = "LORE220"
    CASSETTE_REFUSED = "LORE221"
    UNDECODABLE_REQUEST = "LORE222"
    REQUEST_NOT_KEPT = "LORE223"
    UNDECODABLE_RESPONSE = "LORE224"
    ARCHIVE_REFUSED = "LORE225"
    RESPONSE_WITHOUT_REQUEST = "LORE226"
    BODY_CUT = "LORE227"
    CONTENT_NOT_RECORDED = "LORE228"
    BILLED_READ_FELL = "LORE301"
    VERDICT_DISAGREES = "LORE302"
    BILL_CONTRADICTS_BODY = "LORE303"
    READ_SHORT_OF_PREDICTION = "LORE304"
    WRITES_NEVER_READ = "LORE305"
    PROMPT_UNDER_MINIMUM = "LORE306"
    REUSE_BELOW_BUDGET = "LORE401"
    BREAKS_ABOVE_BUDGET = "LORE402"
    LOST_TOKENS_ABOVE_BUDGET = "LORE403"
    EXEMPTION_UNUSED = "LORE404"
    BASELINE_STALE = "LORE405"

"""Finding codes, their facts that hold for every recording, and the problems of reading one.

A promise: a code never changes its meaning; a new meaning gets a new code. `Code` names each code for the rest of lore;
`data/codes.toml` has its facts, which `CODES` maps by code. A plug-in adds rows of its own to `CODES`.
"""

from __future__ import annotations

from collections import UserDict
from functools import cached_property
from typing import Literal, TypeAlias

from msgspec import Struct

from lore.model.deferred import read_table

CauseKind: TypeAlias = Literal["expected", "waste", "unattributable"]
Severity: TypeAlias = Literal["error", "warning", "note"]
Actor: TypeAlias = Literal["author", "user", "provider", "nobody"]
Audience: TypeAlias = Literal["author", "user"]  # the audience for fixes
CauseSection: TypeAlias = Literal["tools", "system", "messages", "model", "parameters", "time", "outside"]

SEVERITY: dict[CauseKind, Severity] = {"waste": "error", "unattributable": "warning", "expected": "note"}


class CodeFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """The facts that hold for every finding of a code.

    CODES["ACME1"] = CodeFacts("acme-header", "waste", "Send the Acme header first.")
    """

    name: str  # in words joined by hyphens
    kind: CauseKind  # of its findings, unless the finding says otherwise
    fix: str  # one imperative sentence for the agent's author
    fix_user: str = ""  # the same for the agent's user; empty: `fix`
    actor: Actor = "author"  # who can prevent it
    section: CauseSection | None = None  # the section that the code implies; None: it depends on the finding
    user_reports: bool = False  # the user can only report it
    fix_done: str = ""  # the fix if the recording already does what `fix` recommends
    fixes: dict[str, str] = {}  # more precise fixes, by what the evidence names; the user's: NAME-user
    short: str = ""  # what happened, in a few words
    short_named: str = ""  # the same with the names from the evidence at {}
    short_unsure: str = ""  # what happened, if no cause is certain
    tip: str = ""  # what the user does, in a few words
    lead: str = ""  # how the message of a finding begins
    about: str = ""  # what its findings are about if not a cache break: request, recording or settings


class Code:
    """The text of every code of lore, by its name: `Code.COMPACTION`. Not an enumeration: making one takes 4 ms."""

    # LORE1xx, the prefix
    PREFIX_MOVED = "LORE100"
    DATE_IN_PREFIX = "LORE101"
    TOOLS_REORDERED = "LORE102"
    TOOLS_ADDED_OR_REMOVED = "LORE103"
    TOOL_DEFINITION_CHANGED = "LORE104"
    KEY_ORDER_CHANGED = "LORE105"
    SERIALISATION_CHANGED = "LORE106"
    BILLING_HEADER_CHANGED = "LORE107"
    ID_IN_PREFIX = "LORE108"
    TOKEN_REMINDER_IN_PREFIX = "LORE109"  # noqa: S105
    GIT_STATUS_IN_PREFIX = "LORE110"
    REMINDER_MOVED = "LORE111"
    CONTENT_SHAPE_CHANGED = "LORE112"
    LOOKBACK_EXCEEDED = "LORE113"
    BREAKPOINTS_MISSING = "LORE114"
    THINKING_CHANGED = "LORE115"
    REASONING_DROPPED_BY_TEMPLATE = "LORE116"
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
    SERVER_SIDE_MISS = "LORE130"
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
    SKILL_LOADED = "LORE161"
    SLASH_COMMAND = "LORE162"
    INTERRUPTED = "LORE163"
    ERROR_BETWEEN = "LORE164"
    PERMISSION_MODE_CHANGED = "LORE165"
    SERVER_INSTRUCTIONS_CHANGED = "LORE166"
    CLIENT_RESTARTED = "LORE167"
    ANSWER_WITHOUT_THINKING = "LORE168"
    ROUTED_ELSEWHERE = "LORE170"
    COLD_COMPACTION = "LORE171"
    SHARED_BLOCK_UNMARKED = "LORE172"
    BREAKPOINT_NOT_TAKEN = "LORE180"
    LIFETIMES_OUT_OF_ORDER = "LORE181"
    VARYING_TEXT_IN_PREFIX = "LORE182"
    TOOLS_UNSORTED = "LORE183"
    IMAGE_BEFORE_TEXT = "LORE184"
    CACHE_KEY_MISSING = "LORE185"
    CACHE_SETTING = "LORE186"
    # LORE2xx, what could not be read or folded
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
    FIELDS_FILLED_IN = "LORE229"
    ENGINES_MIXED = "LORE230"
    CALL_FAILED = "LORE231"
    # LORE3xx, predictions against usage
    BILLED_READ_FELL = "LORE301"
    VERDICT_DISAGREES = "LORE302"
    BILL_CONTRADICTS_BODY = "LORE303"
    READ_SHORT_OF_PREDICTION = "LORE304"
    WRITES_NEVER_READ = "LORE305"
    PROMPT_UNDER_MINIMUM = "LORE306"
    READ_PLATEAU = "LORE307"
    # LORE4xx, budgets, exemptions, baselines
    REUSE_BELOW_BUDGET = "LORE401"
    BREAKS_ABOVE_BUDGET = "LORE402"
    LOST_TOKENS_ABOVE_BUDGET = "LORE403"
    EXEMPTION_UNUSED = "LORE404"
    BASELINE_STALE = "LORE405"


UNEXPLAINED = (Code.BILLED_READ_FELL, Code.SERVER_SIDE_MISS)  # a read fell, and no cause was found


class _CodeTable(UserDict[str, CodeFacts]):
    """The rows of `data/codes.toml`, read at the first use."""

    def __init__(self) -> None:  # not UserDict's, which makes an empty table
        pass

    @cached_property
    def data(self) -> dict[str, CodeFacts]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return read_table(dict[str, CodeFacts], "lore.model", "codes.json")


CODES = _CodeTable()


def actor_of(code: str, kind: CauseKind, audience: Audience = "author") -> Actor:
    """Return who can act on a finding: "nobody" if it is expected or its code is unknown.

    For a user who has a fix of their own, this is "user" although the author could act, too; of a recording without a
    user, such as a cassette, it is never "user".
    """
    facts = CODES.get(code)
    if kind == "expected" or facts is None:
        return "nobody"
    has_own_fix = facts.actor == "user" or (facts.fix_user not in ("", facts.fix) and not facts.user_reports)
    return audience if facts.actor in ("author", "user") and has_own_fix else facts.actor


def kind_in_words(kind: CauseKind, code: str = "") -> str:
    """Return what people read for a kind: of a cause "waste", "expected" or "no certain cause".

    Findings of other codes have no cause of a cache break: they are about a request, a recording or the settings.
    """
    about = CODES[code].about if code in CODES else ""
    return about or ("no certain cause" if kind == "unattributable" else kind)


def fix_of(code: str, audience: Audience, kind: CauseKind | None = None, detail: str = "") -> str:
    """Return the fix for this audience, the author's if the code has none for users; `detail` selects a precise one.

    If content was removed, and nothing shows what (`kind` unattributable), advice about tool results or images may be
    wrong: the fix is then to record request bodies, which show it. Raises KeyError for an unknown code.
    """
    is_unsure = kind == "unattributable" and code in (Code.TOOL_RESULT_REWRITTEN, Code.IMAGE_CHANGED)
    facts = CODES[Code.CLIENT_CAUSE_UNKNOWN if is_unsure else code]
    special = facts.fixes.get(detail) if audience == "author" else facts.fixes.get(f"{detail}-user", facts.fix_user)
    return special or facts.fix


class Problem(Struct, frozen=True):
    """Something in a recording that could not be read or did not fit."""

    code: str  # a code of LORE2xx
    message: str  # one sentence
    file: str | None = None  # as the report names it
    line: int | None = None  # counted from 1
    byte: int | None = None  # counted from 0

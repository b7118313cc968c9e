"""The catalogue: every rule of the judge, in the order in which the rules are asked.

A stage is a table of rules that are asked together; `STAGES` has them in their order. The loops of `judge` and
`pairs.verdict` run over these tables, so the order of the rows is the order of the questions. Each row has the codes
that it may report, what is asked, and why: a count, or a source. Figures without a source are from `facts/measured.md`:
958 drops of over 1,000 tokens in 38,782 transitions of 769 Claude Code sessions, with 1 % of all reads falling. "Right"
counts findings that were checked by hand (`facts/predictions.md`, `facts/verdicts.md`).

To add a cause: one row here, its evidence struct in `lore.model.evidence` (and its union `Evidence`) with a function
that finds it, and a test. `src/lore/README.md` lists what a new code needs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lore.judge.chains import starts
from lore.judge.pairs import corrections, outside, unexplained
from lore.judge.pairs import finders as find
from lore.judge.pairs.corrections import PairMeasures
from lore.judge.pairs.pair import PairFacts, find_dispute
from lore.judge.requests.laws import Laws
from lore.judge.runs.plateaus import Beginnings, Plateaus, Siblings, UncachedParts
from lore.judge.runs.reads import ShortReads, UnreadWrites
from lore.model import evidence as e
from lore.model.cause import Cause, RuledOut, Strength
from lore.model.codes import CODES, CauseKind, Code
from lore.prefix import causes, fields, texts, tools

Check: TypeAlias = Callable[[PairFacts, Cause], bool]
Row = TypeVar("Row", bound="Step | EvidenceRule")


class Step(Struct, frozen=True):
    """A rule that is not about one kind of evidence."""

    codes: tuple[str, ...]  # those it may report; none: it changes the causes that others report
    ask: Callable[..., Any]  # a function of the arguments that its stage's loop has; in CHAINS, RECORDINGS a `TurnRule`
    why: str  # a count, or the source
    recorded: bool = False  # in CHAINS: only asked about requests that were recorded, not rebuilt from a log


class EvidenceRule(Struct, frozen=True):
    """A rule of a pair: one kind of evidence, and the cause that it explains."""

    code: str  # the cause; a finder that returns a whole cause names it itself
    find: Callable[[PairFacts], e.Evidence | Cause | None]  # returns the evidence if the recording shows it
    why: str  # how often reads fell with this evidence, or were right to be explained by it, and the source
    strength: Strength = "strong"
    confirmed_by: tuple[Check, ...] = ()  # second kinds of evidence: any of them makes a weak cause strong, and waste
    ruled_out_by: Callable[[PairFacts], RuledOut | None] | None = None  # what the read itself shows against it
    kind: CauseKind | None = None  # the kind, if it is not the code's
    others: tuple[str, ...] = ()  # causes that a finder which returns a whole cause may name instead

    @property
    def codes(self) -> tuple[str, ...]:
        return (self.code, *self.others)

    def explain(self, facts: PairFacts) -> Cause | None:
        """Return the cause if there is evidence for it; it is only waste if that is strong, or weak and confirmed."""
        cause = self.find(facts)
        if cause is None:
            return None
        if not isinstance(cause, Cause):
            cause = Cause(self.code, CODES[self.code].section, cause)
        is_waste = CODES[cause.code].kind == "waste"
        if any(confirms(facts, cause) for confirms in self.confirmed_by):
            return replace(cause, strength="strong", override=self.kind or (None if is_waste else "waste"))
        match cause.evidence:  # its numbers fit badly, are missing, or the provider may have removed the content
            case e.ReasoningDropped(exact=is_sure) | e.HookText(exact=is_sure):
                is_doubtful = not is_sure
            case e.ThinkingOmitted():
                is_doubtful = cause.evidence.tokens_before is None
            case e.TotalShrank():
                is_doubtful = cause.evidence.unsure
            case _:
                is_doubtful = False
        strength = "weak" if is_doubtful else self.strength
        kind = self.kind or ("unattributable" if strength == "weak" and is_waste else None)
        return replace(cause, strength=strength, override=kind or cause.override)


class Stage(Struct, Generic[Row], frozen=True):
    """Rules that are asked together."""

    name: str
    when: str  # they are asked
    rows: tuple[Row, ...]


_HEAD_READ, _HEAD_MISSED = find.head_was_read, find.head_was_missed

SUMMARY_REQUESTS = Stage("summaries", "of each recorded request; a verdict replaces that of its own chain", (
    Step((Code.COLD_COMPACTION,), starts.compare_with_summarised,
         "A request for a summary that sends the conversation otherwise reads nothing of it (page of LORE171)."),
))  # fmt: skip
FIRST_TURNS = Stage("first turns", "of the first turn of a chain, if it continues no other; the first that applies", (
    Step(starts.BY_CHANCE, starts.compare_heads,
         "A program's requests share a head: without a clock, an id, a count or an order in it, one reads another's."),
    Step((Code.COLD_COMPACTION,), starts.compare_log_summary,
         "A log's request for a summary within five minutes that reads less than half of what its conversation left."),
    Step((Code.PARALLEL_START,), starts.compare_parallel,
         "An entry can be read once the response that writes it has begun (platform.claude.com, prompt caching)."),
))  # fmt: skip

SHAPES = Stage("shapes", "of each pair; the first that applies is its only cause", (
    EvidenceRule(Code.CHAIN_RESTARTED, find.find_restart,
        "A chain that another one continues without its tools is the same conversation (`lore.prefix.chains`).",
        "certain"),
    EvidenceRule(Code.COLD_COMPACTION, find.find_cold_compaction,
        "A summary of a conversation that begins differently reads no more than both share (page of LORE171)."),
    EvidenceRule(Code.COMPACTION, find.find_rewritten_history,
        "Messages became fewer, and a summary or the user's other words are in their place (`rewrites`).",
        "certain", others=(Code.REWIND,)),
    EvidenceRule(Code.MODEL_CHANGED, partial(find.find_other_api, cause="model"),
        "No model reads what another one cached.", "certain"),
    EvidenceRule(Code.ENDPOINT_CHANGED, partial(find.find_other_api, cause="provider"),
        "Caches are separate for each provider (facts/caches.md, B.1); the log names both.", kind="expected"),
    EvidenceRule(Code.ENDPOINT_CHANGED, partial(find.find_other_api, cause="api"),
        "Two APIs spell one conversation differently, so that nothing of it is equal."),
))  # fmt: skip

# `prefix.causes.find_causes` asks, as it compares section by section.
BYTES = Stage("bytes", "of each pair without such a cause; all that apply", (
    Step(causes.EXPECTED, causes.recorded_causes,
         "The log records the event, which entitles the prompt to differ."),
    Step((Code.GENERATION_SETTINGS_CHANGED, Code.TOOL_CHOICE_CHANGED, Code.REQUEST_FEATURES_CHANGED,
          Code.OUTPUT_SCHEMA_CHANGED), fields.explain_params,
         "Fields that are rendered into the prompt, or select its cache (facts/caches.md)."),
    Step((Code.CONTINUATION, Code.CHANGE_AFTER_LAST_BREAKPOINT, Code.TAIL_WITHOUT_BREAKPOINT,
          Code.FIRST_MESSAGE_REWRITTEN, Code.RESUME_RERENDERED, Code.BILLING_HEADER_CHANGED), causes.find_causes,
         "Where the prompts part, and what precedes: no start, no breakpoint, a loaded session."),
    Step((Code.TOOLS_REORDERED, Code.TOOLS_ADDED_OR_REMOVED, Code.TOOL_DEFINITION_CHANGED,
          Code.DEFERRED_TOOLS_LOADED), tools.explain_tools,
         "Tools are compared as a set, by name (public issue threads: `prefix.causes`)."),
    Step((Code.CONTENT_SHAPE_CHANGED, Code.KEY_ORDER_CHANGED, Code.SERIALISATION_CHANGED, Code.MEMORY_IN_PREFIX,
          Code.GIT_STATUS_IN_PREFIX), texts.name_segment_spelling,
         "Equal content in another spelling; text that is known by its labels."),
    Step((Code.PREFIX_MOVED, Code.DATE_IN_PREFIX, Code.ID_IN_PREFIX, Code.TOKEN_REMINDER_IN_PREFIX,
          Code.REMINDER_MOVED, Code.THINKING_CHANGED, Code.TOOL_RESULT_REWRITTEN, Code.IMAGE_CHANGED,
          Code.LATE_TOOL_RESULT), causes.explain_sections,
         "Content that is equal once the varying word, block or place is masked (public issue threads)."),
))  # fmt: skip

# The rows of a fallen read that also explain a break in the bytes.

EXPIRED = EvidenceRule(Code.CACHE_EXPIRED, outside.find_expiry,
    "411 of 958 drops. Of five-minute entries 7 % outlived 2 % of grace, of one-hour entries 2 of 108.",
    ruled_out_by=find.old_entry_was_read)  # fmt: skip
POSSIBLY_EXPIRED = EvidenceRule(Code.CACHE_EXPIRED, outside.find_possible_expiry,
    "411 of 958 drops; neither usage nor the provider's documents show how long the entries live. After over an hour 7 "
    "of 7 reads fell in OpenAI's caches up to GPT-5.5, which promise 24 hours at most; after 5 to 15 minutes 5 of 33 "
    "fell by over 80 %, after 1 to 5 minutes 3 of 83.",
    "weak", ruled_out_by=find.old_entry_was_read)  # fmt: skip
PARALLEL = EvidenceRule(Code.PARALLEL_START, outside.find_parallel_start,
    "An entry can be read once the response that writes it has begun (platform.claude.com, prompt caching).",
)  # fmt: skip
OTHER_ENDPOINT = EvidenceRule(Code.ENDPOINT_CHANGED, outside.find_other_endpoint,
    "Caches are separate for each host, workspace and key (facts/caches.md, B.1 and B.6).")  # fmt: skip
OTHER_PROVIDER = EvidenceRule(Code.ENDPOINT_CHANGED, find.find_other_provider,
    "Caches are separate for each provider (facts/caches.md, B.1); the log names both.", kind="expected")  # fmt: skip
NAMED_ROUTE = EvidenceRule(Code.ROUTED_ELSEWHERE, outside.find_named_route,
    "5 of 5 right in captures (facts/predictions.md): the router's field, or another provider's call ids.")  # fmt: skip
DROPPED_BREAKPOINTS = EvidenceRule(Code.BREAKPOINTS_MISSING, find.find_dropped_breakpoints,
    "A cache that needs breakpoints looks for entries from each of them backwards (platform.claude.com), and the marks "
    "of both requests are recorded.", kind="waste")  # fmt: skip
OMITTED_REASONING = EvidenceRule(Code.REASONING_DROPPED_BY_TEMPLATE, find.find_dropped_reasoning,
    "352 of 573 fell at a new prompt, in Codex (`cache.falls`). Weak if more was read than precedes the reasoning.",
    ruled_out_by=_HEAD_MISSED)  # fmt: skip
MISSING_ANSWERS = EvidenceRule(Code.ROUTED_ELSEWHERE, outside.find_missing_answers,
    "11 of 11 misses past the lookback were this (facts/verdicts.md), but a recording may be cut.", "weak")  # fmt: skip


def _weak(
    code: str, signal: str, why: str, ruled_out_by: Callable[[PairFacts], RuledOut | None] | None = None, *,
    kind: CauseKind | None = None, confirmed_by: tuple[Check, ...] = (),
) -> EvidenceRule:  # fmt: skip
    """Return the row of a signal of the log that alone is weak evidence."""
    return EvidenceRule(code, partial(find.find_signal, signal), why, "weak", confirmed_by, ruled_out_by, kind=kind)


FALLS = Stage("falls", "if usage shows a fall that bytes do not explain; the first strong row leads", (
    EvidenceRule(Code.MODEL_CHANGED, find.find_other_model, "11 of 958 drops; no model reads what another one cached."),
    EXPIRED,
    PARALLEL,
    OTHER_PROVIDER,
    OTHER_ENDPOINT,
    NAMED_ROUTE,
    EvidenceRule(Code.COMPACTION, find.find_provider_edit,
        "The response lists the edits, or holds a summary that only the provider can read (facts/verdicts.md, 9).",
        ruled_out_by=_HEAD_MISSED),
    EvidenceRule(Code.COMPACTION, find.find_provider_cut,
        "Fewer tokens were billed for a longer prompt, and the request allows that; no word of the response says so.",
        "weak", ruled_out_by=_HEAD_MISSED),
    EvidenceRule(Code.TOOL_RESULT_REWRITTEN, lambda facts: next(
            (e.RecordedChange(event.cause, event.detail) for event in facts.current.changes
             if event.cause == Code.TOOL_RESULT_REWRITTEN), None),
        "8 of 8 micro-compactions that name results fell; of those that name none 4 of 12."),
    *[EvidenceRule(code, partial(find.find_moved_hashes, section), "The client's own hashes differ.", ruled_out_by=out)
      for code, section, out in (
          (Code.TOOLS_ADDED_OR_REMOVED, "tools", _HEAD_READ), (Code.PREFIX_MOVED, "system", _HEAD_READ),
          (Code.PREFIX_MOVED, "messages", _HEAD_MISSED),
      )],
    EvidenceRule(Code.CLIENT_UPDATED, partial(find.find_signal, "client-version"),
        "2 of 2 fell; a new version has another system prompt. 2 of 2 right (facts/predictions.md).",
        ruled_out_by=_HEAD_READ),
    EvidenceRule(Code.GENERATION_SETTINGS_CHANGED, partial(find.find_signal, "effort"),
        "3 of 3 fell; each effort has cache entries of its own. 3 of 3 right (facts/predictions.md)."),
    EvidenceRule(Code.GENERATION_SETTINGS_CHANGED, find.find_other_speed,
        "Fast mode has cache entries of its own for system prompt and messages (platform.claude.com, fast mode).",
        ruled_out_by=_HEAD_READ),
    EvidenceRule(Code.GENERATION_SETTINGS_CHANGED, partial(find.find_signal, "thinking"),
        "36 of 249 falls that nothing else explained (facts/predictions.md), 105 of 113 with a skill, command or plan "
        "(`formats.claude.records`): each setting has entries of its own."),
    EvidenceRule(Code.GENERATION_SETTINGS_CHANGED, partial(find.find_signal, "streaming"),
        "23 of 23 fell, each to what the last request of the same kind left: 399 public sessions of Claude Code, which "
        "asks without streaming after errors.", kind="expected", ruled_out_by=outside.other_kind_was_read),
    EvidenceRule(Code.HOOK_TEXT_MOVED, partial(find.find_hook_text, "hook-context"),
        "41 of 42 fell at a new prompt of the user (facts/verdicts.md, 7). 38 of 40 right (facts/predictions.md). Weak "
        "if the read does not end at the hook's text.",
        confirmed_by=(find.verdict_agrees, find.lookback_missed_hook), ruled_out_by=_HEAD_MISSED),
    EvidenceRule(Code.HOOK_TEXT_MOVED, partial(find.find_hook_text, "preview-context"),
        "The same, by a hook of the desktop app that no settings switch off (anthropics/claude-code#51587).",
        confirmed_by=(find.verdict_agrees, find.lookback_missed_hook), ruled_out_by=_HEAD_MISSED,
        kind="expected"),
    OMITTED_REASONING,
    EvidenceRule(Code.REASONING_DROPPED_BY_TEMPLATE, find.find_template_drop,
        "Chat templates of Qwen3, DeepSeek V3.1, GLM-4.5, Kimi K2 and gpt-oss omit what the model thought before the "
        "user's latest prompt. Weak if the read does not end at the first of it."),
    EvidenceRule(Code.REASONING_DROPPED_BY_TEMPLATE, find.find_dropped_thinking,
        "16 of 40 prompts that shrank (facts/predictions.md): models that omit earlier thinking (`drops_thinking`). "
        "Weak if the prompt grew by more.", ruled_out_by=_HEAD_MISSED),
    EvidenceRule(Code.REWIND, lambda facts: None if facts.state is None or facts.state.unchanged == facts.state.entries
        else e.HistoryShrank(facts.state.unchanged, facts.state.entries),
        "The history of the log is shorter than it was, or differs from some entry on.", ruled_out_by=_HEAD_MISSED),
    EvidenceRule(Code.CLIENT_RESTARTED, partial(find.find_signal, "restart"),
        "7 of 8 fell with tool servers still connecting (facts/verdicts.md, 6). 18 of 21 right (facts/predictions.md).",
        "weak", ruled_out_by=_HEAD_READ,
        confirmed_by=(
            find.surely_restarted, find.read_head_alone, find.fell_each_time, find.verdict_agrees,
        )),
    EvidenceRule(Code.RESUME_RERENDERED, find.find_resume,
        "67 % fell in Claude Code; in Codex 117 of 236, and 123 of 233 without it (facts/predictions.md). If its "
        "prompt shrank, or the provider says that the client changed it, it was rendered again.",
        "weak", confirmed_by=(lambda facts, _: find.find_removed(facts) is not None, find.verdict_agrees)),
    _weak(Code.TOOLS_ADDED_OR_REMOVED, "tools-delta",
        "10 of 67 fell: deferred tools are outside the prefix, and whatever changes the head leaves the same read.",
        _HEAD_READ, confirmed_by=(find.fell_each_time, find.verdict_agrees, find.lacks_removed_tools)),
    EvidenceRule(Code.CLIENT_CAUSE_UNKNOWN, find.find_removed,
        "78 of 78 prompts that shrank by over 1,000 tokens fell (facts/verdicts.md, 1), 4 of 4 by 128 to 1,000. 16 of "
        "40 that were called cleared results were it (facts/predictions.md). Weak if the provider may omit content.",
        others=(Code.SESSION_CHANGED, Code.TOOL_RESULT_REWRITTEN)),
    EvidenceRule(Code.TOOL_RESULT_REWRITTEN, find.find_cleared_content,
        "9 of 958 drops; of micro-compactions that name no result 4 of 12 fell. Images are cleared without a name.",
        "weak", confirmed_by=(find.verdict_agrees,), ruled_out_by=_HEAD_MISSED, others=(Code.IMAGE_CHANGED,)),
    EvidenceRule(Code.IMAGE_CHANGED, partial(find.find_first_image, in_log=False),
        "The first image makes all messages new to the cache (platform.claude.com, prompt caching).",
        kind="expected"),
    EvidenceRule(Code.OLDER_ENTRY_SERVED, outside.find_older_entry,
        "21 of 958 drops: 8 of 50 within 2.5 seconds, 0 of 139 at 3 to 10 seconds."),
    MISSING_ANSWERS,
    DROPPED_BREAKPOINTS,
    EvidenceRule(Code.LOOKBACK_EXCEEDED, partial(find.find_far_entry, is_sure=True),
        "8 of 9 requests with 21 or more new positions missed, 5 of 5 with 16 to 20 did not.",
        kind="waste", ruled_out_by=_HEAD_MISSED),
    EvidenceRule(Code.LOOKBACK_EXCEEDED, partial(find.find_far_entry, is_sure=False),
        "0 of 11 right if answers between the two are missing (facts/verdicts.md): their requests had breakpoints. Or "
        "exactly 20 positions, with which other requests read.",
        "weak", ruled_out_by=_HEAD_MISSED),
    EvidenceRule(Code.DEFERRED_TOOLS_LOADED, partial(find.find_counted_signal, "tool-reference"),
        "20 of 21 fell from 2.1.119 to 2.1.207, 1 of 28 later (facts/verdicts.md, 7). 22 of 22 right "
        "(facts/predictions.md), 22 of 22 fell in 348 other sessions, 5 of 5 in 480 more. In older versions 2 of 11.",
        "weak", ruled_out_by=_HEAD_READ,
        confirmed_by=(find.fell_in_most, find.read_head_alone, find.fell_each_time, find.verdict_agrees)),
    EvidenceRule(Code.ANSWER_WITHOUT_THINKING, partial(find.find_counted_signal, "no-thinking"),
        "26 of 27 fell at a new prompt, Opus and Sonnet 4.5 (facts/verdicts.md, 7).",
        "weak", confirmed_by=(find.fell_each_time, find.verdict_agrees), ruled_out_by=_HEAD_MISSED),
    EvidenceRule(Code.ANSWER_WITHOUT_THINKING,
        lambda facts: facts.signal("first-without-thinking", is_delayed=False) and e.FirstWithoutThinking(),
        "23 of 23 fell, 22 of them to the head: Claude Code 2.1.32 to 2.1.37 with Opus 4.6 (facts/predictions.md).",
        "weak", confirmed_by=(find.read_head_alone, find.verdict_agrees)),
    EvidenceRule(Code.CLIENT_CAUSE_UNKNOWN,
        lambda facts: facts.signal("teammate", is_delayed=False) and e.SignSeen("teammate"),
        "52 of 55 second and third requests and second prompts of teammates fell, all to the head: Claude Code 2.1.39 "
        "to 2.1.42. Of their other requests 9 of 986 fell, of other sessions of that project 3 of 380.", "weak"),
    EvidenceRule(Code.SKILL_LOADED, find.find_delayed_skill,
        "31 of 42 fell at the prompt after the skill, before 2.1.59 (facts/verdicts.md, 7). 13 of 15 right "
        "(facts/predictions.md).",
        "weak", ruled_out_by=_HEAD_MISSED,
        confirmed_by=(lambda facts, _: find.read_ends_at(facts, facts.signal("skill")),)),
    _weak(Code.TOOLS_ADDED_OR_REMOVED, "remote-control", "2 of 2 fell in Claude Code 2.1.199 and 2.1.217, to 0.",
        _HEAD_READ, confirmed_by=(find.verdict_agrees,)),
    POSSIBLY_EXPIRED,
    _weak(Code.ERROR_BETWEEN, "api-error", "9 of 18 fell."),
    _weak(Code.SLASH_COMMAND, "slash-command", "23 of 52 fell.", _HEAD_MISSED),
    EvidenceRule(Code.IMAGE_CHANGED, partial(find.find_first_image, in_log=True),
        "The same of a log, whose requests may differ in more: 2 of 16 images at a prompt fell, 0 of 66 in results "
        "(facts/verdicts.md). It leaves tools and system prompt alone.", "weak",
        ruled_out_by=lambda facts: _HEAD_READ(facts) or _HEAD_MISSED(facts)),
    _weak(Code.DATE_IN_PREFIX, "date", "0 of 3 fell."),
    _weak(Code.MEMORY_IN_PREFIX, "memory", "19 % fell at a new prompt, 9.5 % without it."),
    _weak(Code.SESSION_CHANGED, "instructions", "19 % fell at a new prompt, 9.5 % without.", kind="unattributable"),
    _weak(Code.PERMISSION_MODE_CHANGED, "permission-mode", "8 of 32 fell.", _HEAD_READ),
    _weak(Code.INTERRUPTED, "interrupt", "19 of 100 fell.", _HEAD_MISSED),
    _weak(Code.SERVER_INSTRUCTIONS_CHANGED, "instructions-delta",
        "15 % fell. 3 of 3 that were called a restart were a server that dropped out (facts/predictions.md).",
        _HEAD_READ, confirmed_by=(find.verdict_agrees,)),
    _weak(Code.SKILL_LOADED, "skill", "25 of 958 drops; 14 % fell.", _HEAD_MISSED),
))  # fmt: skip

# What the clock says if the log's history is not the one that was sent.
BY_CLOCK = (EXPIRED, PARALLEL, POSSIBLY_EXPIRED)
# A break in the bytes that cost nothing: by the clock, the entry was gone or not written yet.
EXCUSED_BY_CLOCK = (EXPIRED, PARALLEL)
# Another place whose cache was asked; the routes only if the read fell.
ROUTES = (NAMED_ROUTE, MISSING_ANSWERS)

UNEXPLAINED_FALLS = Stage("unexplained falls", "if no row applies", (
    Step((Code.BILLED_READ_FELL, Code.SERVER_SIDE_MISS), unexplained.unexplained,
         "9.5 % of reads at a new prompt of the user fell and 1 % of the others, without evidence of any cause."),
))  # fmt: skip

RECONSIDERED = Stage("reconsidered", "of each pair, in turn, after the provider's verdict", (
    Step((Code.MODEL_CHANGED,), corrections.name_refusal,
         "Claude Code asks another model after a refusal, and logs it."),
    Step((Code.CACHE_EXPIRED,),
         partial(corrections.lead_with, explain=EXPIRED.explain, outranks=corrections.expiry_outranks),
         "If the entry had expired, another model or a compaction lost nothing more."),
    Step((Code.BREAKPOINTS_MISSING,),
         partial(corrections.lead_with, explain=DROPPED_BREAKPOINTS.explain,
                 outranks=corrections.missing_breakpoints_outrank),
         "Without breakpoints in the request nothing could be read, whatever else changed."),
    Step((Code.TOOLS_ADDED_OR_REMOVED, Code.PREFIX_MOVED), corrections.add_hashes,
         "The client's own hashes show what differs where its log does not."),
))  # fmt: skip


def _remark(
    code: str, find: Callable[[PairMeasures, tuple[Cause, ...]], e.Evidence | None], why: str, *, once: bool = False,
    unless: str | None = None,
) -> Step:  # fmt: skip
    """Return a step that adds a cause which is reported although nothing was lost, if usages can be compared.

    `once`: it is reported once a chain; `unless`: it is not looked for if the chain has this remark.
    """

    def ask(measures: PairMeasures, causes: tuple[Cause, ...]) -> tuple[Cause, ...]:
        facts, reported = measures.facts, measures.remarks.reported
        is_asked = facts.comparable and not (once and code in reported) and unless not in reported
        evidence = find(measures, causes) if is_asked else None
        if evidence is None:
            return causes
        reported.add(code)
        return (*causes, Cause(code, CODES[code].section, evidence, facts.overlap.common))

    return Step((code,), ask, why)


ADJUSTMENTS = Stage("adjustments", "of each pair whose bytes are measured, in turn", (
    Step((), corrections.explain_by_shape,
         "A read that ends where only the shape of content changed (anthropics/claude-code#93490)."),
    Step((Code.CHANGE_AFTER_LAST_BREAKPOINT,), corrections.mark_within_block,
         "Caches keep whole blocks (`cache.counts.block_tokens`): a part of one was never cached."),
    _remark(Code.LIFETIME_LOST, corrections.find_lost_lifetime,
         "Every breakpoint asks for an hour and only five minutes were billed (`cache.counts`): a gateway dropped it.",
         once=True),
    _remark(Code.BILL_CONTRADICTS_BODY, corrections.find_contradicted_body,
         "More tokens than bytes, writes without a breakpoint: such usage is of another request (`cache.counts`).",
         once=True),
    _remark(Code.LOOKBACK_EXCEEDED, corrections.find_far_breakpoint,
         "8 of 9 requests with 21 or more new positions missed, 5 of 5 with 16 to 20 did not; no usage shows this."),
    _remark(Code.VERDICT_DISAGREES,
        lambda measured, causes: find_dispute(
            measured.facts, causes, (measured.sums.common + measured.facts.overlap.common_bytes) / measured.per_token),
         "Right about the section in 175 of 175: a verdict that bytes or usage contradict is worth a look.",
         unless=Code.BILL_CONTRADICTS_BODY),
    Step((), corrections.mark_nothing_lost, "Usage that reads the whole previous prompt shows that no byte mattered."),
    Step((Code.TAIL_REPLACED, Code.BREAKPOINT_ON_VOLATILE), corrections.add_tail,
         "Agents end each request with text that the next one lacks (`rewrites`); a breakpoint on it is never read."),
))  # fmt: skip

ANSWERS = Stage("answers", "of each pair of recorded requests", (
    Step((), corrections.explain_answer,
         "Engines keep what they generate: an answer sent back otherwise is computed again (llama.cpp, vLLM reports)."),
))  # fmt: skip
CORRECTIONS = Stage("corrections", "of each pair, in turn", (
    Step((), corrections.drop_loss_below_minimum,
         "Providers cache no prompt below a minimum, and nothing without a breakpoint if they need one (dated rules)."),
    Step((), corrections.drop_unread_below_minimum, "The same of a log that read nothing (dated rules)."),
    Step((), corrections.excuse_small_loss, "A loss below a block of the cache, or 1 % of the prompt, costs nothing."),
    Step((), corrections.add_prices, "Dated prices (`lore.cache.rules`)."),
    Step((), corrections.mark_alternating, "A value that alternates keeps two caches, each used in turn."),
))  # fmt: skip

CHAINS = Stage("chains", "of each turn, and at the end of its chain", (
    Step((Code.READ_PLATEAU,), Plateaus,
         "A llama.cpp server read 4,867 tokens in each of nine requests whose prompts grew to 22,100."),
    Step((Code.READ_PLATEAU,), UncachedParts,
         "A gateway neither read nor wrote 29,000 tokens of tools and system prompt in 296 of 296 requests."),
    Step((Code.BILLING_HEADER_CHANGED, Code.BREAKPOINT_ON_VOLATILE, Code.VOLATILE_BEFORE_HISTORY,
          Code.TOO_MANY_BREAKPOINTS, Code.BREAKPOINT_NOT_TAKEN, Code.LIFETIMES_OUT_OF_ORDER, Code.CACHE_SETTING,
          Code.PROMPT_UNDER_MINIMUM, Code.TEXT_AFTER_TOOL_RESULT, Code.ORPHAN_TOOL_PAIR, Code.BREAKPOINTS_MISSING,
          Code.BREAKPOINTS_FAR_APART, Code.VARYING_TEXT_IN_PREFIX, Code.TOOLS_UNSORTED, Code.IMAGE_BEFORE_TEXT,
          Code.CACHE_KEY_MISSING), Laws,
         "What providers refuse or ignore: sources in `requests`. Asks `lint` of the first request.", recorded=True),
    Step((Code.READ_SHORT_OF_PREDICTION,), ShortReads,
         "A sure prediction far above the read, and no other explanation; 96 % of captures agree (`make bench`).",
         recorded=True),
    Step((Code.WRITES_NEVER_READ,), UnreadWrites,
         "Writes cost 1.25 or 2 times the input (prices): two that nothing reads within their lifetime are waste.",
         recorded=True),
))  # fmt: skip
RECORDINGS = Stage("recordings", "of the first recorded request of each chain, and at the end of the recording", (
    Step((Code.SHARED_BLOCK_UNMARKED,), Siblings,
         "A request reads what an earlier one wrote at a breakpoint, nothing in between (their documentation)."),
    Step((Code.READ_PLATEAU,), Beginnings,
         "vllm-ascend 0.26 with blocks of 4,096 tokens read nothing of 2,000 that all requests share."),
))  # fmt: skip

# In the order in which they are asked.
STAGES = (
    SUMMARY_REQUESTS, SHAPES, BYTES, FALLS, UNEXPLAINED_FALLS, RECONSIDERED, ADJUSTMENTS, ANSWERS, FIRST_TURNS,
    CORRECTIONS, CHAINS, RECORDINGS,
)  # fmt: skip

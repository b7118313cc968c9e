"""Find evidence in the facts of two turns: in the shape of the prompts, the log, and the token counts.

A finder is called by its row in `lore.judge.rules`, which names the cause that the evidence explains, how strongly, and
how often that was right. It returns the evidence, or None if the recording does not show it; or a whole `Cause`, if the
code depends on what was found. `outside` has the finders of the clock, endpoints and providers. The last two groups
have the functions of `ruled_out_by` and `confirmed_by` in the rows.

A `Sign` is a fact that the log notes between two requests; a `Signal`, which the predictor makes of it, also has the
place of its text in the history.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from lore.cache import counts
from lore.cache.falls import find_fall, version_of
from lore.cache.lookback import POSITIONS, is_claude, kind_of, lookback_gap, lookback_rule
from lore.cache.served import normal_name
from lore.judge.pairs import outside
from lore.judge.pairs.pair import ESTIMATE_FACTOR, PairFacts, can_lead, provider_cause
from lore.judge.pairs.rewrites import find_rewrite, find_sealed_summary
from lore.judge.requests.request_laws import needs_breakpoints
from lore.model import differences as d
from lore.model import evidence as e
from lore.model.cause import Cause, RuledOut
from lore.model.codes import Code
from lore.model.items import ImageBlock
from lore.model.providers import is_same_model, without_platform
from lore.model.turn import Prompt, Segment
from lore.prefix.likeness import mark_answers
from lore.prefix.overlap import byte_size
from lore.prefix.purpose import asks_for_summary, begins_user_turn, quoted_share

if TYPE_CHECKING:
    from lore.cache.transcript_signals import Signal

_TOOLS_COUNTED = (2, 1, 119)  # the version of Claude Code from which falls after a tool search were counted
SHRANK = 1_000  # tokens: a prompt that shrank by more had tool results removed, if it had some
_UNCOUNTED = 2_500  # tokens that Gemini counts in some requests alone, in addition to thoughts
_WITHOUT_REASONING = 0.95  # of a prompt that is left at least if it lacks reasoning (6 of 6 in GLM-5.1: 0.96 to 0.99)
_WHOLE = 0.9  # the share of a conversation's texts from which on a request for a summary sends all of it
_ONLY_WITH_BREAKPOINTS = frozenset(("interrupt", "permission-mode"))  # in Codex 7 of 31 fell, 181 of 730 without them
_SETTERS = frozenset(("/effort", "/model", "/config", "/clear"))  # commands after which a user's own choice may differ
_LEAST_BYTES = 2  # of a token of a tool's result
_SHRANK_AT_ALL = 128  # tokens: a log's prompt that shrank by more had something removed, as a history only grows


# the shape of two requests


def find_restart(facts: PairFacts) -> Cause | None:
    """Return the cause if the current chain continues the previous one, which ended, without its tools."""
    previous, current = facts.previous, facts.current
    if previous.chain == current.chain or current.given_up != previous.chain:
        return None
    return Cause(Code.CHAIN_RESTARTED, "tools", e.ChainRestarted(previous.prompt.tool_count), facts.overlap.common)


def find_rewritten_history(facts: PairFacts) -> Cause | None:
    """Return the compaction or rewind that the messages of two recorded requests show."""
    before, after, overlap = facts.previous.prompt, facts.current.prompt, facts.overlap
    if overlap.is_covered or facts.current.changes or facts.current.is_rebuilt or facts.current.fidelity == "rendered":
        return None
    sealed = find_sealed_summary(before, after, before.messages.common(after.messages))
    return sealed or find_rewrite(before, after, overlap.common, is_conversation=facts.is_conversation)


def find_other_api(facts: PairFacts, cause: Literal["model", "provider", "api"]) -> e.Evidence | None:
    """Return evidence that the requests went to different APIs, for one reason: `cause`.

    `model`: another model is asked; `provider`: the log names another provider; `api`: no reason is looked for.
    """
    before, after = facts.previous.prompt, facts.current.prompt
    if before.dialect == after.dialect:
        return None
    if cause == "model":
        is_same = without_platform(before.model) == without_platform(after.model)
        return None if is_same else e.ModelChanged(before.model, after.model)
    if cause == "provider":
        return find_other_provider(facts)
    return e.Rerouted(endpoint_before=before.dialect, endpoint_after=after.dialect)


def find_cold_compaction(facts: PairFacts) -> Cause | None:
    """Return the cause if the current request asks for a summary of the previous one and reads too little of it.

    It begins differently (other tools, another system prompt) and reads no more than both share, or its last breakpoint
    is at an earlier place.
    """
    previous, current, usage = facts.previous, facts.current, facts.current.usage
    if previous.chain == current.chain or not facts.fell or usage is None or current.basis is not None:
        return None
    if not asks_for_summary(current.prompt, current.call):
        return None
    read, cached = counts.first_pass_read(usage) or 0, counts.cached(previous.usage) or 0
    # tokens that a request of this length could have read right after the conversation
    warm = cached if usage.first_pass.uncached_tokens is None else min(cached, counts.prompt_tokens(usage.first_pass))
    # less than half was read, or no more than the head that both share
    is_little = read <= counts.TOLERANCE_TOKENS or 2 * read < warm or _is_within_head(facts, read)
    is_little = is_little and warm - read > counts.TOLERANCE_TOKENS
    marks = previous.prompt.breakpoints, current.prompt.breakpoints
    if all(marks) and facts.overlap.common > marks[0][-1]:  # everything that was to be cached is in this one, too
        differs = ("breakpoints",) if marks[1][-1] < marks[0][-1] else ()
    elif facts.overlap.is_covered or not is_little:
        differs = ()
    else:
        heads = [
            {name: [part.data for part in turn.prompt.head if part.section == name] for name in ("tools", "system")}
            for turn in (previous, current)
        ]
        differs = tuple([name for name, parts in heads[0].items() if parts != heads[1][name]]) or ("messages",)
    if not differs or outside.find_expiry(facts) is not None or outside.find_parallel_start(facts) is not None:
        return None
    sizes = [sum(part.kind == "envelope" for part in turn.prompt.messages) for turn in (previous, current)]
    if sizes[0] <= sizes[1] and quoted_share(previous.prompt, current.prompt) > _WHOLE:
        warm = cached  # it sends the whole conversation, after a shorter head
    evidence = e.ColdCompaction(differs, cached, read, warm)
    return Cause(Code.COLD_COMPACTION, "messages", evidence, facts.overlap.common, strength="strong")


def _is_within_head(facts: PairFacts, read: int) -> bool:
    """Return whether a read is no more than the tools and system prompt that two recorded requests share."""
    prompt = facts.previous.prompt
    shared, size = sum(map(byte_size, prompt.head[: facts.overlap.common])), sum(map(byte_size, prompt))
    tokens_per_byte = counts.prompt_tokens(facts.previous.usage) / max(1, size)
    return read <= shared * tokens_per_byte * ESTIMATE_FACTOR + counts.TOLERANCE_TOKENS


# the prompt


def find_other_model(facts: PairFacts) -> e.ModelChanged | None:
    """Return evidence that another model answered, or another dated snapshot of the model that both requests name."""
    before, after = facts.previous.answering_model, facts.current.answering_model
    if before is None or after is None:
        return None
    if without_platform(before) != without_platform(after):
        return e.ModelChanged(before, after)
    before, after = facts.previous.call.model, facts.current.call.model
    is_moved = bool(before and after) and not is_same_model(before, after)
    return e.ModelChanged(before, after, facts.current.model) if is_moved else None


def find_other_speed(facts: PairFacts) -> d.ParameterChanged | None:
    """Return evidence that the usage of a log names different speeds for the two answers."""
    before, after = (usage.speed if usage else "" for usage in (facts.previous.usage, facts.current.usage))
    if facts.current.basis is None or not before or not after or before == after:
        return None
    return d.ParameterChanged("speed", before, after, "generation", "claude", "system")


def find_moved_hashes(section: str, facts: PairFacts) -> Cause | None:
    """Return the cause if the client's hashes of a section differ, with other causes in it as secondary ones."""
    lead, *others = [cause for cause in facts.hash_causes if cause.section == section] or (None,)
    return lead if lead is None else replace(lead, also=tuple(filter(None, others)))


def find_far_entry(facts: PairFacts, *, is_sure: bool) -> e.LookbackExceeded | None:
    """Return evidence that no breakpoint of the current request reaches the last cache entry.

    It is unsure if answers between the two are missing, whose requests may have written nearer entries, or if exactly
    as many positions are new as the cache looks back. With `is_sure` only sure evidence is returned, else only unsure.
    """
    state = facts.state
    if state is not None:
        if state.new_positions <= POSITIONS or lookback_rule(facts.current.at).runs:
            return None
        evidence = e.LookbackExceeded(state.new_positions, POSITIONS, facts.fell)
    elif not facts.comparable or facts.current.is_rebuilt:
        return None
    else:
        evidence = measure_lookback(facts)
    if evidence is None or outside.find_named_route(facts) is not None:
        return None
    is_far = evidence.positions > evidence.allowed and outside.find_missing_answers(facts) is None
    return evidence if is_far == is_sure else None


def measure_lookback(facts: PairFacts) -> e.LookbackExceeded | None:
    """Return how far the last entry of a recorded request is out of the lookback; None if it is not, or unknown.

    The breakpoint itself counts by Anthropic's documentation, but entries before 16 to 20 new positions were read (5 of
    5). So exactly 20 count if usage shows a miss.
    """
    gap = lookback_gap(facts.previous.prompt, facts.current.prompt, facts.current.at)
    if gap is None or gap.new < 0 or not (gap.is_exceeded or (facts.fell and gap.new == gap.allowed == POSITIONS)):
        return None
    return e.LookbackExceeded(gap.new, gap.allowed, facts.fell or None)


def find_dropped_breakpoints(facts: PairFacts) -> Cause | None:
    """Return the cause if a recorded request lacks the breakpoints up to which the previous one was cached.

    A gateway may set breakpoints that the recording does not have: then something is read or written without one.
    """
    if any(turn.is_rebuilt or turn.fidelity == "structural" for turn in (facts.previous, facts.current)):
        return None  # before a prompt is made
    previous, current = facts.previous.prompt, facts.current.prompt
    old, new = previous.breakpoints, current.breakpoints
    if previous.auto_breakpoint and not new:  # a request that asks for one by itself has it on its last block
        old = (*old, previous.stable - 1)
    is_earlier = bool(old) and new[-1:] < old[-1:] and not current.auto_breakpoint
    if not is_earlier or not needs_breakpoints(facts.previous):
        return None
    if not new and facts.current.usage is not None and (facts.read or facts.current.usage.write_tokens):
        return None
    return Cause(Code.BREAKPOINTS_MISSING, None, e.BreakpointsDropped(len(old), len(new)), position=old[-1])


def find_provider_edit(facts: PairFacts) -> e.EditedByProvider | Cause | None:
    """Return the cause of a new summary by the provider, else evidence of edits or of a pass that made a summary."""
    previous, current = facts.previous, facts.current
    if current.basis is not None:
        return None
    summary = find_sealed_summary(previous.prompt, current.prompt, len(previous.prompt.messages))
    if summary is not None:
        return summary
    edits = [edit for edit in current.call.edits or () if edit.tokens != 0]
    tokens = sum(edit.tokens or 0 for edit in edits) or None
    passes = () if current.usage is None else current.usage.iterations
    kinds = [edit.kind for edit in edits] or [usage.kind for usage in passes if usage.kind == "compaction"][:1]
    return e.EditedByProvider("edits", edits=tuple(kinds), tokens=tokens) if kinds else None


def find_provider_cut(facts: PairFacts) -> e.EditedByProvider | None:
    """Return evidence that the request allows the provider to shorten the prompt, and fewer tokens were billed."""
    previous, current = facts.previous, facts.current
    if current.basis is not None or find_provider_edit(facts) is not None:
        return None
    fewer = counts.prompt_tokens(previous.usage) - counts.prompt_tokens(current.usage and current.usage.first_pass)
    params, management = current.prompt.params, current.prompt.params.get("context_management", b"")
    may_shorten = params.get("truncation") == b'"auto"' or b'"compact' in management or b'"clear_' in management
    is_cut = fewer > counts.TOLERANCE_TOKENS and facts.overlap.is_covered and may_shorten
    return e.EditedByProvider("cut", tokens=fewer) if is_cut else None


# the log


def find_signal(name: str, facts: PairFacts) -> e.SignSeen | e.ToolsAnnounced | None:
    """Return the evidence of a sign at the current turn, by its name (`model.state.SIGNS`).

    A slash command may bring an effort of its own: `/code-review medium`. The next prompt is back at the session's.
    """
    sign, command = facts.sign(name), facts.sign("slash-command") if name == "effort" else None
    if sign is None or (facts.is_implicit and name in _ONLY_WITH_BREAKPOINTS):
        return None
    names = (*sign.names, *sign.removed)
    if command is not None and not names and not _SETTERS & {*command.names}:
        names = command.names
    parts = (name.split("__", 2) for name in names)  # `mcp__SERVER__TOOL`, as clients spell it
    servers = tuple(dict.fromkeys(part[1] for part in parts if len(part) == 3 and part[0] == "mcp"))
    if sign.name == "tools-delta":
        return e.ToolsAnnounced(sign.names, sign.removed, servers)
    line = sign.line if sign.name == "resume" else None  # other signals are next to the request
    return e.SignSeen(sign.name, names, servers, sign.before or None, sign.after or None, line, sign.removed)


def find_other_provider(facts: PairFacts) -> e.Evidence | None:
    """Return evidence that the log names another provider for the current request."""
    sign = facts.sign("provider")
    is_back = sign is not None and sign.before == sign.after != ""  # it changed twice since the previous request
    return None if is_back else find_signal("provider", facts)


def find_counted_signal(name: str, facts: PairFacts) -> e.Evidence | None:
    """Return the evidence of a sign after which most reads fell, counted for this client's version and model.

    `cache.falls` has the counts. It has none for a tool search in older versions: there the sign alone is enough.
    """
    sign, state = facts.sign(name), facts.state
    if sign is None or state is None or state.implicit:
        return None
    is_counted = name != "tool-reference" or version_of(sign.version) >= _TOOLS_COUNTED
    return find_signal(name, facts) if not is_counted or fell_in_most(facts, name=name) else None


def fell_in_most(facts: PairFacts, _: Cause | None = None, *, name: str = "tool-reference") -> bool:
    """Return whether most reads after a sign fell in this version of the client, with this model."""
    sign, state = facts.sign(name), facts.state
    return sign is not None and state is not None and None is not find_fall(
        name, at_prompt=state.grown.prompted, is_first=name not in facts.tallies, version=sign.version,
        model=normal_name(facts.current.model),
    )  # fmt: skip


def find_resume(facts: PairFacts) -> e.Evidence | None:
    """Return evidence of a resumed session; None in implicit caches, where reads fall as often without it."""
    return None if facts.is_implicit else find_signal("resume", facts)


def read_ends_at(facts: PairFacts, signal: Signal | None) -> bool:
    """Return whether the read ends exactly where the text of a signal was, and after the head.

    The head, which other sessions keep in the cache, is read after any change of the history.
    """
    if signal is None:
        return False
    head = 0 if facts.state is None else facts.state.shared_head or 0
    return facts.read == signal.read_if_moved == signal.tokens_before and (facts.read or 0) > head


def find_delayed_skill(facts: PairFacts) -> e.SignSeen | None:
    """Return evidence of a skill used before the user's prompt, in versions of the client that then move its text."""
    skill, model = facts.signal("skill"), normal_name(facts.current.model)
    if skill is None or find_fall("skill", at_prompt=True, is_first=False, version=skill.version, model=model) is None:
        return None
    return e.SignSeen("skill")


# How the desktop app of Claude Code asks for a check of an edit in its preview: 7 texts of one public session.
# Source of the setting that switches it off: code.claude.com/docs/en/desktop (2026), "autoVerify".
_VERIFICATIONS = ("A preview server is running. Before ending", "No preview server is running. Before ending")


def find_hook_text(name: str, facts: PairFacts) -> e.HookText | None:
    """Return a hook's text that was in the history until the next user message, by the name of its signal."""
    hook = facts.signal(name)
    if hook is None:
        return None
    is_unreached = facts.read == hook.read_if_moved and (hook.tokens_before or 0) > (facts.read or 0)
    return e.HookText(
        hook.entries, hook.names, exact=read_ends_at(facts, hook), text=hook.text, line=hook.line,
        preview=name == "preview-context", verification=hook.text.startswith(_VERIFICATIONS),
        unreached=hook.tokens_before if is_unreached else None,
    )  # fmt: skip


def find_dropped_reasoning(facts: PairFacts, *, is_missed: bool = False) -> e.ReasoningDropped | None:
    """Return evidence of reasoning that a provider with an implicit cache left out of this prompt.

    By default the read has to reach the reasoning, which then explains the whole fall. With `is_missed` the read has to
    end before it, so that it explains only the part of the fall after it. The evidence is `exact` if the read ends at
    the reasoning, and not near the head, which other sessions keep in the cache.
    """
    read, state = facts.read, facts.state
    dropped = None if state is None else state.dropped_reasoning(read)
    if dropped is None or dropped.read_if_moved is None or read is None or state is None or not state.implicit:
        return None
    excess = read - dropped.read_if_moved
    tolerance = max(counts.DROP, counts.TOLERANCE_SHARE * dropped.read_if_moved)
    if (excess < -tolerance) != is_missed:
        return None
    after = max(0, (counts.cached(facts.previous.usage) or 0) - dropped.read_if_moved) if is_missed else None
    exact = abs(excess) <= tolerance and read >= (state.shared_head or 0) + counts.DROP
    tokens = read if excess > tolerance else dropped.read_if_moved  # the known place is an earlier one
    return e.ReasoningDropped(dropped.entries, tokens, exact, after or None)


_REASONING = (b'"reasoning_content"', b'"reasoning"', b"<think>")


def _first_reasoning(prompt: Prompt, is_reasoning: Callable[[Segment], bool]) -> tuple[int, int] | None:
    """Return how many bytes and messages precede the first reasoning since the user's prompt; None without any.

    Results of tools come first in a message that has some.
    """
    size, message, first, envelope = sum(map(byte_size, prompt.head)), 0, None, b""
    for segment, is_answer in mark_answers(prompt.messages):
        if segment.kind == "envelope":
            message, envelope = message + 1, b"" if is_answer else segment.data
        elif envelope:
            first, envelope = first if kind_of(segment, envelope) == "result" else None, b""
        if first is None and is_answer and is_reasoning(segment):
            first = size, message - 1
        size += byte_size(segment)
    return first


def find_template_drop(facts: PairFacts) -> e.ReasoningDropped | None:
    """Return evidence of recorded reasoning that a chat template omits once the user sends another prompt.

    None if the read ends before it. The tokens before it are estimated from bytes, to within 10 %.
    """
    previous, current, read = facts.previous, facts.current, facts.read
    is_chat = current.basis is None and current.dialect == "openai-chat"
    if not is_chat or read is None or not begins_user_turn(current.prompt):
        return None
    first = _first_reasoning(previous.prompt, lambda segment: any(word in segment.data for word in _REASONING))
    if first is None:
        return None
    tokens = round(counts.prompt_tokens(previous.usage) * first[0] / sum(map(byte_size, previous.prompt)))
    excess, tolerance = read - tokens, max(counts.DROP, tokens // 10)
    return None if excess < -tolerance else e.ReasoningDropped(first[1], tokens, abs(excess) <= tolerance)


def find_dropped_thinking(facts: PairFacts) -> e.Evidence | None:
    """Return evidence of thinking that a provider with breakpoints, or an unknown one, omits from the user's prompt on.

    Everything after the first omitted block is another prompt. Of an unknown provider usage has to show it: the read
    ends at the thinking, or the billed prompt shrank by little, or by no more than what followed the thinking.
    """
    dropped, state, entries = facts.signal("reasoning"), facts.state, None
    before, after = facts.totals
    has_shrunk = before is not None and after is not None and before > after
    if state is None and facts.earlier_reasoning is not None:
        entries, tokens = facts.earlier_reasoning
        if 0 <= tokens - (facts.read or 0) <= counts.block_tokens(facts.previous):
            return e.ReasoningDropped(entries, tokens, exact=True)
        is_small = has_shrunk and (after or 0) >= min(tokens, (before or 0) * _WITHOUT_REASONING)
        if not is_small or facts.current.changes:
            return None
    elif state is None and facts.omits_thinking and begins_user_turn(facts.current.prompt):
        first = _first_reasoning(facts.previous.prompt, lambda segment: kind_of(segment) == "thinking")
        entries = None if first is None else first[1]
    elif state is not None and dropped is not None and not state.implicit and state.grown.prompted:
        entries = dropped.entries
    if entries is None:
        return None
    return e.ThinkingOmitted(entries, *(facts.totals if has_shrunk else (None, None)))


def find_first_image(facts: PairFacts, *, in_log: bool) -> e.FirstImage | None:
    """Return evidence that this request has a conversation's first image: Anthropic caches messages with images apart.

    A recorded request must also have read no more than tools and system prompt. `in_log`: look only in logs.
    """
    current = facts.current
    if in_log:
        is_first = facts.sign("image") is not None and "image" not in facts.tallies
        return e.FirstImage() if is_first and facts.state is not None and not facts.state.implicit else None
    if current.is_rebuilt or not is_claude(current) or not _is_within_head(facts, facts.read or 0):
        return None
    same = facts.previous.prompt.messages.common(current.prompt.messages)
    images = [at for at, segment in enumerate(current.prompt.messages) if kind_of(segment) == "image"]
    return e.FirstImage() if images and images[0] >= same else None


# a prompt that shrank


def find_cleared_content(facts: PairFacts) -> e.Evidence | Cause | None:
    """Return evidence that the log records a clearing without names; a cause about images if the history has some.

    None if fewer tokens were billed for the prompt: then `find_removed` applies.
    """
    evidence = find_signal("micro-compaction", facts)
    if evidence is None or not _has_same_history(facts) or _shrunk_total(facts) is not None:
        return None
    entries = () if facts.current.basis is None else facts.current.basis.entries
    blocks = (block for entry in entries for block in getattr(entry.item, "blocks", None) or ())
    has_image = any(isinstance(block, ImageBlock) for block in blocks)
    return Cause(Code.IMAGE_CHANGED, "messages", evidence) if has_image else evidence


def find_removed(facts: PairFacts) -> Cause | None:
    """Return the cause if usage counts fewer tokens for a prompt although its history continues.

    The code says what was probably left out: a tool result (`TOOL_RESULT_REWRITTEN`), or an image, which Claude Code
    may send as the path of a file from the next prompt on (anthropics/claude-code#91705); another agent's head
    (`SESSION_CHANGED`); or it is unknown: below 1,000 tokens, in a read below the head, after a resume, if all results
    together are shorter. Providers of caches without breakpoints may omit content themselves: Gemini counts the
    thoughts since the user's prompt, and about 2,000 tokens more, in some requests and not in others (76 of 76 prompts
    that shrank in 8 chats; 35 had grown back by the next request).
    """
    shrunk, state = _shrunk_total(facts, _SHRANK_AT_ALL) if _has_same_history(facts) else None, facts.state
    if shrunk is None:
        return None
    removed = shrunk.tokens_before - shrunk.tokens_after
    is_implicit = state is None or state.implicit
    is_thoughts = state is not None and state.thoughts is not None and removed <= state.thoughts + _UNCOUNTED
    if is_thoughts or (is_implicit and facts.is_at_floor):
        return None
    if removed <= SHRANK:
        return None if shrunk.boundary or is_implicit else Cause(Code.CLIENT_CAUSE_UNKNOWN, None, shrunk)
    other = find_signal("instructions", facts)
    if other is not None and head_was_read(facts) is None:  # another agent has tools and a system prompt of its own
        return Cause(Code.SESSION_CHANGED, None, other)
    if head_was_missed(facts) is not None:
        return Cause(Code.CLIENT_CAUSE_UNKNOWN, None, shrunk)
    if read_ends_at(facts, facts.signal("image")):
        return Cause(Code.IMAGE_CHANGED, "messages", replace(shrunk, image=True))
    is_short = not shrunk.boundary and facts.result_bytes < removed * _LEAST_BYTES
    if is_short or find_resume(facts) is not None:
        return Cause(Code.CLIENT_CAUSE_UNKNOWN, "messages", shrunk)
    unsure = not shrunk.boundary and is_implicit and state is not None
    return Cause(Code.TOOL_RESULT_REWRITTEN, "messages", replace(shrunk, unsure=unsure))


def _shrunk_total(facts: PairFacts, least: int = SHRANK) -> e.TotalShrank | None:
    before, after = facts.totals
    if before is None or after is None or before - after <= least:
        return None
    boundary = facts.sign("micro-compaction") is not None
    return e.TotalShrank(before, after, counts.cached(facts.previous.usage) or 0, boundary=boundary)


def _has_same_history(facts: PairFacts) -> bool:
    """Return whether the log has nothing that explains a shorter prompt: a change, another model, omitted reasoning."""
    previous, current, state = facts.previous, facts.current, facts.state
    if current.basis is None or current.changes or previous.model != current.model:
        return False
    if state is not None and (state.unchanged < state.entries or state.head_changed):
        return False
    return previous.usage is not None and current.usage is not None and facts.signal("reasoning") is None


# what the read rules out


def head_was_read(facts: PairFacts) -> RuledOut | None:
    """Rule out that the head changed, if the read includes content that follows tools and system prompt.

    It reaches the breakpoint before the last, or an earlier one exactly or by far: a changed head may end a little
    after the first of them, and other sessions may keep it in the cache.
    """
    state, read = facts.state, facts.read
    if state is None or read is None:
        return None
    if state.earlier_place is not None and read >= state.earlier_place:
        place = "what the request before the last left" if state.implicit else "the breakpoint before the last"
        return RuledOut(f"the read reaches {place}", out=True, count=read, limit=state.earlier_place)
    first = state.first_place
    if first is not None and (read == first or read >= first + counts.DROP):
        place = "into the history" if state.implicit else "a breakpoint in the history"
        return RuledOut(f"the read reaches {place}", out=True, count=read, limit=first)
    return None


def head_was_missed(facts: PairFacts) -> RuledOut | None:
    """Rule out that only the history changed, if not even tools and system prompt were read.

    In caches with breakpoints these have entries of their own, which can be read after any change of a message.
    """
    state, read = facts.state, facts.read
    if state is None or read is None or (read >= (state.min_read or 0) and (read > 0 or state.implicit)):
        return None
    count, limit = (read, state.min_read) if state.min_read else (None, None)
    return RuledOut("tools and system prompt were not all read", out=True, count=count, limit=limit)


def lacks_removed_tools(facts: PairFacts, _: Cause) -> bool:
    """Return whether the prompt shrank with the tools that the log says were removed, and the head was missed."""
    sign = facts.sign("tools-delta")
    return sign is not None and bool(sign.removed) and None not in (_shrunk_total(facts), head_was_missed(facts))


def old_entry_was_read(facts: PairFacts) -> RuledOut | None:
    """Rule out expiry, if an entry older than the lifetime was read, or all that precedes dropped reasoning.

    Reads of 130,432 and 73,984 tokens, 161 and 134 less than expected, came 8 and 4 s after the ten minutes of OpenAI's
    caches: servers keep entries longer.
    """
    read, dropped = facts.read or 0, find_dropped_reasoning(facts)
    limit = None if facts.state is None else facts.state.first_expired
    if dropped is not None and dropped.exact:
        limit = read
    if limit is None or read < limit:
        return None
    return RuledOut("the read reaches a breakpoint that is as old", out=True, count=read, limit=limit)


# second kinds of evidence, each of which confirms a weak cause; all have the arguments of `rules.Check`


def verdict_agrees(facts: PairFacts, cause: Cause) -> bool:
    """Return whether the provider says that the client changed the section of the cause."""
    verdict = provider_cause(facts)
    return verdict is not None and can_lead(cause.code, cause.section, verdict.section)


def read_head_alone(facts: PairFacts, _: Cause) -> bool:
    """Return whether the read is the head that other conversations keep in the cache."""
    return facts.state is not None and facts.read is not None and facts.read == facts.state.shared_head


def fell_each_time(facts: PairFacts, cause: Cause) -> bool:
    """Return whether this session showed the cause's signal at least twice before, and its reads fell each time."""
    signal = cause.evidence.sign if isinstance(cause.evidence, e.SignSeen) else "tools-delta"
    tally = facts.tallies.get(signal)
    return tally is not None and tally.fell == tally.times >= 2


# Signals of a restart that may be something else. Tool servers that are not connected: a process began, or a server
# dropped out. A desktop app's process had ended: 8 of 14 reads fell (47 public sessions).
_AMBIGUOUS = frozenset(("pendingMcpServers", "last-prompt", "Continue from where you left off."))


def surely_restarted(facts: PairFacts, _: Cause) -> bool:
    """Return whether the log records that the client's process ended or began, or has two kinds of signals of it."""
    restart = facts.sign("restart")
    names = () if restart is None else restart.names
    others = (facts.sign(name) for name in ("resume", "client-version"))
    return len(names) > 1 or not _AMBIGUOUS.issuperset(names) or any(others)


# Signals of changes in tools and system prompt, after which the head may be all that is read.
_HEAD_SIGNALS = frozenset(
    ("client-version", "restart", "tools-delta", "instructions-delta", "remote-control", "resume")
)


def lookback_missed_hook(facts: PairFacts, cause: Cause) -> bool:
    """Return whether a hook's text is out of the lookback's reach, and no other signal explains a read of the head."""
    is_unreached = isinstance(cause.evidence, e.HookText) and cause.evidence.unreached is not None
    return is_unreached and not any(sign.name in _HEAD_SIGNALS for sign in facts.current.signs)

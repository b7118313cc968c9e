"""Sentences, made last: findings, causes and columns in words, from typed fields.

In: findings whose evidence is typed. Out: the same with their `message`. Rules: the only place that words verdicts;
nothing reads a sentence back. Texts that match a credential are masked before a sentence is made; with `redact` each
text that is content becomes its length and the beginning of its digest, field by field (`lore.model.differences`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from lore.judge.columns import BilledColumn, BytesColumn, Columns
from lore.model import evidence as e
from lore.model.codes import CODES, Code
from lore.model.differences import Fact, mapped
from lore.model.mask import mask
from lore.model.results import AlsoSeen, CauseResult, ColumnsResult, Finding
from lore.model.state import SIGNS
from lore.report.difference_sentences import DIFFERENCES

SHOWN = 5  # names of one kind
_MASK = {"content": mask, "name": mask, "path": mask, "model": mask}


def duration(seconds: float) -> str:
    """Say a time in the unit that a person would."""
    if seconds < 10 and seconds != round(seconds):
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{seconds / 3600:.1f} h"


def money_of(value: float | None) -> str:
    """Return an amount in US dollars as a person reads it."""
    if value is None:
        return "unknown"
    sign = "-" if value < 0 else ""
    return f"{sign}${abs(value):,.2f}" if abs(value) >= 0.1 or not value else f"{sign}${abs(value):,.4f}"


def listed(names: Iterable[str], most: int = SHOWN) -> str:
    """Name a few, and count the others."""
    every = list(names)
    more = f" and {len(every) - most:,} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


# what the log records


def _recorded(one: e.Recorded) -> str:
    return one.detail or CODES[one.event].name


def _sign(one: e.SignSeen) -> str:
    said = SIGNS[one.sign]
    if one.before is not None or one.after is not None:
        said += f" from {one.before or 'nothing'} to {one.after or 'nothing'}"
    return f"{said}: {listed(one.names)}" if one.names else said


def _announced(one: e.ToolsAnnounced) -> str:
    servers = len(one.servers)
    who = f"MCP server{'s' * (servers != 1)} {listed(one.servers)}" if one.servers else "the client"
    parts = [f"{word} {listed(names)}" for word, names in (("added", one.added), ("removed", one.removed)) if names]
    return f"{who} announced other tools in mid-session" + (f": {'; '.join(parts)}" if parts else "")


def _hook(one: e.HookText) -> str:
    which = f"hook {listed(one.hooks)}" if one.hooks else "a hook"
    exact = "; the bill read exactly what such a change leaves in the cache" if one.exact else ""
    return f"text of {which} stood behind entry {one.entries:,} of the history until the user spoke again{exact}"


# what clocks, shapes and bills show


def _paused(one: e.Paused) -> str:
    lives = "how long it lives is not known" if one.lifetime is None else f"the cache lives {duration(one.lifetime)}"
    within = one.lifetime is not None and one.seconds <= one.lifetime
    return f"{duration(one.seconds)} since the previous answer began; {lives}" + (" and had not expired" * within)


def _parallel(one: e.ParallelStart) -> str:
    early = duration(one.seconds)
    return f"sent {early} before the response that writes the entry began: nothing could be read yet"


def _older(one: e.OlderEntry) -> str:
    read = f"{one.read_tokens:,} tokens were read: exactly the breakpoint before the last one"
    return f"sent {duration(one.seconds)} after the previous answer began; {read}"


_SUMMARIES = {
    "is-summary": "is a summary",
    "sums-up": "is new and sums up what was said before",
    "unclear": "is new: a summary of what is gone, or a cut beside another text; its words do not say which",
}


def _summary(one: e.SummaryFound) -> str:
    became = f"{one.messages_before} messages became {one.messages_after}"
    return f"{one.path} {_SUMMARIES[one.says]}; {became}"


def _tail(one: e.TailReplaced) -> str:
    holds = f" (it holds {' and '.join(one.holds)})" if one.holds else ""
    role = f" of the {one.role} role" if one.role else ""
    again = "; the same text ends this request again" if one.repeated else ""
    follows = "another end stands" if one.retried else "the conversation went on"
    paid = "" if one.dollars_a_day is None else f", {money_of(one.dollars_a_day)} a day at this pace"
    return (
        f"{one.path}{role} ended the previous request{holds} and {follows} in its place{again}: it "
        f"costs about {one.tokens:,} tokens a turn{paid}"
    )


def _rerouted(one: e.Rerouted) -> str:
    parts: list[str] = []
    if one.host_before is not None:
        parts.append(f"host {one.host_before} became {one.host_after}")
    elif one.endpoint_before is not None:
        parts.append(f"endpoint {one.endpoint_before} became {one.endpoint_after}")
    if one.account:
        parts.append("another key was used")
    return "; ".join(parts) + ": its cache is another one"


def _lookback(one: e.LookbackExceeded) -> str:
    looked = f"{one.allowed} are looked back" if one.allowed else "only an entry at a breakpoint was read at that time"
    said = f"{one.positions} new positions stand between the last breakpoint before and the next one; {looked}"
    if one.missed_tokens:
        said += f"; the bill did not read {one.missed_tokens:,} tokens that were cached"
    return said


def _provider(one: e.ProviderSaid) -> str:
    missed = "" if one.missed_tokens is None else f", {one.missed_tokens:,} tokens missed"
    return f"the provider says {one.reason or one.other}{missed}"


_BILLS = {
    "no-breakpoint": "{} tokens are billed as written, though the body has no cache breakpoint",
    "hour-unasked": "{} tokens are billed as written for 1 hour, though no breakpoint asks for that",
    "five-minutes-unasked": "{} tokens are billed as written for 5 minutes, though every breakpoint asks for 1 hour",
    "more-tokens-than-bytes": "{} tokens are billed for a prompt of {} bytes: no token is shorter than a byte",
}


def _bill(one: e.BillUnlikeBody) -> str:
    return _BILLS[one.what].format(f"{one.tokens:,}", f"{one.bytes or 0:,}")


def _disputed(one: e.Disputed) -> str:
    tokens = f"{one.tokens or 0:,}"
    return {
        "unexplained": f"no byte that was cached changed, yet {tokens} tokens were not read again",
        "bill-reads-more": (
            f"the bytes share about {tokens} tokens, yet the bill read {one.read_tokens or 0:,}: the provider does "
            "not mind this change, or another request had sent the same beginning before"
        ),
        "same-model": f"the verdict says {one.reason}, yet both requests ask for {one.model}",
        "no-change-in-bytes": (
            f"the verdict says {one.reason}, yet nothing that was to be cached changed in the bytes"
        ),
        "nothing-missed": f"the verdict says that {tokens} tokens were missed, yet the bill read all that was cached",
        "other-section": f"the verdict says {one.reason}, yet the bytes part in the {one.section}, at {one.path}",
    }[one.what]


# what is true of a chain


def _volatile(one: e.VolatileText) -> str:
    where = "a breakpoint stands on" if one.on_breakpoint else "volatile text stands before the history:"
    return f"{where} {one.what}" + (f": {one.excerpt}" if one.excerpt else "")


def _missing(one: e.BreakpointsMissing) -> str:
    whole = f"about {one.tokens:,} tokens; this model caches from {one.minimum:,} on"
    if one.behind is None:
        return f"no cache breakpoint in a prompt of {whole}"
    return f"the last breakpoint stands behind about {one.behind:,} tokens of {whole}"


def _below_minimum(one: e.BelowMinimum) -> str:
    size = f"the prompt has {one.tokens:,} tokens" if one.counted else f"about {one.tokens:,} tokens stand up to the "
    size += "" if one.counted else "last breakpoint"
    often = f"all {one.turns} requests with breakpoints of this chain" if one.turns > 1 else "requests that begin so"
    return f"{size}; {one.minimum:,} are the fewest that {one.model} caches ({often})"


def _below_forecast(one: e.ReadBelowForecast) -> str:
    which = f"turn {one.turn}" + (f" of chain {one.chain}" if one.chain else "")
    about = "" if one.exact else "about "
    return (
        f"{about}{one.expected_tokens:,} tokens were foreseen to be read by the rules of {one.cache} ({one.reason}), "
        f"the bill read {one.read_tokens:,}; {which} used the same beginning {duration(one.seconds)} before; ruled "
        f"out: expiry, an entry that is not readable yet, model ({one.model}), breakpoints, parameters, endpoint, as "
        "far as they are recorded"
    )


def _budget(one: e.OverBudget) -> str:
    of = f" in {one.of}" if one.of else ""
    if one.what == "reuse":
        return f"{one.value:.1%} of the prompt before is reused, the budget is {one.limit:.1%}"
    what = "unexpected cache breaks" if one.what == "breaks" else "tokens lost"
    return f"{one.value:,.0f} {what}{of}, the budget is {one.limit:,.0f}"


def _unneeded(one: e.Unneeded) -> str:
    if one.what == "exemption":
        return f"nothing that {one.code} finds in {one.where} is excused by it any more ({one.reason})"
    times = f"{one.left} of {one.entries} are left" if one.left else "nothing matches it"
    return f"{one.code} {one.where}: {times}"


def _damage(one: e.Damage) -> str:
    return one.message + (f" (and {one.more:,} more like it)" if one.more else "")


def _chain_restarted(one: e.ChainRestarted) -> str:
    what = "its only tool" if one.tools == 1 else f"all {one.tools} tools"
    return f"the client dropped {what} as a new user turn began, its system prompt unchanged"


def _messages_taken_back(one: e.MessagesTakenBack) -> str:
    taken = "1 message was" if one.messages == 1 else f"{one.messages:,} messages were"
    return f"{taken} taken back, and something else was asked"


def _orphan_pair(one: e.OrphanPair) -> str:
    return f"a {one.part} without its {'result' if one.part == 'call' else 'call'}: {one.name}"


SENTENCES: dict[type[Fact], Callable[[Any], str]] = DIFFERENCES | {
    e.Told: "{0.text}".format,
    e.Damage: _damage,
    e.Recorded: _recorded,
    e.ModelChanged: "model changed from {0.before} to {0.after}".format,
    e.SignSeen: _sign,
    e.ToolsAnnounced: _announced,
    e.HookText: _hook,
    e.HistoryShrank: "history is the same in its first {0.same:,} of {0.entries:,} entries only".format,
    e.Paused: _paused,
    e.ParallelStart: _parallel,
    e.OlderEntry: _older,
    e.ChainRestarted: _chain_restarted,
    e.MessagesTakenBack: _messages_taken_back,
    e.SummaryFound: _summary,
    e.TailReplaced: _tail,
    e.Rerouted: _rerouted,
    e.LookbackExceeded: _lookback,
    e.ProviderSaid: _provider,
    e.ReadFell: (
        "{0.lost_tokens:,} of {0.cached_tokens:,} cached tokens were not read again "
        "({0.read_tokens:,} were); nothing that the recording shows explains it"
    ).format,
    e.WithinBlock: (
        "about {0.tokens:,} tokens at the end changed: less than one block of the cache "
        "({0.block_tokens}), so nothing of it could be cached"
    ).format,
    e.LifetimeLost: (
        "all {0.breakpoints} breakpoints ask for 1 hour; the bill has {0.tokens:,} tokens for 5 "
        "minutes, none for 1 hour"
    ).format,
    e.BillUnlikeBody: _bill,
    e.Disputed: _disputed,
    e.BreakpointsCount: "{0.breakpoints} cache breakpoints in one request; {0.most} are the most".format,
    e.VolatileText: _volatile,
    e.ProgramText: "a message of the user's role follows a tool's result, and no user wrote it: {0.excerpt}".format,
    e.OrphanPair: _orphan_pair,
    e.BreakpointsMissing: _missing,
    e.WritesUnread: (
        "{0.tokens:,} tokens were written to the cache by {0.turns} turns, each followed by "
        "another one while they lived, and no bill of this recording reads any of them"
    ).format,
    e.BelowMinimum: _below_minimum,
    e.ReadBelowForecast: _below_forecast,
    e.OverBudget: _budget,
    e.Unneeded: _unneeded,
}


def sentence(evidence: Fact | None) -> str:
    """Say what evidence shows."""
    return "" if evidence is None else SENTENCES[type(evidence)](evidence)


_SPELLING = "the bytes differ though the content does not; a server that decodes them may not notice"
_LEADS: dict[str, str] = {
    Code.SERIALISATION_CHANGED: _SPELLING,
    Code.CONTENT_SHAPE_CHANGED: _SPELLING,
    Code.LOOKBACK_EXCEEDED: "the last entry is out of reach of every breakpoint",
    Code.MODEL_CHANGED: "another model reads nothing of this cache",
    Code.CACHE_EXPIRED: "the cache had expired",
    Code.PARALLEL_START: "requests were sent together",
    Code.ENDPOINT_CHANGED: "the request went elsewhere",
    Code.CONTINUATION: "the prompt is partial",
    Code.LIFETIME_LOST: "the lifetime that was asked for was not billed",
    Code.CHANGE_AFTER_LAST_BREAKPOINT: "the prompt differs",
    Code.OLDER_ENTRY_SERVED: "the newest entry was not readable yet",
    Code.TAIL_REPLACED: "the end of the prompt was replaced, as expected",
    Code.CLIENT_CAUSE_UNKNOWN: "the billed read fell, and the recording does not show what changed",
    Code.BILLED_READ_FELL: "the billed read fell",
    Code.VERDICT_DISAGREES: "bytes, bill and verdict contradict one another",
    Code.BILL_CONTRADICTS_BODY: "the bill does not belong to the recorded body",
    Code.WRITES_NEVER_READ: "writes are paid for and never read",
    Code.PROMPT_UNDER_MINIMUM: "cache breakpoints that do nothing",
}
_KINDS = {
    "waste": "the prompt does not extend the one before",
    "unattributable": "the cache was not reused, and the recording does not show why",
    "expected": "the prompt starts anew, as expected",
}
_STRENGTHS = {
    "strong": "the billed read fell, and the recording shows why",
    "weak": "the billed read fell, and this was seen before it (weak evidence)",
}
_QUALIFIERS = {
    "read-all-the-same": "but the bill read all that was sent before: nothing was lost, the provider sees one text",
    "nothing-lost": "but the bill says that nothing was lost",
    "stored-otherwise": "one body was stored otherwise by its recorder",
    "another-process": "another process went on with the session",
    "after-a-pause": "the session went on after a pause",
}


def message(one: Finding) -> str:
    """Say what a finding found: what is so, what shows it, what else was seen, what was ruled out."""
    said = sentence(one.evidence) + (f" (and {one.more} more like it)" if one.more else "")
    said += f"; {one.skipped:,} more differences of this kind were not looked at one by one" if one.skipped else ""
    lead = _lead(one)
    parts = [f"{lead}: {said}" if lead and said else lead or said]
    parts += [_QUALIFIERS[name] for name in one.qualifiers if name in _QUALIFIERS]
    parts += [other.message for other in one.also if isinstance(other.evidence, e.WithinBlock)]
    also = [other for other in one.also if other.code != one.code and not isinstance(other.evidence, e.WithinBlock)]
    seen = [f"{other.name}: {other.message}" for other in also]
    parts += [f"also seen: {'; '.join(seen)}"] if seen else []
    parts += _ruled_out(one.ruled_out)
    parts += [f"{one.times} turns of this chain"] if one.times > 1 else []
    parts += ["the prompt is partial: its beginning is not recorded"] if one.partial else []
    return "; ".join(part for part in parts if part)


def _lead(one: Finding) -> str:
    if one.code == Code.TAIL_REPLACED and one.severity == "warning":
        return "the end of the prompt is replaced each turn, and longer than check.max_tail_tokens allows"
    if one.code in _LEADS and not isinstance(one.evidence, e.Damage):  # a reader's problem says it whole
        return _LEADS[one.code]
    if one.strength is None or one.code[:5] not in ("LORE1", "LORE3"):
        return ""
    if one.strength == "certain" or one.evidence is None or type(one.evidence) in DIFFERENCES:
        return _KINDS[one.kind]
    return _KINDS["expected"] if one.kind == "expected" else _STRENGTHS[one.strength]


def _ruled_out(reasons: Iterable[e.RuledOut]) -> list[str]:
    every = list(reasons)
    parts: list[str] = []
    for word, wanted in (("ruled out", True), ("not ruled out", False), ("not recorded", None)):
        some = [reason.reason + _figure(reason) for reason in every if reason.out is wanted]
        parts += [f"{word}: {', '.join(some)}"] if some else []
    return parts


def _figure(one: e.RuledOut) -> str:
    parts: list[str] = []
    if one.seconds is not None:
        parts.append(duration(one.seconds) + ("" if one.limit is None else f" of {duration(one.limit)}"))
    elif one.count is not None:
        parts.append(f"{one.count:,}" + ("" if one.limit is None else f" of {one.limit:,.0f}"))
    parts += [one.detail] if one.detail else []
    return f" ({', '.join(parts)})" if parts else ""


def worded(one: Finding, change: dict[str, Callable[[str], str]] | None = None) -> Finding:
    """Return a finding with its message, its texts masked; `change` replaces texts by their kind (redaction)."""
    change = _MASK if change is None else change
    also = tuple([_worded(other, change) for other in one.also])
    evidence = None if one.evidence is None else mapped(one.evidence, change)
    ruled_out = tuple([mapped(reason, change) for reason in one.ruled_out])
    made = replace(one, evidence=evidence, also=also, ruled_out=ruled_out)
    return replace(made, message=message(made))


def _worded(one: AlsoSeen, change: dict[str, Callable[[str], str]]) -> AlsoSeen:
    evidence = mapped(one.evidence, change)
    return replace(one, evidence=evidence, message=sentence(evidence))


def cause_result(one: Finding) -> CauseResult:
    """Return a worded finding as results about a turn show it."""
    return CauseResult(
        one.code, one.name, one.kind, one.section, one.json_path, one.message, one.evidence, one.strength, one.actor,
        one.also, one.ruled_out, one.lost_bytes, one.lost_tokens, one.tokens, one.fix, one.is_break,
    )  # fmt: skip


def grounds(one: CauseResult) -> str:
    """Say what shows a cause and what was ruled out, without what its name says already: for a short line."""
    return "; ".join([sentence(one.evidence) or one.message, *_ruled_out(one.ruled_out)])


def columns_result(three: Columns, change: dict[str, Callable[[str], str]] | None = None) -> ColumnsResult:
    """Say what bytes, bill and the provider's verdict show."""
    change = _MASK if change is None else change
    path = change.get("path", str)(three.bytes.path)
    verdict = None if three.verdict is None else mapped(three.verdict, change)
    dispute = None if three.dispute is None else sentence(mapped(three.dispute, change))
    return ColumnsResult(
        _bytes(three.bytes._replace(path=path)), _billed(three.billed), _verdict(verdict), three.agree, dispute
    )


def _bytes(one: BytesColumn) -> str:
    if one.goes_on:
        if one.total is None:
            return "the prompt goes on; nothing sent before was changed"
        return f"the prompt goes on: all {one.total:,} bytes of the one before stand at its beginning"
    part = f"they part at {one.path}" if one.path else "they part"
    behind = ", behind the last cache breakpoint" if one.behind else ""
    return f"{part}{behind}; {one.shared or 0:,} of {one.total or 0:,} bytes are shared"


def _billed(one: BilledColumn) -> str:
    if one.read is None:
        return "not recorded"
    if one.cached is None:
        return f"{one.read:,} tokens read"
    if one.read > one.cached:
        return f"{one.read:,} tokens read, {one.read - one.cached:,} more than the request before left"
    return f"{one.read:,} of {one.cached:,} cached tokens read" + (f": {one.fell:,} fell" if one.fell else "")


def _verdict(one: e.ProviderSaid | None) -> str:
    if one is None:
        return "none recorded"
    missed = "" if one.missed_tokens is None else f", {one.missed_tokens:,} tokens missed"
    return f"{one.reason or one.other}{missed}" + ("; often no miss at all" if one.reason == "unavailable" else "")

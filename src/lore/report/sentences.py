"""Sentences, made last: findings, causes and columns in words, from typed fields.

In: findings whose evidence is typed. Out: the same with their `message`. Rules: the only place that words verdicts;
nothing reads a sentence back. Texts that match a credential are masked before a sentence is made; with `redact` each
text that is content becomes its length and the beginning of its digest, field by field (`lore.model.differences`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from lore.judge.witnesses import BilledColumn, BytesColumn, Columns
from lore.model import evidence as e
from lore.model.cause import mapped
from lore.model.codes import CODES, Code
from lore.model.differences import EvidenceFact
from lore.model.mask import mask
from lore.model.results import AlsoSeen, BilledResult, CauseResult, ColumnsResult, CostlyCause, Finding
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


def prices_of(by_price: Mapping[str, float], billed: BilledResult) -> str:
    """Say what was paid at each price; `billed` says whether its output tokens are a part of the truth."""
    partial = {"output": "output (partial)"} if billed.partial_output is True else {}
    return ", ".join(f"{partial.get(kind, kind)} {money_of(paid)}" for kind, paid in by_price.items())


def lost_of(cause: Finding | CauseResult) -> str:
    """Say how many tokens were lost, how that is known, and what they cost beyond their price when read."""
    return f"{cause.lost_tokens or 0:,} tokens ({cause.tokens}){dollars_of(cause)}"


def dollars_of(cause: Finding | CauseResult | CostlyCause) -> str:
    """Say what lost tokens cost beyond their price when read: only what is waste was paid again without need."""
    if cause.lost_dollars is None:
        return ""
    return f", {money_of(cause.lost_dollars)} {'paid again' if cause.kind == 'waste' else 'more than reading them'}"


def listed(names: Iterable[str], most: int = SHOWN) -> str:
    """Name a few, and count the others."""
    every = list(names)
    more = f" and {len(every) - most:,} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


# what the log records


def _recorded(fact: e.Recorded) -> str:
    return fact.detail or CODES[fact.event].name


def _total_shrank(fact: e.TotalShrank) -> str:
    """Say that a prompt shrank: the client took something out."""
    what = "the log says that results were cleared, and not which" if fact.boundary else "the log does not say what"
    return (
        f"the whole prompt went from {fact.tokens_before:,} to {fact.tokens_after:,} tokens: the client took something "
        f"out of it, and {what}; {fact.cached_tokens:,} tokens stood in the cache"
    )


def _sign(fact: e.SignSeen) -> str:
    text = SIGNS[fact.sign]
    if fact.before is not None or fact.after is not None:
        text += f" from {fact.before or 'nothing'} to {fact.after or 'nothing'}"
    return f"{text}: {listed(_FIELDS.get(name, name) for name in fact.names)}" if fact.names else text


_FIELDS = {"pendingMcpServers": "its tool servers were still connecting"}  # what a field of a log says


def _announced(fact: e.ToolsAnnounced) -> str:
    servers = len(fact.servers)
    who = f"MCP server{'s' * (servers != 1)} {listed(fact.servers)}" if fact.servers else "the client"
    parts = [f"{word} {listed(names)}" for word, names in (("added", fact.added), ("removed", fact.removed)) if names]
    return f"{who} announced other tools in mid-session" + (f": {'; '.join(parts)}" if parts else "")


def _hook(fact: e.HookText) -> str:
    which = f"hook {listed(fact.hooks)}" if fact.hooks else "a hook"
    exact = "; the bill read exactly what such a change leaves in the cache" if fact.exact else ""
    return f"text of {which} stood behind entry {fact.entries:,} of the history until the user spoke again{exact}"


# what clocks, shapes and bills show


def _paused(fact: e.Paused) -> str:
    lives = "how long it lives is not known" if fact.lifetime is None else f"the cache lives {duration(fact.lifetime)}"
    within = fact.lifetime is not None and fact.seconds <= fact.lifetime
    return f"{duration(fact.seconds)} since the previous answer began; {lives}" + (" and had not expired" * within)


def _parallel(fact: e.ParallelStart) -> str:
    early = duration(fact.seconds)
    return f"sent {early} before the response that writes the entry began: nothing could be read yet"


def _older(fact: e.OlderEntry) -> str:
    read = f"{fact.read_tokens:,} tokens were read: exactly the breakpoint before the last one"
    return f"sent {duration(fact.seconds)} after the previous answer began; {read}"


_SUMMARIES = {
    "is-summary": "is a summary",
    "sums-up": "is new and sums up what was said before",
    "unclear": "is new: a summary of what is gone, or a cut beside another text; its words do not say which",
}


def _summary(fact: e.SummaryFound) -> str:
    became = f"{fact.messages_before} messages became {fact.messages_after}"
    return f"{fact.path} {_SUMMARIES[fact.says]}; {became}"


def _tail(fact: e.TailReplaced) -> str:
    holds = f" (it holds {' and '.join(fact.holds)})" if fact.holds else ""
    role = f" of the {fact.role} role" if fact.role else ""
    again = "; the same text ends this request again" if fact.repeated else ""
    follows = "another end stands" if fact.retried else "the conversation went on"
    paid = "" if fact.dollars_a_day is None else f", {money_of(fact.dollars_a_day)} a day at this pace"
    return (
        f"{fact.path}{role} ended the previous request{holds} and {follows} in its place{again}: it "
        f"costs about {fact.tokens:,} tokens a turn{paid}"
    )


def _rerouted(fact: e.Rerouted) -> str:
    parts: list[str] = []
    if fact.host_before is not None:
        parts.append(f"host {fact.host_before} became {fact.host_after}")
    elif fact.endpoint_before is not None:
        parts.append(f"endpoint {fact.endpoint_before} became {fact.endpoint_after}")
    if fact.account:
        parts.append("another key was used")
    return "; ".join(parts) + ": its cache is another one"


def _edited(fact: e.EditedByProvider) -> str:
    if fact.what == "item":
        return f"the provider summed the conversation up: {fact.path} is a summary that only it can read"
    tokens = "" if fact.tokens is None else f"{fact.tokens:,} tokens"
    if fact.what == "cut":
        return f"the provider was allowed to shorten what is too long, and billed {tokens} fewer than before"
    edits = " and ".join(fact.edits)
    return f"the provider edited the context itself ({edits})" + (f", and cleared {tokens}" if tokens else "")


_OTHER = {"tools": "other tools", "system": "another system prompt", "messages": "other messages"}


def _cold(fact: e.ColdCompaction) -> str:
    if fact.differs == ("breakpoints",):
        where = "with its last breakpoint in front of where it had one before"
    else:
        where = "behind " + " and ".join(_OTHER.get(part, part) for part in fact.differs)
    text = (
        f"the conversation was sent to be summed up {where}: {fact.cached_tokens:,} tokens of it stood in the cache, "
        f"and {fact.read_tokens:,} were read; a warm request of this length would have read {fact.warm_tokens:,}"
    )
    if fact.dollars is None or fact.warm_dollars is None:
        return text
    return f"{text}, and its prompt cost {money_of(fact.warm_dollars)} instead of {money_of(fact.dollars)}"


def _routed(fact: e.RoutedElsewhere) -> str:
    if fact.provider_before is not None:
        who = f"{fact.provider_after} answered behind the router, and {fact.provider_before} before it"
    elif fact.deployment_before is not None:
        who = f"deployment {fact.deployment_after} answered behind the router, and {fact.deployment_before} before it"
    else:
        answers = (
            "1 answer between the two was"
            if fact.unreceived == 1
            else f"{fact.unreceived} answers between the two were"
        )
        who = f"{answers} never received in this recording"
        if fact.ids:
            who += f", and ids of calls begin with {' and '.join(fact.ids)}: another provider gave them"
    return f"{who}; each has a cache of its own"


def _lookback(fact: e.LookbackExceeded) -> str:
    looked = (
        f"{fact.allowed} are looked back" if fact.allowed else "only an entry at a breakpoint was read at that time"
    )
    text = f"{fact.positions} new positions stand between the last breakpoint before and the next one; {looked}"
    if fact.missed_tokens:
        text += f"; the bill did not read {fact.missed_tokens:,} tokens that were cached"
    return text


def _provider(fact: e.ProviderSaid) -> str:
    missed = "" if fact.missed_tokens is None else f", {fact.missed_tokens:,} tokens missed"
    return f"the provider says {fact.reason or fact.other}{missed}"


_BILLS = {
    "no-breakpoint": "{} tokens are billed as written, though the body has no cache breakpoint",
    "hour-unasked": "{} tokens are billed as written for 1 hour, though no breakpoint asks for that",
    "five-minutes-unasked": "{} tokens are billed as written for 5 minutes, though every breakpoint asks for 1 hour",
    "more-tokens-than-bytes": "{} tokens are billed for a prompt of {} bytes: no token is shorter than a byte",
}


def _bill(fact: e.BillUnlikeBody) -> str:
    return _BILLS[fact.what].format(f"{fact.tokens:,}", f"{fact.bytes or 0:,}")


def _disputed(fact: e.Disputed) -> str:
    tokens = f"{fact.tokens or 0:,}"
    return {
        "unexplained": f"no byte that was cached changed, yet {tokens} tokens were not read again",
        "bill-reads-more": (
            f"the bytes share about {tokens} tokens, yet the bill read {fact.read_tokens or 0:,}: the provider does "
            "not mind this change, or another request had sent the same beginning before"
        ),
        "same-model": f"the verdict says {fact.reason}, yet both requests ask for {fact.model}",
        "no-change-in-bytes": (
            f"the verdict says {fact.reason}, yet nothing that was to be cached changed in the bytes"
        ),
        "nothing-missed": f"the verdict says that {tokens} tokens were missed, yet the bill read all that was cached",
        "other-section": f"the verdict says {fact.reason}, yet the bytes part in the {fact.section}, at {fact.path}",
        "head-was-read": (
            f"the verdict says {fact.reason}, yet the bill read {fact.read_tokens or 0:,} tokens: a breakpoint of the "
            f"history stands at {tokens}, so tools and system prompt were found as they were"
        ),
    }[fact.what]


# what is true of a chain


def _volatile(fact: e.VolatileText) -> str:
    where = "a breakpoint stands on" if fact.on_breakpoint else "volatile text stands before the history:"
    return f"{where} {fact.what}" + (f": {fact.excerpt}" if fact.excerpt else "")


def _missing(fact: e.BreakpointsMissing) -> str:
    whole = f"about {fact.tokens:,} tokens; this model caches from {fact.minimum:,} on"
    if fact.behind is None:
        return f"no cache breakpoint in a prompt of {whole}"
    return f"the last breakpoint stands behind about {fact.behind:,} tokens of {whole}"


def _below_minimum(fact: e.BelowMinimum) -> str:
    size = (
        f"the prompt has {fact.tokens:,} tokens" if fact.counted else f"about {fact.tokens:,} tokens stand up to the "
    )
    size += "" if fact.counted else "last breakpoint"
    often = f"all {fact.turns} requests with breakpoints of this chain" if fact.turns > 1 else "requests that begin so"
    return f"{size}; {fact.minimum:,} are the fewest that {fact.model} caches ({often})"


def _below_forecast(fact: e.ReadBelowForecast) -> str:
    which = f"turn {fact.turn}" + (f" of chain {fact.chain}" if fact.chain else "")
    about = "" if fact.exact else "about "
    return (
        f"{about}{fact.expected_tokens:,} tokens were foreseen to be read by the rules of {fact.cache} "
        f"({fact.reason}), the bill read {fact.read_tokens:,}; {which} used the same beginning "
        f"{duration(fact.seconds)} before; ruled out: expiry, an entry that is not readable yet, model ({fact.model}), "
        "breakpoints, parameters, endpoint, as far as they are recorded"
    )


def _budget(fact: e.OverBudget) -> str:
    of = f" in {fact.of}" if fact.of else ""
    if fact.what == "reuse":
        return f"{fact.value:.1%} of the prompt before is reused, the budget is {fact.limit:.1%}"
    what = "unexpected cache breaks" if fact.what == "breaks" else "tokens lost"
    return f"{fact.value:,.0f} {what}{of}, the budget is {fact.limit:,.0f}"


def _unneeded(fact: e.Unneeded) -> str:
    if fact.what == "exemption":
        return f"nothing that {fact.code} finds in {fact.where} is excused by it any more ({fact.reason})"
    times = f"{fact.left} of {fact.entries} are left" if fact.left else "nothing matches it"
    return f"{fact.code} {fact.where}: {times}"


def _damage(fact: e.Damage) -> str:
    return fact.message + (f" (and {fact.more:,} more like it)" if fact.more else "")


def _chain_restarted(fact: e.ChainRestarted) -> str:
    what = "its only tool" if fact.tools == 1 else f"all {fact.tools} tools"
    return f"the client dropped {what} as a new user turn began, its system prompt unchanged"


def _messages_taken_back(fact: e.MessagesTakenBack) -> str:
    taken = "1 message was" if fact.messages == 1 else f"{fact.messages:,} messages were"
    return f"{taken} taken back, and something else was asked"


def _orphan_pair(fact: e.OrphanPair) -> str:
    return f"a {fact.part} without its {'result' if fact.part == 'call' else 'call'}: {fact.name}"


SENTENCES: dict[type[EvidenceFact], Callable[[Any], str]] = DIFFERENCES | {
    e.Told: "{0.text}".format,
    e.Damage: _damage,
    e.Recorded: _recorded,
    e.ModelChanged: "model changed from {0.before} to {0.after}".format,
    e.SignSeen: _sign,
    e.ToolsAnnounced: _announced,
    e.HookText: _hook,
    e.TotalShrank: _total_shrank,
    e.HistoryShrank: "history is the same in its first {0.same:,} of {0.entries:,} entries only".format,
    e.Paused: _paused,
    e.ParallelStart: _parallel,
    e.OlderEntry: _older,
    e.ChainRestarted: _chain_restarted,
    e.MessagesTakenBack: _messages_taken_back,
    e.SummaryFound: _summary,
    e.TailReplaced: _tail,
    e.Rerouted: _rerouted,
    e.RoutedElsewhere: _routed,
    e.ColdCompaction: _cold,
    e.EditedByProvider: _edited,
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


def sentence(evidence: EvidenceFact | None) -> str:
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
    Code.VERDICT_DISAGREES: "bytes, bill or verdict contradict one another",
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
    "under-minimum": "nothing was lost: so short a prompt is not cached",
    "outside-the-prefix": "but tools with defer_loading stand outside the cached prefix: nothing was lost",
    "stored-otherwise": "one body was stored otherwise by its recorder",
    "another-process": "another process went on with the session",
    "after-a-pause": "the session went on after a pause",
}


def message(finding: Finding) -> str:
    """Say what a finding found: what is so, what shows it, what else was seen, what was ruled out."""
    text = sentence(finding.evidence) + (f" (and {finding.more} more like it)" if finding.more else "")
    text += (
        f"; {finding.skipped:,} more differences of this kind were not looked at one by one" if finding.skipped else ""
    )
    lead = _lead(finding)
    parts = [f"{lead}: {text}" if lead and text else lead or text]
    parts += [_QUALIFIERS[name] for name in finding.qualifiers if name in _QUALIFIERS]
    parts += [other.message for other in finding.also if isinstance(other.evidence, e.WithinBlock)]
    also = [
        other for other in finding.also if other.code != finding.code and not isinstance(other.evidence, e.WithinBlock)
    ]
    for word, marked in (("also seen", False), ("contradicted by the provider's verdict", True)):
        seen = [_seen_beside(other) for other in also if other.contradicted is marked]
        parts += [f"{word}: {'; '.join(seen)}"] if seen else []
    parts += _ruled_out(finding.ruled_out)
    parts += [f"{finding.times} turns of this chain"] if finding.times > 1 else []
    parts += ["the prompt is partial: its beginning is not recorded"] if finding.partial else []
    return "; ".join(part for part in parts if part)


def _seen_beside(other: AlsoSeen) -> str:
    """Say what else was seen; a verdict beside the cause that it is about is no cause of its own."""
    return other.message if isinstance(other.evidence, e.ProviderSaid) else f"{other.name}: {other.message}"


def _lead(finding: Finding) -> str:
    if finding.code == Code.TAIL_REPLACED and finding.severity == "warning":
        return "what was replaced at the end of the prompt is longer than check.max_tail_tokens allows"
    if finding.code in _LEADS and not isinstance(finding.evidence, e.Damage):  # a reader's problem says it whole
        return _LEADS[finding.code]
    if finding.strength is None or finding.code[:5] not in ("LORE1", "LORE3"):
        return ""
    if finding.strength == "certain" or finding.evidence is None or type(finding.evidence) in DIFFERENCES:
        return _KINDS["waste" if "nothing-lost" in finding.qualifiers else finding.kind]
    sure = finding.kind == "expected" and finding.strength == "strong"
    return _KINDS["expected"] if sure else _STRENGTHS[finding.strength]


def _ruled_out(reasons: Iterable[e.RuledOut]) -> list[str]:
    every = list(reasons)
    parts: list[str] = []
    for word, wanted in (("ruled out", True), ("not ruled out", False), ("not recorded", None)):
        some = [reason.reason + _figure(reason) for reason in every if reason.out is wanted]
        parts += [f"{word}: {', '.join(some)}"] if some else []
    return parts


def _figure(fact: e.RuledOut) -> str:
    parts: list[str] = []
    if fact.seconds is not None:
        parts.append(duration(fact.seconds) + ("" if fact.limit is None else f" of {duration(fact.limit)}"))
    elif fact.count is not None:
        parts.append(f"{fact.count:,}" + ("" if fact.limit is None else f" of {fact.limit:,.0f}"))
    parts += [fact.detail] if fact.detail else []
    return f" ({', '.join(parts)})" if parts else ""


def worded(finding: Finding, change: dict[str, Callable[[str], str]] | None = None) -> Finding:
    """Return a finding with its message, its texts masked; `change` replaces texts by their kind (redaction)."""
    change = _MASK if change is None else change
    also = tuple([_worded(other, change) for other in finding.also])
    evidence = None if finding.evidence is None else mapped(finding.evidence, change)
    ruled_out = tuple([mapped(reason, change) for reason in finding.ruled_out])
    made = replace(finding, evidence=evidence, also=also, ruled_out=ruled_out)
    return replace(made, message=message(made))


def _worded(seen: AlsoSeen, change: dict[str, Callable[[str], str]]) -> AlsoSeen:
    evidence = mapped(seen.evidence, change)
    return replace(seen, evidence=evidence, message=sentence(evidence))


def cause_result(finding: Finding) -> CauseResult:
    """Return a worded finding as results about a turn show it."""
    return CauseResult(
        finding.code, finding.name, finding.kind, finding.section, finding.json_path, finding.message,
        finding.evidence, finding.strength, finding.actor, finding.also, finding.ruled_out, finding.lost_bytes,
        finding.lost_tokens, finding.tokens, finding.fix, finding.is_break, finding.lost_dollars,
    )  # fmt: skip


def grounds(cause: CauseResult) -> str:
    """Say what shows a cause and what was ruled out, without what its name says already: for a short line."""
    return "; ".join([sentence(cause.evidence) or cause.message, *_ruled_out(cause.ruled_out)])


def columns_result(three: Columns, change: dict[str, Callable[[str], str]] | None = None) -> ColumnsResult:
    """Say what bytes, bill and the provider's verdict show."""
    change = _MASK if change is None else change
    path = change.get("path", str)(three.bytes.path)
    verdict = None if three.verdict is None else mapped(three.verdict, change)
    dispute = None if three.dispute is None else sentence(mapped(three.dispute, change))
    return ColumnsResult(
        _bytes(three.bytes._replace(path=path)), _billed(three.billed), _verdict(verdict), three.agree, dispute
    )


def _bytes(column: BytesColumn) -> str:
    if column.goes_on:
        if column.total is None:
            return "the prompt goes on; nothing sent before was changed"
        return f"the prompt goes on: all {column.total:,} bytes of the one before stand at its beginning"
    part = f"they part at {column.path}" if column.path else "they part"
    behind = ", behind the last cache breakpoint" if column.behind else ""
    return f"{part}{behind}; {column.shared or 0:,} of {column.total or 0:,} bytes are shared"


def _billed(column: BilledColumn) -> str:
    if column.read is None:
        return "not recorded"
    if column.cached is None:
        return f"{column.read:,} tokens read"
    if column.read > column.cached:
        return f"{column.read:,} tokens read, {column.read - column.cached:,} more than the request before left"
    return f"{column.read:,} of {column.cached:,} cached tokens read" + (
        f": {column.fell:,} fell" if column.fell else ""
    )


def _verdict(fact: e.ProviderSaid | None) -> str:
    if fact is None:
        return "none recorded"
    missed = "" if fact.missed_tokens is None else f", {fact.missed_tokens:,} tokens missed"
    return f"{fact.reason or fact.other}{missed}" + ("; often no miss at all" if fact.reason == "unavailable" else "")

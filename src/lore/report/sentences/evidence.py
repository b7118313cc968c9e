"""One sentence for each kind of evidence from logs, clocks, bills and verdicts (`lore.model.evidence`).

In: evidence whose content is masked, or replaced by hashes. Out: text. Rules: a table of functions by type, those of
differences between two prompts among them; nothing reads a sentence back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from lore.model import evidence as e
from lore.model.codes import CODES
from lore.model.differences import EvidenceFact
from lore.model.state import SIGNS
from lore.report.sentences.differences import DIFFERENCES, REQUESTS

SHOWN = 5  # names of one kind


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


def _total_shrank(fact: e.TotalShrank) -> str:
    what = "the log says that results were cleared, and not which" if fact.boundary else "the log does not say what"
    who = "the client or the provider" if fact.unsure else "the client"
    return (
        f"the whole prompt went from {fact.tokens_before:,} to {fact.tokens_after:,} tokens: {who} took something "
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


def _reasoning(fact: e.ReasoningDropped) -> str:
    exact = ", as the bill shows" if fact.exact else ""
    return (
        f"the provider leaves the reasoning behind entry {fact.entries:,} of the history out from the next prompt of "
        f"the user on: about {fact.tokens:,} tokens in front of it can be read{exact}"
    )


# what clocks, shapes and bills show


def _paused(fact: e.Paused) -> str:
    unknown = "how long it lives is not recorded: 5 min, unless an hour was asked for"
    lives = unknown if fact.lifetime is None else f"the cache lives {duration(fact.lifetime)}"
    within = fact.lifetime is not None and fact.seconds <= fact.lifetime
    return f"{duration(fact.seconds)} since the previous answer began; {lives}" + (" and had not expired" * within)


_SUMMARIES = {
    "is-summary": "is a summary",
    "sums-up": "is new and sums up what was said before",
    "unclear": "is new: a summary of what is gone, or a cut beside another text; its words do not say which",
}


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
    if fact.counted or not fact.marked:
        size = f"the prompt has {'' if fact.counted else 'about '}{fact.tokens:,} tokens"
    else:
        size = f"about {fact.tokens:,} tokens stand up to the last breakpoint"
    often = f"all {fact.turns} requests with breakpoints of this chain" if fact.turns > 1 else "requests that begin so"
    often = f" ({often})" if fact.turns else ""
    return f"{size}; {fact.minimum:,} are the fewest that {fact.model} caches{often}"


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


def _messages_taken_back(fact: e.MessagesTakenBack) -> str:
    taken = "1 message was" if fact.messages == 1 else f"{fact.messages:,} messages were"
    return f"{taken} taken back, and something else was asked"


_EVIDENCE: dict[type[EvidenceFact], Callable[[Any], str]] = {
    e.Told: "{0.text}".format,
    e.Damage: lambda fact: fact.message + (f" (and {fact.more:,} more like it)" if fact.more else ""),
    e.RecordedChange: lambda fact: fact.detail or CODES[fact.event].name,
    e.ModelChanged: "model changed from {0.before} to {0.after}".format,
    e.SignSeen: _sign,
    e.ToolsAnnounced: _announced,
    e.HookText: _hook,
    e.ReasoningDropped: _reasoning,
    e.TotalShrank: _total_shrank,
    e.HistoryShrank: "history is the same in its first {0.same:,} of {0.entries:,} entries only".format,
    e.Paused: _paused,
    e.ParallelStart: lambda fact: (
        f"sent {duration(fact.seconds)} before the response that writes the entry began: nothing could be read yet"
    ),
    e.OlderEntry: lambda fact: (
        f"sent {duration(fact.seconds)} after the previous answer began; {fact.read_tokens:,} tokens were read: "
        "exactly the entry before the last one"
    ),
    e.ChainRestarted: lambda fact: (
        f"the client dropped {'its only tool' if fact.tools == 1 else f'all {fact.tools} tools'} as a new user "
        "turn began, its system prompt unchanged"
    ),
    e.MessagesTakenBack: _messages_taken_back,
    e.SummaryFound: lambda fact: (
        f"{fact.path} {_SUMMARIES[fact.says]}; {fact.messages_before} messages became {fact.messages_after}"
    ),
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
    e.NothingRead: (
        "nothing was read, though the conversation goes on from a prompt of {0.tokens:,} tokens; "
        "how much of it stood in the cache is not billed"
    ).format,
    e.WithinBlock: (
        "about {0.tokens:,} tokens at the end changed: less than one block of the cache "
        "({0.block_tokens}), so nothing of it could be cached"
    ).format,
    e.LifetimeLost: (
        "all {0.breakpoints} breakpoints ask for 1 hour; the bill has {0.tokens:,} tokens for 5 "
        "minutes, none for 1 hour"
    ).format,
    e.BillUnlikeBody: lambda fact: _BILLS[fact.what].format(f"{fact.tokens:,}", f"{fact.bytes or 0:,}"),
    e.Disputed: _disputed,
    e.BreakpointsCount: "{0.breakpoints} cache breakpoints in one request; {0.most} are the most".format,
    e.VolatileText: _volatile,
    e.ProgramText: "a message of the user's role follows a tool's result, and no user wrote it: {0.excerpt}".format,
    e.OrphanPair: lambda fact: f"a {fact.part} without its {'result' if fact.part == 'call' else 'call'}: {fact.name}",
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
SENTENCES = DIFFERENCES | REQUESTS | _EVIDENCE


def sentence(evidence: EvidenceFact | None) -> str:
    """Say what evidence shows."""
    return "" if evidence is None else SENTENCES[type(evidence)](evidence)

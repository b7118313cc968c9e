"""Sentences, made last: findings, causes and columns in words, from typed fields.

In: findings whose evidence is typed. Out: the same with their `message`. Rules: the only place that words verdicts;
nothing reads a sentence back. Texts that match a credential are masked before a sentence is made; with `redact` each
text that is content becomes its length and the beginning of its digest, field by field (`lore.model.differences`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from lore.judge.pair import BilledColumn, BytesColumn, Columns
from lore.model import evidence as e
from lore.model import results
from lore.model.cause import mapped
from lore.model.codes import Code
from lore.model.mask import mask
from lore.report.sentences.differences import DIFFERENCES
from lore.report.sentences.evidence import duration, money_of, sentence

_MASK = {"content": mask, "name": mask, "path": mask, "model": mask}


def not_in_logs(formats: Iterable[str], what: str) -> str:
    """Say what logs of these formats do not hold of their prompts."""
    return f"not in {', '.join(formats)} logs: {what}"


def interrupted_line(interrupted: results.Interruption) -> str:
    """Say of how many files a run that was interrupted tells."""
    files = f"{interrupted.files:,} of {interrupted.of:,} file{'s' * (interrupted.of != 1)}"
    return f"interrupted: this is partial, {files} (the last perhaps not to its end)"


def prices_of(by_price: Mapping[str, float], billed: results.UsageResult) -> str:
    """Say what was paid at each price; `billed` says whether its output tokens are a part of the truth."""
    partial = {"output": "output (partial)"} if billed.partial_output is True else {}
    return ", ".join(f"{partial.get(kind, kind)} {money_of(paid)}" for kind, paid in by_price.items())


def bill_in_words(billed: results.UsageResult) -> str:
    """Say what was billed of a prompt, as far as that is known; empty where nothing is."""
    counts = (("read", billed.read_tokens), ("written", billed.write_tokens), ("uncached", billed.uncached_tokens))
    return ", ".join(f"{count:,} {name}" for name, count in counts if count is not None)


def lost_of(cause: results.Finding | results.CauseResult) -> str:
    """Say how many tokens were lost, how that is known, and what they cost beyond their price when read."""
    return f"{cause.lost_tokens or 0:,} tokens ({cause.tokens}){dollars_of(cause)}"


def nearly_random(cache: str, fell: int, seen: int) -> str:
    """Say of a cache that its reads are hardly to be foreseen: of so many requests that only went on so many fell."""
    return (
        f"{cache}'s implicit cache is nearly random: of {seen:,} requests that only went on {fell:,} read less "
        "(counted over other sessions); predictions are guesses, with their chance"
    )


def dollars_of(cause: results.Finding | results.CauseResult | results.CostlyCause) -> str:
    """Say what lost tokens cost beyond their price when read: only what is waste was paid again without need."""
    if cause.lost_dollars is None:
        return ""
    return f", {money_of(cause.lost_dollars)} {'paid again' if cause.kind == 'waste' else 'more than reading them'}"


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
    Code.SERVER_SIDE_MISS: "the billed read fell though the conversation went on",
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


def message(finding: results.Finding) -> str:
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
        seen = [  # a verdict beside the cause that it is about is no cause of its own
            other.message if isinstance(other.evidence, e.ProviderSaid) else f"{other.name}: {other.message}"
            for other in also
            if other.contradicted is marked
        ]
        parts += [f"{word}: {'; '.join(seen)}"] if seen else []
    parts += _ruled_out(finding.ruled_out)
    parts += [f"{finding.times} turns of this chain"] if finding.times > 1 else []
    parts += ["the prompt is partial: its beginning is not recorded"] if finding.partial else []
    return "; ".join(part for part in parts if part)


def _lead(finding: results.Finding) -> str:
    if isinstance(finding.evidence, e.BelowMinimum) and not finding.evidence.marked:
        return "too short to be cached"
    if finding.code == Code.TAIL_REPLACED and finding.severity == "warning":
        return "what was replaced at the end of the prompt is longer than check.max_tail_tokens allows"
    doubtful = finding.code == Code.CACHE_EXPIRED and finding.strength == "weak"
    if isinstance(finding.evidence, e.NothingRead):  # no bill fell
        return ""
    if finding.code in _LEADS and not doubtful and not isinstance(finding.evidence, e.Damage):  # which says it whole
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
        if fact.out is None and fact.limit is None:
            parts.append("nothing says how long it is kept")
    elif fact.count is not None:
        parts.append(f"{fact.count:,}" + ("" if fact.limit is None else f" of {fact.limit:,.0f}"))
    parts += [fact.detail] if fact.detail else []
    return f" ({', '.join(parts)})" if parts else ""


def worded(finding: results.Finding, change: dict[str, Callable[[str], str]] | None = None) -> results.Finding:
    """Return a finding with its message, its texts masked; `change` replaces texts by their kind (redaction)."""
    change = _MASK if change is None else change
    also = tuple([_worded(other, change) for other in finding.also])
    evidence = None if finding.evidence is None else mapped(finding.evidence, change)
    ruled_out = tuple([mapped(reason, change) for reason in finding.ruled_out])
    made = replace(finding, evidence=evidence, also=also, ruled_out=ruled_out)
    return replace(made, message=message(made))


def _worded(seen: results.SecondaryCause, change: dict[str, Callable[[str], str]]) -> results.SecondaryCause:
    evidence = mapped(seen.evidence, change)
    return replace(seen, evidence=evidence, message=sentence(evidence))


def cause_result(finding: results.Finding) -> results.CauseResult:
    """Return a worded finding as results about a turn show it."""
    return results.copy_fields(results.CauseResult, finding, path=finding.json_path)


def grounds(cause: results.CauseResult) -> str:
    """Say what shows a cause and what was ruled out, without what its name says already: for a short line."""
    return "; ".join([sentence(cause.evidence) or cause.message, *_ruled_out(cause.ruled_out)])


def columns_result(three: Columns, change: dict[str, Callable[[str], str]] | None = None) -> results.ColumnsResult:
    """Say what bytes, bill and the provider's verdict show."""
    change = _MASK if change is None else change
    path = change.get("path", str)(three.bytes.path)
    verdict = None if three.verdict is None else mapped(three.verdict, change)
    dispute = None if three.dispute is None else sentence(mapped(three.dispute, change))
    return results.ColumnsResult(
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

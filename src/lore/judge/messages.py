"""The message of a finding, made of its other fields.

The judge makes it with the functions that mask credentials, `--redact` makes it again with those that hide content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec.structs import replace

from lore.model.cause import RuledOut
from lore.model.codes import CODES, Code
from lore.model.differences import BelowMinimum, Difference, Respelled, ResultRewritten
from lore.model.evidence import Damage, NothingRead, ProviderSaid, WithinBlock
from lore.model.fact import replace_texts
from lore.model.mask import mask
from lore.model.results import Finding

MASKED: dict[str, Callable[[str], str]] = {"content": mask, "name": mask, "path": mask, "model": mask}


def in_words(finding: Finding, change: Mapping[str, Callable[[str], str]] = MASKED) -> Finding:
    """Return a finding with changed texts in its evidence, and the message made of it; `change`: by kind of text."""
    also = [replace(other, evidence=replace_texts(other.evidence, change)) for other in finding.also]
    also = tuple([replace(other, message=other.evidence.sentence()) for other in also])
    evidence = None if finding.evidence is None else replace_texts(finding.evidence, change)
    ruled_out = tuple([replace_texts(reason, change) for reason in finding.ruled_out])
    changed = replace(finding, evidence=evidence, also=also, ruled_out=ruled_out)
    return replace(changed, message=message_of(changed))


def message_of(finding: Finding, *, quote: bool = True) -> str:
    """Return the message of a finding whose texts are masked. Without `quote` it omits the change that is quoted."""
    evidence, text = finding.evidence, ""
    if evidence is not None:
        text = evidence.sentence() if quote or evidence.quoted_change() is None else evidence.headline()
    has_count = isinstance(evidence, ResultRewritten) and evidence.cleared  # its words count all results
    text += f" (and {finding.more} more like it)" if finding.more and not has_count else ""
    if finding.skipped:
        text += f"; {finding.skipped:,} more differences of this kind were not examined one by one"
    lead = _lead(finding)
    is_told = isinstance(evidence, BelowMinimum) and evidence.turns > 1  # its words count the turns
    parts = [
        f"{lead}: {text}" if lead and text else lead or text,
        *(_QUALIFIERS[name] for name in finding.qualifiers if name in _QUALIFIERS),
        *_also(finding),
        *describe_ruled_out(finding.ruled_out),
        f"{finding.times} turns of this chain" if finding.times > 1 and not is_told else "",
        "the prompt is partial: its beginning is not recorded" if finding.partial else "",
    ]
    return "; ".join(filter(None, parts))


def _also(finding: Finding) -> Iterator[str]:
    """Yield clauses about the other causes; those that the provider's verdict contradicts are the last."""
    others: list[str] = []
    contradicted: list[str] = []
    for other in finding.also:
        if isinstance(other.evidence, WithinBlock):
            yield other.message
        elif other.code != finding.code and other.contradicted:
            contradicted.append(other.name)
        elif other.code != finding.code:
            verdict = isinstance(other.evidence, ProviderSaid)  # it confirms the cause and is not another one
            others.append(other.message if verdict else f"{other.name}: {other.message}")
    if others:
        yield f"also seen: {'; '.join(others)}"
    if contradicted:
        yield f"ruled out by the provider's verdict: {', '.join(contradicted)}"


def _lead(finding: Finding) -> str:
    evidence = finding.evidence
    if isinstance(evidence, BelowMinimum) and not evidence.marked:
        return "too short to be cached"
    if finding.code == Code.TAIL_REPLACED and finding.severity == "warning":
        return "the end of the prompt was replaced, and was longer than check.max_tail_tokens allows"
    if isinstance(evidence, NothingRead):
        return ""  # no read fell
    if "read-ends-there" in finding.qualifiers:
        return "the billed read ended where only the form of the content changed"
    is_doubtful = finding.code == Code.CACHE_EXPIRED and finding.strength == "weak"
    is_other_text = isinstance(evidence, Respelled) and evidence.changes_text  # the lead says: the same content
    facts = CODES.get(finding.code)
    if facts is not None and facts.lead and not (is_doubtful or is_other_text or isinstance(evidence, Damage)):
        return facts.lead
    if finding.strength is None or finding.code[:5] not in ("LORE1", "LORE3"):
        return ""
    if "another-conversation" in finding.qualifiers:
        return "the prompt begins otherwise than that of an earlier conversation"
    if finding.strength == "certain" or evidence is None or isinstance(evidence, Difference):
        return _KINDS["waste" if _LOSSLESS & {*finding.qualifiers} else finding.kind]
    is_sure = finding.kind == "expected" and finding.strength == "strong"
    return _KINDS["expected"] if is_sure else _STRENGTHS[finding.strength]


_KINDS = {
    "waste": "the prompt does not extend the previous one",
    "unattributable": "a possible reason why the cache was not reused",
    "expected": "the prompt changed, as expected",
}
_LOSSLESS = frozenset(("nothing-lost", "little-lost", "too-short-by-usage", "without-cache"))
_STRENGTHS = {
    "strong": "less was read than was cached, and the recording shows why",
    "weak": "less was read than was cached; no cause is certain, a possible one",
}
_QUALIFIERS = {
    "read-all-the-same": "but everything that was sent before was read: nothing was lost, the provider sees no change",
    "same-to-the-api": "but the provider documents both as one value: nothing is lost by it",
    "read-ends-there": "so this model takes the two for different content",
    "nothing-lost": "but usage shows that nothing was lost",
    "little-lost": "but hardly anything was lost (under 1 % of the prompt, or one cache block)",
    "first-request": "it is the first request of its conversation, so nothing is re-billed",
    "under-minimum": "nothing was lost: such a short prompt is not cached; a longer one is re-billed from there on",
    "without-cache": "nothing was lost: this model has no automatic prompt cache",
    "outside-the-prefix": "but tools with defer_loading are not part of the cached prefix: nothing was lost",
    "counted-once": "its loss is counted with another cause of the same cache break",
    "alternates": "the value alternates: it is again what it was before the previous change",
    "stored-otherwise": "the recorder stored one body in another form",
    "another-process": "another process continued the session",
    "after-a-pause": "the session continued after a pause",
}


def describe_ruled_out(reasons: Iterable[RuledOut]) -> Iterator[str]:
    """Yield up to three clauses: the reasons that are ruled out, that are not, and that the recording does not show."""
    every = list(reasons)
    for words, out in (("ruled out", True), ("not ruled out", False), ("not recorded", None)):
        some = [reason.in_words() for reason in every if reason.out is out]
        if some:
            yield f"{words}: {', '.join(some)}"

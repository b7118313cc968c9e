"""Make findings of causes, damage and broken rules: each gets a place, a severity, a fix and a fingerprint.

The rules of chains and `totals` call this; a project's settings change the findings later (`policy`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from lore.cache.counts import ONE_HOUR, asked_lifetime
from lore.judge.messages import in_words, message_of
from lore.judge.pairs.pair import KINDS, Pair, is_remark, lost_tokens
from lore.judge.prices import paid_again
from lore.model.canonical import decode
from lore.model.cause import Cause, Place
from lore.model.codes import CODES, SEVERITY, Audience, CauseKind, Code, Problem, actor_of, fix_of
from lore.model.deferred import pattern, sha256
from lore.model.evidence import Damage, Evidence, Paused
from lore.model.jsonslice import raw_members
from lore.model.results import CauseResult, Finding, SecondaryCause
from lore.model.turn import Turn
from lore.prefix.blocks import block_of
from lore.prefix.overlap import PromptPlace, locate_between, locate_difference

AnyCause = TypeVar("AnyCause", Finding, CauseResult)

# Names that lore gives to chains in their order, and numbers of messages: both change when turns are inserted.
_NUMBERED = pattern(r"(?:main|(?:chain|utility|agent)-\d+)\Z")
_MESSAGE = pattern(r"^(messages|input|contents)\[\d+\]")
_STAND_IN = pattern(r"line-\d+(?:\.\d+)?(?: |$)")  # lore's name of a record without an id; unique only in its file


def lasting_chain(chain: str | None) -> str | None:
    """Return a chain's name if the recording has it; None if lore numbered the chain."""
    return None if chain is None or _NUMBERED.match(chain) else chain


def lasting_path(json_path: str | None) -> str | None:
    """Return a path without the number of its message."""
    return None if json_path is None else _MESSAGE.sub(r"\1[]", json_path)


def lasting_id(name: str | None) -> str:
    """Return the id of a response or compaction, by which copies are found; empty if lore made it up."""
    return "" if not name or _STAND_IN.match(name) else name


def fingerprint(code: str, path: str, chain: str | None, json_path: str | None) -> str:
    """Return 16 hex digits that stay the same when other findings, lines and turns are inserted.

    Only the code and the place count: evidence quotes figures, dates and texts that change. Two findings with the same
    code and place share a fingerprint, so baselines count them.
    """
    parts = "\x00".join((code, path, lasting_chain(chain) or "", lasting_path(json_path) or ""))
    return sha256(parts.encode("utf-8", "backslashreplace"))[:16]


def finding(
    code: str, place: Place, evidence: Evidence, *, kind: CauseKind | None = None, at: Turn | None = None,
    **fields: object,
) -> Finding:  # fmt: skip
    """Return a finding; name, severity, actor, fix, fingerprint and message follow from the code and the fields.

    `kind` is the code's by default; of advice about a request "expected" sets the severity alone. `at` is the turn at
    which a finding about a whole chain is shown.
    """
    if at is not None:
        place = place.of(at)
        fields |= {
            "line": at.line, "chain": at.chain, "turn": at.number, "dialect": at.dialect, "fidelity": at.fidelity,
        }  # fmt: skip
    code_row = CODES[code]
    severity = SEVERITY[kind or code_row.kind]
    if kind is None or (code_row.about == "request" and (kind, code_row.kind) == ("expected", "unattributable")):
        kind = code_row.kind
    detail = evidence.fix_detail() or str(fields.get("section") or "")
    actor, fix = actor_of(code, kind, place.audience), fix_of(code, place.audience, kind, detail)
    bare = Finding(
        code, code_row.name, kind, severity, place.path, "", fix, evidence=evidence, actor=actor,
        **fields,  # pyright: ignore[reportArgumentType]
    )  # fmt: skip
    return in_words(replace(bare, fingerprint=fingerprint(code, place.key or place.path, bare.chain, bare.json_path)))


_OWN_FIX = ("aside", "word", "refusal")  # details of values that alternate, but that keeping one of them does not fix
# Causes without a place in the prompt, besides fields of the request: the model, and what usage, times, verdicts show.
_WITHOUT_PLACE = frozenset((
    Code.LOOKBACK_EXCEEDED, Code.CACHE_EXPIRED, Code.PARALLEL_START, Code.ENDPOINT_CHANGED, Code.OLDER_ENTRY_SERVED,
    Code.BILLED_READ_FELL, Code.SERVER_SIDE_MISS, Code.REASONING_DROPPED_BY_TEMPLATE, Code.ROUTED_ELSEWHERE,
    Code.COLD_COMPACTION, *(f"LORE{n}" for n in range(157, 169)), Code.MODEL_CHANGED, Code.LIFETIME_LOST,
    Code.VERDICT_DISAGREES, Code.BILL_CONTRADICTS_BODY, Code.BREAKPOINTS_MISSING,
))  # fmt: skip


def findings_of(pair: Pair, place: Place) -> list[tuple[Cause, Finding]]:
    """Return a finding for each cause of a pair, with the cause.

    A billing header that the provider removes is reported once a chain, by the rules of chains.
    """
    findings: list[tuple[Cause, Finding]] = []
    partial = any(turn.prompt.partial for turn in (pair.previous, pair.current) if turn.basis is None)
    for cause in pair.causes:
        if cause.code == Code.BILLING_HEADER_CHANGED and cause.is_harmless:
            continue
        section = CODES[cause.code].section or cause.section
        where = None if cause.code in _WITHOUT_PLACE or section == "parameters" else _place_of(pair, cause)
        tokens, source = lost_tokens(pair, cause)
        dollars = paid_again(pair.price, pair.current.usage or pair.priced_as, tokens)
        also = [
            SecondaryCause(
                other.code, CODES[other.code].name, CODES[other.code].section or other.section, other.strength,
                other.evidence, contradicted="contradicted" in other.qualifiers,
            ) for other in cause.also
        ]  # fmt: skip
        bare = finding(
            cause.code, place, cause.evidence, kind=cause.kind, line=pair.current.line, chain=pair.current.chain,
            turn=pair.current.number, dialect=pair.current.dialect,
            section=section or (where and where.section),
            json_path=cause.path or None if where is None else where.path, offset=where and where.offset,
            lost_bytes=cause.lost, lost_tokens=tokens, lost_dollars=dollars, tokens=source,
            fidelity=pair.current.fidelity, strength=cause.strength, more=cause.more, qualifiers=cause.qualifiers,
            ruled_out=cause.ruled_out, paused=cause.paused, skipped=cause.skipped, also=tuple(also),
            partial=partial and cause.code != Code.CONTINUATION, is_break=not is_remark(cause),
        )  # fmt: skip
        findings.append((cause, replace(bare, **_override_fields(bare, pair, cause, place.audience))))
    return findings


def turn_findings(pair: Pair, place: Place) -> list[Finding]:
    """Return the findings of a pair as every command shows them: the loss of a cache break is in one of them."""
    return with_one_loss([finding for _, finding in findings_of(pair, place)])


def with_one_loss(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings of one turn; of the causes of its cache break only the leading one keeps the loss."""
    leading = leading_of(findings)
    return [
        finding if finding is leading or not (finding.is_break and finding.lost_tokens) else _without_loss(finding)
        for finding in findings
    ]


def leading_of(causes: Iterable[AnyCause]) -> AnyCause | None:
    """Return the cause of a turn's cache break that has its loss: of the worst kind, the one that lost most."""
    return max((cause for cause in causes if cause.is_break), key=weight_of, default=None)


def weight_of(cause: Finding | CauseResult) -> tuple[int, int]:
    """Return the weight of a cause of a cache break; the heaviest leads."""
    return KINDS.index(cause.kind), cause.lost_tokens or 0


def _without_loss(finding: Finding) -> Finding:
    qualifiers = (*finding.qualifiers, "counted-once")
    lossless = replace(finding, lost_bytes=None, lost_tokens=None, lost_dollars=None, qualifiers=qualifiers)
    return replace(lossless, message=finding.message and message_of(lossless))


def _override_fields(bare: Finding, pair: Pair, cause: Cause, audience: Audience) -> dict[str, Any]:
    """Return the severity, actor and fix that this recording calls for instead of those of the finding's code."""
    changes: dict[str, Any] = {}
    if {"too-short-by-usage", "without-cache"} & {*cause.qualifiers}:
        changes["fix"] = "Nothing to do: nothing was lost."
        return changes
    if "little-lost" in cause.qualifiers:
        changes["severity"] = "note"  # the break is real, and next to nothing was lost
    if cause.code == Code.GENERATION_SETTINGS_CHANGED and pair.current.basis is None:
        last = pair.current.prompt.segment_at(len(pair.current.prompt) - 1)
        if last is not None and block_of(last).kind == "result":  # no user acts between a call and its result
            changes["actor"] = "author"
    if cause.evidence.fix_detail() in ("alias", "no-cache-key", "no-guarantee"):
        # the provider moved an alias, or routed elsewhere: the agent's author can name a dated model, or send a key
        changes["actor"] = "author"
    if "alternates" in cause.qualifiers and cause.evidence.fix_detail() not in _OWN_FIX:
        changes["fix"] = "Keep one of the two values for the whole session: each has a cache of its own."
        return changes
    is_done, evidence = False, cause.evidence  # the recording already follows the fix, or it could not help
    if cause.code == Code.ROUTED_ELSEWHERE:  # the fix: name one provider (OpenRouter's `provider`)
        params = {} if pair.current.basis is not None else pair.current.prompt.params
        routing = raw_members(params.get("provider", b"")) or {}
        providers = routing.get("only", routing.get("order") if routing.get("allow_fallbacks") == b"false" else None)
        is_done = providers is not None and providers[:1] == b"[" and len(decode(providers)) == 1
    elif cause.code in (Code.BILLED_READ_FELL, Code.CLIENT_CAUSE_UNKNOWN, Code.VERDICT_DISAGREES):
        is_done = all(  # the fix: record whole bodies
            turn.fidelity in ("wire", "parsed") and not turn.prompt.partial for turn in (pair.previous, pair.current)
        ) and evidence.fix_detail() not in ("no-cache-key", "no-guarantee")
    elif cause.code == Code.CACHE_EXPIRED and isinstance(evidence, Paused):
        if (evidence.lifetime or ONE_HOUR) < ONE_HOUR == asked_lifetime(pair.previous):
            return changes | {"fix": fix_of(Code.LIFETIME_LOST, audience)}
        is_done = max(evidence.lifetime or 0, evidence.seconds) >= ONE_HOUR  # the longest lifetime
    return changes | {"fix": CODES[cause.code].fix_done} if is_done else changes


def _place_of(pair: Pair, cause: Cause) -> PromptPlace | None:
    """Return the place at which a cause makes the two prompts differ; None if only the cause's own path shows it.

    A tool that is added moves the system prompt: then text that changed there is compared with that at the same path.
    """
    if pair.overlap.is_covered:
        return None
    previous, current, common = pair.previous.prompt, pair.current.prompt, pair.overlap.common
    place = locate_difference(previous, current, max(cause.position, common))
    is_first = cause.position == common and (place is None or cause.section in (None, place.section))
    if not cause.path or is_first:
        return place
    old = previous.segment_at(cause.position)
    new = next((segment for segment in current.head if segment.path == cause.path), None)
    is_rewritten = cause.evidence.quoted_change() is not None
    return locate_between(old, new) if is_rewritten and old is not None and new is not None else None


def findings_of_problems(problems: Iterable[Problem], count_by_code: dict[str, int], place: Place) -> Iterable[Finding]:
    """Yield one finding for each kind of problem of a recording, at its first place, with their number."""
    codes: set[str] = set()
    for problem in problems:
        if problem.code not in codes:
            codes.add(problem.code)
            evidence = Damage(problem.message, count_by_code.get(problem.code, 1) - 1)
            yield finding(problem.code, place, evidence, line=problem.line)

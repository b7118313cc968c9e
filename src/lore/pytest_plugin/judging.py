"""Judge successive requests as `lore check` does, and write the message of a failing test.

A finding counts if `lore check` would fail by it (waste), if bytes that were to be reused moved and the cause is
unattributable, or if its prompt may be shorter than what can be cached (`under-minimum`), as prompts of tests are
short. So does a missing cache breakpoint if the API needs one. Expected breaks (another model, a compaction, a rewind)
do not count. A test may allow causes by code or name, but neither damage of a recording nor a budget. Credentials are
masked in the message, bodies never shown.

Requests come as tests have them: bodies as objects, text or bytes; requests of `httpx` and `requests`;
`{request, response | usage, timestamp}`; recorded ones. Each becomes a JSON record that lore reads: text and bytes are
kept verbatim (`wire`), an object is written in its own order (`parsed`), objects of an SDK as their JSON; any other
value is a LoreError that counts requests from 1.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

from msgspec.structs import replace

from lore.errors import LoreError, did_you_mean, kind_of, nearest_name
from lore.judge.base import RULES
from lore.judge.findings import finding, findings_of, with_one_loss
from lore.judge.pairs.pair import Pair
from lore.judge.requests.request_laws import needs_breakpoints
from lore.model.cause import Place
from lore.model.codes import CODES, Code, kind_in_words
from lore.model.evidence import BreakpointsDropped
from lore.model.results import DivergenceResult, Finding
from lore.model.times import decode_time
from lore.model.vector import common_prefix
from lore.prefix.overlap import find_divergence
from lore.pytest_plugin.recorder import PROCESS, LoreWarning, Recorded, Recorder
from lore.recording.base import Problems
from lore.recording.corpus import Opened
from lore.recording.opening import Options
from lore.report.plain import escape_commands, visible
from lore.run.checking.verdicts import verdicts
from lore.run.rules import PACKAGED
from lore.sdk.objects import plain

MOST_LISTED = 3  # pairs, and causes of a pair: the first is nearly always the cause of the others
EVIDENCE = 240  # characters
PLACE = Place("requests")
_HINT = "lore knows bodies of Anthropic, OpenAI Chat and Responses, Gemini and Bedrock"
_GIVE = "give bodies (dict, str or bytes), httpx or requests requests, or {request, usage, timestamp} records"
_RECORD_MEMBERS = frozenset(("request", "response", "usage", "timestamp"))
_LIST = 'give a list: allow=["date-in-prefix", "tools-reordered"]'
_BECAME = "… became …"
_SURROGATE = re.compile("[\ud800-\udfff]")


def check_requests(requests: Iterable[object], allow: str | Iterable[str]) -> str:
    """Return the assertion message, also if no two requests could be compared. Raises LoreError.

    Return "" if no finding counts, or in a test marked `moves_cache_prefix`, whose moves are recorded on the test. Warn
    of allowances that no request needs.
    """
    allowed = allowances(allow)
    if not isinstance(requests, Iterable) or isinstance(requests, str | bytes | Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        kind = kind_of(cast("object", requests))
        raise LoreError(f"assert_prefix_stable takes a list of requests, not {kind}", hint=_GIVE)
    records = [_entry(request, number) for number, request in enumerate(requests, 1)]
    judged = judge_records(records, expects_breakpoints=True)
    if not judged.pairs:
        return nothing_compared(requests, len(records), judged)
    unused = [word for code, word in allowed.items() if code not in judged.codes]
    if unused:
        warnings.warn(LoreWarning(f"allow={', '.join(unused)}: no request needs this; remove it"), stacklevel=3)
    disallowed_pairs = [
        pair._replace(findings=[f for f in pair.findings if f.code not in allowed]) for pair in judged.moved
    ]
    moved = [pair for pair in disallowed_pairs if pair.findings]
    test = PROCESS.test
    if moved and test is not None and test.reason is not None:
        for pair in moved:
            first = pair.findings[0]
            place = f" at {first.json_path}" if first.json_path else ""
            test.moved.append(f"request {pair.previous} → {pair.current}: {first.code} {first.name}{place}")
        return ""
    return failure_message(judged.pairs, moved) if moved else ""


# requests as records


def _entry(value: object, number: int) -> tuple[bytes, bool]:
    """Return a request as a JSON record, and whether the caller passed it as a body, and so it has to be one."""
    if isinstance(value, Recorded):
        record = value.record()
    elif isinstance(value, Mapping) and "request" in value:
        members = dict(cast("Mapping[str, object]", value))
        _check_members(members, number)
        record = {**members, "request": _body(members["request"], number)}
    else:
        record = {"request": _body(cast("object", value), number)}
    try:
        text = json.dumps(record, ensure_ascii=False, default=plain, allow_nan=False)
    except (LoreError, TypeError, ValueError, RecursionError) as error:
        reason = error.message if isinstance(error, LoreError) else error
        raise LoreError(f"request {number} is not JSON: {reason}", hint=_GIVE) from None
    data = _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode("utf-8")
    return data, not isinstance(value, Recorded)


def _check_members(members: dict[str, object], number: int) -> None:
    """Raise LoreError for a misspelled member of a record, an unreadable time, and usage that is not a mapping."""
    missing = sorted(_RECORD_MEMBERS - members.keys())
    for name in members.keys() - _RECORD_MEMBERS:
        near = nearest_name(name, missing, 0.85)  # `response_id`, of other recorders, is less like one
        if near is not None:
            raise LoreError(f"request {number}: a record has no member {name!r}", hint=f"did you mean {near!r}?")
    timestamp, usage = members.get("timestamp"), members.get("usage")
    if isinstance(timestamp, str) and decode_time(json.dumps(timestamp).encode()) is None:
        raise LoreError(f"request {number}: timestamp {timestamp!r} is not a time", hint="give RFC 3339, or seconds")
    if isinstance(usage, str | int | float):
        raise LoreError(f"request {number}: usage is {kind_of(usage)}, expected a mapping", hint=_GIVE)


def _body(value: object, number: int) -> object:
    """Return a body as text if it is text or bytes, otherwise as the object that it is."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))
    if not isinstance(value, str | bytes | bytearray | memoryview):
        value = _body_of_request(value, number)
    if isinstance(value, str):
        return value
    try:
        return bytes(cast("bytes", value)).decode("utf-8")
    except UnicodeDecodeError as error:
        raise LoreError(f"request {number} is not UTF-8 text (byte {error.start})", hint=_GIVE) from None


def _body_of_request(value: object, number: int) -> str | bytes:
    """Return the body of a request object: `content` of an httpx one, `body` of a prepared one."""
    kind = type(value)
    if (kind.__module__, kind.__name__) == ("requests.models", "Request"):
        value = cast("Any", value).prepare()
    for name in ("content", "body"):
        try:
            body = getattr(value, name, None)
        except Exception as error:  # noqa: BLE001 - httpx has an error of its own for a body that is a stream
            raise LoreError(f"request {number} has a body that was not read: {error}", hint="read it first") from None
        if isinstance(body, str | bytes):
            return body
    raise LoreError(f"request {number} is {kind_of(value)}, not a request", hint=_GIVE)


# judging


class MovedPrefix(NamedTuple):
    """Two successive requests, numbered from 1, between which the prefix moved.

    Both numbers are the same if one request wastes by itself (too many breakpoints).
    """

    previous: int
    current: int
    chain: str
    findings: list[Finding]
    pair: Pair | None  # only if the bytes of two requests differ


class JudgedRequests(NamedTuple):
    """The findings in requests."""

    requests: int  # that lore knows
    side_calls: int  # of them, titles, probes and the like, which no conversation continues
    pairs: int  # that were compared
    moved: list[MovedPrefix]
    codes: set[str]  # of everything that was found


def judge_records(records: list[tuple[bytes, bool]], *, expects_breakpoints: bool = False) -> JudgedRequests:
    """Judge requests in the order in which they were sent; raises LoreError for one that lore does not know.

    With `expects_breakpoints`, one that is missing is found without asking usage whether that cost anything, as
    `lore check` does. Cost O(bytes of all requests).
    """
    problems, moved, codes = Problems(), list[MovedPrefix](), set[str]()
    prompts = pairs = side_calls = 0
    data = b"\n".join(record for record, _ in records)
    recording = Options(format="bodies").open("requests", problems, opened=Opened(data, iter([data])))
    for verdict, of_chains in verdicts(recording, PACKAGED.judge(), PLACE):
        for found in of_chains:
            codes.add(found.code)
            if found.kind == "waste":
                line = found.line or 0
                moved.append(MovedPrefix(line, line, found.chain or "main", [found], None))
        prompts += verdict is not None and verdict.turn.fidelity != "structural"  # whose body could not be read
        pair = None if verdict is None else verdict.pair
        side_calls += verdict is not None and verdict.turn.chain.startswith("utility-")
        if pair is None:
            continue
        pairs += 1
        findings = [found for _, found in findings_of(_as_if_long(pair), PLACE)]
        findings += [found for rule in RULES.values() for found in rule.pair(pair, PLACE)]
        codes.update(found.code for found in findings)
        failing = with_one_loss([found for found in findings if _is_failing(found, pair)])
        unmarked = _find_missing_breakpoints(pair) if expects_breakpoints else None
        shown = pair if failing else None
        if unmarked is not None and all(found.code != unmarked.code for found in failing):
            codes.add(unmarked.code)
            failing.append(unmarked)
        if failing:
            moved.append(
                MovedPrefix(pair.previous.line or 0, pair.current.line or 0, pair.current.chain, failing, shown)
            )
    for problem in problems.kept:
        number = problem.line or 1
        if records[number - 1][1] and problem.code != Code.BILL_CONTRADICTS_BODY:
            raise LoreError(f"request {number} cannot be judged: {problem.message}", hint=_HINT)
    return JudgedRequests(prompts, side_calls, pairs, moved, codes)


def _as_if_long(pair: Pair) -> Pair:
    """Return a pair whose causes keep their kind although usage says that the prompts are too short to be cached."""
    causes = [
        replace(cause, qualifiers=tuple([word for word in cause.qualifiers if word != "too-short-by-usage"]))
        for cause in pair.causes
    ]
    return replace(pair, causes=tuple(causes))


def _is_failing(finding: Finding, pair: Pair) -> bool:
    is_little = "little-lost" in finding.qualifiers and pair.short is None  # by bytes, as usage states no reads
    if is_little or "under-minimum" in finding.qualifiers:  # prompts of tests are short, and usage of mocks is made up
        return True
    if finding.kind != "unattributable":
        return finding.kind == "waste" and "little-lost" not in finding.qualifiers
    return not pair.overlap.is_covered and (bool(finding.lost_bytes) or pair.uncacheable)


def _find_missing_breakpoints(pair: Pair) -> Finding | None:
    """Return that a request has no breakpoint, or its last one moved back, if its cache needs breakpoints."""
    turns = (pair.previous, pair.current)
    if not needs_breakpoints(pair.current) or any(turn.is_rebuilt or turn.fidelity == "structural" for turn in turns):
        return None
    old, new = ((*prompt.breakpoints, *[prompt.stable - 1] * prompt.auto_breakpoint) for prompt in
                (turn.prompt for turn in turns))  # fmt: skip
    if old and new and (new[-1] >= old[-1] or pair.overlap.canonical <= old[-1]):
        return None
    evidence, at = BreakpointsDropped(len(old), len(new) if old else 0), pair.current if old else pair.previous
    return finding(Code.BREAKPOINTS_MISSING, PLACE, evidence, at=at, section="messages", kind="waste")


def allowances(allow: object) -> dict[str, str]:
    """Return the codes that a test allows, each with the word that named it; raises LoreError for an unknown word."""
    if isinstance(allow, Mapping) or not isinstance(allow, Iterable):
        raise LoreError(f"allow is {allow!r}, and names no causes", hint=_LIST)
    words: list[object] = [allow] if isinstance(allow, str) else list(cast("Iterable[object]", allow))
    codes = {code.name: key for key, code in CODES.items() if key.startswith(("LORE1", "LORE3"))}
    allowed: dict[str, str] = {}
    for word in words:
        text = word.strip() if isinstance(word, str) else ""
        cause = codes.get(text.lower(), text.upper())
        if cause in codes.values():
            allowed[cause] = str(word)
        elif cause in CODES:
            hint = "`lore explain` lists the causes, LORE1xx and LORE3xx"
            raise LoreError(f"{text} is not a cause: it cannot be allowed", hint=hint)
        else:
            hint = "`lore explain` lists codes and names; write one whole"
            hint = did_you_mean(text.lower(), codes) if nearest_name(text.lower(), codes) else hint
            hint = _LIST if "," in text or " " in text else hint
            raise LoreError(f"allow: there is no cause {word!r}", hint=hint)
    return allowed


# messages


def nothing_compared(requests: object, count: int, judged: JudgedRequests) -> str:
    """Return why nothing was judged of `count` requests."""
    streams, watched, prompts, side_calls = 0, "", judged.requests, judged.side_calls
    if isinstance(requests, Recorder):
        streams = sum(request.body is None and request.method == "POST" for request in requests)
    if isinstance(requests, Recorder) and not count:
        from lore.pytest_plugin.unrecorded import unrecorded_sdks  # noqa: PLC0415 - only if nothing was recorded

        names = ", ".join(requests.watched)
        libraries = f"recorded from {names}" if names else "no library that lore records is installed"
        watched = "; ".join(("", libraries, *unrecorded_sdks()))
    if prompts > 1:
        why = f"no two of {prompts} requests belong to one conversation"
    elif prompts:
        others = f"; {count - 1} of {count} are not prompts that lore knows" if count > 1 else ""
        why = f"there is only one prompt{others}"
    else:
        why = f"none of {count} requests is a prompt that lore knows" if count else f"there are no requests{watched}"
    if side_calls:
        which = "one is a side call" if side_calls == 1 else f"{side_calls} are side calls"
        why += f"; {which}: a title, or a check of a key (max_tokens of at most 16; with a system prompt, of 1)"
    if streams:
        why += f"; the body of {streams} was a stream, which is not recorded: send bytes, text or json="
    return f"nothing was compared: {why}"


def failure_message(pairs: int, moved: list[MovedPrefix]) -> str:
    """Return the message of a failing assertion."""
    codes = {found.code for pair in moved for found in pair.findings}
    what = "cache breakpoints are missing" if codes == {Code.BREAKPOINTS_MISSING} else "the prompt's prefix moved"
    lines = [f"{what} in {len(moved)} of {pairs} pair{'s' * (pairs != 1)} of successive requests"]
    for pair in moved[:MOST_LISTED]:
        lines += ["", *_describe(pair)]
    if len(moved) > MOST_LISTED:
        lines += ["", f"and {len(moved) - MOST_LISTED} pairs more"]
    return "\n".join(lines)


def _describe(moved: MovedPrefix) -> list[str]:
    chain = "" if moved.chain == "main" else f" ({moved.chain})"
    which = f"{moved.previous} → {moved.current}" if moved.previous != moved.current else f"{moved.current}"
    reused, pair, where = "", moved.pair, None
    if pair is not None:
        where = find_divergence(pair.previous.prompt, pair.current.prompt, pair.overlap, pair.bytes.common)
        common, reusable = pair.bytes.common + pair.overlap.common_bytes, pair.bytes.previous - pair.tail_bytes
        reused = f": {common:,} of {reusable:,} bytes can be reused"
    lines = [f"request {which}{chain}{reused}", *([] if where is None else _divergence(where))]
    for number, found in enumerate(moved.findings[:MOST_LISTED]):
        text = visible((found.evidence and found.evidence.sentence()) or found.message)
        if number == 0 and where is not None and _BECAME in text:
            text = text.partition(": …")[0]  # both texts are shown above
        short = text if len(text) <= EVIDENCE else text[:EVIDENCE] + "…"
        kind = kind_in_words(found.kind, found.code)
        lines += [f"  {found.code} {found.name} ({kind}): {short}", f"    fix: {found.fix}"]
    if len(moved.findings) > MOST_LISTED:
        lines.append(f"  and {len(moved.findings) - MOST_LISTED} causes more")
    return lines


def _divergence(where: DivergenceResult) -> list[str]:
    """Return both sides, each with the text before it that is still equal."""
    before, after = where.left.encode(), where.right.encode()
    shared = len(before[: common_prefix(before, after)].decode("utf-8", "ignore"))
    lines = [f"  differs at {where.path}, byte {where.offset:,} of it, in {where.section}"]
    for sign, text in (("-", where.left), ("+", where.right)):
        excerpt = f"…{visible(text[:shared])}{visible(text[shared:])}…" if text else "(ends here)"
        lines.append(f"    {sign} {escape_commands(excerpt)}")
    return lines

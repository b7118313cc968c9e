"""Judge successive requests as `lore check` does: chains, pairs, rules; and keep what moved the prefix.

A finding counts where `lore check` would fail by it (waste), and where bytes that were to be reused moved
and nothing says whose fault it is. What is expected (a model change, a compaction, a rewind) does not count. A test may
allow causes by code or name; what is wrong with a recording or over a budget is no cause, and cannot be allowed. What
is said fits a test's failure: credentials are masked, bodies never shown.

Requests come as tests hold them: bodies as objects, text or bytes; requests of `httpx` and `requests`;
`{request, response | usage, timestamp}`; what a recorder recorded. Each becomes a JSON record that lore reads: text and
bytes are kept as they are (`wire`), an object is written in its own order (`parsed`), objects of an SDK as their JSON;
what is no JSON is a LoreError that counts requests from 1.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any, NamedTuple, cast

from lore.errors import LoreError
from lore.judge.base import RULES, TurnVerdict, findings_of
from lore.judge.pair import Pair
from lore.model.cause import Place
from lore.model.codes import CODES
from lore.model.results import DiffResult, DiffSide, DivergenceResult, Finding
from lore.model.vector import common_prefix
from lore.pytest_plugin.recorder import Recorded
from lore.recording.base import Problems
from lore.recording.corpus import Opened
from lore.recording.opening import Options
from lore.report.pair_figures import PairFigures
from lore.report.plain import uncommanded, visible
from lore.run.checking.verdicts import verdicts
from lore.run.dated import PACKAGED

_SURROGATE = re.compile("[\ud800-\udfff]")
_GIVE = "give bodies (dict, str or bytes), httpx or requests requests, or {request, usage, timestamp} records"


class RequestEntry(NamedTuple):
    """One request as a JSON record; `must`: it was given as a request body, and has to be one."""

    record: bytes
    must: bool


def entries(requests: Iterable[object]) -> list[RequestEntry]:
    """Return a record for each request; raises LoreError for what is none."""
    if not _is_list(requests):
        raise LoreError(f"assert_prefix_stable takes a list of requests, not {_kind(requests)}", hint=_GIVE)
    return [_entry(request, number) for number, request in enumerate(requests, 1)]


def _is_list(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _entry(value: object, number: int) -> RequestEntry:
    if isinstance(value, Recorded):
        return RequestEntry(_record(value.record(), number), must=False)
    members = _members(value)
    if members is not None and "request" in members:
        return RequestEntry(_record({**members, "request": _body(members["request"], number)}, number), must=True)
    return RequestEntry(_record({"request": _body(value, number)}, number), must=True)


def _members(value: object) -> dict[str, object] | None:
    """Return the members of a dict, None of anything else."""
    return dict(cast("Mapping[str, object]", value)) if isinstance(value, Mapping) else None


def _body(value: object, number: int) -> object:
    """Return a body as text where that is known, else as the object that it is."""
    members = _members(value)
    if members is not None:
        return members
    if not isinstance(value, str | bytes | bytearray | memoryview):
        value = _sent(value, number)
    if isinstance(value, str):
        return value
    try:
        return bytes(cast("bytes", value)).decode("utf-8")
    except UnicodeDecodeError as error:
        raise LoreError(f"request {number} is no UTF-8 text (byte {error.start})", hint=_GIVE) from None


def _sent(value: object, number: int) -> str | bytes:
    """Return the body of a request object: `content` as httpx has it, `body` as requests has it."""
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
    raise LoreError(f"request {number} is {_kind(value)}, and no request", hint=_GIVE)


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _record(record: Mapping[str, Any], number: int) -> bytes:
    try:
        text = json.dumps(record, ensure_ascii=False, default=_plain, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise LoreError(f"request {number} is no JSON: {error}", hint=_GIVE) from None
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode("utf-8")


def _plain(value: object) -> object:
    """Return an object as JSON has it: models of an SDK as they would be sent, times as text."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, Mapping):
        return _members(cast("object", value))
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(cast("bytes", value)).decode("utf-8")
    raise TypeError(f"{_kind(value)} in it")


PLACE = Place("requests")
_HINT = "lore knows bodies of Anthropic, OpenAI Chat and Responses, Gemini and Bedrock"


class MovedPrefix(NamedTuple):
    """Two successive requests, numbered from 1, between which the prefix moved.

    Where one request wastes by itself (too many breakpoints), both numbers are its own and `diff` is None.
    """

    left: int
    right: int
    chain: str
    findings: tuple[Finding, ...]
    diff: DiffResult | None


class JudgedRequests(NamedTuple):
    """How many of the requests lore knows and how many pairs were compared, what moved, every code that was found."""

    requests: int
    pairs: int
    moved: tuple[MovedPrefix, ...]
    codes: frozenset[str]


def judge(entries: list[RequestEntry]) -> JudgedRequests:
    """Judge requests in the order in which they were sent; raises LoreError for one that is none.

    Cost O(bytes of all requests).
    """
    problems = Problems()
    data = b"\n".join(entry.record for entry in entries)
    recording = Options(format="bodies").open("requests", problems, opened=Opened(data, iter([data])))
    judged = _RequestVerdicts()
    for verdict, ended in verdicts(recording, PACKAGED.judge(), PLACE):
        judged.ended(ended)
        if verdict is not None:
            judged.take(verdict)
    for problem in problems.kept:
        number = problem.line or 1
        if entries[number - 1].must:
            raise LoreError(f"request {number} cannot be judged: {problem.message}", hint=_HINT)
    return JudgedRequests(judged.requests, judged.pairs, tuple(judged.moved), frozenset(judged.codes))


class _RequestVerdicts:
    """The verdicts on requests, as far as a test fails by them."""

    def __init__(self) -> None:
        self._chains: dict[str, PairFigures] = {}
        self.requests = self.pairs = 0
        self.moved: list[MovedPrefix] = []
        self.codes: set[str] = set()

    def take(self, verdict: TurnVerdict) -> None:
        """Take a verdict."""
        self.requests += 1
        turn, pair = verdict.turn, verdict.pair
        if pair is None:
            self._chains[turn.chain] = PairFigures(turn)
            return
        if pair.left.chain != turn.chain:
            self._chains[turn.chain] = PairFigures(pair.left)
        self.pairs += 1
        numbers = pair.left.line or 0, pair.right.line or 0
        sides = [DiffSide(f"request {number}") for number in numbers]
        diff = self._chains[turn.chain].describe(pair, PLACE, *sides)
        found = [finding for _, finding in findings_of(pair, PLACE)]
        found += [finding for rule in RULES.values() for finding in rule.pair(pair, PLACE)]
        self.codes.update(finding.code for finding in found)
        moved = tuple(finding for finding in found if _counts(finding, pair))
        if moved:
            self.moved.append(MovedPrefix(*numbers, turn.chain, moved, diff))

    def ended(self, findings: list[Finding]) -> None:
        """Take what was found in whole chains: waste fails here as it does `lore check`."""
        for finding in findings:
            self.codes.add(finding.code)
            if finding.kind == "waste":
                line, chain = finding.line or 0, finding.chain or "main"
                self.moved.append(MovedPrefix(line, line, chain, (finding,), None))


def _counts(finding: Finding, pair: Pair) -> bool:
    if finding.kind != "unattributable":
        return finding.kind == "waste"
    return not pair.overlap.is_covered and (bool(finding.lost_bytes) or pair.uncacheable)


_LIST = 'give a list: allow=["date-in-prefix", "tools-reordered"]'
_CAUSES = ("LORE1", "LORE3")


def allowances(allow: object) -> dict[str, str]:
    """Return the word that was given for each code; raises LoreError for a word that names no cause."""
    if isinstance(allow, Mapping) or not isinstance(allow, Iterable):
        raise LoreError(f"allow is {allow!r}, and names no causes", hint=_LIST)
    words: list[object] = [allow] if isinstance(allow, str) else list(cast("Iterable[object]", allow))
    return {_code(word): str(word) for word in words}


def _code(word: object) -> str:
    known = {code.name: key for key, code in CODES.items() if key.startswith(_CAUSES)}
    text = word.strip() if isinstance(word, str) else ""
    found = known.get(text.lower()) or next((code for code in known.values() if code == text.upper()), None)
    if found is not None:
        return found
    if text.upper() in CODES:
        raise LoreError(f"{text} is no cause: it cannot be allowed", hint="`lore explain` lists the causes, LORE1xx")
    near = difflib.get_close_matches(text.lower(), known, 1)
    hint = f"did you mean {near[0]}?" if near else "`lore explain` lists codes and names; write one whole"
    hint = _LIST if "," in text or " " in text else hint
    raise LoreError(f"allow: no cause is called {word!r}", hint=hint)


SHOWN = 3  # pairs, and causes of a pair: the first is nearly always why the others are there
EVIDENCE = 240  # characters
_BECAME = "… became …"


def failure(judged: JudgedRequests, moved: list[MovedPrefix]) -> str:
    """Return the message of a failing assertion."""
    pairs = "pair" if judged.pairs == 1 else "pairs"
    lines = [f"the prompt's prefix moved in {len(moved)} of {judged.pairs} {pairs} of successive requests"]
    for pair in moved[:SHOWN]:
        lines += ["", *_pair(pair)]
    if len(moved) > SHOWN:
        lines += ["", f"and {len(moved) - SHOWN} pairs more"]
    return "\n".join(lines)


def nothing_compared(given: int, judged: JudgedRequests, watched: str, streams: int = 0) -> str:
    """Say why there was nothing to judge; `streams` of the requests had a body that could not be recorded."""
    if judged.requests > 1:
        why = f"no two of {judged.requests} requests belong to one conversation"
    elif judged.requests:
        others = f"; {given - 1} of {given} are no prompts that lore knows" if given > 1 else ""
        why = f"there is only one prompt{others}"
    else:
        why = f"none of {given} requests is a prompt that lore knows" if given else f"there are no requests{watched}"
    if streams:
        why += f"; the body of {streams} was a stream, which only its reader gets: send bytes, text or json="
    return f"nothing was compared: {why}"


def brief(moved: MovedPrefix) -> str:
    """Say in one line what moved."""
    first = moved.findings[0]
    where = f" at {first.json_path}" if first.json_path else ""
    return f"request {moved.left} → {moved.right}: {first.code} {first.name}{where}"


def _pair(moved: MovedPrefix) -> list[str]:
    chain = "" if moved.chain == "main" else f" ({moved.chain})"
    which = f"{moved.left} → {moved.right}" if moved.left != moved.right else f"{moved.left}"
    lines = [f"request {which}{chain}{_kept(moved)}"]
    if moved.diff is not None and moved.diff.divergence is not None:
        lines += _divergence(moved.diff.divergence)
    for number, found in enumerate(moved.findings[:SHOWN]):
        lines += _cause(found, shown=number == 0 and moved.diff is not None and moved.diff.divergence is not None)
    if len(moved.findings) > SHOWN:
        lines.append(f"  and {len(moved.findings) - SHOWN} causes more")
    return lines


def _kept(moved: MovedPrefix) -> str:
    prompt = None if moved.diff is None else moved.diff.prompt
    if prompt is None:
        return ""
    stable = prompt.left_bytes - prompt.left_tail_bytes
    return f": {prompt.common_prefix_bytes:,} of {stable:,} bytes can be reused"


def _divergence(where: DivergenceResult) -> list[str]:
    """Show both sides from where they are still equal."""
    left, right = where.left.encode(), where.right.encode()
    shared = len(left[: common_prefix(left, right)].decode("utf-8", "ignore"))
    lines = [f"  differs at {where.path}, byte {where.offset:,} of it, in {where.section}"]
    for sign, text in (("-", where.left), ("+", where.right)):
        shown = f"…{visible(text[:shared])}{visible(text[shared:])}…" if text else "(ends here)"
        lines.append(f"    {sign} {uncommanded(shown)}")
    return lines


def _cause(finding: Finding, *, shown: bool) -> list[str]:
    """Say why and what to do; what was `shown` already, both texts, is not said again."""
    text = visible((finding.evidence and finding.evidence.sentence()) or finding.message)
    if shown and _BECAME in text:
        text = text.partition(": …")[0]
    short = text if len(text) <= EVIDENCE else text[:EVIDENCE] + "…"
    return [f"  {finding.code} {finding.name} ({finding.kind}): {short}", f"    fix: {finding.fix}"]

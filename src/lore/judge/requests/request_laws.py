"""Rules about one recorded request, for `lint` and `check`: its breakpoints, its system prompt and its fields.

They need no usage and no other request. Cost: O(breakpoints and new segments).

Sources (read 2026-11-23): Anthropic's prompt caching guide and what its API answers to such requests (400:
"cache_control cannot be set for empty text blocks", "thinking.cache_control: Extra inputs are not permitted", "a
ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"); LangChain's middleware for Anthropic
(no breakpoint on calls of `code_execution` and their results); OpenAI's prompt caching guide
(explicit breakpoints are on input parts; a key has at most 64 characters; `prompt_cache_retention`); Gemini's (400:
a request with a cached content may not repeat its fields).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, pairwise

from msgspec import Struct
from msgspec.structs import replace

from lore.cache.breakpoint_rules import BreakpointRule
from lore.cache.counts import BYTES_PER_TOKEN, FIVE_MINUTES, has_unseen, lifetime_of, sent_tokens
from lore.cache.rules import DatedRules, allowed_breakpoints, minimum_tokens
from lore.cache.served import cache_of, drops_reasoning, served_by
from lore.model import differences as d
from lore.model.canonical import printable, text_of
from lore.model.codes import CauseKind, Code
from lore.model.evidence import Evidence
from lore.model.jsonslice import array, raw_members
from lore.model.mask import mask
from lore.model.providers import has_exact_breakpoints, provider_of
from lore.model.turn import Prompt, Segment, Turn
from lore.prefix.blocks import BlockParts, block_of, message_start
from lore.prefix.volatile import find_volatile_in_system

UNDERRATED = 1.5  # an estimate from bytes may be too low by this factor
MOST = 16_384  # tokens: no provider asks for more, so nothing is looked up
FEWEST = 512  # tokens: no model of breakpoints caches less, so for less nothing is looked up
UNPUBLISHED = 4096  # tokens: used for a minimum that is not published: no model has a higher one
LONGEST_KEY = 64  # characters of OpenAI's prompt_cache_key
_DAY = 86_400


class Broken(Struct, frozen=True):
    """A rule that a request breaks."""

    code: str
    section: str
    path: str  # of the place in the body
    evidence: Evidence
    kind: CauseKind | None = None  # None: the code's own
    at: int = -1  # the segment there; -1: none
    start: int = 0  # the character of its text
    tokens: int | None = None  # that are re-billed in each request, estimated (`lint`); None: unknown
    dollars: float | None = None  # that these cost beyond a read of them; None: unknown
    text: str = ""  # of the segment, for its place in the body; empty if it is not needed


class Foreign(Struct, frozen=True):
    """A breakpoint that is written for another API, or inside a tool's result."""

    name: str  # the member; `inside NAME` in a tool's result
    path: str
    at: int  # the segment's position; -1: a parameter of the request
    section: str


def request_laws(turn: Turn, rules: Callable[[], DatedRules], foreign: list[Foreign]) -> Iterator[Broken]:
    """Yield the rules about breakpoints and settings that a request, with these `foreign` ones, surely breaks."""
    prompt = turn.prompt
    number = len(prompt.breakpoints) + prompt.auto_breakpoint  # also on one block (coder/mux#3112: "Found 5")
    if number:
        rule = allowed_breakpoints(rules(), turn) or _ANY_API
        if rule.most and number > rule.most:
            at, count = prompt.breakpoints[-1], d.BreakpointsCount(number, rule.most)
            yield Broken(Code.TOO_MANY_BREAKPOINTS, "messages", path_at(prompt, at), count, _kind_if_answered(turn), at)
        yield from _find_unmarkable(turn, rule)
        if prompt.auto_breakpoint and prompt.dialect == "anthropic":
            value = prompt.params["cache_control"]
            reason = _reason_in_value(prompt, rule, value) if rule.automatic else "other-api"
            if reason is not None:
                detail = _stated(value, reason) if rule.automatic else "cache_control"
                yield _not_taken(turn, "parameters", "cache_control", reason, detail)
        is_doubled = rule.automatic and prompt.auto_breakpoint and prompt.breakpoints[-1:] == (len(prompt) - 1,)
        if is_doubled and _lifetime(prompt.breakpoint_values[-1]) != _lifetime(prompt.params["cache_control"]):
            yield _not_taken(turn, "messages", path_at(prompt, len(prompt) - 1), "automatic-lifetime")
        elif rule.longest_first:
            yield from _find_out_of_order(turn)
    yield from _find_refused(turn, rules, foreign)
    yield from find_settings(turn, rules)


# What the providers that give requests to machines by a key call it (OpenAI's guide to prompt caching; docs.x.ai,
# maximizing cache hits: the header for any API of xAI's, the member for Responses).
ROUTING_KEYS = {"openai": "prompt_cache_key", "xai": "x-grok-conv-id"}


def lacks_cache_key(turn: Turn, provider: str) -> bool:
    """Return whether a request surely has no key by which this provider selects the machine."""
    if provider not in ROUTING_KEYS or turn.prompt.params.get("prompt_cache_key", b"null") != b"null":
        return False
    has_headers = turn.call.betas is not None
    return provider == "openai" or (has_headers and not turn.call.route.startswith(ROUTING_KEYS[provider]))


def path_at(prompt: Prompt, at: int) -> str:
    """Return the path of the segment at a position; empty without one."""
    segment = prompt.segment_at(at) if at >= 0 else None
    return "" if segment is None else segment.path


# which breakpoints count


_TYPES = (b'"ephemeral"', None)  # Anthropic's reference has only this one
# For an API and model without a row: what every known API refuses.
_ANY_API = BreakpointRule(
    apis=(), field="cache_control", sections=("tools", "system", "messages"), lifetimes=(300, 3600), longest_first=True,
    automatic=True, most=4,
)  # fmt: skip


def _find_unmarkable(turn: Turn, rule: BreakpointRule) -> Iterator[Broken]:
    """Yield the breakpoints of a request that do not count; those that nothing refuses are noted by lint alone."""
    prompt = turn.prompt
    for at, value in zip(prompt.breakpoints, prompt.breakpoint_values, strict=False):
        segment = prompt.segment_at(at)
        reason = None if segment is None else _reason(turn, rule, segment, at, value)
        if segment is None or reason is None:
            continue
        detail = segment.section if reason == "section" else _stated(value, reason)
        yield _not_taken(turn, segment.section, segment.path, reason, detail, at, refuses=rule.refuses)


def _stated(value: bytes, reason: d.Unmarkable) -> str:
    """Return the member of a breakpoint that is the reason why it does not count, as it is written."""
    stated = (raw_members(value) or {}).get({"lifetime": "ttl"}.get(reason, reason), b"")
    return printable(mask(stated.decode("utf-8", "replace"))[:40])


def _not_taken(
    turn: Turn, section: str, path: str, reason: d.Unmarkable, detail: str = "", at: int = -1, *, refuses: bool = True
) -> Broken:  # fmt: skip
    """Return that a breakpoint does not count, perhaps as an error (`refuses`)."""
    kind = _kind_if_answered(turn) if refuses else "unattributable"
    return Broken(Code.BREAKPOINT_NOT_TAKEN, section, path, d.BreakpointNotTaken(reason, detail), kind, at)


def _kind_if_answered(turn: Turn) -> CauseKind | None:
    """Return the kind of what an API refuses: answered, it passed a gateway that mends it, or went to another API."""
    return None if turn.usage is None else "unattributable"


def _reason(turn: Turn, rule: BreakpointRule, segment: Segment, at: int, value: bytes) -> d.Unmarkable | None:
    """Return why a breakpoint does not count; None if it does."""
    prompt = turn.prompt
    if not rule.field:
        return "model" if rule.refused else None  # a cache that ignores breakpoints: `ignored_breakpoints`
    if segment.is_marked_by_message and prompt.dialect == "anthropic":
        return "message"
    if segment.section not in rule.sections:
        return "section"
    if segment.kind == "tool":
        deferred = (
            b'"defer_loading"' in segment.data and (raw_members(segment.data) or {}).get("defer_loading") == b"true"
        )
        if deferred:
            return "deferred-tool"
    else:
        block = block_of(segment)
        if block.kind == "thinking":
            return "thinking"
        if block.kind in ("call", "result") and _is_called_by_code(prompt, at, block):
            return "called-by-code"
        if block.kind == "text" and block.members and block.text == "":
            return "empty-text"
        if rule.field == "prompt_cache_breakpoint" and b'"mode"' in value and at >= len(prompt.head):
            message = prompt.messages[message_start(prompt, at - len(prompt.head))]
            if (raw_members(message.json) or {}).get("role") == b'"assistant"':
                return "not-input"
    return _reason_in_value(prompt, rule, value)


def _reason_in_value(prompt: Prompt, rule: BreakpointRule, value: bytes) -> d.Unmarkable | None:
    """Return why a breakpoint with this value does not count, wherever it is; None if it does."""
    members = raw_members(value) or {}
    if prompt.dialect != "bedrock" and rule.field == "cache_control" and members.get("type") not in _TYPES:
        return "type"
    asks_lifetime = rule.lifetimes and members.get("ttl", b"null") != b"null"
    return "lifetime" if asks_lifetime and lifetime_of(value) not in rule.lifetimes else None


def _is_called_by_code(prompt: Prompt, at: int, block: BlockParts) -> bool:
    """Return whether code that the provider ran made a call, or the call that a result answers."""
    answered = block.members.get("tool_use_id", b"")
    for place in range(at, len(prompt.head) - 1, -1):
        members = block.members if place == at else raw_members(prompt.messages[place - len(prompt.head)].json) or {}
        if not answered or members.get("id") == answered:
            caller = raw_members(members.get("caller", b"")) or {}
            return caller.get("type", b"").startswith(b'"code_execution')
    return False


_FIELDS_OF_ANY = ("cache_control", "cachePoint", "cacheControl", "prompt_cache_breakpoint")
_NEEDLES = tuple([f'"{field}"'.encode() for field in _FIELDS_OF_ANY])
_INNER = ("function", "toolSpec", "providerOptions")  # members whose object may hold the breakpoint
_ENDS = 512  # bytes at either end of a segment in which a breakpoint is written


def find_foreign(prompt: Prompt, seen: range = range(0), known: Iterable[Foreign] = ()) -> list[Foreign]:
    """Return the breakpoints that are written for another API, or inside a tool's result.

    The segments at the positions `seen` are those of an earlier request, in which `known` was found.
    """
    params = [name for name in _FIELDS_OF_ANY if prompt.params.get(name, b"null") != b"null"]
    found = [one for one in known if one.at in seen]
    for at in (*range(seen.start), *range(seen.stop, len(prompt))):
        segment = prompt.segment_at(at)
        if segment is not None and (name := _field_in(segment)):
            found.append(Foreign(name, segment.path, at, segment.section))
    return [*(Foreign(name, "", -1, "parameters") for name in params), *sorted(found, key=lambda one: one.at)]


def _find_refused(turn: Turn, rules: Callable[[], DatedRules], foreign: list[Foreign]) -> Iterator[Broken]:
    """Yield the first of a request's `foreign` breakpoints that is refused."""
    rule = allowed_breakpoints(rules(), turn) if foreign else None
    for one in foreign:
        inside = one.name.startswith("inside ")
        reason: d.Unmarkable = "inside-result" if inside else "other-api"
        if rule is None or (rule.inside_results if inside else one.name not in rule.refused):
            continue
        yield _not_taken(turn, one.section, one.path or one.name, reason, "" if inside else one.name, one.at)
        return


def _field_in(segment: Segment) -> str:
    """Return the breakpoint member that a segment's own object holds; `inside NAME` for one in a tool's result."""
    data = segment.data
    ends = data if len(data) <= 2 * _ENDS else data[:_ENDS] + data[-_ENDS:]
    if not any(needle in ends for needle in _NEEDLES):
        return ""
    members = raw_members(segment.json) or {}
    for name in _FIELDS_OF_ANY:
        if any(name in inner for inner in (members, *(raw_members(members.get(key, b"")) or {} for key in _INNER))):
            return name
    result = raw_members(members.get("toolResult", b"")) or {}
    blocks = array(result.get("content", b""))
    return "inside cachePoint" if any([*(raw_members(block) or {})] == ["cachePoint"] for block in blocks) else ""


def _find_out_of_order(turn: Turn) -> Iterator[Broken]:
    """Yield the first breakpoint that asks for a longer lifetime than one before it."""
    prompt = turn.prompt
    marks = zip(prompt.breakpoints, prompt.breakpoint_values, strict=False)
    lives = [(at, _lifetime(value)) for at, value in marks]
    if prompt.auto_breakpoint:  # on the last block
        lives.append((len(prompt) - 1, _lifetime(prompt.params["cache_control"])))
    for (first, shorter), (at, longer) in pairwise(lives):
        before, segment = prompt.segment_at(first), prompt.segment_at(at)
        if longer > shorter and before is not None and segment is not None:
            evidence = d.LifetimesOutOfOrder(longer, shorter, before.path)
            kind = _kind_if_answered(turn)
            yield Broken(Code.LIFETIMES_OUT_OF_ORDER, segment.section, segment.path, evidence, kind, at)
            return


def _lifetime(value: bytes) -> float:
    return lifetime_of(value) or FIVE_MINUTES


# text that is new in each request


def volatile_head(prompt: Prompt, labels: tuple[str, ...] = ()) -> Iterator[Broken]:
    """Find text in the system prompt that is certainly new in each request, and breakpoints on it."""
    places = frozenset(prompt.breakpoints)
    for at, segment in enumerate(prompt.head):
        if segment.section != "system" or segment.kind == "envelope":
            continue
        text = block_of(segment).text or ""
        match = find_volatile_in_system(text, labels)
        if match is None:
            continue
        what, words = match
        start = max(0, text.find(words))
        evidence = d.VolatileText(what, printable(mask(text)[start : start + len(words)][:80]))
        yield Broken(Code.VOLATILE_BEFORE_HISTORY, "system", segment.path, evidence, at=at, start=start)
        if at in places:
            marked_evidence = replace(evidence, on_breakpoint=True)
            yield Broken(Code.BREAKPOINT_ON_VOLATILE, "system", segment.path, marked_evidence, at=at, start=start)


# how much comes before breakpoints


def needs_breakpoints(turn: Turn) -> bool:
    """Return whether the cache needs breakpoints."""
    prompt = turn.prompt
    provider = provider_of(turn.call.endpoint, prompt.model, prompt.dialect)
    if provider == "openai" and has_exact_breakpoints(prompt.model):
        return b'"explicit"' in prompt.params.get("prompt_cache_options", b"")
    if prompt.dialect == "bedrock" and not prompt.model:  # a body for Converse, whose models cache at cachePoints
        return True
    if prompt.breakpoints and (prompt.dialect == "bedrock" or served_by(turn).provider == "qwen"):
        return True
    if "claude" not in (prompt.model or "").lower():
        return False
    return provider in ("anthropic", "bedrock", "vertex", "openrouter") or served_by(turn).provider == "anthropic"


def missing_breakpoints(
    turn: Turn, size: int, rules: Callable[[], DatedRules], repeated_tokens: int = 0
) -> d.BreakpointsMissing | None:
    """Return that a prompt has no breakpoint after enough text, although it needs one; None if it is well marked.

    `size` bytes of the prompt are sent several times: `repeated_tokens` by the usage; if 0, as many as are estimated.
    """
    prompt = turn.prompt
    is_short = repeated_tokens < FEWEST and size < FEWEST * BYTES_PER_TOKEN
    if is_short or not needs_breakpoints(turn) or prompt.auto_breakpoint:
        return None
    fewest = minimum_tokens(rules(), turn) or UNPUBLISHED
    if not repeated_tokens and size < fewest * BYTES_PER_TOKEN * UNDERRATED:
        return None
    tokens = repeated_tokens or round(size / BYTES_PER_TOKEN)
    tokens = min(tokens, sent_tokens(turn.usage) or tokens)
    if tokens < fewest:
        return None
    if not prompt.breakpoints:
        return d.BreakpointsMissing(tokens, fewest)
    cached = 0
    for segment in islice(prompt, prompt.breakpoints[-1] + 1):
        cached += len(segment.data)
        if cached / BYTES_PER_TOKEN * UNDERRATED >= fewest:  # enough: the rest is not added up for each turn
            return None
    return d.BreakpointsMissing(tokens, fewest, min(tokens, round(cached / BYTES_PER_TOKEN)))


def below_minimum(turn: Turn, rules: Callable[[], DatedRules]) -> d.BelowMinimum | None:
    """Return how short the prefix up to the last breakpoint is; None if it is long enough, or its size is unknown.

    Without a breakpoint it is the whole prompt. It is estimated from bytes: as their share of a bill, if there is one.
    """
    billed, prompt = sent_tokens(turn.usage), turn.prompt
    upto = len(prompt) if prompt.auto_breakpoint or not prompt.breakpoints else prompt.breakpoints[-1] + 1
    sizes = [len(segment.data) for segment in prompt]
    estimate = sum(sizes[:upto]) / BYTES_PER_TOKEN
    if billed:  # a long prompt is long enough wherever its breakpoint is
        is_shared = sizes and billed < MOST / UNDERRATED
        estimate = billed * sum(sizes[:upto]) / max(1, sum(sizes)) if is_shared else billed
    most = min(estimate * UNDERRATED, billed) if billed else estimate * UNDERRATED
    if most >= MOST:
        return None
    least = minimum_tokens(rules(), turn)
    if least is None or most >= least:
        return None
    if billed and billed < least:
        return d.BelowMinimum(billed, least, turn.model, counted=True)
    return None if has_unseen(prompt) else d.BelowMinimum(round(estimate), least, turn.model, counted=False)


# fields of the request


_BESIDE = ("toolConfig", "tool_config")


def find_settings(turn: Turn, rules: Callable[[], DatedRules]) -> Iterator[Broken]:
    """Yield fields that a provider refuses, or that work against the cache."""
    prompt, params, model = turn.prompt, turn.prompt.params, turn.model
    if prompt.dialect == "gemini":
        given = {name for name, value in params.items() if value != b"null"}
        places = [*(segment.path for segment in prompt.head[:1]), *(name for name in _BESIDE if name in given)]
        if places and not given.isdisjoint(("cachedContent", "cached_content")):
            yield _setting("cached-content-beside", places[0].partition("[")[0], kind="waste")
    if not prompt.dialect.startswith("openai"):
        return
    if prompt.dialect == "openai-responses" and drops_reasoning(turn):
        yield _setting("reasoning-not-returned", "input")
    key = params.get("prompt_cache_key", b"")
    if key[:1] == b'"' and (length := len(text_of(key))) > LONGEST_KEY:
        yield _setting("key-too-long", "prompt_cache_key", str(length), LONGEST_KEY, kind="waste")
    retention = params.get("prompt_cache_retention", b"null")
    if retention[:1] == b'"':
        where, value = served_by(turn), printable(mask(text_of(retention))[:40])
        if has_exact_breakpoints(model):
            yield _setting("retention-replaced", "prompt_cache_retention", value, kind="expected")
        elif text_of(retention).replace("-", "_") == "in_memory":
            lives = rules().number("lifetime", where.provider, model, where.platform, turn.at)
            if lives is not None and lives >= _DAY:
                yield _setting("retention-shorter", "prompt_cache_retention", value)
    if params.get("truncation") == b'"auto"':
        yield _setting("truncation", "truncation", "auto", kind="expected")


def _setting(
    setting: d.RequestSetting, path: str, value: str = "", limit: int | None = None, *, kind: CauseKind | None = None
) -> Broken:
    return Broken(Code.CACHE_SETTING, "parameters", path, d.CacheSetting(setting, value, limit), kind)


def ignored_breakpoints(turn: Turn) -> Iterator[Broken]:
    """Yield the first breakpoint of a request whose cache takes none (gateways take them for Gemini): harmless."""
    from lore.cache.registry import takes_breakpoints  # noqa: PLC0415 - it imports the models of all caches

    cache, at = cache_of(turn, served_by(turn)), next(iter(turn.prompt.breakpoints), -1)
    takes = cache == "gemini" or takes_breakpoints(cache) or takes_breakpoints(cache.removesuffix("-implicit"))
    if cache and not takes and at >= 0 and (segment := turn.prompt.segment_at(at)) is not None:
        ignored = d.BreakpointNotTaken("automatic-cache")
        yield Broken(Code.BREAKPOINT_NOT_TAKEN, segment.section, segment.path, ignored, "expected", at)

"""Laws that one request keeps or breaks, whatever came before it: what `check` finds in chains and `lint` in one body.

In: a turn that was recorded as a request, the dated rules. Out: what is broken, each at a place of the body. Rules:
nothing here needs a bill or another request; who judges chains says each law once, who judges one request says all. A
breakpoint is looked at where it stands, so that cost is O(breakpoints), but for the head, which is read once.

Sources (read 2026-11-23): Anthropic's prompt caching guide and what its API answers to such requests (400:
"cache_control cannot be set for empty text blocks", "thinking.cache_control: Extra inputs are not permitted", "a
ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"); OpenAI's prompt caching guide
(explicit breakpoints stand on input parts; a key has at most 64 characters; `prompt_cache_retention`); Gemini's (400:
what a cached content holds may not stand in the request beside it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from typing import NamedTuple

from msgspec.structs import replace

from lore.cache.bills import BYTES_PER_TOKEN, FIVE_MINUTES, has_unseen, prompt_tokens
from lore.cache.registry import takes_breakpoints
from lore.cache.rules import DatedRules, minimum_tokens
from lore.cache.served import cache_of, served_by
from lore.cache.views import lifetime_of
from lore.model.canonical import printable, text_of
from lore.model.codes import CauseKind, Code
from lore.model.differences import BreakpointNotTaken, CacheSetting, LifetimesOutOfOrder, RequestSetting, Unmarkable
from lore.model.evidence import BelowMinimum, BreakpointsCount, BreakpointsMissing, Evidence, VolatileText
from lore.model.jsonslice import table
from lore.model.mask import mask
from lore.model.providers import has_exact_breakpoints, provider_of
from lore.model.turn import Prompt, Segment, Turn
from lore.prefix.blocks import block_of, message_start
from lore.prefix.volatile import volatile_before_history

MOST_BREAKPOINTS = 4  # breakpoints of a request: Anthropic's API refuses more
UNDERRATED = 1.5  # an estimate from bytes may be too low by this factor
MOST = 16_384  # tokens: no provider asks for more, so nothing is looked up
FEWEST = 512  # tokens: no model of breakpoints caches less, so for less nothing is looked up
UNPUBLISHED = 4096  # tokens: what any model asks for at most stands for a minimum that nobody knows
LONGEST_KEY = 64  # characters of OpenAI's prompt_cache_key
_DAY = 86_400
_LIFETIMES = (300.0, 3600.0)  # seconds that Anthropic's breakpoints may ask for


class Broken(NamedTuple):
    """A law that a request breaks: the place of its body, and the segment there (-1: none).

    `kind` is the code's own where it is None; `start` is where in the text it begins, in characters.
    """

    code: Code
    section: str
    path: str
    evidence: Evidence
    kind: CauseKind | None = None
    at: int = -1
    start: int = 0


def request_laws(turn: Turn, rules: Callable[[], DatedRules]) -> Iterator[Broken]:
    """Yield what is broken in breakpoints and settings, where that is surely so."""
    prompt = turn.prompt
    number = len(prompt.breakpoints) + prompt.auto_breakpoint
    if number > MOST_BREAKPOINTS:
        at, count = prompt.breakpoints[-1], BreakpointsCount(number, MOST_BREAKPOINTS)
        yield Broken(Code.TOO_MANY_BREAKPOINTS, "messages", path_at(prompt, at), count, at=at)
    if prompt.breakpoints:
        yield from _unmarkable(turn)
        yield from _order(prompt)
    yield from settings(turn, rules)


def path_at(prompt: Prompt, at: int) -> str:
    """Return the path of the segment at a position; empty where there is none."""
    segment = prompt.at(at) if at >= 0 else None
    return "" if segment is None else segment.path


# which breakpoints count


def _unmarkable(turn: Turn) -> Iterator[Broken]:
    prompt = turn.prompt
    for at, value in zip(prompt.breakpoints, prompt.breakpoint_values, strict=False):
        segment = prompt.at(at)
        reason = None if segment is None else _reason(turn, segment, at, value)
        if segment is None or reason is None:
            continue
        shown = ""
        if reason == "lifetime":
            ttl = (table(value) or {}).get("ttl", b"")
            shown = printable(mask(ttl.decode("utf-8", "replace"))[:40])
        # who was answered sent it through a gateway that took it out, or to another API
        kind: CauseKind | None = "unattributable" if turn.usage is not None else None
        yield Broken(
            Code.BREAKPOINT_NOT_TAKEN, segment.section, segment.path, BreakpointNotTaken(reason, shown), kind, at
        )  # fmt: skip


def _reason(turn: Turn, segment: Segment, at: int, value: bytes) -> Unmarkable | None:
    """Say why nothing takes a breakpoint; None where something may."""
    prompt = turn.prompt
    if segment.is_marked_by_message and prompt.dialect == "anthropic":
        return "message"
    if segment.kind == "tool":
        deferred = b'"defer_loading"' in segment.data and (table(segment.data) or {}).get("defer_loading") == b"true"
        return "deferred-tool" if deferred else _lifetime(prompt, value)
    block = block_of(segment)
    if block.kind == "thinking":
        return "thinking"
    if block.kind == "text" and block.own and block.text == "":
        return "empty-text"
    if prompt.dialect.startswith("openai") and b'"mode"' in value and at >= len(prompt.head):
        message = prompt.messages[message_start(prompt, at - len(prompt.head))]
        if (table(message.json) or {}).get("role") == b'"assistant"':
            return "not-input"
    return _lifetime(prompt, value)


def _lifetime(prompt: Prompt, value: bytes) -> Unmarkable | None:
    """Say that no API knows the lifetime that a breakpoint asks for."""
    if prompt.dialect not in ("anthropic", "bedrock") or (table(value) or {}).get("ttl", b"null") == b"null":
        return None
    return None if lifetime_of(value) in _LIFETIMES else "lifetime"


def _order(prompt: Prompt) -> Iterator[Broken]:
    """Find the first breakpoint that asks to live longer than one before it."""
    if prompt.dialect not in ("anthropic", "bedrock"):
        return
    marks = zip(prompt.breakpoints, prompt.breakpoint_values, strict=False)
    lives = [(at, lifetime_of(value) or FIVE_MINUTES) for at, value in marks]
    for (first, shorter), (at, longer) in pairwise(lives):
        before, segment = prompt.at(first), prompt.at(at)
        if longer > shorter and before is not None and segment is not None:
            evidence = LifetimesOutOfOrder(longer, shorter, before.path)
            yield Broken(Code.LIFETIMES_OUT_OF_ORDER, segment.section, segment.path, evidence, at=at)
            return


# text that is made anew


def volatile_head(prompt: Prompt, labels: tuple[str, ...] = ()) -> Iterator[Broken]:
    """Find text in the system prompt that is surely made anew for each request, and breakpoints on it."""
    places = frozenset(prompt.breakpoints)
    for at, segment in enumerate(prompt.head):
        if segment.section != "system" or segment.kind == "envelope":
            continue
        text = block_of(segment).text or ""
        found = volatile_before_history(text, labels)
        if found is None:
            continue
        start = max(0, text.find(found.text))
        shown = VolatileText(found.what, printable(mask(text)[start : start + len(found.text)][:80]))
        yield Broken(Code.VOLATILE_BEFORE_HISTORY, "system", segment.path, shown, at=at, start=start)
        if at in places:
            on = replace(shown, on_breakpoint=True)
            yield Broken(Code.BREAKPOINT_ON_VOLATILE, "system", segment.path, on, at=at, start=start)


# how much stands before breakpoints


def needs_breakpoints(turn: Turn) -> bool:
    """Tell whether nothing is cached without a breakpoint."""
    prompt = turn.prompt
    provider = provider_of(turn.call.endpoint, prompt.model, prompt.dialect)
    if provider == "openai" and has_exact_breakpoints(prompt.model):
        return b'"explicit"' in prompt.params.get("prompt_cache_options", b"")
    if "claude" not in (prompt.model or "").lower():
        return False
    return provider in ("anthropic", "bedrock", "vertex", "openrouter") or served_by(turn).provider == "anthropic"


def missing_breakpoints(turn: Turn, size: int, rules: Callable[[], DatedRules]) -> BreakpointsMissing | None:
    """Return that a prompt of which `size` bytes will be sent again has no breakpoint behind enough; None: it has.

    Whether it is needed at all (nothing is cached without one, enough stands there) is asked first.
    """
    prompt = turn.prompt
    if not needs_breakpoints(turn) or size < FEWEST * BYTES_PER_TOKEN or prompt.auto_breakpoint:
        return None
    fewest = minimum_tokens(rules(), turn) or UNPUBLISHED
    if size < fewest * BYTES_PER_TOKEN * UNDERRATED:
        return None
    tokens = round(size / BYTES_PER_TOKEN)
    if not prompt.breakpoints:
        return BreakpointsMissing(tokens, fewest)
    cached = 0
    for segment in islice(prompt, prompt.breakpoints[-1] + 1):
        cached += len(segment.data)
        if cached / BYTES_PER_TOKEN * UNDERRATED >= fewest:  # what else stands there is not added up for each turn
            return None
    return BreakpointsMissing(tokens, fewest, round(cached / BYTES_PER_TOKEN))


def below_minimum(turn: Turn, rules: Callable[[], DatedRules]) -> BelowMinimum | None:
    """Return how short the prefix up to the last breakpoint is; None where it is long enough, or that is not known."""
    billed = prompt_tokens(turn.usage)
    estimate = up_to_last(turn.prompt, billed)
    most = min(estimate * UNDERRATED, billed) if billed else estimate * UNDERRATED
    if most >= MOST:
        return None
    least = minimum_tokens(rules(), turn)
    if least is None or most >= least:
        return None
    if billed and billed < least:
        return BelowMinimum(billed, least, turn.model, counted=True)
    return None if has_unseen(turn.prompt) else BelowMinimum(round(estimate), least, turn.model, counted=False)


def up_to_last(prompt: Prompt, billed: int) -> float:
    """Estimate the tokens up to the last breakpoint (without one, all) from bytes: their share of a bill, if any."""
    upto = len(prompt) if prompt.auto_breakpoint or not prompt.breakpoints else prompt.breakpoints[-1] + 1
    if billed:
        every = [len(segment.data) for segment in prompt] if billed < MOST / UNDERRATED else []
        return billed * sum(every[:upto]) / max(1, sum(every)) if every else billed
    size, most = 0, MOST * BYTES_PER_TOKEN
    for segment in islice(prompt, upto):
        size += len(segment.data)
        if size > most:
            break
    return size / BYTES_PER_TOKEN


# fields of the request


def settings(turn: Turn, rules: Callable[[], DatedRules]) -> Iterator[Broken]:
    """Yield fields that a provider refuses, or that work against the cache."""
    prompt = turn.prompt
    if prompt.dialect == "gemini":
        yield from _cached_content(prompt)
    elif prompt.dialect.startswith("openai") and not prompt.params.keys().isdisjoint(_FIELDS):
        yield from _of_openai(turn, rules)


_FIELDS = frozenset(("prompt_cache_key", "prompt_cache_retention", "store", "truncation"))
_BESIDE = ("toolConfig", "tool_config")


def _cached_content(prompt: Prompt) -> Iterator[Broken]:
    def given(*names: str) -> str:
        return next((name for name in names if prompt.params.get(name, b"null") != b"null"), "")

    beside = next((segment.path for segment in prompt.head), "") or given(*_BESIDE)
    if beside and given("cachedContent", "cached_content"):
        yield _setting("cached-content-beside", beside.partition("[")[0], kind="waste")


def _of_openai(turn: Turn, rules: Callable[[], DatedRules]) -> Iterator[Broken]:
    params, model = turn.prompt.params, turn.model
    key = params.get("prompt_cache_key", b"")
    if key[:1] == b'"' and (length := len(text_of(key))) > LONGEST_KEY:
        yield _setting("key-too-long", "prompt_cache_key", str(length), LONGEST_KEY, kind="waste")
    retention = params.get("prompt_cache_retention", b"null")
    if retention[:1] == b'"':
        where = served_by(turn)
        if has_exact_breakpoints(model):
            yield _setting("retention-replaced", "prompt_cache_retention", _shown(retention), kind="expected")
        elif text_of(retention).replace("-", "_") == "in_memory":
            lives = rules().number("lifetime", where.provider, model, where.platform, turn.at)
            if lives is not None and lives >= _DAY:
                yield _setting("retention-shorter", "prompt_cache_retention", _shown(retention))
    if params.get("store") == b"false" and _drops_reasoning(turn.prompt):
        yield _setting("reasoning-not-returned", "store", "false")
    if params.get("truncation") == b'"auto"':
        yield _setting("truncation", "truncation", "auto", kind="expected")


_CALL, _REASONING = b'"function_call"', b'"reasoning"'


def _drops_reasoning(prompt: Prompt) -> bool:
    """Tell whether a request of a reasoning model answers calls, without what the model thought before them."""
    if prompt.dialect != "openai-responses" or b"encrypted_content" in prompt.params.get("include", b""):
        return False
    if (table(prompt.params.get("reasoning", b"")) or {}).get("effort", b"null") in (b"null", b'"none"'):
        return False
    kinds = {(table(part.json) or {}).get("type") for part in prompt.messages if part.kind == "envelope"}
    return _CALL in kinds and _REASONING not in kinds


def _shown(raw: bytes) -> str:
    return printable(mask(text_of(raw))[:40])


def _setting(
    setting: RequestSetting, path: str, value: str = "", limit: int | None = None, *, kind: CauseKind | None = None
) -> Broken:
    return Broken(Code.CACHE_SETTING, "parameters", path, CacheSetting(setting, value, limit), kind)


def ignored_breakpoints(turn: Turn) -> Iterator[Broken]:
    """Yield the first breakpoint of a request whose cache takes none: harmless, and no help."""
    cache, at = cache_of(turn, served_by(turn)), next(iter(turn.prompt.breakpoints), -1)
    takes = takes_breakpoints(cache) or takes_breakpoints(cache.removesuffix("-implicit"))
    if cache and not takes and at >= 0 and (segment := turn.prompt.at(at)) is not None:
        ignored = BreakpointNotTaken("automatic-cache")
        yield Broken(Code.BREAKPOINT_NOT_TAKEN, segment.section, segment.path, ignored, "expected", at)

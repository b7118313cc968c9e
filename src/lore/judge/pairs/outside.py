"""Find evidence outside the prompts of two turns: the clock, and the endpoints and providers that answered.

A finder returns one evidence struct, or None if the recording does not show it; `lore.judge.rules` says which cause it
explains. The other functions measure times and lifetimes in seconds, None if unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from operator import itemgetter

from msgspec.structs import replace

from lore.cache import counts
from lore.cache.served import served_by
from lore.judge.pairs.pair import PairFacts
from lore.model import evidence as e
from lore.model.cause import RuledOut
from lore.model.deferred import pattern
from lore.model.providers import ENGINES, named_provider, place_in, provider_by_id, without_platform
from lore.model.turn import Segment, Turn
from lore.prefix.likeness import is_model_message, mark_answers

_SOONEST = 0.25  # seconds that a provider takes at least to begin a response
_HOUR = 3600.0  # clocks of two machines may differ, and a recording may be put together from several
# Seconds, whatever a provider documents: of 11 longer pauses (31 minutes to 16 hours) in caches of OpenAI that keep
# entries for 10 minutes or for 24 hours no entry outlived one, of 14 from 10 to 30 minutes 10 did.
_OUTLIVED = 1800.0
_LONGEST = 86_400.0  # the longest lifetime that a provider documents (facts/caches.md, B.11), but for these
_KEEPS_FOR_DAYS = frozenset((*ENGINES, "deepseek"))


# the clock


def find_expiry(facts: PairFacts) -> e.Paused | None:
    """Return the pause if what the previous turn left in the cache had surely expired.

    If more was read than by the previous turn, what that one wrote was alive, unless it wrote entries of two lifetimes.
    If the lifetime is unknown, the longest counts: at breakpoints an hour, else `_LONGEST` (not in `_KEEPS_FOR_DAYS`).
    """
    if facts.comparable and _outruns_previous(facts):
        return None
    lifetime = entry_lifetime(facts)
    if lifetime is None and _has_unreported_writes(facts):
        pause = _expiry(facts, counts.ONE_HOUR)
        return pause and e.Paused(pause.seconds, None, counts.ONE_HOUR)
    if lifetime is None and served_by(facts.previous).provider not in _KEEPS_FOR_DAYS:
        pause = _expiry(facts, _LONGEST)
        return pause and e.Paused(pause.seconds, None, _LONGEST)
    return _expiry(facts, lifetime)


def _outruns_previous(facts: PairFacts) -> bool:
    """Return whether more was read than by the previous turn, which wrote entries of one lifetime."""
    usage, read = facts.previous.usage, counts.first_pass_read(facts.current.usage) or 0
    if usage is None or not usage.write_tokens or (usage.write_5m_tokens and usage.write_1h_tokens):
        return False
    return read > (usage.read_tokens or 0) + counts.block_tokens(facts.previous)


def find_possible_expiry(facts: PairFacts) -> e.Paused | None:
    """Return the pause if entries may have expired, and not surely (`find_expiry`), in one of three cases.

    It is longer than their lifetime, but a request of unknown usage may have read them meanwhile. It is over five
    minutes, in a cache with breakpoints whose writes are not reported. It is over half an hour, in an implicit cache or
    with an unknown lifetime; if no more than the head was read, over the shortest lifetime of a rule.
    """
    state, most = facts.state, entry_lifetime(facts)
    whole = _whole_pause(facts, most) if facts.unbilled else None
    if whole is not None and find_expiry(facts) is None:
        return replace(whole, unbilled=len(facts.unbilled))
    is_implicit = (facts.least_lifetime is not None or most is None) if state is None else state.implicit
    if not (is_implicit or (most is None and _has_unreported_writes(facts))) or find_expiry(facts) is not None:
        return None
    least = facts.least_lifetime if state is None else state.least_lifetime
    is_cold = state is not None and (facts.read or 0) <= (state.shared_head or 0)
    shortest = max(_OUTLIVED, least or 0.0) if not least or not is_cold else least
    pause = _expiry(facts, shortest if is_implicit else counts.FIVE_MINUTES)
    return None if pause is None else e.Paused(pause.seconds, None, most if is_implicit else counts.ONE_HOUR)


def _expiry(facts: PairFacts, lifetime: float | None) -> e.Paused | None:
    """Return the pause if it was longer than a lifetime, even if requests of unknown usage read the entries."""
    turns = (facts.last_use or facts.previous, *facts.unbilled, facts.current)
    gaps = (counts.expiry(*turns, lifetime, missed=bool(facts.fell)) for turns in pairwise(turns))
    return _whole_pause(facts, lifetime) if any(gaps) else None


def _whole_pause(facts: PairFacts, lifetime: float | None) -> e.Paused | None:
    if not facts.comparable:
        return None
    return counts.expiry(facts.last_use or facts.previous, facts.current, lifetime, missed=bool(facts.fell))


def entry_lifetime(facts: PairFacts) -> float | None:
    """Return the lifetime of the entries that could be read, by usage, else by the rules of the cache; None: unknown.

    A prompt may begin with entries of an hour and end with some of five minutes. If the hour's part was not read
    completely, an hour is returned, unless that part ends too far back for a request to look for it.
    """
    state = facts.state
    if facts.read is not None and facts.hour_end:
        left = None if state is None or (state.pause or 0) > _HOUR else state.prefix
        is_far = left is not None and left.reason == "expiry" and (left.tokens or 0) < facts.hour_end
        return counts.FIVE_MINUTES if is_far or facts.read >= facts.hour_end else counts.ONE_HOUR
    if facts.lifetime is None and state is not None and state.implicit:
        return state.lifetime
    return facts.lifetime


def _has_unreported_writes(facts: PairFacts) -> bool:
    """Return whether a log's cache has breakpoints, and its usage omits writes, as that of a gateway may."""
    state, usage = facts.state, facts.previous.usage
    return state is not None and not state.implicit and usage is not None and not usage.write_tokens


def find_parallel_start(facts: PairFacts) -> e.ParallelStart | None:
    """Return evidence that the current request was sent before the entry that it would read was written."""
    seconds = seconds_before_answer(facts.previous, facts.current) if facts.comparable else None
    return None if seconds is None else e.ParallelStart(seconds)


def seconds_before_answer(previous: Turn, current: Turn) -> float | None:
    """Return how many seconds before the previous response began the current request was sent; None if it was not.

    If that is not recorded, no response begins sooner than `_SOONEST`, unless the request sends the answer back: a
    server in a test answers at once.
    """
    began_at = previous.answered_at
    if current.at is None or previous.at is None or began_at == previous.at:
        return None
    if began_at is None:
        added = current.prompt.messages.since(previous.prompt.messages.common(current.prompt.messages))
        if current.at <= previous.at or any(map(is_model_message, added)):  # equal times may not be those of requests
            return None
        began_at = previous.at + _SOONEST
    seconds = began_at - current.at
    return seconds if seconds > 0 and current.at >= previous.at - _HOUR else None


def find_older_entry(facts: PairFacts) -> e.OlderEntry | None:
    """Return evidence of a read of exactly the second newest cache entry, within seconds of the previous answer.

    An implicit cache has no such entry: there an earlier read that comes back is another machine's. A read of tools and
    system prompt alone is no evidence, as any change after them leaves it: 13 of 14 were one, at the second requests of
    348 public sessions.
    """
    pause, read, state = seconds_since(facts.previous, facts.current), facts.read, facts.state
    if pause is None or not 0 <= pause <= counts.SOON or not read or not facts.comparable:
        return None
    of_log, head = (None, None) if state is None else (state.earlier_place, state.shared_head)
    is_older = read in (facts.earlier, of_log) and read not in (head, counts.cached(facts.previous.usage))
    return e.OlderEntry(pause, read) if is_older and counts.bills_writes(facts.previous) else None


def other_kind_was_read(facts: PairFacts) -> RuledOut | None:
    """Rule out that streaming, or its end, selected another cache: this first request reads what the previous one read.

    A read of tools and system prompt alone is no evidence, as other sessions may have left them.
    """
    state, usage, read = facts.state, facts.previous.usage, facts.read
    if "streaming" in facts.tallies or state is None or usage is None or not read or read == state.shared_head:
        return None
    is_same = read == usage.read_tokens
    return RuledOut("what the other kind of request had read was read", out=True, count=read) if is_same else None


def seconds_since(previous: Turn, current: Turn) -> float | None:
    """Return the seconds from the previous answer, else from its request, to the current request; may be negative."""
    began_at = previous.answered_at if previous.answered_at is not None else previous.at
    return None if began_at is None or current.at is None else current.at - began_at


# the endpoints and providers that requests went to


_ID = pattern(rb'"(?:id|call_id|toolUseId)"\s*:\s*"([a-z]{1,12}(?:_|-tool-)(?:bdrk_|vrtx_)?)')
_ENDS = 512  # bytes at either end of a block that hold its id
_CALLS = (b"tool_use", b"tool_call", b"toolUse", b"function")


def find_other_endpoint(facts: PairFacts) -> e.Rerouted | None:
    """Return evidence that the current request went to another host, endpoint, account, or region of Bedrock."""
    before, after = facts.previous.call, facts.current.call
    hosts = [call.endpoint.partition("/")[0] for call in (before, after)]
    other_key = bool(before.account and after.account and before.account != after.account)
    if all(hosts) and hosts[0] != hosts[1]:
        return e.Rerouted(host_before=hosts[0], host_after=hosts[1], account=other_key)
    if before.endpoint and after.endpoint and place_in(before.endpoint) != place_in(after.endpoint):
        return e.Rerouted(endpoint_before=before.endpoint, endpoint_after=after.endpoint, account=other_key)
    models = facts.previous.model, facts.current.model
    if None not in models and models[0] != models[1] and without_platform(models[0]) == without_platform(models[1]):
        return e.Rerouted(endpoint_before=models[0], endpoint_after=models[1], account=other_key)
    return e.Rerouted(account=True) if other_key else None


def find_named_route(facts: PairFacts) -> e.RoutedElsewhere | None:
    """Return evidence that a router names another provider, deployment or region, or that call ids show another one."""
    before, after = facts.previous.call, facts.current.call
    names = [named_provider(call.answered_by) or call.answered_by for call in (before, after)]
    if all(names) and names[0] != names[1]:
        return e.RoutedElsewhere(before.answered_by, after.answered_by)
    if before.deployment and after.deployment and before.deployment != after.deployment:
        return e.RoutedElsewhere(deployment_before=before.deployment, deployment_after=after.deployment)
    if before.region and after.region and before.region != after.region:
        return e.RoutedElsewhere(region_before=before.region, region_after=after.region)
    return find_missing_answers(facts, is_foreign=True)


def find_missing_answers(facts: PairFacts, *, is_foreign: bool = False) -> e.RoutedElsewhere | None:
    """Return evidence that the history has new answers to requests that this recording lacks.

    The first new answer does not count: the previous request received it. None if the request continues one that is not
    the last of its chain: other requests of the recording received the answers. `is_foreign`: return it only if their
    call ids are another provider's; otherwise only if not, since the recording may just be cut.
    """
    if facts.current.basis is not None or not facts.overlap.is_covered or not facts.comparable:
        return None
    before, after = facts.previous.prompt.messages, facts.current.prompt.messages
    answers = [] if facts.last_use is not None else list(_call_ids(after.since(len(before))))
    if len(answers) < 2:
        return None
    old_ids = next((ids for ids in (answers[0], *reversed(list(_call_ids(before)))) if ids), list[str]())
    new_ids = {begin for ids in answers[1:] for begin in ids}
    providers, new_providers = ({*map(provider_by_id, begins)} - {""} for begins in (old_ids, new_ids))
    if bool(providers and new_providers - providers) != is_foreign:
        return None
    return e.RoutedElsewhere(unreceived=len(answers) - 1, ids=tuple(sorted({*old_ids, *new_ids})) if is_foreign else ())


def _call_ids(segments: Iterable[Segment]) -> Iterator[list[str]]:
    """Yield for each of the model's answers how the ids of its calls begin."""
    for is_answer, run in groupby(mark_answers(segments), key=itemgetter(1)):
        if is_answer:
            calls = [segment.data for segment, _ in run if any(word in segment.data for word in _CALLS)]
            ends = [data if len(data) <= 2 * _ENDS else data[:_ENDS] + data[-_ENDS:] for data in calls]
            yield [begin.decode() for end in ends for begin in dict.fromkeys(_ID.findall(end))]

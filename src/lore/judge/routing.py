"""Which cache was asked: another host, key or deployment than before, or another provider behind a router.

In: two successive requests. Out: the cause of a read that fell by it, or None. Rules: each provider, deployment and
key has a cache of its own. A router says who answered (OpenRouter's `provider`, LiteLLM's deployment), or ids tell:
answers stand between the two that this recording never received, and their calls' ids begin as another provider's do
than those of the last answer that it received; what older ones in the history say is told by nobody any more.
Answers that were not received and look like all others are weak evidence: the recording may be cut.

Sources: the routers' documentation; billed recordings behind one (calls of `tooluse_` between calls of `toolu_`: what
they added was written to the cache of another cloud).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from lore.judge.witnesses import PairContext
from lore.model.cause import Cause
from lore.model.codes import Code
from lore.model.evidence import Rerouted, RoutedElsewhere
from lore.model.providers import named_provider, place_in, provider_by_id
from lore.model.turn import Call, Segment
from lore.prefix.likeness import is_models

_ID = re.compile(rb'"(?:id|call_id|toolUseId)"\s*:\s*"([a-z]{1,12}(?:_|-tool-)(?:bdrk_|vrtx_)?)')
_ENDS = 512  # bytes at either end of a block in which its id stands
_CALLS = (b"tool_use", b"tool_call", b"toolUse", b"function")


def rerouted(context: PairContext) -> Cause | None:
    """Tell whether a request went to another host or account than the one before."""
    before, after = context.left.call, context.right.call
    hosts = [call.endpoint.partition("/")[0] for call in (before, after)]
    other_key = bool(before.account and after.account and before.account != after.account)
    if all(hosts) and hosts[0] != hosts[1]:
        found = Rerouted(host_before=hosts[0], host_after=hosts[1], account=other_key)
    elif before.endpoint and after.endpoint and place_in(before.endpoint) != place_in(after.endpoint):
        found = Rerouted(endpoint_before=before.endpoint, endpoint_after=after.endpoint, account=other_key)
    elif other_key:
        found = Rerouted(account=True)
    else:
        return None
    return Cause(Code.ENDPOINT_CHANGED, "outside", found, strength="strong")


def routed(context: PairContext) -> Cause | None:
    """Tell whether another provider, or another deployment, stands behind the router."""
    before, after = context.left.call, context.right.call
    found = None
    if before.answered_by and after.answered_by and _who(before) != _who(after):
        found = RoutedElsewhere(before.answered_by, after.answered_by)
    elif before.deployment and after.deployment and before.deployment != after.deployment:
        found = RoutedElsewhere(deployment_before=before.deployment, deployment_after=after.deployment)
    if found is not None:
        return Cause(Code.ROUTED_ELSEWHERE, "outside", found, strength="strong")
    if context.right.basis is not None or not context.found.covered or not context.billed:
        return None
    return _between(context)


def _who(call: Call) -> str:
    return named_provider(call.answered_by) or call.answered_by


def _between(context: PairContext) -> Cause | None:
    """Return what the answers between two requests show, but for the first, which the left one received.

    Where the request goes on from an earlier one than its chain's last, others of the recording received them.
    """
    left, right = context.left.prompt, context.right.prompt
    answers = [] if context.used is not None else list(_answers(right.messages.since(len(left.messages))))
    if len(answers) < 2:
        return None
    own = next((ids for ids in (answers[0], *reversed(list(_answers(left.messages)))) if ids), list[str]())
    between = {begin for ids in answers[1:] for begin in ids}
    foreign = bool(_providers(own) and _providers(between) - _providers(own))
    evidence = RoutedElsewhere(unreceived=len(answers) - 1, ids=tuple(sorted({*own, *between})) if foreign else ())
    if foreign:
        return Cause(Code.ROUTED_ELSEWHERE, "outside", evidence, strength="strong")
    return Cause(Code.ROUTED_ELSEWHERE, "outside", evidence, override="unattributable", strength="weak")


def _providers(begins: Iterable[str]) -> set[str]:
    return {provider for provider in map(provider_by_id, begins) if provider}


def _answers(segments: Iterable[Segment]) -> Iterator[list[str]]:
    """Yield for each of the model's answers what the ids of its calls begin with."""
    ids: list[str] | None = None
    for segment in segments:
        if segment.kind == "envelope":
            if not is_models(segment):
                if ids is not None:
                    yield ids
                ids = None
                continue
            ids = [] if ids is None else ids
        if ids is not None and any(sign in segment.data for sign in _CALLS):
            data = segment.data
            ends = data if len(data) <= 2 * _ENDS else data[:_ENDS] + data[-_ENDS:]
            ids += [begin.decode() for begin in dict.fromkeys(_ID.findall(ends))]
    if ids is not None:
        yield ids

"""A fall of the bill that no byte explains: what else could be the reason, and which of it is ruled out.

Rules: each reason has its figure, or is said not to be recorded; nothing is guessed. A prompt built from a
transcript is not looked at: it has no breakpoints, no parameters and no endpoint to speak of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from lore.cache.lookback import Gap, gap
from lore.judge.bills import cached
from lore.judge.expected import SOON, PairContext, duration, since, started_in_parallel
from lore.model.endpoints import place_in
from lore.model.exchange import Call
from lore.model.turn import Turn
from lore.prefix.causes import Cause

# Parameters that are another one in every request and change nothing of the prompt.
_PASSING = frozenset(("metadata", "stream", "stream_options", "user", "max_tokens", "store", "prompt_cache_key"))


class _Reason(NamedTuple):
    """What could be: its name and figure, and whether it is ruled out (None: not recorded)."""

    name: str
    figure: str
    out: bool | None


def unexplained(facts: PairContext, section: str | None) -> Cause:
    """Return the cause of a fall that nothing explains, with what was ruled out."""
    left, right = facts.left, facts.right
    there = cached(left.usage) or 0
    read = (right.usage and right.usage.read_tokens) or 0
    said = "no change that the recording shows explains it"
    if right.verdict is not None:
        said = f"the provider says {right.verdict.reason}"
    parts = [f"{facts.fell or 0:,} of {there:,} cached tokens were not read again ({read:,} were); {said}"]
    reasons = list(_reasons(facts))
    for word, wanted in (("ruled out", True), ("not ruled out", False), ("not recorded", None)):
        some = [one.name + (f" ({one.figure})" if one.figure else "") for one in reasons if one.out is wanted]
        if some:
            parts.append(f"{word}: {', '.join(some)}")
    return Cause("LORE301", section, "; ".join(parts))


def _reasons(facts: PairContext) -> Iterator[_Reason]:
    yield _expiry(facts)
    yield from _starts(facts)
    yield _model(facts.left, facts.right)
    if facts.right.fidelity == "reconstructed":
        yield _Reason(
            "system prompt, tools, breakpoints, parameters and endpoint", "a transcript does not hold them", None
        )
        return
    yield _breakpoints(facts)
    yield _endpoint(facts.left.call, facts.right.call)
    yield _parameters(facts.left, facts.right)
    edits = _edits(facts.right)
    if edits:
        yield _Reason("the provider's own editing of the context", f"asked for: {edits}", out=False)


def _expiry(facts: PairContext) -> _Reason:
    pause = since(facts.left, facts.right)
    if pause is None or facts.lives is None:
        return _Reason(
            "expiry", "" if pause is None else f"after {duration(max(0.0, pause))}, of an unknown life", None
        )
    return _Reason("expiry", f"{duration(max(0.0, pause))} of {duration(facts.lives)}", out=True)


def _starts(facts: PairContext) -> Iterator[_Reason]:
    pause = since(facts.left, facts.right)
    if pause is None:
        yield _Reason("a parallel start", "", None)
        yield _Reason("an older entry", "", None)
        return
    if facts.left.answered_at is None:
        yield _Reason("a parallel start", "when the answer began", None)
    else:
        yield _Reason("a parallel start", "the answer had begun", started_in_parallel(facts.left, facts.right) is None)
    late = pause > SOON
    yield _Reason("an older entry", f"{duration(max(0.0, pause))} later" if late else "another position was read", True)  # noqa: FBT003


def _model(left: Turn, right: Turn) -> _Reason:
    mine, theirs = left.prompt.model, right.prompt.model
    if mine is None or theirs is None:
        return _Reason("model", "", None)
    return _Reason("model", theirs if mine == theirs else f"{mine}, then {theirs}", out=mine == theirs)


def _breakpoints(facts: PairContext) -> _Reason:
    found: Gap | None = gap(facts.left.prompt, facts.right.prompt, facts.right.at)
    if found is None:
        return _Reason("breakpoints", "none were sent", None)
    if found.new < 0:
        return _Reason("breakpoints", "none stands where the last one stood, or behind it", out=False)
    return _Reason("breakpoints", f"{found.new} new positions, {found.allowed} are looked back", out=not found.exceeded)


def _endpoint(mine: Call, theirs: Call) -> _Reason:
    if not mine.endpoint or not theirs.endpoint:
        return _Reason("endpoint", "", None)
    return _Reason(
        "endpoint", theirs.endpoint.partition("/")[0], out=place_in(mine.endpoint) == place_in(theirs.endpoint)
    )


def _parameters(left: Turn, right: Turn) -> _Reason:
    other = _changed(left, right)
    return _Reason("parameters", f"changed: {', '.join(other)}" if other else "the same", out=not other)


def _changed(left: Turn, right: Turn) -> list[str]:
    mine, theirs = left.prompt.params, right.prompt.params
    return [name for name in sorted({*mine, *theirs} - _PASSING) if mine.get(name) != theirs.get(name)]


def same_parameters(left: Turn, right: Turn) -> bool:
    """Tell whether two requests differ in no parameter that lasts longer than one of them."""
    return not _changed(left, right)


def _edits(turn: Turn) -> str:
    """Name the edits that a request asks the provider for: they change the prompt, and no body shows it."""
    asked = turn.prompt.params.get("context_management", b"")
    return ", ".join(dict.fromkeys(found.decode() for found in _EDIT.findall(asked[:_LOOKED_AT])))


_EDIT = re.compile(rb'"((?:clear_|compact)\w{0,60})"')
_LOOKED_AT = 4096


def moved_elsewhere(left: Turn, right: Turn) -> Cause | None:
    """Tell whether a request went to another host or account than the one before."""
    mine, theirs = left.call, right.call
    hosts = [one.endpoint.partition("/")[0] for one in (mine, theirs)]
    parts: list[str] = []
    if all(hosts) and hosts[0] != hosts[1]:
        parts.append(f"host {hosts[0]} became {hosts[1]}")
    elif mine.endpoint and theirs.endpoint and place_in(mine.endpoint) != place_in(theirs.endpoint):
        parts.append(f"endpoint {mine.endpoint} became {theirs.endpoint}")
    if mine.account and theirs.account and mine.account != theirs.account:
        parts.append("another key was used")
    return Cause("LORE131", None, "; ".join(parts) + ": its cache is another one") if parts else None

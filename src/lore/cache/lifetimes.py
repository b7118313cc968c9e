"""How long what a request left in a cache lives, in seconds: as its bill says, else as a dated rule says.

Rules: a bill that names a lifetime holds; a cache of entries at breakpoints keeps the one before where a bill names
none; what a cache without breakpoints keeps is asked of the rules, one of implicit caches first. Where nothing says it,
it is None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lore.cache.bills import lifetime
from lore.cache.rules import Rules, Served, cache_of, served_by
from lore.model.turn import Turn

WITH_BREAKPOINTS = frozenset(("anthropic", "bedrock"))  # entries stand at breakpoints, and writes are billed


class Lifetime(NamedTuple):
    """How long a cache keeps what is not used, in seconds (None: not known); `billed`: a bill says it, no rule."""

    seconds: float | None
    billed: bool


UNKNOWN = Lifetime(None, billed=False)


def lifetime_after(turn: Turn, before: Lifetime, rules: Callable[[], Rules]) -> Lifetime:
    """Return how long what stands in the cache after a turn lives; `before` is what held before it in its chain."""
    where = served_by(turn)
    breakpoints = cache_of(turn, where) in WITH_BREAKPOINTS
    billed = lifetime(turn, before.seconds if breakpoints else None)
    if billed is not None:
        return Lifetime(billed, billed=True)
    return UNKNOWN if breakpoints else Lifetime(idle_lifetime(rules(), where, turn), billed=False)


def idle_lifetime(rules: Rules, where: Served, turn: Turn) -> float | None:
    """Return how long a cache without breakpoints keeps what is not used; a rule of implicit caches comes first."""
    of_implicit = rules.find("lifetime_implicit", where.provider, turn.model, where.platform, turn.at)
    rule = "lifetime" if of_implicit is None else "lifetime_implicit"
    found = rules.number(rule, where.provider, turn.model, where.platform, turn.at)
    return None if found is None else float(found)

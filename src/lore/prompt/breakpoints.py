"""Choose the cache breakpoints of a prompt, and the key under which OpenAI's servers look for its cache.

Anthropic's API takes four breakpoints in a request and refuses a fifth. Each one writes an entry for everything up to
it, so more of them cost nothing; what counts is which entries later requests can read:

    end of the history      read by the next turn
    previous turn's end     read by this turn, when more positions are new than a look-up goes back
    end of the shared part  tools, persisted prompt and layers: read by the first turn of every other session, and
                            after a compaction
    end of the head         with session and knowledge: read after a compaction or rewind that changed no knowledge
    last tool               read when only the system prompt changed

They are set in this order, which is that of their savings, until four are set. An automatic breakpoint that the caller
asked for (`cache_control` in the parameters) is one of the four. None is set where the API does not accept one for the
model (`AcceptedBreakpoints`, which comes from the dated rules of `lore.cache`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from lore.model.codes import Code, Problem
from lore.model.deferred import sha256
from lore.model.providers import AcceptedBreakpoints
from lore.model.turn import Segment
from lore.model.vector import Vector
from lore.prompt.base import Dialect, Rules, Ttl

MOST_BREAKPOINTS = 4  # of a request: Anthropic's API refuses more
AUTOMATIC = "cache_control"  # the parameter with which a caller asks for an automatic breakpoint at the end
HOUR = 3600
EVERYWHERE = AcceptedBreakpoints(("tools", "system", "messages"), (300, HOUR))  # if no rule is known for a model


class PlannedBreakpoints(NamedTuple):
    """The breakpoints of a prompt, in order of their positions."""

    positions: tuple[int, ...] = ()  # indexes into head and messages
    values: tuple[bytes, ...] = ()  # JSON, one for each position
    problems: tuple[Problem, ...] = ()  # that the last two are farther apart than a cache looks back


class HeadEnds(NamedTuple):
    """Segments of a head that can carry a breakpoint; -1 without one."""

    tools: int = -1  # the last tool
    shared: int = -1  # the last segment that all sessions of the agent have in common
    head: int = -1  # the last one


def find_head_ends(dialect: Dialect, head: tuple[Segment, ...], shared: int) -> HeadEnds:
    """Return where a head can carry breakpoints; its first `shared` segments are the same in all sessions."""
    able = [at for at, segment in enumerate(head) if dialect.takes_breakpoint(segment)]
    tools = max((at for at in able if head[at].section == "tools"), default=-1)
    return HeadEnds(tools, max((at for at in able if at < shared), default=-1), max(able, default=-1))


def place_breakpoints(
    dialect: Dialect, model: str | None, rules: Rules, params: Mapping[str, bytes],
    ends: HeadEnds, head: int, messages: Vector[Segment], previous: int, latest: int,
    accepted: AcceptedBreakpoints = EVERYWHERE,
) -> PlannedBreakpoints:  # fmt: skip
    """Return the breakpoints that save most; `previous` and `latest` are ends of the history, -1 for none."""
    automatic = params.get(AUTOMATIC, b"null")
    is_hour = b'"1h"' in automatic  # an automatic breakpoint is the last one: none before it may expire earlier
    on_head = dialect.breakpoint(model, _lifetime("1h" if is_hour else rules.head_ttl, accepted))
    on_history = dialect.breakpoint(model, _lifetime("1h" if is_hour else rules.ttl, accepted))
    if on_head is None or on_history is None:
        return PlannedBreakpoints()
    added = islice(messages.since(previous + 1), latest - previous) if previous >= 0 else ()
    new = sum(1 for segment in added if segment.kind != "envelope")
    before, end = (head + at if at >= 0 else -1 for at in (previous, latest))
    is_far = new > on_history.look_back
    ranked = [end, before if is_far else -1, ends.shared, ends.head, before, ends.tools]
    sections = accepted.sections if on_head.on_tools else [name for name in accepted.sections if name != "tools"]
    ranked = [at for at in ranked if _section_of(at, ends, head) in sections]
    is_implicit = bool(on_head.options) and b'"explicit"' not in params.get(on_head.options, on_head.value)
    room = on_head.most - (automatic != b"null" or is_implicit)
    positions = tuple(sorted([*dict.fromkeys(at for at in ranked if at >= 0)][:room]))
    values = tuple([on_head.value if at < head else on_history.value for at in positions])
    if not 0 < on_history.look_back < new:
        return PlannedBreakpoints(positions, values)
    text = f"{new} new positions between the last two breakpoints; a look-up goes back {on_history.look_back}"
    return PlannedBreakpoints(positions, values, (Problem(Code.BREAKPOINTS_FAR_APART, text),))


def _lifetime(lifetime: Ttl, accepted: AcceptedBreakpoints) -> Ttl:
    return "1h" if lifetime == "1h" and HOUR in accepted.lifetimes else "5m"


def _section_of(at: int, ends: HeadEnds, head: int) -> str:
    return "messages" if at >= head else "tools" if at <= ends.tools else "system"


def keep_recorded(head: tuple[Segment, ...], messages: Sequence[tuple[int, bytes]]) -> PlannedBreakpoints:
    """Return the breakpoints of a recorded prompt; `messages` are pairs of an index into the messages and a value.

    Of more than four, the last one of the tools and the last one of the system prompt are kept, and the others are the
    last ones of the messages.
    """
    pairs = [(at, segment.breakpoint) for at, segment in enumerate(head) if segment.breakpoint is not None]
    on_head = len(pairs)
    pairs += [(len(head) + position, value) for position, value in messages[-MOST_BREAKPOINTS:]]
    if len(pairs) > MOST_BREAKPOINTS:
        last = {head[at].section: (at, value) for at, value in pairs[:on_head]}
        pairs = [*last.values(), *pairs[on_head:][len(last) - MOST_BREAKPOINTS :]]
    return PlannedBreakpoints(tuple([at for at, _ in pairs]), tuple([value for _, value in pairs]))


def cache_key(shared: Sequence[Segment]) -> str:
    """Return a key that all sessions with the same shared part have: requests with one key go to the same servers."""
    return "lore-" + sha256(b"\n".join([segment.data for segment in shared]))[:16]

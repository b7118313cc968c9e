"""Where cache breakpoints go: at most four, at what will still stand there in the next turn.

On dialects that have breakpoints on their head: the last tool, the last block of the system prompt, the end of the
history, and where the turn before had its last breakpoint. On models that are cached at exact breakpoints: the
last two alone. Never on the tail. Source: the providers' caching guides (facts that the README names).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from lore.model.codes import Code
from lore.model.problems import Problem
from lore.model.prompt import Segment
from lore.model.vector import Vector
from lore.prompt.base import Dialect
from lore.prompt.settings import Rules

MOST = 4
LOOK_BACK = 20  # positions: from a breakpoint, a server looks for earlier entries so far back


class Recorded(NamedTuple):
    """A breakpoint that was recorded on a segment of the messages."""

    position: int
    value: bytes


class Placed(NamedTuple):
    """Positions over head and messages, in order, their breakpoints, and what is odd about them."""

    positions: tuple[int, ...] = ()
    values: tuple[bytes, ...] = ()
    problems: tuple[Problem, ...] = ()


NONE = Placed()


def place(
    dialect: Dialect, model: str | None, rules: Rules, head: tuple[Segment, ...], messages: Vector[Segment],
    ends: tuple[int, int],
) -> Placed:  # fmt: skip
    """Place lore's own breakpoints; `ends`: the messages' segments where the turns before and now end, -1 for none."""
    breakpoint, early = dialect.breakpoint(model, rules.ttl), dialect.breakpoint(model, rules.head_ttl)
    if breakpoint is None or early is None:
        return NONE
    found: dict[int, bytes] = {}
    if breakpoint.on_head:
        for section in ("tools", "system"):
            held = [at for at, one in enumerate(head) if one.section == section and dialect.takes_breakpoint(one)]
            found.update(dict.fromkeys(held[-1:], early.value))
    last = sorted({len(head) + end for end in ends if end >= 0})
    found.update(dict.fromkeys(last, breakpoint.value))
    far = _far(messages, ends) if breakpoint.on_head and len(last) > 1 else ()
    return Placed(tuple(found), tuple(found.values()), far)


def _far(messages: Vector[Segment], ends: tuple[int, int]) -> tuple[Problem, ...]:
    begin, end = ends
    if end - begin <= LOOK_BACK:
        return ()
    new = sum(1 for one in islice(messages.since(begin + 1), end - begin) if one.kind != "envelope")
    if new <= LOOK_BACK:
        return ()
    return (
        Problem(
            Code.BREAKPOINTS_FAR_APART,
            f"{new} new positions between the last two breakpoints; a look-up goes back {LOOK_BACK}",
        ),
    )


def recorded(head: Iterable[Segment], messages: list[Recorded]) -> Placed:
    """Keep recorded breakpoints: of more than four the last of tools and system, and the last of the messages."""
    listed = list(head)
    found = [Recorded(at, one.breakpoint) for at, one in enumerate(listed) if one.breakpoint is not None]
    found += [Recorded(len(listed) + one.position, one.value) for one in messages[-MOST:]]
    if len(found) > MOST:
        held = [one for one in found if one.position < len(listed)]
        last = {listed[one.position].section: one for one in held}
        found = [*last.values(), *found[len(held) :][len(last) - MOST :]]
    return Placed(tuple([one.position for one in found]), tuple([one.value for one in found]))

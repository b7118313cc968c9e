"""Cache points: breakpoints that stand as blocks of their own behind what they are about, as in Bedrock's Converse API.

A point is read as the breakpoint of the segment before it, and blocks are numbered without it; one with nothing
before it holds for nothing, and is gone. Written, it stands behind its segment again.
"""

from __future__ import annotations

from collections.abc import Iterable

from lore.model.jsonslice import table
from lore.model.prompt import Prompt, Segment

POINT = "cachePoint"


def take(found: Iterable[Segment], taken: list[Segment]) -> list[Segment]:
    """Add segments to those before them; a cache point becomes the breakpoint of the last one."""
    points = 0
    for one in found:
        value = point_in(one.data) if one.kind != "envelope" else None
        if value is None:
            if points:
                base, _, number = one.path.rpartition("[")
                one.path = f"{base}[{int(number[:-1]) - points}]"
            taken.append(one)
            continue
        points += 1
        if taken:
            taken[-1].breakpoint = value
    return taken


def point_in(data: bytes) -> bytes | None:
    """Return the breakpoint that a block is, as JSON; None where it is content."""
    own = table(data) or {} if b'"cachePoint"' in data else {}
    value = own.get(POINT, b"")
    return value if len(own) == 1 and value[:1] == b"{" else None


def with_points(prompt: Prompt) -> list[Segment]:
    """Return the segments of head and messages with cache points behind those that have one."""
    breakpoints = dict(zip(prompt.breakpoints, prompt.breakpoint_values, strict=True))
    found: list[Segment] = []
    for position, one in enumerate([*prompt.head, *prompt.messages]):
        found.append(one)
        if position in breakpoints and (one.kind == "envelope" or one.path.endswith("]")):
            path = f"{one.path}.content[0]" if one.kind == "envelope" else one.path
            found.append(Segment(one.section, path, b'{"cachePoint":' + breakpoints[position] + b"}"))
    return found

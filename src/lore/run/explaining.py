"""Describe an assembled prompt segment by segment, without its content: `lore assemble --explain`."""

from __future__ import annotations

from msgspec import Raw

from lore.model.results import CapabilityResult, Explained, OmittedResult, SegmentResult
from lore.prefix.measure import size
from lore.run.assembling import Assembly


def explained(made: Assembly, policy: str) -> Explained:
    """Return the table of a prompt's segments, and what its dialect could and could not express."""
    prompt = made.prompt
    breakpoints = dict(zip(prompt.breakpoints, prompt.breakpoint_values, strict=True))
    segments = [
        SegmentResult(
            number=place, section=one.section, path=one.path, bytes=size(one), stable=place < prompt.stable,
            breakpoint=Raw(breakpoints[place]) if place in breakpoints else None, origin=one.origin or None,
        )
        for place, one in enumerate(prompt)
    ]  # fmt: skip
    tail_bytes = sum(map(size, prompt.tail))
    return Explained(
        session=made.shown,
        chain=made.chain,
        turn=made.turn,
        dialect=prompt.dialect,
        model=prompt.model,
        fidelity=prompt.fidelity,
        tail=policy,
        stable_bytes=sum(one.bytes for one in segments) - tail_bytes,
        tail_bytes=tail_bytes,
        segments=segments,
        omitted=[OmittedResult(what, count) for what, count in sorted(made.omitted.items())],
        capabilities=[CapabilityResult(name, *one) for name, one in made.capabilities.items()],
        problems=made.problems.kept,
    )

"""Compare lore's findings on a case with the injected faults, and list the differences."""

from typing import NamedTuple

from faults.catalogue import Case
from faults.serving import segments
from lore.model.results import Finding
from oracle.naive import common_bytes, first_difference, wanted_bytes


class Missed(NamedTuple):
    """A row of the table."""

    case: str
    what: str


class Place(NamedTuple):
    """The place and cost of a fault, computed by the oracle."""

    section: str
    paths: tuple[str, ...]
    lost: int


def place(case: Case) -> Place:
    """Find the fault without lore."""
    left, right = (segments(case.capture, turn) for turn in case.capture.turns[case.k - 1 : case.k + 1])
    where = first_difference(left, right)
    assert where, f"{case.name}: the injector changed nothing"
    section = where[0].section
    return Place(
        section,
        tuple(one.path for one in where if one.section == section),
        max(0, wanted_bytes(left) - common_bytes(left, right)),
    )


def here(case: Case, findings: list[Finding]) -> list[Finding]:
    """Return the findings on the turn of the faults."""
    return [one for one in findings if one.turn == case.k + 1]


def named(case: Case, findings: list[Finding]) -> list[Missed]:
    """Return the faults without a finding of their code, turn and kind."""
    missed: list[Missed] = []
    for fault in case.faults:
        heard = findings if fault.anywhere else here(case, findings)
        own = [one for one in heard if one.code == fault.code]
        if not own and any(gave_way(case, one, fault.code) for one in heard):
            continue
        if not own:
            missed.append(Missed(case.name, f"{fault.code} not named, but {_said(heard or findings)}"))
        elif fault.kind and all(one.kind != fault.kind and not is_excused(one) for one in own):
            missed.append(Missed(case.name, f"{fault.code} is {own[0].kind}, not {fault.kind}"))
    return missed


def is_excused(one: Finding) -> bool:
    """Return whether a finding is no waste because usage shows that less than a block of the cache was lost."""
    return "little-lost" in one.qualifiers and (one.lost_tokens or 0) < 128


def at_the_end(case: Case) -> bool:
    """Return whether the fault is in the last message of the previous request: a replaced or short tail."""
    left, right = (segments(case.capture, turn) for turn in case.capture.turns[case.k - 1 : case.k + 1])
    last = left[-1].path.partition("]")[0]
    return any(segment.path.partition("]")[0] == last for segment in first_difference(left, right))


def gave_way(case: Case, one: Finding, code: str) -> bool:
    """Return whether a finding reports a replaced end: a tail, or less than one block of the cache."""
    if one.code == "LORE156":
        return at_the_end(case)
    return one.code == "LORE146" and any(also.code == code for also in one.also)


def blamed(case: Case, findings: list[Finding]) -> list[Missed]:
    """Return the findings of waste that no fault explains."""
    codes = {one.code for one in case.faults}
    everywhere = any(one.anywhere or one.repeats for one in case.faults)
    wrong = [
        one
        for one in findings
        if one.kind == "waste" and (one.code not in codes or (one.turn != case.k + 1 and not everywhere))
    ]
    return [Missed(case.name, f"also blamed: {_said(wrong)}")] if wrong else []


def placed(case: Case, findings: list[Finding]) -> list[Missed]:
    """Return a difference between the place or cost of a fault and the oracle's."""
    own = next((one for one in here(case, findings) if one.code == case.faults[0].code), None)
    if own is None or not case.faults[0].content:
        return []
    true = place(case)
    missed: list[Missed] = []
    if own.section != true.section:
        missed.append(Missed(case.name, f"{own.code} is said to be in {own.section}, not in {true.section}"))
    if not (own.json_path or "").startswith(true.paths):
        missed.append(Missed(case.name, f"{own.code} is said to be at {own.json_path}, not at {true.paths}"))
    # In a head with breakpoints an earlier request left entries only there, so that more than the rest may be lost.
    may_lose_more = case.capture.dialect in ("anthropic", "bedrock") and own.section in ("tools", "system")
    least = true.lost if {"under-minimum", "same-to-the-api"}.isdisjoint(own.qualifiers) else 0
    if own.lost_bytes != least and not (may_lose_more and (own.lost_bytes or 0) > least):
        missed.append(Missed(case.name, f"{own.code} is said to cost {own.lost_bytes} bytes, not {true.lost}"))
    return missed


def _said(findings: list[Finding]) -> str:
    return (
        "; ".join(
            f"{one.code} ({one.kind}) at {one.turn}: {(one.message or str(one.evidence))[:70]}" for one in findings[:4]
        )
        or "nothing"
    )


def table(missed: list[Missed], of: int) -> str:
    """Write the differences, a line each."""
    lines = [f"  {one.case}: {one.what}" for one in missed]
    return f"{len(missed)} of {of}:\n" + "\n".join(lines)

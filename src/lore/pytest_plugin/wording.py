"""Say what moved a prefix: a few lines that fit a test's failure. Credentials are masked, bodies never shown."""

from __future__ import annotations

from lore.model.results import DivergenceResult, Finding
from lore.model.vector import common_prefix
from lore.pytest_plugin.judging import Judged, Moved
from lore.report.plain import uncommanded, visible
from lore.report.sentences import sentence

SHOWN = 3  # pairs, and causes of a pair: the first is nearly always why the others are there
EVIDENCE = 240  # characters
_BECAME = "… became …"


def failure(judged: Judged, moved: list[Moved]) -> str:
    """Return the message of a failing assertion."""
    pairs = "pair" if judged.pairs == 1 else "pairs"
    lines = [f"the prompt's prefix moved in {len(moved)} of {judged.pairs} {pairs} of successive requests"]
    for one in moved[:SHOWN]:
        lines += ["", *_pair(one)]
    if len(moved) > SHOWN:
        lines += ["", f"and {len(moved) - SHOWN} pairs more"]
    return "\n".join(lines)


def nothing_compared(given: int, judged: Judged, watched: str, streams: int = 0) -> str:
    """Say why there was nothing to judge; `streams` of the requests had a body that could not be recorded."""
    if judged.requests > 1:
        why = f"no two of {judged.requests} requests belong to one conversation"
    elif judged.requests:
        others = f"; {given - 1} of {given} are no prompts that lore knows" if given > 1 else ""
        why = f"there is only one prompt{others}"
    else:
        why = f"none of {given} requests is a prompt that lore knows" if given else f"there are no requests{watched}"
    if streams:
        why += f"; the body of {streams} was a stream, which only its reader gets: send bytes, text or json="
    return f"nothing was compared: {why}"


def brief(one: Moved) -> str:
    """Say in one line what moved."""
    first = one.findings[0]
    where = f" at {first.json_path}" if first.json_path else ""
    return f"request {one.left} → {one.right}: {first.code} {first.name}{where}"


def _pair(one: Moved) -> list[str]:
    chain = "" if one.chain == "main" else f" ({one.chain})"
    which = f"{one.left} → {one.right}" if one.left != one.right else f"{one.left}"
    lines = [f"request {which}{chain}{_kept(one)}"]
    if one.diff is not None and one.diff.divergence is not None:
        lines += _divergence(one.diff.divergence)
    for number, found in enumerate(one.findings[:SHOWN]):
        lines += _cause(found, shown=number == 0 and one.diff is not None and one.diff.divergence is not None)
    if len(one.findings) > SHOWN:
        lines.append(f"  and {len(one.findings) - SHOWN} causes more")
    return lines


def _kept(one: Moved) -> str:
    prompt = None if one.diff is None else one.diff.prompt
    if prompt is None:
        return ""
    stable = prompt.left_bytes - prompt.left_tail_bytes
    return f": {prompt.common_prefix_bytes:,} of {stable:,} bytes can be reused"


def _divergence(where: DivergenceResult) -> list[str]:
    """Show both sides from where they are still equal."""
    left, right = where.left.encode(), where.right.encode()
    shared = len(left[: common_prefix(left, right)].decode("utf-8", "ignore"))
    lines = [f"  differs at {where.path}, byte {where.offset:,} of it, in {where.section}"]
    for sign, text in (("-", where.left), ("+", where.right)):
        shown = f"…{visible(text[:shared])}{visible(text[shared:])}…" if text else "(ends here)"
        lines.append(f"    {sign} {uncommanded(shown)}")
    return lines


def _cause(one: Finding, *, shown: bool) -> list[str]:
    """Say why and what to do; what was `shown` already, both texts, is not said again."""
    said = visible(sentence(one.evidence) or one.message)
    if shown and _BECAME in said:
        said = said.partition(": …")[0]
    short = said if len(said) <= EVIDENCE else said[:EVIDENCE] + "…"
    return [f"  {one.code} {one.name} ({one.kind}): {short}", f"    fix: {one.fix}"]
